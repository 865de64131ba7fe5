"""What mechanisms on labelled records share: the search for one ball, and the move of class means.

The search (the scale, the median distance, a centre and the median distance about it) uses all
records and no label. What follows sees vectors z: log_c(x) shortened to length r, over r, the
centre c and the radius r being released.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray

from .._errors import integer, invalid
from ..domains import AdaptiveBall, Ball, Domain
from ..manifolds import AbstractManifold
from ..manifolds._base import Point, RecordsLike
from ..privacy import Budget
from ..randomness import NoiseSource
from ..statistics import TangentMean
from ._ball_search import SearchPlan, plan_short_search, run_short_search
from ._budgeted import Floats
from ._private_ball import AdaptiveMechanism
from ._search_records import SearchRecords

Labelled = tuple[Any, NDArray[np.int64]]  # records, and positions of their classes

_LEAST_KEPT = 1e-3  # of the classes' contrasts: their order is kept where James-Stein keeps nothing


class Found(NamedTuple):
    """What a search left: the released ball and facts, its share, and vectors that are private."""

    ball: Ball
    z: Array  # (n, dim), lengths at most 1
    left: float  # the share of the budget that was not spent
    facts: dict[str, Any]


class LabelledSearch(AdaptiveMechanism[Labelled]):
    """A mechanism on labelled records that first finds one ball for all classes.

    Args:
        manifold: A space with a logarithm.
        search: An `AdaptiveBall`.
        n: The public number of records of all classes.
        classes: The public number of classes.
        budget: `Budget(epsilon, delta)`; delta = 0 gives pure epsilon.
        sizes: The public number of records of each class where labels are public; None where they
            are private.

    Raises:
        InvalidArgument: On release, naming `ball`, where n is too small; from public numbers only.
    """

    planner: ClassVar[Callable[..., SearchPlan]] = staticmethod(plan_short_search)

    def __init__(
        self,
        manifold: AbstractManifold,
        search: AdaptiveBall,
        *,
        n: int,
        classes: int,
        budget: Budget,
        sizes: Sequence[int] | None = None,
    ):
        super().__init__(manifold, search, n=n, budget=budget)
        self.classes, self.sizes = public_classes(classes, sizes)

    def _admit(self, value: tuple[RecordsLike, NDArray[np.int64]]) -> Labelled:
        """Records, and for each the position of its class, or a negative number for none."""
        X, labels = value
        records: Point = self._admitted(X)
        return records, positions(labels, self.n)

    def _found(self, X: Point, source: NoiseSource) -> Found:
        """Search for the ball, and look at the records from its centre."""
        records = SearchRecords(self.domain, X, self.noise, source)
        found = run_short_search(self.plan, records)
        r = records.size(found.radius)
        query = TangentMean(Domain(self.manifold, records.center, r), self.n)
        z = query.shorten(records.logs).points / r
        ball = Ball(records.center, r)
        facts = self._facts(records, found) | {"ball": ball}
        return Found(ball, z, 1.0 - found.spent, facts)


def public_classes(classes: int, sizes: Sequence[int] | None) -> tuple[int, tuple[int, ...] | None]:
    """The number of classes, and the sizes of classes whose labels are public, checked."""
    number = integer("classes", classes)
    public = None if sizes is None else tuple(int(s) for s in sizes)
    if public is not None and (len(public) != number or min(public) < 1):
        raise invalid("sizes", sizes, "give the number of records of each class, at least 1")
    return number, public


def positions(labels: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """Positions of classes, one for each of n records."""
    found = np.asarray(labels, dtype=np.int64)
    if found.shape != (n,):
        raise invalid("y", f"{found.shape} labels", f"give n = {n}")
    return found


def contracted(means: Floats, deviations: Floats) -> Floats:
    """Released class means moved towards their average by positive-part James-Stein.

    Args:
        means: Shape (classes, dim).
        deviations: The standard deviation of a coordinate of each mean.
    """
    average = means.mean(axis=0)
    contrasts = means - average
    square = float(np.sum(contrasts**2))
    noise = ((len(means) - 1) * means.shape[1] - 2) * float(np.mean(deviations**2))
    kept = 1.0 - max(0.0, noise) / square if square > 0 else 1.0
    return average + max(_LEAST_KEPT, kept) * contrasts
