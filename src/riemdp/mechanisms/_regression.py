"""A linear regression on tangent vectors from one release of second moments, about a public centre
or one that is found privately.

Let z be log_c x shortened to length r, over r, and t in [-1, 1] the target in its public range. A
record is the row u = (c z, s, k t) of weights with c^2 + s^2 = 1, so |u|^2 <= 1 + k^2 = R^2, and
one record moves (1/n) sum u u^T by at most sqrt(2) R^2 / n. All of a regression is in that matrix:
the moments of z, of t, and of both. Where people are protected, a person counts by the mean of
u u^T over the own records. Proof: docs/proofs/regression.md.

To check the privacy of a release, read `_draw` here, `SecondMoment`, `_at_centre`,
`BudgetedMechanism` and `AbstractMechanism.release`.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._errors import InvalidArgument, invalid, magnitude, real
from ..domains import AdaptiveBall, Ball
from ..domains._stacks import admit_stack
from ..manifolds import AbstractManifold
from ..manifolds._spectral import unpack
from ..privacy import Budget
from ..privacy._noise import Noise
from ..randomness import NoiseSource
from ..statistics import Records
from ..statistics._second_moment import SecondMoment, of_rows
from ..statistics._tangent_mean import kept_shares
from ._at_centre import MOST_COORDINATES, SEARCH, AbstractAtCentre, LabelledRecords
from ._base import Drawn
from ._common import Floats

_TARGET = 1.0 / math.sqrt(2.0)  # the weight k of the target
_RELATIVE = 1e-9  # of the largest eigenvalue: no smaller one is believed
PERSON_IS = "one matrix each: the mean of u u^T over that person's records, u tangent and target"


class Line(NamedTuple):
    """A linear function of vectors z, and how far targets lie from it; all in units of half the
    range of the targets, from its middle.

    Attributes:
        coefficients: (dim,).
        intercept: Its value at z = 0.
        variance: The mean of the squared residuals of the records, noise considered.
    """

    coefficients: Floats
    intercept: float
    variance: float


class TargetRange:
    """The public range that targets are moved into, one by one.

    Args:
        given: The pair (low, high).

    Raises:
        InvalidArgument: It is no pair of numbers low < high.
    """

    def __init__(self, given: Any):
        remedy = "give target_range=(low, high), public numbers with low < high"
        if not isinstance(given, tuple | list) or len(given) != 2:
            raise invalid("target_range", given, remedy)
        self.low, self.high = (real("target_range", x, remedy=remedy) for x in given)
        if not self.low < self.high:
            raise invalid("target_range", given, remedy)
        # of what is no finite number; and the unit of targets
        self.middle = self.low / 2.0 + self.high / 2.0
        self.half = magnitude("target_range", self.high / 2.0 - self.low / 2.0)

    def scaled(self, y: Floats) -> Floats:
        """Targets from the middle in units of half the range, each moved into [-1, 1] by itself."""
        inside = np.clip(y, self.low, self.high)
        t = np.where(np.isfinite(y), (inside - self.middle) / self.half, 0.0)
        return np.clip(t, -1.0, 1.0)


def admit_targets(y: Any, rows: int) -> Floats:
    """One target for each record as float64, (rows,), each read by itself: what is no real number
    becomes NaN.

    Raises:
        InvalidArgument: The form of the whole is wrong.
    """
    shape = getattr(y, "shape", None)
    targets = None
    if shape is None or (isinstance(shape, tuple) and len(shape) == 1):
        targets = np.asarray(admit_stack("y", y, ()))
    if targets is None or targets.shape != (rows,):
        raise InvalidArgument(
            "argument `y` has another form than one number for each matrix; give an array of shape"
            " (n,), or a list"
        )
    return targets


class RegressionNoise(AbstractAtCentre):
    """Release a linear regression of targets on the tangent vectors at one centre, clipped at one
    radius: its coefficients, and its intercept behind them. See `AbstractAtCentre`.

    Args:
        manifold: A space with a logarithm, of at most 2048 dimensions.
        where: A public `Ball`, or an `AdaptiveBall`.
        n: The public number of records; with `people` of people.
        budget: `Budget(epsilon, delta)`; delta = 0 gives pure epsilon.
        targets: The public range of the targets.
        alpha: The ridge; None for the size of the noise.
        people: Whether neighbours differ in everything of one person.

    Guarantee:
        Replace-one, of a record and its target together.

    Source:
        docs/proofs/regression.md.
    """

    what: ClassVar[str] = "regression"

    def __init__(
        self,
        manifold: AbstractManifold,
        where: Ball | AdaptiveBall,
        *,
        n: int,
        budget: Budget | Noise,
        targets: TargetRange,
        alpha: float | None = None,
        people: bool = False,
    ):
        super().__init__(manifold, where, n=n, budget=budget)
        self.targets, self.alpha = targets, alpha
        self.moments = moments_of(manifold.dim, self.n, people=people)

    @property
    def words(self) -> str:  # type: ignore[override]
        """What it does, in a report."""
        moment = (
            "noise on one matrix of second moments of clipped tangent vectors and clipped targets,"
            " from which a ridge regression follows"
        )
        return moment if self.ball else f"{SEARCH}, and {moment}"

    @property
    def _coordinates(self) -> int:
        return self.moments.size

    def _beside(self, labels: Any, rows: int) -> NDArray[Any]:
        return self.targets.scaled(admit_targets(labels, rows))

    def _admit(self, value: tuple[Any, ...]) -> LabelledRecords:
        members = LabelledRecords(*value).members
        if (members is not None) != self.moments.people:
            raise invalid("groups", type(members).__name__, "this mechanism has another unit")
        return super()._admit(value)

    def _draw(self, value: LabelledRecords, source: NoiseSource) -> Drawn:
        found, query, dim = self._found(value, source), self.moments, self.manifold.dim
        of_vector, of_one = weights(dim)
        z, one = of_vector * np.asarray(found.z), np.full((len(value.labels), 1), of_one)
        rows = np.concatenate([z, one, _TARGET * value.labels[:, None]], axis=1)
        shares = None if value.members is None else value.members.shares / self.n
        records = query.clip(Records(rows, shares, np.zeros(len(rows), dtype=bool)))
        noisy, scale, _ = found.purse.add(query.value(records), query.sensitivity, found.left)
        line = ridge(noisy, dim, self.noise.deviation(scale, query.size), self.alpha)
        half = self.targets.half
        facts = found.facts | {
            "answers": (noisy,),
            "share_of_regression": float(found.left),
            "residual_std": half * math.sqrt(line.variance),
        }
        coefficients = half / found.ball.radius * line.coefficients
        made = np.append(coefficients, self.targets.middle + half * line.intercept)
        return Drawn(made, scale, query.sensitivity, None, facts)


def moments_of(dim: int, n: int, *, people: bool = False) -> SecondMoment:
    """What is released of n records of vectors of `dim` coordinates, and targets.

    Raises:
        InvalidArgument: There are too many coordinates.
    """
    if dim > MOST_COORDINATES:
        raise InvalidArgument(
            f"argument `X`: matrices have {dim} tangent coordinates, and second moments are for at"
            f" most {MOST_COORDINATES} (63 x 63); take fewer channels, by a public choice. Nothing"
            " was spent"
        )
    return of_rows(dim + 2, n, math.sqrt(1.0 + _TARGET**2), people=people)


def weights(dim: int) -> tuple[float, float]:
    """The weights of a vector and of the 1 behind it, whose squares add up to 1: the lighter the 1,
    the less noise `dim` coefficients have, and the more the intercept.
    """
    square = 1.0 / (1.0 + math.sqrt(dim))
    return math.sqrt(1.0 - square), math.sqrt(square)


def noise_level(dim: int, deviation: float) -> float:
    """Half of about the largest eigenvalue of the noise on the second moments of z, for noise of
    this standard deviation in each coordinate: the ridge, where none is given.
    """
    return math.sqrt(dim / 2.0) * deviation / weights(dim)[0] ** 2


def ridge(noisy: Floats, dim: int, deviation: float, alpha: float | None) -> Line:
    """A ridge regression from noisy second moments: a function of released and public numbers.

    The mean of z, in the weight of z, is moved towards the centre by James-Stein: a noisy one would
    move the intercept, and it is near the centre where that was found.

    The noise of the residual variance is taken out of it to the second order (Stein's formula for
    the coefficients, which have the noise of the same matrix), and it is not stated below one
    standard deviation of its own noise.
    """
    of_vector, of_one = weights(dim)
    matrix = np.array(unpack(np.asarray(noisy), dim + 2))
    matrix[dim, dim] = of_one**2  # public
    moments, cross, square = matrix[:-1, :-1], matrix[:-1, -1], float(matrix[-1, -1])
    mean = moments[:dim, dim] / of_one
    length = max(float(np.linalg.norm(mean)), np.finfo(float).tiny)
    mean *= float(kept_shares(length, dim, deviation / (math.sqrt(2.0) * of_one)))
    values, vectors = np.linalg.eigh(moments[:dim, :dim] - np.outer(mean, mean))
    level = of_vector**2 * noise_level(dim, deviation)
    added = level if alpha is None else of_vector**2 * alpha
    floor = max(level, _RELATIVE * float(np.abs(values).max(initial=0.0)))
    inside = (vectors / np.maximum(values + added, floor)) @ vectors.T
    # the inverse of the matrix of both, the intercept without a ridge
    inverse = np.empty((dim + 1, dim + 1))
    inverse[:dim, :dim], inverse[dim, :dim] = inside, -inside @ mean / of_one
    inverse[:dim, dim] = inverse[dim, :dim]
    inverse[dim, dim] = (1.0 + mean @ inside @ mean) / of_one**2
    found = inverse @ cross
    long = 1.0 + float(found @ found)
    apparent = square - 2.0 * float(found @ cross) + float(found @ moments @ found)
    fitted = float(np.trace(inverse)) * long + float(found @ inverse @ found)
    variance = max(apparent + deviation**2 * fitted, deviation * long) / _TARGET**2
    return Line(
        of_vector * found[:dim] / _TARGET,
        of_one * float(found[dim]) / _TARGET,
        min(variance, 4.0),  # nothing in the range is farther from anything in it
    )
