"""What a private classifier needs and can be expected to do, from public numbers alone."""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar

from .._errors import integer
from ..domains import AdaptiveBall, Ball
from ..domains._door import admit_manifold
from ..manifolds import AbstractManifold
from ..mechanisms._class_models import DISCRIMINANT, OF_PURE_SIZE, rule_for
from ..mechanisms._prior_classes import CONTRASTS, PriorClassifier
from ..privacy import Budget
from ..privacy._noise import Noise
from ..releases._options import ball_or_search
from ..releases._prior_plan import ALONE
from ..releases._search_left import columns_of_search, what_is_left
from ..releases._table import Column, Plan, budget_columns
from ..statistics import PublicPrior
from ..statistics._class_view import public_accuracy
from ._fit_row import FitRow, enough_from


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassifierRow(FitRow):
    """What `PrivateTSClassifier` does with n records of all classes; see `FitRow`. Its `mechanism`
    is the rule, "discriminant" or "class-means"; its `noise` the typical length of the noise of a
    class mean, in units of the radius: classes * sigma * sqrt(dim) / n, sigma the noise of a
    coordinate of a class sum. With noise at most 0.2 class means are about as good as without it.

    Attributes:
        classes: The public number of classes.
        records_a_class: The number of records of each class from which `noise` is at most 0.2.
        public_accuracy: With a `PublicPrior`, the accuracy of the public model alone on public
            people, each left out of what it is made of; None where it cannot be measured.
        alone: Whether private records cannot improve on the public model: the variance of their
            noise is above that of the public contrasts.
    """

    good: ClassVar[float] = 0.2  # both from the measurements of docs/evidence/classifiers.md
    hopeless: ClassVar[float] = 1.0

    classes: int
    records_a_class: int
    public_accuracy: float | None = None
    alone: bool = False

    @property
    def is_useless(self) -> bool:
        """Whether a fit says so, before it spends anything."""
        return self.alone or super().is_useless

    @property
    def told(self) -> str:
        """What a fit says before it spends anything on what is of little use."""
        if self.alone:
            return _SAID[ALONE]
        return (
            f"noise {self.noise:.2g} is above {self.hopeless:g}: predictions will be nearer to"
            f" guessing than to a classifier without noise; about {self.records_a_class:,} records"
            " per class are needed with this budget (riemdp.plan_private_classifier)"
        )

    @property
    def verdict(self) -> str:
        """ "the public model alone" where `alone`; else that of every `FitRow`."""
        return ALONE if self.alone else super().verdict


_SAID = {
    "too few": "too few records to find a centre; fit refuses",
    "hopeless": "hopeless: noise drowns the differences of the classes, and predictions are nearer"
    " to guessing than to a classifier without noise",
    ALONE: "the public model alone: noise is above what public people differ by, so private records"
    " cannot improve on it; it needs no budget (public_predict)",
    "weak": "weak: predictions are clearly worse than without noise",
    "enough": "enough: class means are about as good as without noise",
}


def _accuracy(x: float | None) -> str:
    return "-" if x is None else f"accuracy {x:.2f}"


_COLUMNS: tuple[Column[ClassifierRow], ...] = (
    *budget_columns(),
    Column("rule", lambda row: row.mechanism),
    *columns_of_search("classifier"),
    Column("noise", lambda row: f"{row.noise:.2g}"),
    Column("noise 0.2 from records per class", lambda row: f"{row.records_a_class:,}"),
    Column("public model alone", lambda row: _accuracy(row.public_accuracy)),
    Column("", lambda row: _SAID[row.verdict]),
)

_NOTES = (ClassifierRow.limits(),)
_MEASURED = (
    "The accuracy of the public model alone is measured on public people, each of whom is left out"
    " of the records that it is made of. On people unlike these it is lower"
)
_NOT_MEASURED = (
    "Nothing measures what these public records say about other people (that takes labels of the"
    " same classes of several people). Where private people are unlike the public ones, a fit"
    " without a prior can be more accurate"
)


def plan_private_classifier(
    manifold: AbstractManifold,
    n: int,
    classes: int,
    budget: Budget,
    *,
    ball: Ball | AdaptiveBall | PublicPrior | None = None,
    count_outside: bool | None = None,
    of_people: bool = False,
) -> Plan[ClassifierRow]:
    """Say before any budget is spent whether n records are enough for a private classifier.

    In a public `Ball` the noise is judged as if the records filled it; a ball that is ten times too
    large makes it ten times worse.

    Args:
        manifold: The space, e.g. `riemdp.spd(k, "riemann")`.
        n: The public number of records of all classes, at least 1.
        classes: The public number of classes, at least 1.
        budget: The budget of one `fit`.
        ball: As for `PrivateTSClassifier`.
        count_outside: As for `PrivateTSClassifier`; a count takes at most 4 % of the budget.
        of_people: With a `PublicPrior`, whether n is a number of people (`groups`). In a ball noise
            is the same for both.

    Returns:
        A `Plan` of one `ClassifierRow`.

    Raises:
        InvalidArgument: An argument is out of range.

    Examples:
        >>> import riemdp
        >>> space, budget = riemdp.spd(32, "riemann"), riemdp.Budget(1.0, 1e-5)
        >>> riemdp.plan_private_classifier(space, 216, 4, budget)[0].verdict
        'hopeless'
        >>> riemdp.plan_private_classifier(space, 20000, 4, budget)[0].verdict
        'enough'
    """
    order = "plan_private_classifier(manifold, n, classes, budget)"
    manifold = admit_manifold(manifold, n, order)
    n, classes = integer("n", n), integer("classes", classes)
    noise = Noise.of(budget)
    if isinstance(ball, PublicPrior):
        row = _of_prior(ball.on(manifold), n, classes, budget, of_people)
        measured = _NOT_MEASURED if row.public_accuracy is None else _MEASURED
        return _table(row, (*_NOTES, measured))
    where = ball_or_search(ball)
    rule = rule_for(noise, manifold.dim)
    facts = manifold, classes, noise, where, rule, count_outside
    need, share, level = _at(n, *facts)
    enough = enough_from(lambda count: _at(count, *facts), ClassifierRow.good)
    row = ClassifierRow(
        mechanism=rule,
        budget=budget,
        need=need,
        n=n,
        classes=classes,
        dim=manifold.dim,
        share=share,
        noise=level,
        records_a_class=math.ceil(enough / classes),
    )
    return _table(row, _NOTES)


def _table(row: ClassifierRow, notes: tuple[str, ...]) -> Plan[ClassifierRow]:
    title = f"Private classifier of {row.classes} classes, n = {row.n}, {row.dim} coordinates"
    return Plan(title, (row,), _COLUMNS, notes)


def _of_prior(
    prior: PublicPrior, n: int, classes: int, budget: Budget, of_people: bool
) -> ClassifierRow:
    own = [] if prior.classes is None else prior.classes.tolist()
    known = own if len(own) == classes else classes
    mechanism = PriorClassifier(prior, known, n=n, budget=budget, of_people=of_people)
    accuracy = None if isinstance(known, int) else public_accuracy(prior, tuple(known), False)
    return plan_with_prior(mechanism, budget, accuracy)


def plan_with_prior(
    mechanism: PriorClassifier, budget: Budget, accuracy: float | None
) -> ClassifierRow:
    """What is known, from public numbers, of a classifier with a prior."""
    view, deviation = mechanism.view, mechanism.noise_of_class
    noise = deviation * math.sqrt(view.directions or view.dim) / mechanism.radius
    alone = view.deviation is not None and deviation**2 > view.deviation / view.people
    classes = mechanism.sums.classes
    enough = math.ceil(mechanism.n * noise / ClassifierRow.good)  # noise is inverse to n
    return ClassifierRow(
        mechanism=CONTRASTS,
        budget=budget,
        n=mechanism.n,
        classes=classes,
        dim=view.dim,
        share=1.0,
        noise=noise,
        records_a_class=math.ceil(enough / classes),
        public_accuracy=accuracy,
        alone=alone,
    )


def _at(
    n: int,
    manifold: AbstractManifold,
    classes: int,
    noise: Noise,
    where: Ball | AdaptiveBall,
    rule: str,
    count_outside: bool | None,
) -> tuple[int, float, float]:
    """The number of records that a search needs, what it or a count leaves, and the noise."""
    dim = manifold.dim
    need, share = what_is_left(n, manifold, noise, where, count_outside)
    # the deviation of a coordinate of a sum of sensitivity 2
    together, larger = classes * (dim + 1), 1.0
    if rule == DISCRIMINANT:
        together += dim * (dim + 1) // 2
    elif noise.is_pure:  # that of each class apart
        together, larger = dim + 1, math.hypot(1.0, OF_PURE_SIZE)
    deviation = larger * noise.mean_length(share, together) / math.sqrt(together)
    return need, share, classes * deviation * math.sqrt(dim) / n
