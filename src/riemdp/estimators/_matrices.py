"""What estimators of symmetric positive definite matrices share: the space, the ball, labels."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from .._errors import InvalidArgument, invalid, one_of
from ..domains import AdaptiveBall, Ball
from ..domains._check import refuse_invalid
from ..domains._door import admit_in_parts, admit_records
from ..domains._labels import admit_labels, public_classes
from ..domains._stream import Stream
from ..manifolds import AbstractManifold, spd
from ..manifolds._base import Point, RecordsLike
from ..mechanisms import AbstractMechanism, Release
from ..mechanisms._at_centre import AbstractAtCentre, LabelledRecords
from ..mechanisms._classes import AbstractClasses
from ..mechanisms._counted import Counted
from ..mechanisms._for_mean import share_of_count
from ..privacy import Budget
from ..privacy._cautions import warn_of
from ..privacy._noise import Noise
from ..randomness import NoiseSource
from ..releases._options import ball_or_search
from ..statistics import PublicPrior
from ..statistics._membership import Membership, unit_of
from ._shared import ON_INVALID, REMEDY, refuse_weights, required

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
        matrices: (n, k, k); one that is no array of numbers is NaN. The `Stream` of them where they
            are read in parts.
        labels: The positions of their classes, (n,), negative for none; or their targets.
        members: Whose matrices they are, where people are protected.
    """

    manifold: AbstractManifold
    where: Ball | AdaptiveBall | PublicPrior
    matrices: Point | Stream
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

    def released(
        self,
        make: AtCentre,
        budget: Budget,
        count_outside: bool | None,
        source: NoiseSource,
    ) -> Release:
        """One release by the mechanism that is made for a budget; in a public ball with the count
        of what lies outside beside it, where that is wanted or useful.
        """
        mechanism: AbstractMechanism[Any]
        value: Any = LabelledRecords(self.matrices, self.labels, self.members)
        if isinstance(self.ball, Ball):
            noise = Noise.of(budget)
            share = share_of_count(noise, self.n, count_outside)
            mechanism = Counted(make(budget=noise.share(1 - share)), noise, share, self.n)
            value = value, None  # it counts what it admits
        else:
            mechanism = make(budget=budget)
        return self.released_by(mechanism, value, source)

    def released_by(
        self, mechanism: AbstractMechanism[Any], value: Any, source: NoiseSource
    ) -> Release:
        """What a mechanism releases about these matrices, with what is public of them."""
        ready = mechanism._ready(value, unit_of(self.members))
        budget = mechanism.quoted_budget
        assert budget is not None
        warn_of(ready.guarantee, budget.delta, self.n)
        return ready.release(source)._knowing(self.facts)

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


def space_of(
    estimator: Any, X: RecordsLike, sample_weight: object
) -> tuple[AbstractManifold, Ball | AdaptiveBall]:
    """The space of the matrices of a `fit`, and where they are expected, from public parameters
    and the shape of `X`. What every estimator of matrices needs to have is checked first.
    """
    required(estimator, budget=estimator.budget)
    ball = ball_or_search(estimator.ball)
    return _checked_space(estimator, X, sample_weight, ball), ball


def _checked_space(
    estimator: Any, X: RecordsLike, sample_weight: object, where: Ball | AdaptiveBall | PublicPrior
) -> AbstractManifold:
    one_of("on_invalid", estimator.on_invalid, ON_INVALID)
    refuse_weights(sample_weight)
    manifold = matrix_space(X, estimator.metric, where, type(estimator).__name__)
    if isinstance(where, PublicPrior):
        where.on(manifold)
    return manifold


def refuse_damaged(estimator: Any, manifold: AbstractManifold, X: RecordsLike) -> None:
    """Where the estimator was told to, raise for matrices that are no points of the space."""
    if estimator.on_invalid == "raise":
        refuse_invalid(manifold, "X", X, REMEDY)


def admit_labelled(
    estimator: Any,
    X: RecordsLike,
    y: ArrayLike,
    sample_weight: object,
    groups: object = None,
    *,
    in_parts: bool = False,
    prior: bool = False,
) -> LabelledMatrices:
    """The matrices and labels of a classifier's `fit`, all checked before anything is spent.

    `in_parts`: if the ball is public and nobody's are together, matrices of a file stay there, and
    for those in memory the caller looks out for damaged ones, where it moves them.
    `prior`: whether public records may be given in the place of a ball.
    """
    one_of("labels", estimator.labels, ("public", "private"))
    if groups is not None and estimator.labels != "private":
        raise InvalidArgument(
            "argument `labels` = 'public' does not go with `groups`: how many records a person has"
            " of each class is part of what that person gave. Give labels='private' and"
            " classes=[...]; it costs no more noise"
        )
    required(estimator, budget=estimator.budget)
    given = estimator.ball
    where = given if prior and isinstance(given, PublicPrior) else ball_or_search(given)
    manifold = _checked_space(estimator, X, sample_weight, where)
    stays = in_parts and isinstance(where, Ball) and groups is None
    matrices, n = (admit_in_parts if stays else admit_records)(manifold, "X", X)
    classes = known_classes(estimator.classes, y, estimator.labels)
    labels = admit_labels("y", y, list(classes))
    members = None if groups is None else Membership(groups, n)
    if len(labels) != n and members is not None:
        raise InvalidArgument(
            "argument `y` has another length than `X`; give one label for each matrix"
        )
    if len(labels) != n:
        raise InvalidArgument(
            f"argument `y` has {len(labels)} labels and `X` has {n} matrices; give one label for"
            " each matrix"
        )
    if not stays or isinstance(matrices, Stream):
        refuse_damaged(estimator, manifold, X)
    return LabelledMatrices(manifold, where, matrices, labels, members, classes=classes)


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
    return spd(size, metric)


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
