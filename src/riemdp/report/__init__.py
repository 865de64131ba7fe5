"""The privacy report: what a release tells the world, on one page that a data-protection officer
can read and sign.
"""

from ._report import PrivacyReport, privacy_report

__all__ = ["PrivacyReport", "privacy_report"]
