"""The best of a random number of independent runs, each a fit and a noisy score, under one charge.

How many runs there are, and all runs but the best one, are in nothing that is returned.

Proof: docs/proofs/private-search.md.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from ..privacy import Budget, Guarantee
from ..privacy._noise import Noise
from ..privacy._permit import Permit
from ..privacy._selection import permits_of_runs
from ..randomness import NoiseSource
from ._base import AbstractReady, BudgetedMechanism, Ready
from ._drawn import Drawn
from ._release import Release

STEPS = 1 << 20  # of a score in [0, 1]: so many of them add up exactly


class ScoreNoise(BudgetedMechanism[float]):
    """The mean of n scores in [0, 1], one of each held-out record (or person), with noise.

    Args:
        n: Their public number.
        budget: What may be spent.
    """

    name: ClassVar[str] = "score"
    words: ClassVar[str] = "the mean of the scores of held-out records, with noise"

    def __init__(self, n: int, budget: Budget | Noise):
        super().__init__(budget)
        self.n = n

    @property
    def _widest(self) -> int:
        return 1

    def _admit(self, value: Sequence[float]) -> float:
        """The sum, exactly: each score is rounded down to a multiple of 1 / STEPS, and counts as 0
        where it is no number in [0, 1].
        """
        steps = [math.floor(s * STEPS) if 0.0 <= s <= 1.0 else 0 for s in value]
        return sum(steps) / STEPS

    def _draw(self, value: float, source: NoiseSource) -> Drawn:
        noisy, scale, _ = self._purse(source).add(np.array([value]), 1.0, Fraction(1))
        return Drawn(float(noisy[0]) / self.n, scale / self.n, 1.0 / self.n)


@dataclasses.dataclass(frozen=True)
class Run:
    """A run: which of the settings, what its fit released, and its noisy score."""

    setting: int
    fit: Any
    score: Release


@dataclasses.dataclass(frozen=True)
class BestOfRuns(AbstractReady[Run | None]):
    """The run with the best score of a random number of runs; None where there was none.

    Attributes:
        guarantee: What it costs: `privacy._selection.selected(one, runs)`.
        name: What it is called in a ledger.
        one: What one run costs.
        runs: The mean of their number.
        fits: The fit of each setting, admitted: of the records that are not held out.
        score: (setting, what its fit released) -> the score of held-out records, admitted. It
            refuses nothing.
    """

    guarantee: Guarantee
    name: str
    one: Guarantee
    runs: int
    fits: Sequence[AbstractReady[Any]]
    score: Callable[[int, Any], Ready]

    def within(self, source: NoiseSource, permit: Permit) -> Run | None:
        """See `AbstractReady`."""
        permit_of_run = permits_of_runs(permit, self.one, self.runs)
        best: Run | None = None
        for _ in range(number_of_runs(self.runs, self.one, source)):
            # whether a record is held out is public: a neighbour changes the fit or the score
            own = permit_of_run().among_parts()
            setting = int(source.integers(0, len(self.fits)))
            made = self.fits[setting].within(source, own)
            score = self.score(setting, made).within(source, own)
            if best is None or score.value > best.score.value:
                best = Run(setting, made, score)
        return best


def number_of_runs(mean: int, one: Guarantee, source: NoiseSource) -> int:
    """How many runs there are: secret. Geometric (1, 2, ...) where one run is pure, else Poisson;
    from uniform whole numbers, exactly.
    """
    if one.epsilon(0.0) < math.inf:
        count = 1
        while int(source.integers(0, mean)):
            count += 1
        return count
    return sum(_poisson_of_mean_one(source) for _ in range(mean))


def _poisson_of_mean_one(source: NoiseSource) -> int:
    """A Poisson number of mean 1. Source: Duchon and Duvignau 2016."""
    count, mark, n = 1, 0, 1
    while True:
        drawn = int(source.integers(0, n + 1))
        if drawn == n:
            count += 1
        elif drawn < mark:
            return count
        else:
            count, mark = count - 1, n + 1
        n += 1
