"""What a release may cost: a pair (epsilon, delta)."""

from __future__ import annotations

from dataclasses import dataclass

from .._errors import real


@dataclass(frozen=True)
class Budget:
    """The privacy a release, a run or a data set may spend.

    **Arguments.** `epsilon` finite and greater than 0; `delta` in [0, 1): the probability with
    which the bound epsilon may fail. delta = 0 asks for pure differential privacy, which no
    Gaussian mechanism gives; a delta well below 1/n is usual.

    **Raises** `InvalidArgument` (a `ValueError`) that names the argument otherwise.
    """

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", real("epsilon", self.epsilon, above=0.0))
        object.__setattr__(self, "delta", real("delta", self.delta, at_least=0.0, below=1.0))

    def __str__(self) -> str:
        return f"({self.epsilon:g}, {self.delta:g})"
