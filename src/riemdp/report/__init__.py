"""The privacy report: what a release tells the world, on one page that a data-protection officer
can read and sign.
"""

from ..privacy._trade_off import TradeOff, posterior, trade_off
from ._make import privacy_report
from ._report import PrivacyReport

__all__ = ["PrivacyReport", "TradeOff", "posterior", "privacy_report", "trade_off"]
