"""What other packages use of the trade-off curve; it is computed in `accounting`."""

from .accounting.trade_off import TradeOff, posterior

__all__ = ["TradeOff", "posterior"]
