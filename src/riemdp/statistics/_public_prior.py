"""`PublicPrior`: what public records of the same kind say about where private ones lie, and in
which directions they spread. No private record is in it.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from .. import _linalg
from .._errors import InvalidArgument, invalid
from .._isolation import isolated
from .._namespace import Floats
from .._trees import map_leaves
from ..domains._door import admit_manifold
from ..domains._labels import admit_labels, admit_people, public_classes
from ..manifolds import AbstractManifold
from ..manifolds._base import Point, held
from ._frechet_mean import _check_records, _count, frechet_mean
from ._membership import Membership
from ._prior_constants import (
    BIAS_WEIGHT,
    FEWEST,
    MOST_CONDITION,
    RADIUS_FACTORS,
    RADIUS_QUANTILES,
)
from ._shaped_mean import Shape
from ._tangent_mean import log_flagged

Places = NDArray[np.int64]


class Contrasts(NamedTuple):
    """What public labels say, in whitened coordinates Lam^(-1/2) log.

    Attributes:
        means: (classes, dim), the means of the classes minus their average, averaged over people.
        directions: (dim, classes - 1), orthonormal: the right singular vectors of `means`.
        average: (dim,), the average of the class means.
        deviation: Variance of a coordinate of another person's contrasts along the directions about
            `means`, without sampling; each person is compared with directions and means of the
            others. None where fewer than two people have every class.
        each: (people, classes, dim), the contrasts of each of the people who have every class.
    """

    means: Floats
    directions: Floats
    average: Floats
    deviation: float | None
    each: Floats

    @property
    def people(self) -> int:
        """The number of people who have every class."""
        return len(self.each)


@dataclasses.dataclass(frozen=True, eq=False)
class PublicPrior:
    """Public records of the same kind as the private ones: other people, an earlier study.

    Give it in the place of a `Ball`. Its centre and shape decide where and in which directions a
    release gets noise; what public records cannot tell is learnt from the private ones. It is worth
    more than any other remedy for a small study, and costs more than it gives where the public
    records are unlike the private ones: plans say so from public numbers.

    Args:
        manifold: A space with a logarithm.
        X: At least 30 public records, (n, *manifold.shape). They must not be chosen by looking at
            the private records, and none of the people is among the private ones: every guarantee
            assumes it, and `Guarantee.assumes` says so.
        y: Their classes, where they have any: the shape is then about the mean of each class.
        people: One label for each record that says whose it is: the shape is then about the means
            of each person, and what public people are worth for another one is measured. None: all
            are taken to be of one person.

    Raises:
        InvalidArgument: Records that are not finite points of the space, too few of them, or labels
            that cannot be used.

    Guarantee:
        None of its own: it reads public records.

    Examples:
        >>> import numpy as np, riemdp
        >>> line = riemdp.Euclidean(2)
        >>> riemdp.PublicPrior(line, np.random.default_rng(0).normal(size=(200, 2)))
        PublicPrior(Euclidean(lengths=(2,)), 200 public records)
    """

    manifold: AbstractManifold
    X: Any
    y: Any = None
    people: Any = None

    def __post_init__(self) -> None:
        manifold = admit_manifold(self.manifold, self.X, "PublicPrior(manifold, X)")
        records = held(map_leaves(np.asarray, manifold._coerce("X", self.X)))
        n = _count(manifold, records)
        _check_records(manifold, records, n)
        y = None if self.y is None else held(np.asarray(self.y))
        if y is not None and (y.shape != (n,) or len(public_classes("y", self.y)) < 2):
            raise invalid("y", "given", f"give {n} labels of at least two classes, one a record")
        people = None if self.people is None else held(admit_people("people", self.people, n)[0])
        for name, value in {"X": records, "y": y, "people": people}.items():
            object.__setattr__(self, name, value)
        freedom, groups = self._freedom, self._cells.n
        if freedom < FEWEST - 1:
            raise InvalidArgument(
                f"argument `X`: {n} public records about the means of {groups} people and classes"
                f" leave {freedom} degrees of freedom, and a shape needs {FEWEST - 1}; give more"
                " public records, leave out `people` or `y`, or use riemdp.Ball(center, radius)"
                " with the public mean as centre"
            )

    def on(self, manifold: AbstractManifold) -> PublicPrior:
        """The same, for records of this space.

        Raises:
            InvalidArgument: It was made for another one.
        """
        if self.manifold != manifold:
            remedy = f"it was made for {self.manifold!r}, and the records are of {manifold!r}"
            raise invalid("ball", self, remedy)
        return self

    @functools.cached_property
    def n(self) -> int:
        """The number of public records."""
        return _count(self.manifold, self.X)

    @functools.cached_property
    def people_count(self) -> int:
        """The number of public people, 1 where `people` is not given."""
        return 1 if self.people is None else int(self.people.max()) + 1

    @functools.cached_property
    def classes(self) -> Any:
        """The classes in order, None without `y`."""
        return None if self.y is None else held(public_classes("y", self.y))

    # ------------------------------------------------------------------ the shape
    @functools.cached_property
    def center(self) -> Point:
        """The Fréchet mean of the public records: the public model alone."""
        return frechet_mean(self.manifold, self.X).value

    @functools.cached_property
    def basis(self) -> Floats:
        """(dim, dim), orthonormal columns: the eigenvectors of the shape, in coordinates at the
        centre.
        """
        return self._eigen[1]

    @functools.cached_property
    def spread(self) -> Floats:
        """(dim,) variances along them, in falling order: their ratio is at most 1e6."""
        return self._eigen[0]

    @functools.cached_property
    def logs(self) -> Floats:
        """(n, dim) coordinates of the public records in the frame of the eigenvectors."""
        return held(self._logs @ self.basis)

    @functools.cached_property
    def residuals(self) -> Floats:
        """(n, dim), the same about the mean of each person (and class)."""
        return held(self._about_means @ self.basis)

    def shape_of(self, power: float) -> Shape:
        """The frame at the centre with the shape Lam^power: 1/2 for a mean, 1 for whitening."""
        return Shape(self.manifold, self.center, self.basis, self.spread ** (power / 2.0))

    # ------------------------------------------------------------------ labels
    @functools.cached_property
    def contrasts(self) -> Contrasts | None:
        """What the labels say, None without `y`.

        Raises:
            InvalidArgument: Nobody has records of every class.
        """
        if self.y is None:
            return None
        z, many = self.logs / np.sqrt(self.spread), len(self.classes)
        counts = np.bincount(self._cell, minlength=self.people_count * many)
        means = np.zeros((len(counts), z.shape[1]))
        means[counts > 0] = self._cells.means(z)
        means, counts = means.reshape(-1, many, z.shape[1]), counts.reshape(-1, many)
        whole = np.all(counts > 0, axis=1)
        if not np.any(whole):
            raise invalid("y", "given", "one of the people has to have records of every class")
        means, counts = means[whole], counts[whole]
        own = means - means.mean(axis=1, keepdims=True)
        together = own.mean(axis=0)
        return Contrasts(
            held(together),
            held(_directions(together)),
            held(means.mean(axis=(0, 1))),
            _deviation(own, 1.0 / counts),
            held(own),
        )

    @functools.cached_property
    def _person(self) -> Places:
        return np.zeros(self.n, dtype=np.int64) if self.people is None else self.people

    @functools.cached_property
    def _label(self) -> Places:
        if self.y is None:
            return np.zeros(self.n, dtype=np.int64)
        return admit_labels("y", self.y, self.classes.tolist())

    # ------------------------------------------------------------------ what it is worth
    @functools.cached_property
    def error(self) -> float | None:
        """Root mean square distance of a public person's mean from that of the others: what the
        public mean alone is expected to be wrong by for one more person. None for one person.
        """
        if self.people_count < 2:
            return None
        means = Membership(self._person, self.n).means(self.logs)
        others = (means.sum(axis=0) - means) / (len(means) - 1)
        space, center, basis = self.manifold, self.center, self.basis
        left, right = (space._exp_coordinates(center, each @ basis.T) for each in (means, others))
        return float(np.sqrt(np.mean(np.asarray(space._dist(left, right)) ** 2)))

    # ------------------------------------------------------------------ inside
    @functools.cached_property
    @isolated
    def _logs(self) -> Floats:
        return log_flagged(self.manifold, self.center, self.X)[0]

    @functools.cached_property
    def _about_means(self) -> Floats:
        return self._logs - self._cells.means(self._logs)[self._cells.places]

    @property
    def _cell(self) -> Places:
        """The person and class of each record, as one number."""
        return self._person * (1 if self.y is None else len(self.classes)) + self._label

    @functools.cached_property
    def _cells(self) -> Membership:
        """The records of each person and class together, in the order of these numbers."""
        return Membership(self._cell, self.n)

    @property
    def _freedom(self) -> int:
        return self.n - self._cells.n

    @functools.cached_property
    def _eigen(self) -> tuple[Floats, Floats]:
        values, vectors = _linalg.eigh(_covariance(self._about_means, self._freedom))
        values, vectors = np.asarray(values)[::-1], np.asarray(vectors)[:, ::-1]
        if not 0.0 < values[0] < math.inf:
            raise InvalidArgument(
                "argument `X` holds public records that do not differ, or by more than float64 can"
                " square, so they have no shape; use riemdp.Ball(center, radius) with the public"
                " mean as centre"
            )
        return held(np.maximum(values, values[0] / MOST_CONDITION)), held(vectors)

    def __reduce__(self) -> tuple[type[Self], tuple[Any, ...]]:
        return type(self), (self.manifold, self.X, self.y, self.people)

    def __deepcopy__(self, _: Any) -> Self:
        return self  # nothing in it changes, so clones of an estimator share it

    def __repr__(self) -> str:
        whose = "" if self.people is None else f" of {self.people_count} people"
        which = "" if self.y is None else f" in {len(self.classes)} classes"
        return f"PublicPrior({self.manifold!r}, {self.n} public records{whose}{which})"


def _covariance(rows: Floats, freedom: int) -> Floats:
    """The covariance of rows (n, dim) about the means of their groups, moved towards a multiple of
    the identity by the share that is expected to be nearest to the truth (Ledoit and Wolf 2004);
    `freedom` is n minus the number of groups.
    """
    from sklearn.covariance import ledoit_wolf

    # in units in which float64 holds fourth powers: a power of two, which changes no bit
    exponent = math.frexp(float(np.max(np.abs(rows), initial=0.0)))[1]
    found = np.asarray(ledoit_wolf(np.ldexp(rows, -exponent), assume_centered=True)[0])
    with np.errstate(over="ignore"):  # the caller refuses what is not finite
        return np.ldexp(len(rows) / freedom * found, 2 * exponent)


def _directions(contrasts: Floats) -> Floats:
    """The leading right singular vectors of centred class means, as columns."""
    return np.asarray(_linalg.svd(contrasts, full_matrices=False)[2])[: len(contrasts) - 1].T


def _deviation(own: Floats, sampling: Floats) -> float | None:
    """Variance of a coordinate of a person's contrasts about those of the others, along the others'
    directions, without sampling.

    Args:
        own: (people, classes, dim) contrasts.
        sampling: (people, classes), one over the number of records of each mean.
    """
    many, classes, dim = own.shape
    if many < 2:
        return None
    columns = min(classes - 1, dim)
    found, of_sampling = [], sampling.mean(axis=1)
    for one in range(many):
        others = np.delete(own, one, axis=0).mean(axis=0)
        away = (own[one] - others) @ _directions(others)
        rest = np.delete(of_sampling, one).mean() / (many - 1)
        square = float(np.sum(away**2)) / ((classes - 1) * columns)
        found.append(square - float(of_sampling[one] + rest))
    return max(0.0, float(np.mean(found))) / (1.0 + 1.0 / (many - 1))


def transported(shape: Shape, to: Point) -> Shape:
    """The shape at another released point, its frame transported there: post-processing. What a
    transport that is no isometry bends is made orthonormal again.
    """
    space, center = shape.manifold, shape.center
    frame = space._transport(center, to, space._from_coordinates(center, shape.basis.T))
    left, _, right = _linalg.svd(np.asarray(space._to_coordinates(to, frame)).T, False)
    basis = np.asarray(left @ right)
    return shape._replace(center=to, basis=basis if np.isfinite(basis).all() else shape.basis)


def clip_radius(rows: Floats, shape: Shape, strength: float) -> float:
    """The radius at which the bias of clipping public vectors and the noise are least together.

    Args:
        rows: (n, rank), public tangent vectors in the frame: `PublicPrior.logs`, or `residuals` for
            a centre that is near the private mean.
        shape: At the public centre.
        strength: The number of private records over the noise multiplier.
    """
    lengths, sizes = shaped_lengths(rows, shape), np.linalg.norm(rows, axis=1)
    radii = [
        *np.quantile(lengths, RADIUS_QUANTILES),
        *(factor * lengths.max() for factor in RADIUS_FACTORS),
    ]
    whole = float(np.sum(shape.roots**2))

    def loss(radius: float) -> float:
        cut = float(np.mean(np.maximum(0.0, 1.0 - radius / np.maximum(lengths, radius)) * sizes))
        return (BIAS_WEIGHT * cut) ** 2 + 4.0 * radius**2 * whole / strength**2

    return float(min((radius for radius in radii if radius > 0.0), key=loss))


def shaped_lengths(rows: Floats, shape: Shape) -> Floats:
    """Lengths of public tangent vectors in the shape."""
    return np.linalg.norm(rows / shape.roots, axis=1)
