"""`plan_private_mean`: what each mechanism is expected to cost in accuracy, before anything is
spent.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import textwrap
from collections.abc import Sequence
from typing import Any, TypeAlias, overload

from numpy.typing import ArrayLike

from .._errors import InvalidArgument, integer, invalid, real
from ..domains import AdaptiveBall, Ball
from ..domains._door import admit_manifold
from ..inference._distributions import ErrorDistribution
from ..manifolds import AbstractManifold
from ..mechanisms import TangentMeanNoise
from ..mechanisms._common import PointMechanism, PureMechanism
from ..mechanisms._for_mean import MeanFacts
from ..privacy import Budget
from ..privacy._guarantee import ADD_REMOVE, REPLACE_ONE
from ..statistics import PublicPrior
from ._adaptive_plan import SearchRow, plan_adaptive_mean
from ._choices import (
    AUTO,
    COMPARED,
    EXTRINSIC,
    MOST_TRIES,
    NEED_DELTA,
    OPTIMIZED,
    TANGENT_MEAN,
    errors_in_ball,
    try_build,
)
from ._options import PRIVATE_BALL, PUBLIC_PRIOR, check_options, public_domain
from ._prior_plan import PriorRow, plan_prior_mean
from ._table import Column, Plan, PlanRow, budget_columns, chosen_of, figure
from ._typical import typical_error

# One budget or several; a number is a pure epsilon.
Budgets: TypeAlias = Budget | float | Sequence[Budget | float]
_NEEDS_N = "give the public number of records; None goes with an AdaptiveBall"
_ANOTHER_MEAN = "another mean; only when named"
_NEEDS_DELTA = "needs delta > 0"
# Of two mechanisms alike at half the radius, "auto" takes the one that shrinks: its error is much
# smaller for a mean nearer to the centre.
_NEARER = 0.9
_SHRUNK = "Rows that say shrunk: James-Stein shrinking towards the public centre follows the noise"
_ALONE = (
    "Budgets of epsilon {}: the public centre alone, which costs nothing, lies at most the radius"
    " away from that mean, and no mechanism has a smaller planned error"
)
_CLIPPING = "Records outside the ball are moved into it; what that does is not in these errors"
_NEEDS_COUNT = "divides by the number of records, which add-or-remove-one keeps private"


@dataclasses.dataclass(frozen=True, kw_only=True)
class MeanRow(PlanRow):
    """One mechanism under one budget, for a mean in a public ball. `typical_error` is the expected
    error of a mean half the radius away from the centre, with the ball as a bound where releases
    are moved into it.

    Attributes:
        kind: What `expected_error` is: "exact", "upper bound" or "estimate"; empty without one.
        scale: Scale of the noise in units of distance; None where the mechanism is not available.
        sensitivity: Sensitivity of the mean, in the same units.
        error_distribution: Of the error, or None.
        count_share: What the count of the records outside the ball takes of the budget (of mu^2 or
            of epsilon). The errors are those with what it leaves.
        shrunk: Whether the noise is followed by James-Stein shrinking towards the public centre.
    """

    kind: str = ""
    scale: float | None = None
    sensitivity: float | None = None
    error_distribution: ErrorDistribution | None = None
    count_share: float = 0.0
    shrunk: bool = False

    @property
    def compared(self) -> float | None:
        """`typical_error`, less a tenth if the noise is shrunk."""
        if self.typical_error is None or not self.shrunk:
            return self.typical_error
        return _NEARER * self.typical_error


@overload
def plan_private_mean(
    manifold: AbstractManifold,
    ball: AdaptiveBall,
    n: int | None,
    budgets: Budgets,
) -> Plan[SearchRow]: ...


@overload
def plan_private_mean(
    manifold: AbstractManifold,
    ball: PublicPrior,
    n: int,
    budgets: Budgets,
) -> Plan[PriorRow]: ...


@overload
def plan_private_mean(
    manifold: AbstractManifold,
    ball: Ball,
    n: int | None,
    budgets: Budgets,
    *,
    weights: ArrayLike | None = None,
    n_min: int | None = None,
    count_outside: bool | None = None,
) -> Plan[MeanRow]: ...


def plan_private_mean(
    manifold: AbstractManifold,
    ball: Ball | AdaptiveBall | PublicPrior,
    n: int | None,
    budgets: Budgets,
    *,
    weights: ArrayLike | None = None,
    n_min: int | None = None,
    count_outside: bool | None = None,
) -> Plan[MeanRow] | Plan[SearchRow] | Plan[PriorRow]:
    """The expected error of `private_frechet_mean` for each mechanism and budget, from public facts
    alone. It reads no record and spends nothing.

    Errors are distances from the mean of the clamped records (filled up to n, under
    add-or-remove-one) to the release. They exclude the bias that clamping introduces.

    - Flat spaces: sqrt(d) sigma for Gaussian noise, sqrt(d (d + 1)) s for Laplace noise; exact.
      Curvature of at least 0: the same as an upper bound. Negative curvature: an upper bound by the
      hyperbolic comparison triangle, with the mean at the edge of the ball.
    - Riemannian Laplace and K-norm gradient: the radial distribution of the space, bounded in the
      same way.
    - Tangent mean: its noise. The distance between that mean and the Fréchet mean is not included,
      and "auto" never chooses it.
    - DP optimisers and extrinsic baselines have no formula and are listed without one.

    Some of these figures are exact and some are worst cases, so "auto" does not compare them. It
    compares `typical_error` (column "mean at r/2"): the expected error by the same formulas with
    the mean half the radius away from the centre. On affine-invariant space it averages wrapped
    noise over fixed public directions. If the noise is shrunk, nine tenths of it are compared,
    because a mean nearer to the centre gains most. A release that is moved into the ball is counted
    as no farther from the mean than a point of the sphere at a right angle to it.

    Args:
        manifold: The space.
        ball: A public `Ball`, an `AdaptiveBall`, or a `PublicPrior`.
        n: The public number of records, at least 1; None where `n_min` is given. With an
            `AdaptiveBall`, None leaves out what depends on n, and the options below are refused.
        budgets: A `Budget` or a list of them. A number is read as a pure budget of that epsilon
            (not with an `AdaptiveBall`).
        weights: n public weights, as in `private_frechet_mean`.
        n_min: A public lower bound of the number of records, where it is protected, as there.
        count_outside: Whether the records outside the ball are counted with a share of the budget,
            as there.

    Returns:
        A `Plan` with rows of `MeanRow`: a table with `str()`, `.best(budget)` and `.plot()`. For an
        `AdaptiveBall` the rows are of `SearchRow`: how many records are needed and, with n given,
        what the search costs and when a public ball would be better. For a `PublicPrior` they are
        of `PriorRow`, which says where the public mean alone is as good.

    Raises:
        InvalidArgument: An argument cannot be used. What a space, a ball or a budget does not allow
            raises nothing: the rows say why, and `best` raises when no row is left.

    Examples:
        >>> import riemdp
        >>> plane = riemdp.Euclidean(2)
        >>> ball = riemdp.Ball(plane.origin, 1.0)
        >>> plan = riemdp.plan_private_mean(plane, ball, 1000, riemdp.Budget(1.0, 1e-6))
        >>> plan.best().mechanism
        'riemannian-laplace'
    """
    manifold = admit_manifold(manifold, ball, "plan_private_mean(manifold, ball, n, budgets)")
    given = {"weights": weights, "n_min": n_min, "count_outside": count_outside}
    if isinstance(ball, AdaptiveBall):
        check_options(given, PRIVATE_BALL)
        return plan_adaptive_mean(manifold, ball, n, budgets)
    if isinstance(ball, PublicPrior):
        check_options(given, PUBLIC_PRIOR)
        records = integer("n", n, remedy=_NEEDS_N if n is None else None)
        return plan_prior_mean(manifold, ball, records, budgets)
    check_options(given, AUTO)
    if n_min is not None and n is not None:
        raise invalid("n", n, "it is private where `n_min` is given; give None")
    if n_min is not None and weights is not None:
        raise invalid(
            "weights",
            "given",
            "they are private where `n_min` is given, which bounds their total from below",
        )
    if n_min is None:
        count = integer("n", n, remedy=_NEEDS_N if n is None else None)
    else:
        count = integer("n_min", n_min)
    facts = MeanFacts(
        public_domain(manifold, ball),
        count,
        Budget(1.0),  # each row has its own
        count_outside=count_outside,
        weights=weights,
        adjacency=REPLACE_ONE if n_min is None else ADD_REMOVE,
    )
    return made_plan(facts, budgets)


def made_plan(facts: MeanFacts, budgets: Budgets) -> Plan[MeanRow]:
    """The plan for a public ball.

    Args:
        facts: What is public about the mean; its budget is not looked at.
        budgets: As for `plan_private_mean`.
    """
    many = list(budgets) if isinstance(budgets, list | tuple) else [budgets]
    if not many:
        raise invalid("budgets", budgets, "give at least one Budget")
    given = [b if isinstance(b, Budget) else Budget(real("budgets", b, above=0.0)) for b in many]
    asked = tuple(dataclasses.replace(facts, budget=budget) for budget in given)
    return _remembered(asked) if facts.may_be_kept else _answered(asked)


def _answered(asked: tuple[MeanFacts, ...]) -> Plan[MeanRow]:
    facts = asked[0]
    rows = tuple(row for each in asked for row in _rows(each))
    best = [chosen_of([r for r in rows if r.budget == each.budget]) for each in asked]
    is_protected = facts.adjacency == ADD_REMOVE
    count = f"n >= {facts.n} (private, filled up to it)" if is_protected else f"n = {facts.n}"
    radius = f"radius {float(facts.domain.radius):g}"
    most = max(row.count_share for row in rows)
    counted = (
        "Errors and scales are with a private count of the records outside the ball, which takes up"
        f" to {100 * most:.2g} % of a budget; count_outside=False leaves it out"
    )
    space = textwrap.shorten(repr(facts.manifold), 65 - len(radius + count), placeholder=" ...")
    return Plan(
        f"Private mean on {facts.manifold!r}, dim = {facts.manifold.dim}: {count}, {radius},"
        f" {facts.adjacency} neighbours",
        rows,
        (
            *budget_columns(),
            Column("mechanism", lambda row: row.mechanism),
            Column("error (noise)", lambda row: figure(row.expected_error)),
            Column("", lambda row: row.kind),
            Column("mean at r/2", lambda row: figure(row.typical_error)),
            Column("scale", lambda row: figure(row.scale)),
            Column("note", lambda row: _noted(row, row in best)),
        ),
        (
            *_public_alone(rows, facts),
            *([_SHRUNK] if any(row.shrunk for row in rows) else []),
            *([counted] if most > 0.0 else []),
            _CLIPPING,
        ),
        f"{space}, {count}, {radius}",
    )


def _noted(row: MeanRow, is_chosen: bool) -> str:
    """What the plan says of a row, beside its figures."""
    said = ["<- auto" if is_chosen else row.note, "shrunk" if row.shrunk else ""]
    return ", ".join(text for text in said if text)


def _public_alone(rows: tuple[MeanRow, ...], facts: MeanFacts) -> list[str]:
    """Budgets under which the public centre is planned to be as good as any mechanism."""
    radius, known = float(facts.domain.radius), [r for r in rows if r.expected_error is not None]
    least: dict[float, float] = {}
    for row in known:
        assert row.expected_error is not None
        least[row.epsilon] = min(row.expected_error, least.get(row.epsilon, math.inf))
    noisy = [f"{epsilon:.4g}" for epsilon, error in least.items() if error >= radius]
    return [_ALONE.format(", ".join(noisy))] if noisy else []


_remembered = functools.lru_cache(maxsize=256)(_answered)


def _rows(facts: MeanFacts) -> tuple[MeanRow, ...]:
    """The rows of one budget."""
    budget = facts.budget
    assert isinstance(budget, Budget)
    rows = [_row(name, facts, budget) for name in COMPARED]
    rows.append(_tangent_row(facts, budget))
    rows += [
        _without(name, budget, _without_formula(name, budget, facts.adjacency))
        for name in (*OPTIMIZED, *EXTRINSIC)
    ]
    return tuple(rows)


def _without(name: str, budget: Budget, why: str) -> MeanRow:
    """The row of a mechanism without figures."""
    return MeanRow(mechanism=name, budget=budget, note=why)


def _row(name: str, facts: MeanFacts, budget: Budget) -> MeanRow:
    if name in NEED_DELTA and budget.delta == 0:
        return _without(name, budget, _NEEDS_DELTA)
    mechanism, why = try_build(name, facts)
    if mechanism is None:
        return _without(name, budget, why)
    errors, moved = errors_in_ball(mechanism, facts.domain.radius)
    tries = mechanism.tries
    eligible = errors is not None and math.isfinite(errors.mean_square) and tries <= MOST_TRIES
    return _with_figures(
        mechanism,
        budget,
        errors,
        note=f"about {tries:.3g} tries a draw" if tries > 50 else "",
        eligible=eligible,
        typical_error=typical_error(mechanism, moved) if eligible else None,
        count_share=float(facts.share_of_count(pure=isinstance(mechanism, PureMechanism))),
    )


def _tangent_row(facts: MeanFacts, budget: Budget) -> MeanRow:
    """The mean of clipped tangent vectors. "auto" does not take it: it is another mean."""
    given = {"weights": facts.weights is not None, "n_min": facts.adjacency == ADD_REMOVE}
    unknown = [name for name, is_given in given.items() if is_given]
    if unknown:
        why = f"does not know {', '.join(f'`{name}`' for name in unknown)}"
        return _without(TANGENT_MEAN, budget, why)
    try:
        made = TangentMeanNoise(facts.manifold, facts.ball, n=facts.n, budget=facts.noise())
    except (InvalidArgument, NotImplementedError) as error:
        return _without(TANGENT_MEAN, budget, str(error))
    beside = float(facts.share_of_count())
    return _with_figures(
        made, budget, made.error_distribution, note=_ANOTHER_MEAN, count_share=beside
    )


def _with_figures(
    made: PointMechanism | TangentMeanNoise,
    budget: Budget,
    errors: ErrorDistribution | None,
    **more: Any,
) -> MeanRow:
    """The row of a mechanism that was made."""
    return MeanRow(
        mechanism=made.name,
        budget=budget,
        expected_error=None if errors is None else errors.expected_error,
        kind="" if errors is None else errors.kind,
        scale=made.scale,
        sensitivity=made.sensitivity,
        error_distribution=errors,
        shrunk=made.shrinks,
        **more,
    )


def _without_formula(name: str, budget: Budget, adjacency: str) -> str:
    if name in OPTIMIZED and adjacency != REPLACE_ONE:
        return _NEEDS_COUNT
    if name in NEED_DELTA and budget.delta == 0:
        return _NEEDS_DELTA
    known = "a baseline" if name in EXTRINSIC else "see riemdp.optimizers.plan_optimizer"
    return f"no formula; {known}"
