"""`plan_private_comparison`: the smallest difference that a private comparison finds, before
anything is spent.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from .._errors import integer, invalid
from ..domains import AdaptiveBall, Ball
from ..inference._distributions import ErrorDistribution, chi_exceeded, lengths_of
from ..manifolds import AbstractManifold
from ..mechanisms._comparison import SamplesNoise
from ..privacy import Budget
from ._search_left import columns_of_search, what_is_left
from ._table import Column, Plan, PlanRow, budget_columns, figure, several_budgets

_LEVEL, _POWER = 0.05, 0.8


@dataclasses.dataclass(frozen=True, kw_only=True)
class ComparisonRow(PlanRow):
    """What a comparison finds with one budget. `need` is the number of records from which a search
    is accepted, 1 in a public ball; `expected_error` that of the difference of the two smallest
    samples' means.

    Attributes:
        share: The share of the budget that the search leaves.
        by_noise: The distance of two means that a test at the level 0.05 finds with probability
            0.8, if the records of each sample are all equal.
        by_both: The same if the records fill the ball evenly in all directions.
    """

    share: float
    by_noise: float
    by_both: float


_COLUMNS: tuple[Column[ComparisonRow], ...] = (
    *budget_columns(),
    *columns_of_search("means"),
    Column("distance found, by noise alone", lambda row: figure(row.by_noise, 3)),
    Column("of records that fill the ball", lambda row: figure(row.by_both, 3)),
)
_NOTE = "Found with probability 0.8 by a test at the level 0.05 of the two smallest samples"
_UNIT = "Distances are in units of the radius that is found"


def plan_private_comparison(
    manifold: AbstractManifold,
    ball: Ball | AdaptiveBall,
    sizes: Sequence[int],
    budgets: Budget | Sequence[Budget],
) -> Plan[ComparisonRow]:
    """The smallest distance of two means that `private_comparison` finds, from public numbers.

    Args:
        manifold: The space.
        ball: A public `Ball`, or an `AdaptiveBall`.
        sizes: The number of records, or people, of each sample.
        budgets: A `Budget` or a list of them.

    Returns:
        A `Plan` with a row for each budget.

    Raises:
        InvalidArgument: An argument is out of range.

    Examples:
        >>> import numpy as np, riemdp
        >>> space, ball = riemdp.Euclidean(3), riemdp.Ball(np.zeros(3), 2.0)
        >>> plan = riemdp.plan_private_comparison(space, ball, (400, 400), riemdp.Budget(1.0, 1e-6))
        >>> round(plan[0].by_noise, 3), round(plan[0].by_both, 3)
        (0.197, 0.334)
    """
    counts = sorted(integer("sizes", n) for n in sizes)
    if len(counts) < 2:
        raise invalid("sizes", sizes, "give the sizes of two samples or more")
    rows = tuple(_row(manifold, ball, counts, budget) for budget in several_budgets(budgets))
    notes = (_NOTE,) if isinstance(ball, Ball) else (_NOTE, _UNIT)
    title = f"Private comparison of {len(counts)} samples: {manifold!r}, {sum(counts):,} records"
    return Plan(title, rows, _COLUMNS, notes)


def _row(
    manifold: AbstractManifold, ball: Ball | AdaptiveBall, counts: list[int], budget: Budget
) -> ComparisonRow:
    mechanism = SamplesNoise(
        manifold, ball, n=sum(counts), classes=len(counts), budget=budget, sizes=counts
    )
    r = float(ball.radius) if isinstance(ball, Ball) else 1.0
    need, share = what_is_left(mechanism.n, manifold, mechanism.noise, ball)
    dim, width = manifold.dim, mechanism.sums.together
    scale = mechanism.noise.share(share).multiplier * mechanism.sums.sensitivity
    deviations = [r * mechanism.noise.deviation(scale, width) / n for n in counts[:2]]
    noise = math.hypot(*deviations)
    sampling = math.sqrt(sum(r**2 / (dim * n) for n in counts[:2]))
    lengths = [lengths_of(mechanism.noise, r * scale / n, width) for n in counts[:2]]
    found = _added_up if mechanism.noise.is_pure else _found
    return ComparisonRow(
        mechanism=mechanism.name,
        budget=budget,
        need=need,
        expected_error=math.sqrt(dim) * noise,
        share=share,
        by_noise=found(dim, noise, 0.0, lengths),
        by_both=found(dim, noise, sampling, lengths),
    )


def _found(dim: int, noise: float, sampling: float, lengths: list[ErrorDistribution]) -> float:
    """The distance that a chi square test finds, for errors of these deviations in a coordinate."""
    from scipy import special

    limit = chi_exceeded(dim, _LEVEL) ** 2
    far = float(special.chndtrinc(limit, dim, 1.0 - _POWER))
    return math.hypot(noise, sampling) * math.sqrt(far)


def _added_up(dim: int, noise: float, sampling: float, lengths: list[ErrorDistribution]) -> float:
    """The same of a test that adds up quantiles, as for pure noise; checked by simulation."""
    part, error = _LEVEL / 3.0, math.hypot(noise, sampling)
    limit = sum(one.quantile(1.0 - part) for one in lengths)
    limit += math.sqrt(dim) * sampling * chi_exceeded(1, part)
    return math.sqrt(max(0.0, limit**2 - dim * error**2)) + error
