"""What a private mean without a public ball needs and costs, from public numbers alone."""

from __future__ import annotations

import dataclasses
import math

from .._errors import InvalidArgument, integer, invalid
from ..domains import AdaptiveBall
from ..manifolds import AbstractManifold
from ..mechanisms import AdaptiveMean
from ..privacy import Budget


@dataclasses.dataclass(frozen=True)
class AdaptivePlanRow:
    """One budget of an `AdaptivePlan`.

    Attributes:
        budget: The budget of search and mean together.
        enough: Whether n is enough for a search.
        need: The number of records from which a search is accepted.
        moves_from: The number of records from which the centre is moved as well.
        search_share: The share of the budget that the search is planned to spend.
        error_per_radius: Typical error from noise, divided by the radius that is found.
        sampling_from: The number of records from which the error from noise is at most the error
            that sampling has anyway, where records lie about as far away as the radius.
    """

    budget: Budget
    enough: bool
    need: int
    moves_from: int
    search_share: float
    error_per_radius: float
    sampling_from: int


@dataclasses.dataclass(frozen=True, eq=False)
class AdaptivePlan:
    """What `private_frechet_mean(space, X, AdaptiveBall(), budget)` will do for n records.

    `str(plan)` explains it to a person. Nothing in it depends on records.
    """

    manifold: AbstractManifold
    search: AdaptiveBall
    n: int
    rows: tuple[AdaptivePlanRow, ...]

    @property
    def need(self) -> int:
        """The number of records from which a search is accepted, at the first budget."""
        return self.rows[0].need

    def __str__(self) -> str:
        head = [
            f"Private mean in a ball that is found privately: {self.manifold!r}, n = {self.n}",
            "  epsilon      delta   enough  n needed  centre moves  search    error from noise"
            "   below sampling",
            "                               from n =  from n =      share     per radius"
            "         from n =",
        ]
        lines = [
            f"  {r.budget.epsilon:<8.4g} {r.budget.delta:>9.3g}   {'yes' if r.enough else 'NO':<6}"
            f"  {r.need:<8d}  {r.moves_from:<12d}  {100 * r.search_share:5.1f} %   "
            f"{r.error_per_radius:<16.3g}   {r.sampling_from}"
            for r in self.rows
        ]
        tail = [
            "  Example: where most records lie within 1.5 of their mean, multiply by 1.5."
            " Clipping adds a bias",
            "  that no formula knows before the data are seen.",
        ]
        return "\n".join(head + lines + tail)

    __repr__ = __str__


def plan_adaptive_mean(
    manifold: AbstractManifold, search: AdaptiveBall, n: int, budgets: Budget | list[Budget]
) -> AdaptivePlan:
    """Whether n is enough, and what a search costs, for every budget. Reads no record.

    Args:
        manifold: The space.
        search: An `AdaptiveBall`.
        n: The public number of records.
        budgets: A `Budget` or a list of them.
    """
    n = integer("n", n)
    many = list(budgets) if isinstance(budgets, list | tuple) else [budgets]
    if not many or not all(isinstance(b, Budget) for b in many):
        raise invalid("budgets", budgets, "give a riemdp.Budget(epsilon, delta), or a list of them")
    return AdaptivePlan(manifold, search, n, tuple(_row(manifold, search, n, b) for b in many))


def _row(
    manifold: AbstractManifold, search: AdaptiveBall, n: int, budget: Budget
) -> AdaptivePlanRow:
    mechanism = AdaptiveMean(manifold, search, n=n, budget=budget)
    plan, law, dim = mechanism.plan, mechanism.noise.law, manifold.dim
    share = plan.planned_share
    # error(n) = per_record / n, and sampling has radius / sqrt(n)
    per_record = law.mean_length(1.0 - share, dim)
    return AdaptivePlanRow(
        budget,
        plan.n >= plan.need,
        plan.need,
        _moves_from(manifold, search, budget, plan.need),
        share,
        per_record / n,
        max(plan.need, math.ceil(per_record**2)),
    )


def _moves_from(manifold: AbstractManifold, search: AdaptiveBall, budget: Budget, need: int) -> int:
    """The smallest n at which the centre is moved, by bisection: it depends on n only once."""
    low, high = max(1, need // 2), max(2, need)
    while not AdaptiveMean(manifold, search, n=high, budget=budget).plan.moves:
        low, high = high, 2 * high
        if high > 10**15:
            raise InvalidArgument(
                "argument `budgets` holds a budget that no number of records fits"
            )
    while high - low > 1:
        middle = (low + high) // 2
        if AdaptiveMean(manifold, search, n=middle, budget=budget).plan.moves:
            high = middle
        else:
            low = middle
    return high
