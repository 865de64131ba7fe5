"""Budgets that another process sent from beside its ledger."""

from __future__ import annotations

from . import _elsewhere
from ._budget import Budget
from ._ledger import Ledger


def refuse_sent(budget: Budget | None, ledger: Ledger | None, name: str = "") -> None:
    """Raise where a budget was pickled while a ledger was open in another process, and no ledger
    is open here: what is released under it would be charged to nothing.

    Whatever started this process, and whichever way the budget came: every release needs one.

    Args:
        budget: The argument of a release; None has no mark.
        ledger: The ledger that the release was given.
        name: What a message calls the budget's owner.

    Raises:
        InvalidArgument: It is such a budget.
    """
    if ledger is None and Ledger.current() is None:
        _elsewhere.refuse_sent(budget, f"{name}argument `budget`")
