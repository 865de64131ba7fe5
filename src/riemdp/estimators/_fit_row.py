"""What plans of fits in a tangent space share: their row, and how many records are enough."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import ClassVar

from .._errors import warn
from ..releases._table import PlanRow, smallest_count


@dataclasses.dataclass(frozen=True, kw_only=True)
class FitRow(PlanRow):
    """What a fit in a tangent space does with n records, decided before any of them is read. `need`
    is the number of records from which it accepts to search for a centre, 1 where the ball is
    public.

    Attributes:
        n: The public number of records, or of people.
        dim: The number of coordinates of a tangent vector, k (k + 1) / 2 for k x k matrices.
        share: The share of the budget that the search leaves: of mu^2 (delta > 0), or of epsilon.
        noise: Its size, over that of what it hides.
    """

    good: ClassVar[float]
    hopeless: ClassVar[float]

    n: int
    dim: int
    share: float
    noise: float

    @property
    def verdict(self) -> str:
        """ "too few" (`fit` refuses), "hopeless" (noise above `hopeless`), "weak", or "enough"
        (noise at most `good`).
        """
        if self.n < self.need:
            return "too few"
        if self.noise > self.hopeless:
            return "hopeless"
        return "enough" if self.noise <= self.good else "weak"

    @property
    def is_useless(self) -> bool:
        """Whether a fit says so, before it spends anything."""
        return self.verdict == "hopeless"

    @property
    def told(self) -> str:
        """What it says then."""
        raise NotImplementedError

    def warn(self, who: str) -> None:
        """Say it, before anything is spent, and from public numbers."""
        if self.is_useless:
            warn(f"{who}: {self.told}")

    @classmethod
    def limits(cls) -> str:
        """Which noise is which, in words."""
        return f"Noise {cls.good:g} is good, above {cls.hopeless:g} is hopeless"


def enough_from(at: Callable[[int], tuple[int, float, float]], good: float) -> int:
    """The number of records from which a search accepts them and noise is at most `good`.

    Args:
        at: Of a number of records how many a search needs, the share that it leaves, and the noise.
        good: The noise.
    """

    def is_enough(count: int) -> bool:
        need, _, noise = at(count)
        return count >= need and noise <= good

    return smallest_count(1, is_enough)
