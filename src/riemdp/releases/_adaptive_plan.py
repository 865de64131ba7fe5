"""What a private mean without a public ball needs and costs, from public numbers alone."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

from .. import _html
from .._errors import InvalidArgument, integer, invalid
from ..domains import AdaptiveBall
from ..manifolds import AbstractManifold
from ..mechanisms import AdaptiveMean
from ..privacy import Budget

_TENTH = 0.1
_MOST = 10**15  # no data set has more records


@dataclasses.dataclass(frozen=True)
class AdaptivePlanRow:
    """One budget of an `AdaptivePlan`.

    Attributes:
        budget: The budget of search and mean together.
        need: The number of records from which a search is accepted.
        moves_from: The number of records from which the centre is moved as well.
        tenth_from: The number of records from which the centre is moved and the typical error from
            noise is at most a tenth of the radius that is found.
        sampling_from: The number of records from which the centre is moved and the error from noise
            is at most the error that sampling has anyway, where records lie about as far away as
            the radius.
        enough: Whether n is enough for a search; None where n was not given, as in the rest.
        search_share: The share of the budget that the search is planned to spend, the next two
            included.
        valid_share: What the count of valid records, the first answer, takes of it.
        outside_share: What the count of records outside the ball that is found takes of it.
        error_per_radius: Typical error from noise, divided by the radius that is found.
        noise_factor: The noise, divided by that of a public ball of the same radius. A public ball
            is expected to be better where its radius is below this many times the one that is
            found, and holds the same records.
    """

    budget: Budget
    need: int
    moves_from: int
    tenth_from: int
    sampling_from: int
    enough: bool | None = None
    search_share: float | None = None
    valid_share: float | None = None
    outside_share: float | None = None
    error_per_radius: float | None = None
    noise_factor: float | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class AdaptivePlan:
    """What `private_frechet_mean(space, X, AdaptiveBall(), budget)` needs, and what it costs for n
    records: the answer of `plan_private_mean` for an `AdaptiveBall`.

    `str(plan)` explains it in words. Nothing in it depends on records.

    Attributes:
        manifold: The space.
        search: Where the ball is searched.
        n: The public number of records, or None.
        rows: One `AdaptivePlanRow` a budget.

    Examples:
        >>> import riemdp
        >>> space, search = riemdp.SPDAffineInvariant(2), riemdp.AdaptiveBall()
        >>> plan = riemdp.plan_private_mean(space, search, None, riemdp.Budget(1.0, 1e-6))
        >>> plan.need < plan.rows[0].moves_from
        True
    """

    manifold: AbstractManifold
    search: AdaptiveBall
    n: int | None
    rows: tuple[AdaptivePlanRow, ...]

    @property
    def need(self) -> int:
        """The number of records from which a search is accepted, at the first budget."""
        return self.rows[0].need

    def __str__(self) -> str:
        count = "how many records are needed" if self.n is None else f"n = {self.n}"
        lines = [
            f"Private mean in a ball that is found privately: {self.manifold!r}, {count}",
            "                    a ball is   its centre   error below   error below",
            "                    found from  moves from   radius / 10   that of sampling",
            "  epsilon    delta         n =         n =      from n =   from n =",
        ]
        lines += [
            f"  {r.budget.epsilon:<8.4g} {r.budget.delta:>7.3g}"
            f"  {r.need:>10d}  {r.moves_from:>10d}  {r.tenth_from:>12d}   {r.sampling_from:<d}"
            for r in self.rows
        ]
        if self.n is not None:
            lines += [f"  With n = {self.n}:"]
            lines += [f"    {s}" for r in self.rows for s in row_in_words(self, r)]
        return "\n".join([*lines, "  Clipping adds a bias that no formula knows beforehand."])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The same as a table, for notebooks."""
        head = (
            "epsilon",
            "delta",
            "a ball is found from n =",
            "its centre moves from",
            "error below radius / 10 from",
            "error below that of sampling from",
        )
        cells = [
            [
                f"{r.budget.epsilon:.4g}",
                f"{r.budget.delta:.3g}",
                *(f"{n:,}" for n in (r.need, r.moves_from, r.tenth_from, r.sampling_from)),
            ]
            for r in self.rows
        ]
        said = [] if self.n is None else [s for r in self.rows for s in row_in_words(self, r)]
        bias = "Clipping adds a bias that no formula knows beforehand."
        note = ". ".join([*(s.strip() for s in said), bias])
        return _html.grid(str(self).splitlines()[0], head, cells, note=note)


def row_in_words(plan: AdaptivePlan, row: AdaptivePlanRow) -> list[str]:
    """What to expect of n records at one budget, in sentences."""
    name = f"epsilon {row.budget.epsilon:g}"
    if not row.enough:
        return [f"{name}: too few for a search; a public ball is the only way"]
    assert row.search_share is not None
    assert row.error_per_radius is not None
    assert row.noise_factor is not None
    assert row.valid_share is not None
    assert row.outside_share is not None
    text = [
        f"{name}: error from noise about {row.error_per_radius:.3g} times the radius that is found;"
        f" the search takes {100 * row.search_share:.0f} % of the budget",
        f"  (with {100 * row.valid_share:.1f} % for a count of the valid records and"
        f" {100 * row.outside_share:.1f} % for one of those outside the ball)",
    ]
    outer = plan.search.outer
    if outer is None:
        text.append(
            f"  a public ball is better if its radius is below {row.noise_factor:.2f} times that"
            " and it holds the records as well"
        )
    else:
        limit = outer.radius / row.noise_factor
        text.append(
            f"  searching is better than the public ball of radius {outer.radius:g} if the radius"
            f" that is found is below {limit:.3g}"
        )
    return text


def plan_adaptive_mean(
    manifold: AbstractManifold,
    search: AdaptiveBall,
    n: int | None,
    budgets: Budget | float | Sequence[Budget | float],
) -> AdaptivePlan:
    """How many records are enough, and what a search costs, for every budget. Reads no record.

    Args:
        manifold: The space.
        search: An `AdaptiveBall`.
        n: The public number of records; None where only the needed number is of interest.
        budgets: A `Budget` or a list of them.
    """
    n = None if n is None else integer("n", n)
    given = budgets if isinstance(budgets, list | tuple) else [budgets]
    many = [b for b in given if isinstance(b, Budget)]
    if not many or len(many) != len(given):
        raise invalid("budgets", budgets, "give a riemdp.Budget(epsilon, delta), or a list of them")
    return AdaptivePlan(manifold, search, n, tuple(_row(manifold, search, n, b) for b in many))


def _row(
    manifold: AbstractManifold, search: AdaptiveBall, n: int | None, budget: Budget
) -> AdaptivePlanRow:
    mechanism = AdaptiveMean(manifold, search, n=n or 1, budget=budget)
    law, dim = mechanism.noise.law, manifold.dim

    def error(count: int) -> float:
        """Typical error from noise, divided by the radius."""
        return law.mean_length(1.0 - mechanism.plan_for(count).planned_share, dim) / count

    # Shares fall with n once the centre is moved, so each of these holds from one n on.
    need = mechanism.plan.need
    moves = _from(need, lambda count: mechanism.plan_for(count).moves)
    tenth = _from(moves, lambda count: error(count) <= _TENTH)
    sampling = _from(moves, lambda count: error(count) <= 1.0 / math.sqrt(count))
    row = AdaptivePlanRow(budget, need, moves, tenth, sampling)
    if n is None:
        return row
    share = mechanism.plan.planned_share
    return dataclasses.replace(
        row,
        enough=n >= need,
        search_share=share,
        valid_share=mechanism.plan.valid_share,
        outside_share=mechanism.plan.outside_share,
        error_per_radius=error(n),
        noise_factor=law.mean_length(1.0 - share, dim) / law.mean_length(1.0, dim),
    )


def _from(low: int, holds: Callable[[int], bool]) -> int:
    """The smallest count from `low` on for which `holds` is true, by bisection."""
    if holds(low):
        return low
    high = 2 * low
    while not holds(high):
        low, high = high, 2 * high
        if high > _MOST:
            raise InvalidArgument(
                "argument `budgets` holds a budget that no number of records fits"
            )
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
