"""What a private regression needs and can be expected to do, from public numbers alone."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from .._errors import integer
from ..domains import AdaptiveBall, Ball
from ..domains._door import admit_manifold
from ..manifolds import AbstractManifold
from ..mechanisms._regression import PERSON_IS, TargetRange, moments_of
from ..mechanisms._ridge import noise_level
from ..privacy import Budget
from ..privacy._noise import Noise
from ..releases._options import ball_or_search
from ..releases._search_left import columns_of_search, what_is_left
from ..releases._table import Column, Plan, budget_columns
from ._fit_row import FitRow, enough_from


@dataclasses.dataclass(frozen=True, kw_only=True)
class RegressorRow(FitRow):
    """What `PrivateTSRegressor` does with n records; see `FitRow`. Its `noise` is that on second
    moments of tangent vectors, which is the ridge, over 1 / dim, what they are if matrices fill the
    ball evenly.

    Attributes:
        enough: The number of records from which `noise` is at most 0.1.
    """

    good: ClassVar[float] = 0.1  # both measured: docs/howto/regression.md
    hopeless: ClassVar[float] = 2.0

    enough: int

    @property
    def told(self) -> str:
        """What a fit says before it spends anything on what is of little use."""
        return (
            f"noise {self.noise:.2g} is above {self.hopeless:g}: predictions will hardly be better"
            f" than one number; about {self.enough:,} records are enough with this budget"
            " (riemdp.plan_private_regressor)"
        )


_COLUMNS: tuple[Column[RegressorRow], ...] = (
    *budget_columns(),
    *columns_of_search("regression"),
    Column("noise", lambda row: f"{row.noise:.2g}"),
    Column("noise 0.1 from n =", lambda row: f"{row.enough:,}"),
    Column("", lambda row: row.verdict),
)


def plan_private_regressor(
    manifold: AbstractManifold,
    n: int,
    budget: Budget,
    *,
    ball: Ball | AdaptiveBall | None = None,
    count_outside: bool | None = None,
) -> Plan[RegressorRow]:
    """Say before any budget is spent whether n records are enough for a private regression.

    In a public `Ball` the noise is judged as if the records filled it.

    Args:
        manifold: The space, e.g. `riemdp.spd(k, "riemann")`, of at most 2048 dimensions.
        n: The public number of records, or of people, at least 1.
        budget: The budget of one `fit`.
        ball: As for `PrivateTSRegressor`.
        count_outside: As for `PrivateTSRegressor`; a count takes at most 4 % of the budget.

    Returns:
        A `Plan` of one `RegressorRow`.

    Raises:
        InvalidArgument: An argument is out of range.

    Examples:
        >>> import riemdp
        >>> space, budget = riemdp.spd(8, "riemann"), riemdp.Budget(1.0, 1e-5)
        >>> riemdp.plan_private_regressor(space, 300, budget)[0].verdict
        'hopeless'
        >>> riemdp.plan_private_regressor(space, 30000, budget)[0].verdict
        'enough'
    """
    manifold = admit_manifold(manifold, n, "plan_private_regressor(manifold, n, budget)")
    n, noise, where, dim = integer("n", n), Noise.of(budget), ball_or_search(ball), manifold.dim

    def at(count: int) -> tuple[int, float, float]:
        """The number of records that a search needs, what it leaves, and the noise."""
        need, share = what_is_left(count, manifold, noise, where, count_outside)
        moments = moments_of(dim, count)
        scale = noise.multiplier_of(share) * moments.sensitivity
        return need, share, dim * noise_level(dim, noise.deviation(scale, moments.size))

    need, share, level = at(n)
    row = RegressorRow(
        mechanism="ridge",
        budget=budget,
        need=need,
        n=n,
        dim=dim,
        share=share,
        noise=level,
        enough=enough_from(at, RegressorRow.good),
    )
    title = f"Private regression, n = {n}, {dim} coordinates"
    return Plan(title, (row,), _COLUMNS, (RegressorRow.limits(),))


def told_of_fit(
    plan: RegressorRow, manifold: AbstractManifold, targets: TargetRange, of_people: bool
) -> dict[str, Any]:
    """What is public of a fit, for its release."""
    clipping = (
        "every matrix becomes the tangent vector at the centre that points to it, shortened to the"
        " radius, or 0 where it is no point; every target is moved into the range from"
        f" {targets.low:g} to {targets.high:g}, or counts as its middle where it is no finite"
        " number"
    )
    query = f"ridge regression on {manifold.dim} tangent coordinates"
    known = {"manifold": manifold, "budget": plan.budget, "query": query, "clipping": clipping}
    return known | ({"person_is": PERSON_IS} if of_people else {})
