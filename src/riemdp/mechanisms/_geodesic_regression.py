"""A regression of points on public-range covariates from one release of second moments, about a
public centre or one that is found privately.

Let z be log_c x shortened to length r, over r, and v the covariates of the record, moved into their
public range and scaled to length at most 1. A record is the row u = (w v, s, z), w^2 + s^2 = 1, so
|u|^2 <= 2, and one record moves (1/n) sum u u^T by at most 2 sqrt(2) / n. Its blocks are all of a
regression of z on v: the moments of v, of both, and of z, of which the residuals are made. Where
people are protected, a person counts by the mean of u u^T. Proof: docs/proofs/regression.md.

To check the privacy of a release, read `GeodesicNoise`, `CovariateRange.scaled`,
`AbstractRegression`, `AbstractAtCentre`, `SecondMoment` and `AbstractMechanism.release`.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .._errors import InvalidArgument, invalid
from .._namespace import Floats
from ..domains import AdaptiveBall, Ball
from ..manifolds import AbstractManifold, Euclidean
from ..privacy import Budget
from ..privacy._noise import Noise
from ..randomness import NoiseSource
from ..statistics._second_moment import clip_rows, of_rows
from ._at_centre import MOST_COORDINATES, LabelledRecords
from ._drawn import Drawn
from ._regression import AbstractRegression, TargetRange, admit_targets
from ._ridge import Fitted, regressed, weights

_LONGEST = math.sqrt(2.0)  # of a row: covariates and 1 together 1, and the vector 1
_OUT_OF_RANGE = (
    "give t_range=(low, high), one such pair for each covariate, or a Ball of covariates"
)


@dataclasses.dataclass(frozen=True)
class CovariateRange:
    """The public range that covariates are moved into, record by record.

    Args:
        given: A pair (low, high), for t of shape (n,); a list of such pairs or a `Ball` of vectors,
            for t of shape (n, p).

    Raises:
        InvalidArgument: It is none of these.
    """

    given: Any

    def __post_init__(self) -> None:
        given = self.given
        if isinstance(given, Ball):
            if np.ndim(given.center) != 1 or not np.size(given.center):
                raise invalid("t_range", given, _OUT_OF_RANGE)
            given.on(Euclidean(len(given.center)))
        elif not isinstance(given, tuple | list) or not given or not self.pairs:
            raise invalid("t_range", given, _OUT_OF_RANGE)

    @property
    def pairs(self) -> list[TargetRange]:
        """The ranges of single covariates; none of a ball."""
        if isinstance(self.given, Ball):
            return []
        several = isinstance(self.given[0], tuple | list)
        return [TargetRange(pair, "t_range") for pair in (self.given if several else [self.given])]

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the covariates of one record."""
        if isinstance(self.given, Ball):
            return np.shape(self.given.center)
        return (len(self.given),) if isinstance(self.given[0], tuple | list) else ()

    @property
    def size(self) -> int:
        """How many covariates there are."""
        return math.prod(self.shape)

    def admitted(self, t: Any, rows: int) -> Floats:
        """The covariates of so many records as the user gave them, read one by one."""
        return admit_targets(t, rows, "t", self.shape)

    def scaled(self, t: Floats) -> Floats:
        """Each record's covariates, (n, size), moved into their range by themselves, about its
        middle, and of length at most 1. What is no finite number counts as the middle.
        """
        if isinstance(self.given, Ball):
            return clip_rows((t - np.asarray(self.given.center)) / self.given.radius, 1.0)
        columns = t.reshape(len(t), self.size).T
        each = [pair.scaled(column) for pair, column in zip(self.pairs, columns, strict=True)]
        return np.stack(each, axis=1) / math.sqrt(self.size)

    @property
    def affine(self) -> tuple[Floats, Floats]:
        """(middle, unit): inside the range `scaled` is (t - middle) / unit."""
        if isinstance(self.given, Ball):
            middle = np.asarray(self.given.center, dtype=np.float64)
            return middle, np.full(self.size, float(self.given.radius))
        middles, halves = zip(*((pair.middle, pair.half) for pair in self.pairs), strict=True)
        return np.array(middles), math.sqrt(self.size) * np.array(halves)


class GeodesicNoise(AbstractRegression):
    """Release the second moments of (covariates, 1, tangent vector) at one centre, of which a
    regression of points on covariates follows. See `AbstractAtCentre`.

    Args:
        manifold: A space with a logarithm.
        where: A public `Ball`, or an `AdaptiveBall`.
        n: The public number of records; with `people` of people.
        budget: `Budget(epsilon, delta)`; delta = 0 gives pure epsilon.
        covariates: Their public range.
        people: Whether neighbours differ in everything of one person.

    Guarantee:
        Replace-one, of a record and its covariates together.

    Source:
        docs/proofs/regression.md.
    """

    what: ClassVar[str] = "geodesic-regression"
    noise_on: ClassVar[str] = (
        "one matrix of second moments of clipped covariates and clipped tangent vectors, from which"
        " a linear regression in the tangent space follows"
    )
    reach: ClassVar[float] = 2.0  # what is clipped off a response biases the curve

    def __init__(
        self,
        manifold: AbstractManifold,
        where: Ball | AdaptiveBall,
        *,
        n: int,
        budget: Budget | Noise,
        covariates: CovariateRange,
        people: bool = False,
    ):
        super().__init__(manifold, where, n=n, budget=budget)
        self.covariates = covariates
        size = covariates.size + 1 + manifold.dim
        if size > MOST_COORDINATES:
            raise InvalidArgument(
                f"arguments `X` and `t` have {size} coordinates together, and second moments are"
                f" for at most {MOST_COORDINATES}. Nothing was spent"
            )
        self.moments = of_rows(size, self.n, _LONGEST, people=people)

    def _beside(self, labels: Any, rows: int) -> NDArray[Any]:
        return self.covariates.scaled(self.covariates.admitted(labels, rows))

    def _rows(self, z: Floats, beside: Floats) -> Floats:
        return np.concatenate([with_one(beside), z], axis=1)

    def _draw(self, value: LabelledRecords, source: NoiseSource) -> Drawn:
        found = self._found(value, source)
        noisy, scale = self._noisy(value, found)
        deviation = self.noise.deviation(scale, self.moments.size)
        fit = regressed(noisy, self.covariates.size, self.manifold.dim, deviation, 0.0)
        facts = found.facts | {
            "answers": (noisy,),
            "share_of_regression": float(found.left),
        }
        made = FittedNoise(fit, deviation)
        return Drawn(made, scale, self.moments.sensitivity, None, facts)


@dataclasses.dataclass(frozen=True, eq=False)
class FittedNoise:
    """A regression, and the standard deviation of the noise in each coordinate of its moments."""

    fit: Fitted
    deviation: float


def with_one(scaled: Floats) -> Floats:
    """The rows (w v, s) of scaled covariates v: lengths of at most 1."""
    of_vector, of_one = weights(scaled.shape[1])
    return np.concatenate([of_vector * scaled, np.full((len(scaled), 1), of_one)], axis=1)
