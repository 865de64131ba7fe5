"""How a classifier with a `PublicPrior` sees a record, or a person: from public records alone. And
what follows from noisy contrasts of class means: post-processing.

A record becomes its whitened logarithm Lam^(-1/2) log_c x minus a public average, in a frame whose
first axes are the directions in which labelled public people differ by class. The other axes are
divided by a public number, so that one clip of the joint length leaves the first ones their share.

Proof: docs/proofs/classifiers.md.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from .._errors import InvalidArgument
from .._isolation import isolated
from .._namespace import Floats
from .._trees import map_leaves
from ..domains._labels import admit_labels
from ..manifolds._base import Point
from ._membership import Membership
from ._prior_constants import (
    BLOCK_QUANTILE,
    CONSISTENT,
    LEAST_KEPT,
    RECORD_QUANTILE,
    REST_SHARE,
    SIGNIFICANT,
)
from ._public_prior import PublicPrior
from ._shaped_mean import Shape, each_by
from ._tangent_mean import kept_shares, log_flagged

Places = NDArray[np.int64]


class Linear(NamedTuple):
    """A linear classifier of coordinates y at the centre: the class with the largest
    <coefficients_a, y> + intercepts_a.
    """

    coefficients: Floats
    intercepts: Floats


@dataclasses.dataclass(frozen=True, eq=False)
class ClassView:
    """How records are seen. `of` makes one.

    Attributes:
        shape: The frame at the public centre, whitening.
        average: (dim,), what is taken from a whitened logarithm.
        turn: (dim, dim), orthonormal columns: the directions of the classes, then the others.
        weights: (dim,), what these coordinates are multiplied by before the clip.
        known: (classes, directions), the public contrasts along the directions of the classes.
        deviation: What another person's contrasts vary by about them; None where not measured.
        people: The number of public people that they are the mean of.
        lengths: Of public records before the clip.
        blocks: Of public people before the clip.
    """

    shape: Shape
    average: Floats
    turn: Floats
    weights: Floats
    known: Floats
    deviation: float | None
    people: int
    lengths: Floats
    blocks: Floats

    @classmethod
    def of(cls, prior: PublicPrior, classes: Sequence[Any] | int) -> ClassView:
        """What a prior says about these classes, or about so many that are none of its own.

        Raises:
            InvalidArgument: The prior has labels, and only some of them are among the classes.
        """
        shape, dim = prior.shape_of(1.0), prior.spread.size
        order = None if isinstance(classes, int) else _order(prior, classes)
        count = classes if isinstance(classes, int) else len(classes)
        z = prior.logs / shape.roots
        if order is None:
            lengths = np.linalg.norm(z, axis=1)
            average, known, one = np.zeros(dim), np.zeros((count, 0)), np.ones(dim)
            # nobody's classes are known: people are taken to be about as long as records
            return cls(shape, average, np.eye(dim), one, known, None, 0, lengths, lengths)
        found = prior.contrasts
        assert found is not None
        columns = found.directions.shape[1]
        turn = np.linalg.qr(found.directions, mode="complete")[0]
        turn[:, :columns] = found.directions
        z = (z - found.average) @ turn
        own, rest = (float(np.mean(np.sum(part**2, axis=1))) for part in np.split(z, [columns], 1))
        weights = np.ones(dim)
        weights[columns:] = REST_SHARE * math.sqrt(own / rest) if rest > 0.0 else 1.0
        return cls(
            shape,
            found.average,
            turn,
            weights,
            found.means[order] @ found.directions,
            found.deviation,
            found.people,
            np.linalg.norm(z * weights, axis=1),
            np.sqrt(np.sum((found.each @ turn * weights) ** 2, axis=(1, 2))),
        )

    @property
    def dim(self) -> int:
        """The number of coordinates."""
        return len(self.average)

    @property
    def directions(self) -> int:
        """The number of directions in which public classes differ."""
        return self.known.shape[1]

    def radius(self, *, of_people: bool) -> float:
        """What records, or a person's contrasts, are shortened to: public."""
        if of_people:
            return float(np.quantile(self.blocks, BLOCK_QUANTILE))
        return float(np.quantile(self.lengths, RECORD_QUANTILE))

    @functools.cached_property
    def _linear(self) -> tuple[Floats, Floats]:
        """The map from coordinates at the centre, and what is taken away after it."""
        seen = self.turn * self.weights
        return self.shape.basis / self.shape.roots @ seen, self.average @ seen

    # ------------------------------------------------------------------ private records
    def seen(self, records: Point) -> Floats:
        """Admitted records, (n, dim), each by itself; 0 where a logarithm is not defined."""
        onto, away = self._linear
        return self.shape.mapped(records, lambda y: each_by(y, onto) - away)[0]

    def contrasts_of(self, z: Floats, labels: Places, members: Membership) -> Floats:
        """Of each person the means of the own classes minus their average, (people, classes, dim):
        a function of that person's records alone. Classes that a person lacks get the public
        contrasts, and what the person has lies about the average of these.
        """
        flags = labels[:, None] == np.arange(len(self.known))
        shares = members.means(flags.astype(np.float64))
        sums = members.means(np.where(flags[:, :, None], z[:, None, :], 0.0))
        has = shares > 0.0
        means = sums / np.where(has, shares, 1.0)[:, :, None]
        public = np.zeros(means.shape[1:])
        public[:, : self.directions] = self.known
        count = np.maximum(has.sum(axis=1), 1)[:, None, None]
        own = np.where(has[:, :, None], means, 0.0).sum(axis=1, keepdims=True) / count
        near = np.where(has[:, :, None], public, 0.0).sum(axis=1, keepdims=True) / count
        return np.where(has[:, :, None], means - own + near, public)

    def recentred(self, y: Floats, members: Membership | None) -> Floats:
        """Coordinates at the centre, each person's mean moved to the public one: a function of that
        person's records alone. None: all are of one person.
        """
        own = y.mean(axis=0) if members is None else members.means(y)[members.places]
        return y - own + self.shape.coordinates(self.average)

    # ------------------------------------------------------------------ released numbers
    def improved(self, contrasts: Floats, variance: float) -> Floats:
        """Noisy contrasts moved towards the public ones along the directions of the classes, and
        towards 0 along the others, in the frame before weights: (classes, dim).

        Along the directions the public contrasts are taken to be off by what the mean of so many
        people is; or by what the noisy ones say beyond that and beyond chance, if it is more, as
        where labels mean something else among the public. With one public person James-Stein
        decides.

        Args:
            contrasts: (classes, dim), as seen, minus their average.
            variance: Of the noise of each class in each coordinate.
        """
        k, columns = len(contrasts), self.directions
        near, rest = np.split(contrasts, [columns], axis=1)
        if columns:
            away = near - self.known
            near = self.known + self._kept(away, variance, (k - 1) * columns) * away
        freedom = (k - 1) * (self.dim - columns)
        square = float(np.sum(rest**2))
        least = freedom + SIGNIFICANT * math.sqrt(2.0 * freedom) if columns else 0.0
        kept = _james_stein(square, freedom, variance) if square > least * variance else 0.0
        rest = max(LEAST_KEPT, kept) * rest
        return np.concatenate([near, rest], axis=1) / self.weights

    def _kept(self, away: Floats, variance: float, freedom: int) -> float:
        square = float(np.sum(away**2))
        if self.deviation is None:
            return _james_stein(square, freedom, variance)
        expected = self.deviation / self.people
        limit = 2.0 * float(special.gammaincinv(freedom / 2.0, CONSISTENT))
        beyond = (square - limit * (variance + expected)) / freedom
        # from what is taken for chance on, and not at once: a draw of noise would be believed
        kept = max(expected, beyond)
        return kept / (kept + variance) if kept > 0.0 else 0.0

    def scores(self, means: Floats) -> Linear:
        """The classifier <z, M_a> - |M_a|^2 / 2 of whitened coordinates z, of contrasts in the
        frame before weights.
        """
        turned = means @ self.turn.T
        onto = self.shape.basis / self.shape.roots
        intercepts = -turned @ self.average - 0.5 * np.sum(means**2, axis=1)
        return Linear(turned @ onto.T, intercepts)

    def alone(self) -> Linear | None:
        """The public model alone; None where no public person has these classes."""
        if not self.directions:
            return None
        means = np.zeros((len(self.known), self.dim))
        means[:, : self.directions] = self.known
        return self.scores(means)


def _order(prior: PublicPrior, classes: Sequence[Any]) -> Places | None:
    """Where each class stands among those of the prior; None where it has none of them."""
    if prior.classes is None:
        return None
    places = admit_labels("y", list(classes), prior.classes.tolist())
    if np.all(places < 0):
        return None  # another task: its labels tell the shape alone
    if np.any(places < 0) or len(places) != len(prior.classes):
        raise InvalidArgument(
            f"argument `ball`: the public records have the classes {prior.classes.tolist()}, and"
            f" these are {list(classes)}; give public records of the same classes, or leave out"
            " their labels: PublicPrior(manifold, X)"
        )
    return places


def _james_stein(square: float, freedom: int, variance: float) -> float:
    """The share of a noisy vector that is kept: of one and two coordinates, too."""
    if not square > 0.0:
        return 0.0
    return float(kept_shares(math.sqrt(square), max(freedom, 3), math.sqrt(variance)))


@functools.lru_cache(maxsize=8)  # every fit with a prior asks for it
@isolated
def public_accuracy(prior: PublicPrior, classes: tuple[Any, ...], recenter: bool) -> float | None:
    """The accuracy of the public model alone on public people, each of whom is left out of the
    records that the model is made of; None where it cannot be measured. No private record is read.
    """
    if _order(prior, classes) is None or prior.people_count < 2:
        return None
    right, whose = [], prior.people
    for person in range(prior.people_count):
        own = whose == person
        try:
            others = PublicPrior(prior.manifold, _rows(prior, ~own), prior.y[~own], whose[~own])
            view = ClassView.of(others, classes)
        except InvalidArgument:  # too few public records without this person
            return None
        y = log_flagged(prior.manifold, others.center, _rows(prior, own))[0]
        if recenter:
            y = view.recentred(y, None)
        model = view.alone()
        assert model is not None
        found = np.argmax(y @ model.coefficients.T + model.intercepts, axis=1)
        right.append(found == admit_labels("y", prior.y[own], list(classes)))
    return float(np.mean(np.concatenate(right)))


def _rows(prior: PublicPrior, which: NDArray[np.bool_]) -> Point:
    """Some of the public records."""
    return map_leaves(lambda leaf: leaf[which], prior.X)
