"""`plan_private_mean`: what each mechanism is expected to cost in accuracy, before anything is
spent.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import numpy as np
from numpy.typing import ArrayLike

from .. import _html, plots
from .._errors import InvalidArgument, integer, invalid, real
from .._trees import leaves
from ..domains import AdaptiveBall, Ball
from ..domains._door import admit_manifold
from ..inference._error_law import ErrorLaw
from ..manifolds import AbstractManifold
from ..mechanisms import TangentMeanNoise
from ..mechanisms._common import optional_ball
from ..mechanisms._counted import CountPlan, plan_count
from ..mechanisms._for_mean import MeanFacts
from ..privacy import Budget
from ..statistics._sensitivity import ADD_REMOVE, REPLACE_ONE, public_weights
from ._adaptive_plan import AdaptivePlan, plan_adaptive_mean
from ._choices import (
    AUTO,
    COMPARED,
    EXTRINSIC,
    MOST_TRIES,
    NEED_DELTA,
    OPTIMIZED,
    TANGENT_MEAN,
    Moving,
    try_build,
)
from ._options import ANALYTIC, CLASSICAL, check_options, given_of
from ._plan_words import by_reason, wrapped
from ._typical import typical_error

if TYPE_CHECKING:
    from ..plots._style import Axes

# One budget or several; a number is a pure epsilon.
Budgets: TypeAlias = Budget | float | Sequence[Budget | float]
_LONG = 40  # a reason longer than this goes below the table, once for all the rows that have it
_NEEDS_N = "give the public number of records; None goes with an AdaptiveBall"
_ANOTHER_MEAN = "another mean; only when named"
_NEEDS_DELTA = "needs delta > 0"
_NEEDS_COUNT = "divides by the number of records, which add-or-remove-one keeps private"


@dataclasses.dataclass(frozen=True)
class PlanRow:
    """One mechanism under one budget, in a `MeanPlan`.

    Attributes:
        mechanism: Its name, as in `private_frechet_mean`.
        budget: The `Budget`.
        expected_error: Root mean squared distance from the mean of the clamped records to the
            release; None without a formula.
        kind: What `expected_error` is: "exact", "upper bound" or "estimate"; empty without one.
        scale: Scale of the noise in units of distance; None where the mechanism is not available.
        sensitivity: Sensitivity of the mean, in the same units.
        law: The law of the error, or None.
        note: Why the mechanism is not available or not chosen, or what is particular about it.
        eligible: Whether "auto" may choose it.
        typical_error: What "auto" compares: `expected_error` with the mean half the radius away
            from the centre of the ball, and the ball as a bound where releases are moved into it.
            None where the mechanism is not eligible.
        count_share: What the count of the records outside the ball takes of the budget (of mu^2 or
            of epsilon). The errors are those with what it leaves.
    """

    mechanism: str
    budget: Any
    expected_error: float | None
    kind: str
    scale: float | None
    sensitivity: float | None
    law: ErrorLaw | None
    note: str
    eligible: bool
    typical_error: float | None = None
    count_share: float = 0.0

    @property
    def epsilon(self) -> float:
        """Epsilon of the budget."""
        return self.budget.epsilon

    @property
    def delta(self) -> float:
        """Delta of the budget."""
        return self.budget.delta

    def error_quantile(self, q: float) -> float:
        """The distance that the error stays below with a given probability.

        Args:
            q: The probability, above 0 and below 1.

        Raises:
            InvalidArgument: The mechanism has no formula for its error here.
        """
        if self.law is None:
            raise InvalidArgument(f"no formula for the error of {self.mechanism!r} here")
        return self.law.quantile(q)


@dataclasses.dataclass(frozen=True)
class MeanPlan(Sequence[PlanRow]):
    """The table that `plan_private_mean` returns: a sequence of `PlanRow`. `str(plan)` prints it.

    Attributes:
        manifold: The space.
        ball: The public ball.
        n: The public number of records, or its lower bound under add-or-remove-one.
        rows: One `PlanRow` a budget and mechanism.
        adjacency: "replace-one" or "add-or-remove-one".
    """

    manifold: AbstractManifold
    ball: Ball
    n: int
    rows: tuple[PlanRow, ...]
    adjacency: str = REPLACE_ONE

    @overload
    def __getitem__(self, index: int) -> PlanRow: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[PlanRow, ...]: ...

    def __getitem__(self, index: int | slice) -> PlanRow | tuple[PlanRow, ...]:
        return self.rows[index]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[PlanRow]:
        return iter(self.rows)

    @property
    def budgets(self) -> tuple[Budget, ...]:
        """The budgets of the plan, each once."""
        return tuple(dict.fromkeys(row.budget for row in self.rows))

    def best(self, budget: Budget | None = None) -> PlanRow:
        """The row that mechanism="auto" chooses.

        It has the smallest `typical_error` of the mechanisms that the budget and the space allow
        and whose sampler is expected to need at most 10^4 tries. Of equal errors (those that the
        ball bounds) the first in the table is chosen.

        Args:
            budget: One of the budgets of the plan. None will do where there is only one.

        Raises:
            InvalidArgument: The plan does not hold the budget, or no mechanism is available; the
                message then gives each reason.
        """
        budgets = self.budgets
        if budget is None and len(budgets) != 1:
            raise invalid("budget", budget, "the plan has several budgets; name one of them")
        wanted = budgets[0] if budget is None else budget
        if wanted not in budgets:
            raise invalid(
                "budget",
                budget,
                "it is not in the plan; name one of " + ", ".join(map(str, budgets)),
            )
        candidates = [
            r
            for r in self.rows
            if r.budget == wanted and r.eligible and r.typical_error is not None
        ]
        if not candidates:
            reasons = by_reason(
                [r for r in self.rows if r.budget == wanted and r.mechanism in COMPARED]
            )
            raise InvalidArgument(
                f"no mechanism with a formula is available on {self.manifold!r} for the budget"
                f" {wanted}. "
                + " ".join(f"{', '.join(names)}: {why}." for why, names in reasons.items())
                + " (Mechanisms without a formula are used only when named.)"
            )
        return min(candidates, key=lambda r: (r.typical_error, COMPARED.index(r.mechanism)))

    def __str__(self) -> str:
        return self._text

    @functools.cached_property
    def _text(self) -> str:
        count = (
            f"n = {self.n}"
            if self.adjacency == REPLACE_ONE
            else f"n >= {self.n} (private, filled up to it)"
        )
        head = (
            f"Private mean on {self.manifold!r}, dim = {self.manifold.dim}: {count}, radius ="
            f" {float(self.ball.radius):g}, {self.adjacency} neighbours"
        )
        lines = [
            head,
            (
                f"{'epsilon':>9} {'delta':>9}  {'mechanism':<20}{'error (noise)':>15} "
                f" {'':<12}{'mean at r/2':>12}{'scale':>11}  note"
            ),
        ]
        best = {b: self._best_or_none(b) for b in self.budgets}
        below: dict[str, int] = {}
        for row in self.rows:
            if row.mechanism not in (*COMPARED, TANGENT_MEAN):
                continue
            error = "-" if row.expected_error is None else f"{row.expected_error:.5g}"
            scale = "-" if row.scale is None else f"{row.scale:.5g}"
            note = "<- auto" if row is best[row.budget] else row.note
            if len(note) > _LONG:
                note = f"[{below.setdefault(note, len(below) + 1)}]"
            typical = "-" if row.typical_error is None else f"{row.typical_error:.5g}"
            figures = (
                f"{row.mechanism:<20}{error:>15}  {row.kind:<12}{typical:>12}{scale:>11}  {note}"
            )
            lines.append(f"{row.epsilon:>9g} {row.delta:>9g}  {figures}".rstrip())
        for reason, number in below.items():
            lines += wrapped(f"[{number}] {reason}")
        return "\n".join([*lines, *self._left_out(), *self._counted()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The mechanisms that have an error, and which one "auto" takes, for notebooks."""
        best = {b: self._best_or_none(b) for b in self.budgets}
        cells = [
            [
                f"{row.epsilon:g}",
                f"{row.delta:g}",
                row.mechanism,
                f"{row.expected_error:.4g}",
                row.kind,
                f"{100 * row.expected_error / float(self.ball.radius):.3g} %",
                "auto" if row is best[row.budget] else row.note,
            ]
            for row in self.rows
            if row.expected_error is not None
        ]
        head = ("epsilon", "delta", "mechanism", "error from noise", "", "of the radius", "")
        note = "Records outside the ball are moved into it; what that does is not in these errors."
        return _html.grid(str(self).splitlines()[0], head, cells, note=note)

    def _left_out(self) -> list[str]:
        """What to say of the mechanisms without a formula, once each."""
        rows = [row for row in self.rows if row.mechanism not in (*COMPARED, TANGENT_MEAN)]
        groups = {
            "No formula, used only when named": [
                r for r in rows if r.note not in (_NEEDS_DELTA, _NEEDS_COUNT)
            ],
            "Not available, dividing by the number of records, which is private here": [
                r for r in rows if r.note == _NEEDS_COUNT
            ],
            "Not available for budgets with delta = 0": [r for r in rows if r.note == _NEEDS_DELTA],
        }
        lines = []
        for head, members in groups.items():
            plain = (_NEEDS_DELTA, _NEEDS_COUNT)
            parts = [
                ", ".join(names) + ("" if why in plain else f" ({why})")
                for why, names in by_reason(members).items()
            ]
            lines += wrapped(f"{head}: {'; '.join(parts)}") if parts else []
        return lines

    def _counted(self) -> list[str]:
        """What the count of the records outside the ball costs."""
        most = max((row.count_share for row in self.rows), default=0.0)
        if most == 0.0:
            return []
        return wrapped(
            f"Errors and scales are with a private count of the records outside the ball, which"
            f" takes up to {100 * most:.2g} % of a budget; count_outside=False leaves it out"
        )

    def _best_or_none(self, budget: Budget) -> PlanRow | None:
        try:
            return self.best(budget)
        except InvalidArgument:
            return None

    def plot(self, ax: Axes | None = None, **options: Any) -> Any:
        """Draw the expected error against epsilon, one line a mechanism. Of several deltas at one
        epsilon the smallest error is drawn.

        Args:
            ax: The matplotlib axes to draw into; None makes new ones.
            **options: Further options of `riemdp.plots.error_curves`.

        Returns:
            The axes.

        Raises:
            InvalidArgument: No row has an expected error.
        """
        curves: dict[str, dict[float, float]] = {}
        for row in self.rows:
            if row.expected_error is not None:
                points = curves.setdefault(row.mechanism, {})
                points[row.epsilon] = min(row.expected_error, points.get(row.epsilon, math.inf))
        if not curves:
            raise InvalidArgument(
                "argument `plan` has no row with an expected error, so there is nothing to draw;"
                " print it to see why"
            )
        facts = (
            f", n {'=' if self.adjacency == REPLACE_ONE else '>='} {self.n}, radius"
            f" {float(self.ball.radius):g}"
        )
        space = textwrap.shorten(repr(self.manifold), 65 - len(facts), placeholder=" ...")
        options.setdefault("title", f"Expected error of a private mean\n{space}{facts}")
        return plots.error_curves(
            {name: sorted(points.items()) for name, points in curves.items()}, ax=ax, **options
        )


@overload
def plan_private_mean(
    manifold: AbstractManifold,
    ball: AdaptiveBall,
    n: int | None,
    budgets: Budgets,
) -> AdaptivePlan: ...


@overload
def plan_private_mean(
    manifold: AbstractManifold,
    ball: Ball,
    n: int,
    budgets: Budgets,
    *,
    weights: ArrayLike | None = None,
    tolerance: float | None = None,
    calibration: str | None = None,
    adjacency: str = REPLACE_ONE,
    clamp_release: bool | None = None,
    count_outside: bool | None = None,
) -> MeanPlan: ...


def plan_private_mean(
    manifold: AbstractManifold,
    ball: Ball | AdaptiveBall,
    n: int | None,
    budgets: Budgets,
    *,
    weights: ArrayLike | None = None,
    tolerance: float | None = None,
    calibration: str | None = None,
    adjacency: str = REPLACE_ONE,
    clamp_release: bool | None = None,
    count_outside: bool | None = None,
) -> MeanPlan | AdaptivePlan:
    """The expected error of `private_frechet_mean` for each mechanism and budget, from public facts
    alone. It reads no record and spends nothing.

    Errors are distances from the mean of the clamped records (filled up to n, under
    add-or-remove-one) to the release. They exclude the bias that clamping introduces.

    - Flat spaces: sqrt(d) sigma for Gaussian noise, sqrt(d (d + 1)) s for Laplace noise; exact.
    - Curvature of at least 0: the same as an upper bound (Toponogov).
    - Negative curvature, wrapped mechanisms: an upper bound by the hyperbolic comparison triangle,
      with the mean at the edge of the ball.
    - Releases that are moved into the ball (`clamp_release`): in addition at most its diameter.
    - Riemannian Laplace: the radial law of the space, bounded in the same way. K-norm gradient:
      that of the Laplace law it is drawn from.
    - Tangent mean: its noise, as an upper bound. The distance between that mean and the Frechet
      mean is not included, and "auto" never chooses it.
    - DP optimisers and extrinsic baselines have no formula and are listed without one.

    Some of these figures are exact and some are worst cases, so "auto" does not compare them. It
    compares `typical_error` (column "mean at r/2"): the expected error by the same formulas with
    the mean half the radius away from the centre. On affine-invariant space it averages wrapped
    noise over fixed public directions. A release that is moved into the ball (Riemannian Laplace,
    K-norm gradient; wrapped ones as `clamp_release` says) is counted as no farther from the mean
    than a point of the sphere at a right angle to it.

    Args:
        manifold: The space.
        ball: A public `Ball`, or an `AdaptiveBall`.
        n: The public number of records, at least 1; under add-or-remove-one the public lower bound
            `n_min`. With an `AdaptiveBall`, None leaves out what depends on n, and the options
            below are refused.
        budgets: A `Budget` or a list of them. A number is read as a pure budget of that epsilon
            (not with an `AdaptiveBall`).
        weights: n public weights, as in `private_frechet_mean`; replace-one only.
        tolerance: The solver's public tolerance, above 0 and below 1, as there.
        calibration: "analytic" (None) or "classical", as there.
        adjacency: "replace-one" or "add-or-remove-one".
        clamp_release: Whether wrapped releases are moved into the ball, as there.
        count_outside: Whether the records outside the ball are counted with a share of the budget,
            as in `private_frechet_mean`.

    Returns:
        A `MeanPlan`: a table with `str()`, `.best(budget)` and `.plot()`. For an `AdaptiveBall` an
        `AdaptivePlan`: how many records are needed and, with n given, what the search costs and
        when a public ball would be better.

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
    many = list(budgets) if isinstance(budgets, list | tuple) else [budgets]
    given = given_of(
        weights=weights,
        tolerance=tolerance,
        calibration=calibration,
        adjacency=adjacency,
        clamp_release=clamp_release,
        count_outside=count_outside,
    )
    if isinstance(ball, AdaptiveBall):
        check_options(given, None, many)
        return plan_adaptive_mean(manifold, ball, n, budgets)
    check_options(given, AUTO, many)
    facts = MeanFacts(
        manifold,
        ball,
        integer("n", n, remedy=None if n is not None else _NEEDS_N),
        Budget(1.0),  # each row has its own
        tolerance=tolerance,
        weights=weights,
        calibration=calibration or ANALYTIC,
        adjacency=adjacency,
    )
    return made_plan(facts, budgets, clamp_release, count_outside)


def made_plan(
    facts: MeanFacts, budgets: Budgets, clamp_release: bool | None, count_outside: bool | None
) -> MeanPlan:
    """The plan for a public ball.

    Args:
        facts: What is public about the mean, not yet checked; its budget is not looked at.
        budgets: As for `plan_private_mean`, like the other two.
        clamp_release: Whether wrapped releases are moved into the ball.
        count_outside: Whether the records outside the ball are counted.
    """
    manifold, ball, weights, tolerance = facts.manifold, facts.ball, facts.weights, facts.tolerance
    if facts.adjacency == ADD_REMOVE and weights is not None:
        raise invalid(
            "weights",
            weights,
            "under add-or-remove-one weights are private; `n` bounds their total from below",
        )
    weights = None if weights is None else public_weights(weights, facts.n)
    checked = optional_ball(manifold, ball)
    if checked is None:
        raise invalid("ball", ball, "give a public Ball(center, radius)")
    if tolerance is not None:
        tolerance = real("tolerance", tolerance, above=0.0, below=1.0)
    many = list(budgets) if isinstance(budgets, list | tuple) else [budgets]
    if not many:
        raise invalid("budgets", budgets, "give at least one Budget")
    given = [b if isinstance(b, Budget) else Budget(real("budgets", b, above=0.0)) for b in many]
    count_outside = False if facts.calibration == CLASSICAL else count_outside
    one = functools.partial(dataclasses.replace, facts, weights=weights, tolerance=tolerance)
    each = [one(budget=budget) for budget in given]
    asked = tuple(_Asked(_told(f), f, clamp_release, count_outside) for f in each)
    return _remembered(asked) if weights is None else _answered(asked)


def _told(facts: MeanFacts) -> tuple[Any, ...]:
    """All that the rows depend on, apart from weights, as one public key."""
    arrays = [np.asarray(leaf) for leaf in leaves(facts.ball.center)]
    center = tuple((leaf.shape, leaf.tobytes()) for leaf in arrays)
    place = (facts.manifold, center, float(facts.ball.radius), facts.n, facts.budget)
    return (*place, facts.tolerance, facts.calibration, facts.adjacency, facts.streamed)


@dataclasses.dataclass(frozen=True)
class _Asked:
    """A question to the plan: what its answer depends on, all of it public, and the facts."""

    told: tuple[Any, ...]
    facts: MeanFacts = dataclasses.field(compare=False)
    clamp_release: bool | None
    count_outside: bool | None


def _answered(asked: tuple[_Asked, ...]) -> MeanPlan:
    f = asked[0].facts
    rows = [row for a in asked for row in _rows(a.facts, a.clamp_release, a.count_outside)]
    return MeanPlan(f.manifold, f.ball, f.n, tuple(rows), f.adjacency)


_remembered = functools.lru_cache(maxsize=256)(_answered)


def _rows(
    facts: MeanFacts, clamp_release: bool | None, count_outside: bool | None
) -> tuple[PlanRow, ...]:
    """The rows of one budget."""
    shares = plan_count(facts.budget, facts.n, count_outside)
    rest = dataclasses.replace(facts, budget=shares.rest)
    moving = Moving(clamp_release, facts.calibration == CLASSICAL)
    rows = [_row(name, rest, moving, shares) for name in COMPARED]
    rows.append(_tangent_row(rest, shares))
    for name in (*OPTIMIZED, *EXTRINSIC):
        why = _without_formula(name, facts.budget, facts.adjacency)
        rows.append(_without(name, facts.budget, why))
    return tuple(rows)


def _without(name: str, budget: Budget, why: str) -> PlanRow:
    """The row of a mechanism without figures."""
    return PlanRow(name, budget, None, "", None, None, None, why, False)


def _row(name: str, facts: MeanFacts, moving: Moving, shares: CountPlan) -> PlanRow:
    budget = shares.budget
    if name in NEED_DELTA and budget.delta == 0:
        return _without(name, budget, _NEEDS_DELTA)
    mechanism, why = try_build(name, facts)
    if mechanism is None:
        return _without(name, budget, why)
    law, moved = moving.law(mechanism, facts.ball.radius)
    tries = mechanism.tries
    note = f"about {tries:.3g} tries a draw" if tries > 50 else ""
    eligible = law is not None and math.isfinite(law.mean_square) and tries <= MOST_TRIES
    return PlanRow(
        name,
        budget,
        None if law is None else law.expected_error,
        "" if law is None else law.kind,
        mechanism.scale,
        mechanism.sensitivity,
        law,
        note,
        eligible,
        typical_error(mechanism, moved) if eligible else None,
        shares.beside(mechanism),
    )


def _tangent_row(facts: MeanFacts, shares: CountPlan) -> PlanRow:
    """The mean of clipped tangent vectors. "auto" does not take it: it is another mean."""
    budget = shares.budget
    unknown = [name for name in ("weights", "tolerance") if getattr(facts, name) is not None]
    usual = {"calibration": "analytic", "adjacency": REPLACE_ONE}
    unknown += [name for name, value in usual.items() if getattr(facts, name) != value]
    if unknown:
        why = f"does not know {', '.join(f'`{name}`' for name in unknown)}"
        return _without(TANGENT_MEAN, budget, why)
    try:
        made = TangentMeanNoise(facts.manifold, facts.ball, n=facts.n, budget=facts.budget)
    except (InvalidArgument, NotImplementedError) as error:
        return _without(TANGENT_MEAN, budget, str(error))
    law = made.error_law
    return PlanRow(
        TANGENT_MEAN,
        budget,
        None if law is None else law.expected_error,
        "" if law is None else law.kind,
        made.scale,
        made.sensitivity,
        law,
        _ANOTHER_MEAN,
        False,
        count_share=shares.beside(made),
    )


def _without_formula(name: str, budget: Budget, adjacency: str) -> str:
    if name in OPTIMIZED and adjacency != REPLACE_ONE:
        return _NEEDS_COUNT
    if name in NEED_DELTA and budget.delta == 0:
        return _NEEDS_DELTA
    return "baselines" if name in EXTRINSIC else "iterative; see riemdp.optimizers.plan_optimizer"
