"""What a private mean without a public ball needs and costs, from public numbers alone."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from .._errors import integer
from ..domains import AdaptiveBall
from ..manifolds import AbstractManifold
from ..mechanisms import AdaptiveMean
from ..privacy import Budget
from ._table import Column, Plan, PlanRow, budget_columns, several_budgets, smallest_count

_TENTH = 0.1


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchRow(PlanRow):
    """One budget of a mean in a ball that is found privately. `need` is the number of records from
    which a search is accepted.

    Attributes:
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

    moves_from: int
    tenth_from: int
    sampling_from: int
    enough: bool | None = None
    search_share: float | None = None
    valid_share: float | None = None
    outside_share: float | None = None
    error_per_radius: float | None = None
    noise_factor: float | None = None


_COLUMNS: tuple[Column[SearchRow], ...] = (
    *budget_columns(),
    Column("a ball is found from n =", lambda row: f"{row.need:,}"),
    Column("its centre moves from", lambda row: f"{row.moves_from:,}"),
    Column("error below radius / 10 from", lambda row: f"{row.tenth_from:,}"),
    Column("below that of sampling from", lambda row: f"{row.sampling_from:,}"),
)
_BIAS = "Clipping bias is not in these errors; it is not known before the release"


def in_words(row: SearchRow, search: AdaptiveBall) -> str:
    """What to expect of n records at one budget."""
    name = f"epsilon {row.epsilon:g}"
    if not row.enough:
        return f"{name}: too few for a search; a public ball is the only way"
    assert row.search_share is not None
    assert row.error_per_radius is not None
    assert row.noise_factor is not None
    assert row.valid_share is not None
    assert row.outside_share is not None
    better = (
        f"a public ball is better if its radius is below {row.noise_factor:.2f} times that and it"
        " holds the records as well"
        if search.outer is None
        else f"searching is better than the public ball of radius {search.outer.radius:g} if the"
        f" radius that is found is below {search.outer.radius / row.noise_factor:.3g}"
    )
    return (
        f"{name}: error from noise about {row.error_per_radius:.3g} times the radius that is found;"
        f" the search takes {100 * row.search_share:.0f} % of the budget (with"
        f" {100 * row.valid_share:.1f} % for a count of the valid records and"
        f" {100 * row.outside_share:.1f} % for one of those outside the ball); {better}"
    )


def plan_adaptive_mean(
    manifold: AbstractManifold,
    search: AdaptiveBall,
    n: int | None,
    budgets: Budget | float | Sequence[Budget | float],
) -> Plan[SearchRow]:
    """How many records are enough, and what a search costs, for every budget. Reads no record.

    Args:
        manifold: The space.
        search: An `AdaptiveBall`.
        n: The public number of records; None where only the needed number is of interest.
        budgets: A `Budget` or a list of them.
    """
    n = None if n is None else integer("n", n)
    rows = tuple(_row(manifold, search, n, budget) for budget in several_budgets(budgets))
    count = "how many records are needed" if n is None else f"n = {n}"
    said = () if n is None else tuple(in_words(row, search) for row in rows)
    title = f"Private mean in a ball that is found privately: {manifold!r}, {count}"
    return Plan(title, rows, _COLUMNS, (*said, _BIAS))


def _row(
    manifold: AbstractManifold, search: AdaptiveBall, n: int | None, budget: Budget
) -> SearchRow:
    mechanism = AdaptiveMean(manifold, search, n=n or 1, budget=budget)
    noise, dim = mechanism.noise, manifold.dim

    def error(count: int) -> float:
        """Typical error from noise, divided by the radius."""
        left = 1.0 - mechanism.searching.plan_for(count).planned_share
        return noise.mean_length(left, dim) / count

    # Shares fall with n once the centre is moved, so each of these holds from one n on.
    need = mechanism.plan.need
    moves = smallest_count(need, lambda count: mechanism.searching.plan_for(count).moves)
    tenth = smallest_count(moves, lambda count: error(count) <= _TENTH)
    sampling = smallest_count(moves, lambda count: error(count) <= 1.0 / math.sqrt(count))
    row = SearchRow(
        mechanism=mechanism.name,
        budget=budget,
        need=need,
        moves_from=moves,
        tenth_from=tenth,
        sampling_from=sampling,
    )
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
        noise_factor=noise.mean_length(1.0 - share, dim) / noise.mean_length(1.0, dim),
    )
