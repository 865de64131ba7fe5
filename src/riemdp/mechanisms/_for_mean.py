"""What a mechanism is told when it is made for a Frechet mean: public facts only."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from fractions import Fraction
from typing import Any, ClassVar, Protocol

from ..domains import Ball, Domain
from ..manifolds import AbstractManifold
from ..manifolds._base import Point, Tangent
from ..privacy import Budget
from ..privacy._noise import Noise
from ..statistics import AmbientMean, FrechetMean
from ..statistics._sensitivity import REPLACE_ONE
from ._common import PointMechanism
from ._counted import share_of_count


@dataclasses.dataclass(frozen=True, eq=False)
class MeanFacts:
    """The public facts of a private mean, and the sensitivities that follow from them.

    Attributes:
        manifold: The space.
        ball: The public domain of the records.
        n: The public number of records (a lower bound of it, under add-or-remove-one).
        budget: What the release may spend, or noise that was made of it.
        part: The share of the budget that is spent, exactly.
        count_outside: Whether a count of the records outside the ball shares it; see
            `share_of_count`.
        tolerance: Public tolerance of the solver, or None: the query chooses it.
        weights: Public weights, or None.
        calibration: "analytic" or "classical", for Gaussian mechanisms.
        adjacency: "replace-one" or "add-or-remove-one".
        shrink: Whether Gaussian noise is followed by James-Stein shrinking towards the centre; None
            decides by public numbers, as `WrappedGaussian` does.
        gradient: The private gradient of the mean's objective, for the mechanism that draws by it.
            It is stored and not evaluated.
    """

    manifold: AbstractManifold
    ball: Ball
    n: int
    budget: Budget | Noise
    part: Fraction = Fraction(1)
    count_outside: bool | None = False
    tolerance: float | None = None
    weights: Any = None
    calibration: str = "analytic"
    adjacency: str = REPLACE_ONE
    gradient: Callable[[Point], Tangent] | None = None
    shrink: bool | None = None

    @property
    def domain(self) -> Domain:
        """The ball bound to its space."""
        return self.ball.on(self.manifold)

    def whole(self, *, pure: bool | None = None) -> Noise:
        """What the mean and its count may spend, by a pure or by a Gaussian mechanism; None: by
        the one that a budget with this delta is for.
        """
        return Noise.of(self.budget, pure=pure).share(self.part)

    def share_of_count(self, *, pure: bool | None = None) -> Fraction:
        """The share of it that the count takes, 0 where there is none."""
        return share_of_count(self.whole(pure=pure), self.n, self.count_outside)

    def noise(self, *, pure: bool | None = None) -> Noise:
        """What the mean may spend."""
        return self.whole(pure=pure).share(1 - self.share_of_count(pure=pure))

    @property
    def for_gaussian(self) -> Budget | Noise:
        """What a Gaussian mechanism may spend: the classical formula is one for budgets."""
        return self.budget if self.calibration != "analytic" else self.noise(pure=False)

    @functools.cached_property
    def query(self) -> FrechetMean:
        """The mean as a query that owns its sensitivity."""
        return FrechetMean(
            self.domain,
            self.n,
            adjacency=self.adjacency,
            weights=self.weights,
            tolerance=self.tolerance,
        )

    @property
    def sensitivity(self) -> float:
        """Largest distance of the means of neighbours, tolerance and rounding included."""
        return self.query.sensitivity

    @property
    def gradient_sensitivity(self) -> float:
        """Largest change of the gradient of the mean's objective, rounding included."""
        return self.query.gradient_sensitivity

    @functools.cached_property
    def ambient_sensitivity(self) -> float:
        """Largest distance of the arithmetic means of neighbours, as arrays, rounding included."""
        query = AmbientMean(
            self.domain,
            self.n,
            adjacency=self.adjacency,
            weights=self.weights,
        )
        return query.sensitivity


class ForMeans(Protocol):
    """A class of mechanisms that can release a Frechet mean."""

    name: ClassVar[str]
    needs_delta: ClassVar[bool]
    needs_gradient: ClassVar[bool]
    stays_in_ball: ClassVar[bool]

    @classmethod
    def for_mean(cls, facts: MeanFacts) -> PointMechanism:
        """The mechanism for these public facts."""
        ...
