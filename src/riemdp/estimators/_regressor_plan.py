"""What a private regression needs and can be expected to do, from public numbers alone."""

from __future__ import annotations

import dataclasses

from .._errors import InvalidArgument, integer
from ..domains import AdaptiveBall, Ball
from ..manifolds import AbstractManifold
from ..mechanisms._regression import moments_of
from ..mechanisms._ridge import noise_level
from ..privacy import Budget
from ..privacy._noise import Noise
from ..releases._table import Column, Plan, PlanRow, budget_columns, smallest_count
from ._where import ball_or_search, what_is_left

GOOD, HOPELESS = 0.1, 2.0  # limits of `RegressorRow.noise`, measured: docs/howto/regression.md


@dataclasses.dataclass(frozen=True, kw_only=True)
class RegressorRow(PlanRow):
    """What `PrivateTSRegressor` does with n records, decided before any of them is read. `need` is
    the number of records from which `fit` accepts to search for a centre, 1 where the ball is
    public.

    Attributes:
        n: The public number of records, or of people.
        dim: The number of coordinates of a tangent vector, k (k + 1) / 2 for k x k matrices.
        share: The share of the budget that is left for the regression: of mu^2 (delta > 0), or of
            epsilon.
        noise: The size of the noise on second moments of tangent vectors, which is the ridge, over
            1 / dim, what they are if matrices fill the ball evenly.
        enough: The number of records from which `noise` is at most 0.1.
    """

    n: int
    dim: int
    share: float
    noise: float
    enough: int

    @property
    def verdict(self) -> str:
        """ "too few" (`fit` refuses), "hopeless" (noise above 2), "weak" or "enough" (noise at most
        0.1).
        """
        if self.n < self.need:
            return "too few"
        if self.noise > HOPELESS:
            return "hopeless"
        return "enough" if self.noise <= GOOD else "weak"


_COLUMNS: tuple[Column[RegressorRow], ...] = (
    *budget_columns(),
    Column("found from n =", lambda row: f"{row.need:,}"),
    Column("share for the regression", lambda row: f"{100 * row.share:.0f} %"),
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
    if not isinstance(manifold, AbstractManifold):
        raise InvalidArgument(
            f"argument `manifold` is a {type(manifold).__name__}; give a space such as"
            ' riemdp.spd(k, "riemann")'
        )
    n, noise, where, dim = integer("n", n), Noise.of(budget), ball_or_search(ball), manifold.dim

    def at(count: int) -> tuple[int, float, float]:
        """The number of records that a search needs, what it leaves, and the noise."""
        need, share = what_is_left(count, manifold, noise, where, count_outside)
        moments = moments_of(dim, count)
        scale = noise.multiplier_of(share) * moments.sensitivity
        return need, share, dim * noise_level(dim, noise.deviation(scale, moments.size))

    def is_enough(count: int) -> bool:
        least, _, level = at(count)
        return count >= least and level <= GOOD

    need, share, level = at(n)
    row = RegressorRow(
        mechanism="ridge",
        budget=budget,
        need=need,
        n=n,
        dim=dim,
        share=share,
        noise=level,
        enough=smallest_count(1, is_enough),
    )
    title = f"Private regression, n = {n}, {dim} coordinates"
    return Plan(title, (row,), _COLUMNS, ("Noise 0.1 is good, above 2 is hopeless",))
