"""A ball found privately, and the mean of the records in it, as one mechanism each.

Guarantee of both, replace-one: with delta > 0 that of one Gaussian mechanism with the noise
multiplier of the budget; with delta = 0 pure epsilon. The shares of all answers add up to 1.
Proof: docs/proofs/private-ball.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from .._errors import (
    InvalidArgument,
    integer,
    invalid,
)
from .._trees import map_leaves
from ..domains import AdaptiveBall, Ball, Domain
from ..domains._door import admit_in_parts, admit_records
from ..domains._stream import Stream
from ..inference._facts import Query
from ..manifolds import AbstractManifold
from ..manifolds._base import Point, RecordsLike
from ..privacy import Budget
from ..privacy._noise import Noise
from ..randomness import NoiseSource
from ..statistics import FrechetMean, TangentMean
from ._ball_search import SearchAnswers, SearchResult, run_search
from ._base import BudgetedMechanism
from ._common import needs_log
from ._drawn import Drawn
from ._search_facts import facts_of_search, mean_from
from ._search_plan import SearchPlan, plan_search
from ._search_records import SearchRecords, final_radius, outside_of
from ._streamed_search import StreamedRecords


class BallSearch:
    """A search for a ball among n records: where, and what it will do, from public numbers alone.

    Args:
        manifold: A space with a logarithm.
        search: An `AdaptiveBall`.
        n: The public number of records.
        noise: Of the whole budget.
        planner: Divides the budget: `plan_search`, or `plan_short_search`.
    """

    def __init__(
        self,
        manifold: AbstractManifold,
        search: AdaptiveBall,
        n: int,
        noise: Noise,
        planner: Callable[..., SearchPlan] = plan_search,
    ):
        if not isinstance(search, AdaptiveBall):
            raise invalid("ball", search, "give a riemdp.AdaptiveBall(...)")
        needs_log(manifold, "a search for a ball")
        self.manifold, self.n, self.noise, self._planner = manifold, n, noise, planner
        self.domain = search.on(manifold)
        self.plan = self.plan_for(n)

    def plan_for(self, n: int) -> SearchPlan:
        """What a search among n records does with this budget."""
        domain, dim = self.domain, self.manifold.dim
        radii = {"largest": 1.0, "smallest": domain.ratio}
        return self._planner(self.noise, n, dim, scales=domain.scales, **radii)

    def admitted(self, X: RecordsLike, *, streamed: bool = False) -> Any:
        """The records, of which there have to be n; with `streamed` a `Stream` of a file's."""
        self.plan.check()
        records, n = (admit_in_parts if streamed else admit_records)(self.manifold, "X", X)
        if n != self.n:
            raise invalid("X", f"{n} records", f"this mechanism was made for n = {self.n}")
        return records if isinstance(records, Stream) else map_leaves(np.asarray, records)

    def facts(self, records: SearchAnswers, found: SearchResult) -> dict[str, Any]:
        """Public facts: released numbers only."""
        return {"n": self.n, **facts_of_search(found, records.unit)}


class OfRecords(BudgetedMechanism[Any]):
    """A mechanism that searches for a ball, and whose value is records and nothing else: an array
    of them, or a `Stream`.

    Args:
        manifold: A space with a logarithm.
        search: An `AdaptiveBall`.
        n: The public number of records.
        budget: `Budget(epsilon, delta)`; delta = 0 gives pure epsilon.

    Raises:
        InvalidArgument: On release, naming `ball`, where n is too small; from public numbers only.

    Guarantee:
        Replace-one. delta > 0: mu-GDP with mu = 1 / gaussian_noise_multiplier(budget); delta = 0:
        (epsilon, 0).

    Source:
        docs/proofs/private-ball.md.
    """

    def __init__(
        self, manifold: AbstractManifold, search: AdaptiveBall, *, n: int, budget: Budget | Noise
    ):
        super().__init__(budget)
        self.manifold, self.search, self.n = manifold, search, integer("n", n)
        self.searching = BallSearch(manifold, search, self.n, self.noise)
        self.domain, self.plan = self.searching.domain, self.searching.plan

    def _admit(self, value: RecordsLike) -> Any:
        return self.searching.admitted(value, streamed=True)

    @property
    def _widest(self) -> int:
        return self.manifold.dim

    def _searched(self, X: Any, source: NoiseSource) -> tuple[SearchRecords, SearchResult]:
        kind = StreamedRecords if isinstance(X, Stream) else SearchRecords
        records = kind(self.domain, X, self._purse(source))
        return records, run_search(self.plan, records)


class PrivateBall(OfRecords):
    """Release a ball that holds most records: where they are, how far they spread.
    See `OfRecords`.

    Source:
        docs/proofs/private-ball.md.
    """

    name: ClassVar[str] = "private-ball"
    words: ClassVar[str] = (
        "noisy counts of records and noisy means of clipped tangent vectors, which locate a ball"
    )

    def _draw(self, value: Any, source: NoiseSource) -> Drawn:
        records, found = self._searched(value, source)
        radius = final_radius(records, found)
        size = records.size(radius)
        ball = Ball(records.center, size)
        facts = self.searching.facts(records, found) | {
            "outside": outside_of(records, found, radius)
        }
        return Drawn(ball, size, 1.0, None, facts)


class AdaptiveMean(OfRecords):
    """Release the Fréchet mean of the records in a ball that is found on the way.

    The last release is that of the Fréchet mean of the records clamped to the ball (Hadamard
    spaces) or of the mean of their clipped tangent vectors at its centre (other spaces), with all
    of the budget that the search left. A record that is no point of the space counts as the centre
    in it, and where the released count of valid records says that there are such, the vector from
    the centre to the mean is made longer by n over that count, its noise with it. See `OfRecords`.

    Source:
        docs/proofs/private-ball.md.
    """

    name: ClassVar[str] = "adaptive-mean"
    words: ClassVar[str] = (
        "a search for a ball by noisy counts of records and noisy means of clipped tangent vectors,"
        " then Gaussian or Laplace noise on the mean of the records in that ball, in the tangent"
        " space at its centre"
    )

    def _draw(self, value: Any, source: NoiseSource) -> Drawn:
        records, found = self._searched(value, source)
        r = records.size(found.radius)
        query = self._query(records.center, r)
        if isinstance(query, FrechetMean):
            local = query.frame.local
            mean = query.value(query.prepare(records.X))
            away = local.manifold.log(local.center, mean)
            y = local.manifold.to_coordinates(local.center, away)
        else:
            y = records.coordinates(query)
        noisy, scale, slack = records.purse.add(y, query.sensitivity, found.left)
        facts = self.searching.facts(records, found) | {
            "ball": Ball(records.center, r),
            "radius": r,
            "query": Query.MEAN if isinstance(query, FrechetMean) else Query.TANGENTS,
            "outside": outside_of(records, found, found.radius),
        }
        return mean_from(query, self.noise, noisy, scale, slack, found.plan.stretch, facts)

    def _query(self, center: Point, r: float) -> FrechetMean | TangentMean:
        """The last query, chosen by released numbers: the mean of the clamped records where its
        sensitivity is 2 r / n, the mean of clipped tangent vectors elsewhere.
        """
        domain = Domain(self.manifold, center, r)
        if self.manifold.is_hadamard:
            try:
                return FrechetMean(domain, self.n)
            except InvalidArgument:  # float64 does not resolve the ball that was found
                pass
        return TangentMean(domain, self.n)
