"""The privacy report: what a release tells the world, on one page that a data-protection officer
can read and sign.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..privacy._trade_off import TradeOff, posterior

if TYPE_CHECKING:
    from ._make import privacy_report
    from ._report import PrivacyReport

__all__ = ["PrivacyReport", "TradeOff", "posterior", "privacy_report"]


def __getattr__(name: str) -> Any:
    """The report itself on first use: `riemdp guarantee` takes words and the curve alone."""
    if name == "privacy_report":
        from ._make import privacy_report

        return privacy_report
    if name == "PrivacyReport":
        from ._report import PrivacyReport

        return PrivacyReport
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
