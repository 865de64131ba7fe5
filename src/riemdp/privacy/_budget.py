"""What a release may cost: a pair (epsilon, delta)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .._errors import invalid, real
from . import _open_ledgers

# Numbers outside say nothing about privacy, and their squares and logarithms are no float64.
_LEAST_EPSILON, _LARGEST_EPSILON, _LEAST_DELTA = 1e-30, 1e30, 1e-300


@dataclass(frozen=True)
class Budget:
    """The privacy that a release, a run or a data set may spend.

    Args:
        epsilon: Bound of the privacy loss, from 1e-30 to 1e30.
        delta: Probability with which that bound may fail, 0 or from 1e-300 on and below 1. With
            delta = 0 the budget is one of pure differential privacy, which no Gaussian mechanism
            gives. A delta well below 1/n is usual.

    Raises:
        InvalidArgument: An argument is out of range. It is a `ValueError`.

    Examples:
        >>> import riemdp
        >>> print(riemdp.Budget(1.0, 1e-6))
        (1, 1e-06)
    """

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        epsilon = real("epsilon", self.epsilon, above=0.0)
        if not _LEAST_EPSILON <= epsilon <= _LARGEST_EPSILON:
            raise invalid("epsilon", epsilon, "give a number from 1e-30 to 1e30")
        delta = real("delta", self.delta, at_least=0.0, below=1.0)
        if 0.0 < delta < _LEAST_DELTA:
            raise invalid("delta", delta, "give 0, or a number that is at least 1e-300")
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "delta", delta)

    def __getstate__(self) -> dict[str, Any]:
        """Every release needs a budget: a worker process that is sent one learns from it that a
        ledger is open where it comes from.
        """
        return _open_ledgers.marked(self.__dict__)

    def __copy__(self) -> Budget:
        return self

    def __deepcopy__(self, memo: object) -> Budget:
        """Itself, as of any value that never changes: a clone in this process goes nowhere."""
        return self

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(_open_ledgers.received(state))

    def __str__(self) -> str:
        return f"({self.epsilon:g}, {self.delta:g})"
