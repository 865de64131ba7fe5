"""`Ledger`: what a data set may still cost, refused before anything is released."""

from __future__ import annotations

import contextvars
import json
import threading
from typing import Any

from .._errors import BudgetExceeded, invalid
from ._budget import Budget
from ._guarantee import REPLACE_ONE, Guarantee, as_guarantee

_innermost: contextvars.ContextVar[Ledger | None] = contextvars.ContextVar("riemdp_ledger", default=None)


class Ledger:
    """Adds up what every release about one data set has cost, and refuses the one that would exceed `budget`."""

    def __init__(self, budget: Budget):
        if not isinstance(budget, Budget):
            raise invalid("budget", budget, "give a riemdp.Budget(epsilon, delta)")
        self._budget = budget
        self._spent = Guarantee(REPLACE_ONE)
        self._lock = threading.RLock()
        self._tokens: list[Any] = []

    @property
    def budget(self) -> Budget:
        return self._budget

    @property
    def spent(self) -> Guarantee:
        """Everything charged so far, composed."""
        return self._spent

    def spend(self, guarantee: Guarantee) -> Guarantee:
        """Charge one release, or raise `BudgetExceeded` and change nothing. Returns what is spent in total."""
        guarantee = as_guarantee(guarantee)
        with self._lock:
            total = self._spent.compose(guarantee)
            if not total.within(self._budget):
                raise BudgetExceeded(f"the release would exceed the budget {self._budget}; nothing was released or charged")
            self._spent = total
            return total

    def remaining(self, delta: float) -> float:
        """max(0, budget.epsilon - spent.epsilon(delta))."""
        return max(0.0, self._budget.epsilon - self._spent.epsilon(delta))

    def __enter__(self) -> Ledger:
        self._tokens.append(_innermost.set(self))
        return self

    def __exit__(self, *exception: object) -> None:
        _innermost.reset(self._tokens.pop())

    def to_json(self) -> str:
        return json.dumps({"budget": [self._budget.epsilon, self._budget.delta], "spent": self._spent.to_dict()})


def charge(guarantee: Guarantee, ledger: Ledger | None = None) -> None:
    """Spend `guarantee` on `ledger`, else on the innermost `with Ledger(...)`; nothing if there is neither."""
    ledger = ledger if ledger is not None else _innermost.get()
    if ledger is None:
        as_guarantee(guarantee)
        return
    if not isinstance(ledger, Ledger):
        raise invalid("ledger", ledger, "give a riemdp.Ledger(budget), or None")
    ledger.spend(guarantee)
