"""Means that are parts of an estimator: how they are released, whether there are enough records
(public numbers only), and what is released about a mean after it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from ..domains import AdaptiveBall, Ball
from ..domains._door import admit_records
from ..manifolds import AbstractManifold
from ..manifolds._base import RecordsLike
from ..mechanisms import AdaptiveMean, Release
from ..mechanisms._base import Ready
from ..mechanisms._lattice import check_drawable
from ..mechanisms._parts import InTurn
from ..privacy import Budget
from ..privacy._noise import Noise
from ..releases._choices import kept_in
from ..releases._mean import prepared_mean
from ..releases._people import of_groups
from ..statistics import FrechetMean
from ..statistics._people import People


def composable(
    ball: Ball | AdaptiveBall, budget: Budget, count_outside: bool | None
) -> dict[str, Any]:
    """How a mean in a public ball is released, so that all steps of a pipeline add up exactly: one
    distribution of noise, whatever n is. A search uses that distribution anyway, and counts what is
    outside in any case. A count of records outside a public ball shares the budget of its mean.
    """
    if isinstance(ball, AdaptiveBall):
        return {} if count_outside is None else {"count_outside": count_outside}
    name = "wrapped-gaussian" if budget.delta > 0 else "wrapped-laplace"
    return {"mechanism": name, "count_outside": count_outside}


def check_size(
    manifold: AbstractManifold, ball: Ball | AdaptiveBall, n: int, budget: Budget | Noise
) -> None:
    """Raise, from public numbers, where n records are not enough for a private mean."""
    if isinstance(ball, AdaptiveBall):
        AdaptiveMean(manifold, ball, n=n, budget=budget).plan.check()
    else:
        _ = FrechetMean(ball.on(manifold), n).sensitivity


def admitted_points(
    manifold: AbstractManifold, ball: Ball | AdaptiveBall, X: RecordsLike, groups: object
) -> tuple[Any, int, People | None]:
    """The records, or one point a person: the last fields of `FittedPoints`."""
    domain = ball.on(manifold) if isinstance(ball, Ball) else None
    grouped = None if groups is None else of_groups(manifold, X, groups, domain)
    points, n = admit_records(manifold, "X", grouped.points if grouped else X)
    return points, n, grouped


@dataclasses.dataclass(frozen=True, eq=False)
class FittedPoints:
    """Records of which a mean is released, and something about that mean.

    Attributes:
        manifold: The space.
        ball: The public ball, or the search for one.
        budget: What both may spend together.
        points: The records, or one point a person.
        n: How many.
        grouped: The people, where they are protected.
    """

    manifold: AbstractManifold
    ball: Ball | AdaptiveBall
    budget: Budget
    points: Any
    n: int
    grouped: People | None

    def mean_then(
        self, second: Callable[[Ball, Noise], Ready], name: str, share: Fraction, width: int
    ) -> InTurn:
        """The mean with a share of the budget, and with the rest what `second` makes of the ball
        about the released mean, under one charge. All that can be refused is refused here.

        Args:
            second: (ball, noise of the rest) -> the second part; it refuses nothing.
            name: Of both in a ledger.
            share: Of the mean, and of the search for a ball.
            width: How many coordinates the second part has.
        """
        manifold, budget, noise = self.manifold, self.budget, Noise.of(self.budget)
        for_mean, rest = noise.share(share), noise.share(1 - share)
        check_size(manifold, self.ball, self.n, for_mean)
        check_drawable(rest, width)
        domain = self.ball.on(manifold) if isinstance(self.ball, Ball) else None
        how = composable(self.ball, budget, None if domain is None else False)
        mean = prepared_mean(manifold, self.points, self.ball, for_mean, groups=self.grouped, **how)
        assert isinstance(mean, Ready)
        if domain is not None:
            # a point that a ball can have as its centre, whatever the noise was
            mean = mean.then(lambda release: kept_in(release, domain))
        whole = noise.guarantee.for_people() if self.grouped else noise.guarantee

        def after(released: Release) -> Ready:
            return second(_about(manifold, released), rest)

        return InTurn(whole.quoted_at(budget.delta), name, mean, after)


def _about(manifold: AbstractManifold, mean: Release) -> Ball:
    """Where tangent vectors are looked at: the ball about the released mean, within which there is
    a logarithm. A function of released numbers.
    """
    assert mean.facts.ball is not None
    reach = (1.0 - 1e-9) * float(manifold.injectivity_radius(mean.value))
    return Ball(mean.value, min(float(mean.facts.ball.radius), reach))
