"""What estimators of symmetric positive definite matrices share: the space, the ball, labels."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike

from .._errors import InvalidArgument, invalid, one_of
from ..domains import AdaptiveBall, Ball, Domain
from ..domains._check import refuse_invalid
from ..domains._door import admit_records
from ..domains._labels import admit_labels, public_classes
from ..inference._counts import warn_of_counts
from ..manifolds import AbstractManifold, spd
from ..manifolds._base import Point, RecordsLike
from ..mechanisms import AbstractMechanism
from ..mechanisms._at_centre import AbstractAtCentre, LabelledRecords
from ..mechanisms._base import Ready
from ..mechanisms._classes import AbstractClasses
from ..mechanisms._counted import Counted
from ..mechanisms._for_mean import share_of_count
from ..privacy import Budget
from ..privacy._cautions import warn_of
from ..privacy._noise import Noise
from ..randomness import noise_source
from ..releases._options import ball_or_search
from ..statistics import PublicPrior, TangentMean
from ..statistics._membership import Membership, unit_of
from ._fit import Fit
from ._shared import REMEDY, ManifoldRecords, Spending, check_seed, required

PERSON_IS = "one vector each: the mean of the clipped tangent vectors of that person's records"


class AtCentre(Protocol):
    """Makes a mechanism of which all but the budget is known."""

    def __call__(self, *, budget: Budget | Noise) -> AbstractAtCentre: ...


@dataclasses.dataclass(frozen=True)
class AdmittedMatrices:
    """Admitted matrices of one `fit`, and what stands beside them.

    Attributes:
        manifold: The space of the matrices.
        where: The public ball, the search for one, or public records.
        budget: What the fit may spend.
        matrices: (n, k, k); one that is no array of numbers is NaN.
        labels: The positions of their classes, (n,), negative for none; or their targets.
        members: Whose matrices they are, where people are protected.
    """

    manifold: AbstractManifold
    where: Ball | AdaptiveBall | PublicPrior
    budget: Budget
    matrices: Point
    labels: np.ndarray
    members: Membership | None = None

    @property
    def ball(self) -> Ball | AdaptiveBall:
        """The public ball, or the search for one."""
        assert not isinstance(self.where, PublicPrior)
        return self.where

    @property
    def n(self) -> int:
        """How many matrices there are, or people where these are protected."""
        return len(self.labels) if self.members is None else self.members.n

    def prepared(self, make: AtCentre, count_outside: bool | None) -> Ready:
        """A release by the mechanism that is made for the budget; in a public ball with the count
        of what lies outside beside it, where that is wanted or useful.
        """
        mechanism: AbstractMechanism[Any]
        value: Any = LabelledRecords(self.matrices, self.labels, self.members)
        if isinstance(self.ball, Ball):
            noise = Noise.of(self.budget)
            share = share_of_count(noise, self.n, count_outside)
            mechanism = Counted(make(budget=noise.share(1 - share)), noise, share, self.n)
            value = value, None  # it counts what it admits
        else:
            mechanism = make(budget=self.budget)
        return self.prepared_by(mechanism, value)

    def prepared_by(self, mechanism: AbstractMechanism[Any], value: Any) -> Ready:
        """What a mechanism will release about these matrices, with what is public of them."""
        ready = mechanism._ready(value, unit_of(self.members))
        warn_of(ready.guarantee, self.budget.delta, self.n)
        return ready.then(lambda release: release._knowing(self.facts))

    @property
    def facts(self) -> dict[str, Any]:
        """Public facts about people, for a release."""
        if self.members is None:
            return {}
        return {"people": self.members.n, "person_is": PERSON_IS}


@dataclasses.dataclass(frozen=True)
class LabelledMatrices(AdmittedMatrices):
    """Admitted matrices and labels of one `fit`; `classes` are the possible labels."""

    classes: np.ndarray = dataclasses.field(kw_only=True)

    def of_classes(self, kind: type[AbstractClasses], sizes: list[int] | None) -> AtCentre:
        """Makes a mechanism about all classes, whose sizes are known where labels are public."""
        classes = len(self.classes)
        return functools.partial(
            kind, self.manifold, self.ball, n=self.n, classes=classes, sizes=sizes
        )

    def sizes(self) -> list[int]:
        """How many records each class has, where labels are public; none of them 0."""
        found = [int(np.count_nonzero(self.labels == i)) for i in range(len(self.classes))]
        if min(found) == 0:
            missing = np.asarray(self.classes).tolist()[found.index(0)]
            raise InvalidArgument(
                f"argument `y` has no record of class {missing!r}; leave it out of `classes`"
            )
        return found


@dataclasses.dataclass(eq=False, repr=False, kw_only=True)
class OfMatrices(ManifoldRecords):
    """An estimator of symmetric positive definite matrices."""

    metric: str = "riemann"

    def _spent_on(self, fit: Fit) -> Self:
        """Charge and draw what a `fit` releases, and show it."""
        source = noise_source(check_seed(self.random_state))
        made = fit.ready.release(source)
        spent = fit.ready.guarantee.quoted_at(fit.budget.delta)
        self._keep_cost(spent, fit.budget, reproducible=source.reproducible)
        warn_of_counts(made.facts.valid, made.facts.outside)
        fit.show(made)
        return self

    def _space(
        self, X: RecordsLike, sample_weight: object, ball: object
    ) -> tuple[AbstractManifold, Ball | AdaptiveBall, Budget]:
        """The space of the matrices of a `fit`, where they are expected, and what it may spend,
        from public parameters and the shape of `X`. What every such estimator needs to have is
        checked first.
        """
        budget, where = required(self, sample_weight), ball_or_search(ball)
        return matrix_space(X, self.metric, where, type(self).__name__), where, budget

    def _clipped_tangents(self, X: RecordsLike) -> np.ndarray:
        """Coordinates of the tangent vectors at the centre of `ball_`, shortened to its radius; 0
        for what is no point. One row per record: not private.
        """
        matrices, count = admit_records(self.manifold_, "X", X)
        domain = Domain(self.manifold_, self.ball_.center, self.ball_.radius)
        return np.asarray(TangentMean(domain, count).prepare(matrices).points)


@dataclasses.dataclass(eq=False, repr=False, kw_only=True)
class OfLabelledMatrices(OfMatrices):
    """A classifier of such matrices."""

    labels: str = "public"
    classes: Sequence[Any] | np.ndarray | None = None

    def _labelled(
        self,
        X: RecordsLike,
        y: ArrayLike,
        sample_weight: object,
        groups: object,
        where: Ball | AdaptiveBall | PublicPrior,
    ) -> LabelledMatrices:
        """The matrices and labels of a `fit`, all checked before anything is spent."""
        one_of("labels", self.labels, ("public", "private"))
        if groups is not None and self.labels != "private":
            raise InvalidArgument(
                "argument `labels` = 'public' does not go with `groups`: how many records a person"
                " has of each class is part of what that person gave. Give labels='private' and"
                " classes=[...]; it costs no more noise"
            )
        budget = required(self, sample_weight)
        manifold = matrix_space(X, self.metric, where, type(self).__name__)
        matrices, n = admit_records(manifold, "X", X)
        classes = known_classes(self.classes, y, self.labels)
        labels = admit_labels("y", y, list(classes))
        members = None if groups is None else Membership(groups, n)
        if len(labels) != n:  # with people, how many records there are is private
            told = "another length than `X`"
            if members is None:
                told = f"{len(labels)} labels and `X` has {n} matrices"
            raise InvalidArgument(f"argument `y` has {told}; give one label for each matrix")
        refuse_damaged(self, manifold, X)
        return LabelledMatrices(manifold, where, budget, matrices, labels, members, classes=classes)


def refuse_damaged(estimator: Spending, manifold: AbstractManifold, X: RecordsLike) -> None:
    """Where the estimator was told to, raise for records that are no points of the space."""
    if estimator.on_invalid == "raise":
        refuse_invalid(manifold, "X", X, REMEDY)


def matrix_space(
    X: RecordsLike, metric: str, ball: Ball | AdaptiveBall | PublicPrior, who: str
) -> AbstractManifold:
    """The space of matrices as large as the public centre of the ball, or as the array's.

    Args:
        X: The matrices; of an array only the shape is looked at, of a list nothing.
        metric: A name that `spd` knows.
        ball: Where they are expected.
        who: The estimator, for an error.
    """
    outer = ball.outer if isinstance(ball, AdaptiveBall) else ball
    given = getattr(X, "shape", None)
    given = tuple(given) if isinstance(given, tuple) else None
    if outer is not None:
        shape = np.shape(outer.center)
        if len(shape) != 2 or shape[0] != shape[1]:
            raise InvalidArgument(
                f"argument `ball` has a centre of shape {shape}; {who} needs a square matrix"
            )
    elif given is not None and len(given) == 3 and given[1] == given[2]:
        shape = given[1:]
    else:
        raise InvalidArgument(
            f"argument `X` {'is no array' if given is None else f'has shape {given}'}; give"
            " symmetric positive definite matrices of shape (n, k, k), or the size of a matrix"
            " by a ball: ball=AdaptiveBall(outer=Ball(center, radius))"
        )
    size = int(shape[0])
    if given is not None and given[1:] != tuple(shape):
        raise InvalidArgument(
            f"argument `X` has shape {given}; give symmetric positive definite matrices of the"
            f" size of the ball's centre, shape (n, {size}, {size})"
        )
    manifold = spd(size, metric)
    if isinstance(ball, PublicPrior):
        ball.on(manifold)
    return manifold


def known_classes(
    classes: Sequence[Any] | np.ndarray | None, y: ArrayLike, labels: str
) -> np.ndarray:
    """The possible labels: the ones given, or those of public labels, of which none is missing."""
    named = public_classes("y", y) if labels == "public" else None
    if classes is not None:
        found = public_classes("classes", classes)
        if found.size == 0:
            raise invalid("classes", classes, "give at least one label")
        return found
    if named is None:
        raise invalid(
            "classes",
            None,
            "private labels need the list of possible labels; taking it from the data would"
            " reveal it",
        )
    return named
