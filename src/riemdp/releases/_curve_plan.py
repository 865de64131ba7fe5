"""`plan_geodesic_regression`: how wide the band about a private curve is, before anything is
spent.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._errors import integer
from .._namespace import Floats
from ..domains import AdaptiveBall, Ball
from ..manifolds import AbstractManifold
from ..manifolds._spectral import pack
from ..mechanisms._geodesic_regression import CovariateRange, FittedNoise, GeodesicNoise
from ..mechanisms._ridge import regressed, weights
from ..privacy import Budget
from ._geodesic_model import CURVE, GeodesicModel
from ._search_left import columns_of_search, what_is_left
from ._table import Column, Plan, PlanRow, budget_columns, figure, several_budgets


@dataclasses.dataclass(frozen=True, kw_only=True)
class CurveRow(PlanRow):
    """What a geodesic regression shows with one budget, for covariates that fill their range
    evenly. `need` is the number of records from which a search is accepted, 1 in a public ball.

    Attributes:
        share: The share of the budget that the search leaves.
        middle: The 95 % band of the curve in the middle of the range, of records that lie on it.
        end: The same where all covariates are at their ends.
        scattered: The band there of records that fill the ball evenly in all directions.
    """

    share: float
    middle: float
    end: float
    scattered: float


_COLUMNS: tuple[Column[CurveRow], ...] = (
    *budget_columns(),
    *columns_of_search("curve"),
    Column("band in the middle", lambda row: figure(row.middle, 3)),
    Column("at the end", lambda row: figure(row.end, 3)),
    Column("there, of records that fill the ball", lambda row: figure(row.scattered, 3)),
)
_NOTE = "The curve lies within the band with probability 0.95, at each covariate by itself"
_UNIT = "Bands are in units of the radius that tangent vectors are shortened to"


def plan_geodesic_regression(
    manifold: AbstractManifold,
    ball: Ball | AdaptiveBall,
    n: int,
    budgets: Budget | Sequence[Budget],
    *,
    t_range: Any,
) -> Plan[CurveRow]:
    """How precisely `private_geodesic_regression` tells a curve, from public numbers.

    Args:
        manifold: The space.
        ball: A public `Ball`, or an `AdaptiveBall`.
        n: The public number of records, or of people.
        budgets: A `Budget` or a list of them.
        t_range: The public range of the covariates, as in `private_geodesic_regression`.

    Returns:
        A `Plan` with a row for each budget.

    Raises:
        InvalidArgument: An argument is out of range.

    Examples:
        >>> import numpy as np, riemdp
        >>> space, ball = riemdp.Euclidean(3), riemdp.Ball(np.zeros(3), 2.0)
        >>> budget, ages = riemdp.Budget(1.0, 1e-6), (20.0, 80.0)
        >>> row = riemdp.plan_geodesic_regression(space, ball, 3000, budget, t_range=ages)[0]
        >>> round(row.middle, 3), round(row.end, 3)
        (0.023, 0.071)
    """
    n, covariates = integer("n", n), CovariateRange(t_range)
    rows = tuple(_row(manifold, ball, n, budget, covariates) for budget in several_budgets(budgets))
    notes = (_NOTE,) if isinstance(ball, Ball) else (_NOTE, _UNIT)
    return Plan(f"Private geodesic regression: {manifold!r}, n = {n:,}", rows, _COLUMNS, notes)


def _row(
    manifold: AbstractManifold,
    where: Ball | AdaptiveBall,
    n: int,
    budget: Budget,
    covariates: CovariateRange,
) -> CurveRow:
    mechanism = GeodesicNoise(manifold, where, n=n, budget=budget, covariates=covariates)
    ball = where if isinstance(where, Ball) else Ball(manifold.origin, 1.0)
    need, share = what_is_left(n, manifold, mechanism.noise, where)
    scale = mechanism.noise.share(share).multiplier * mechanism.moments.sensitivity
    deviation = mechanism.noise.deviation(scale, mechanism.moments.size)

    def band(residual: float) -> Floats:
        """Of a release without error, at the middle and the end of the range."""
        moments = _moments(covariates, manifold.dim, residual)
        fit = regressed(moments, covariates.size, manifold.dim, deviation, 0.0)
        of_noise = np.zeros((0, 0))  # a band reads the fit alone
        made = FittedNoise(fit, deviation)
        model = GeodesicModel(manifold, ball, covariates.given, n, of_noise, of_noise, made)
        middle, unit = covariates.affine
        ends = np.stack([middle, middle + unit / math.sqrt(covariates.size)])
        return model.band(ends.reshape(2, *covariates.shape), of=CURVE)

    middle, end = band(0.0)
    return CurveRow(
        mechanism=mechanism.name,
        budget=budget,
        need=need,
        share=share,
        middle=float(middle),
        end=float(end),
        scattered=float(band(1.0)[1]),
    )


def _moments(covariates: CovariateRange, dim: int, residual: float) -> Floats:
    """The second moments of (w v, s, z) for v that fill their range evenly, and z of no mean that
    scatter evenly in all directions, with this mean square.
    """
    size = covariates.size
    of_vector, of_one = weights(size)
    in_ball = isinstance(covariates.given, Ball)
    variance = 1.0 / (size + 2.0) if in_ball else 1.0 / (3.0 * size)
    each = [of_vector**2 * variance] * size + [of_one**2] + [residual / dim] * dim
    return np.asarray(pack(np.diag(each)))
