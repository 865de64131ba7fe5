"""Where a search for a ball stands, and how its noisy answers move it: one code for records that
one party holds (`SearchRecords`) and for records at several sites (`riemdp.federated`).

What is asked next is decided in `_ball_search`, from answers alone.
"""

from __future__ import annotations

import abc
import functools
import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from .._errors import LARGEST_MAGNITUDE, SMALLEST_MAGNITUDE
from ..domains import Domain
from ..domains._adaptive import SearchDomain
from ..domains._clamp import readable
from ..domains._door import admit_point
from ..domains._ends import end_of
from ..domains._stream import Stream
from ..inference._counts import OutsideCount
from ..manifolds import AbstractManifold
from ..manifolds._base import Point
from ..privacy._noise import Noise
from ..statistics import FrechetVariance, Records, TangentMean
from ..statistics._tangent_mean import log_flagged
from ._ball_search import Answers, SearchResult
from ._common import Floats
from ._purse import Purse
from ._shrinking import bend_of, kept

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

    from .._namespace import Array

# A move after which the centre may still be far: in units of the curvature's radius, and of the
# radius that vectors were clipped at.
_LONG, _CLIPPED = 1.0, 0.3
_CENTER_SHARE = Fraction(
    7, 10
)  # of what a search for a ball alone has left; the radius has the rest
_COUNTS = 8  # for that radius, at most


class SearchAnswers(Answers):
    """A current centre, and noisy answers about private records, whoever holds them.

    Attributes:
        center: The current centre: public, or a function of released answers.
        unit: The largest radius of the search; radii of the plan are in this unit.
    """

    def __init__(self, domain: SearchDomain, noise: Noise):
        self.domain, self.manifold, self.noise = domain, domain.manifold, noise
        self.center, self.unit = domain.center, 1.0

    @abc.abstractmethod
    def noisy_mean(self, radius: float, share: float | Fraction) -> tuple[Floats, float]:
        """Coordinates at the centre of the mean of all tangent vectors, each shortened to `radius`
        (of the space) and 0 for a record without one, with noise; and the scale of that noise.
        """

    @abc.abstractmethod
    def take(self, center: Point) -> None:
        """Look from this centre from now on."""

    def set_scales(self, scales: tuple[float, ...]) -> None:
        """See `Answers`."""
        center = self.domain.first_center(scales)
        # radii of the plan are in units of the first search radius
        self.unit = self.domain.largest(center)
        self.take(center)

    def size(self, radius: float) -> float:
        """A radius of the plan as the radius of a ball, which float64 has to be able to square."""
        return min(max(radius * self.unit, SMALLEST_MAGNITUDE), LARGEST_MAGNITUDE)

    def move(self, radius: float, share: float | Fraction, stretch: float) -> bool:
        """See `Answers`."""
        manifold, r = self.manifold, radius * self.unit
        noisy, scale = self.noisy_mean(r, share)
        y = kept(self.noise, manifold, self.center, stretch * noisy, stretch * scale, r)
        self.take(admit_point(manifold, "center", end_of(manifold, self.center, y)))
        length = float(np.linalg.norm(y))
        return bend_of(manifold) * length > _LONG or length > _CLIPPED * r


class SearchRecords(SearchAnswers):
    """Private records and a current centre; answers the questions of a search.

    Flags decide what is counted: a record that is no point of the space, or has no finite logarithm
    at the centre, is within no radius, not even an infinite one. Its logarithm and its distance are
    0 where a mean needs them.
    """

    def __init__(self, domain: SearchDomain, X: Any, purse: Purse):
        super().__init__(domain, purse.noise)
        self.X, self.purse = X, purse
        self.logs: Floats = np.zeros((0, self.manifold.dim))
        self.distances: Floats = np.zeros(0)
        self.has_log = np.zeros(0, dtype=bool)
        self._scales: tuple[np.ndarray, np.ndarray] | None = None

    @functools.cached_property
    def n(self) -> int:
        """How many records there are."""
        return (
            self.X.n if isinstance(self.X, Stream) else int(self.manifold._batch_shape(self.X)[0])
        )

    # ------------------------------------------------------------------ answers, with noise
    @property
    def left(self) -> Fraction:
        return self.purse.left

    def valid(self, share: float | Fraction) -> float:
        return self.purse.count(self.valid_count(), share)

    def scale_count(self, factor: int, scale: float, share: float | Fraction) -> float:
        return self.purse.count(self.scales_below(factor, scale), share)

    def set_scales(self, scales: tuple[float, ...]) -> None:
        self._scales = None
        super().set_scales(scales)

    def count(self, radius: float, share: float | Fraction) -> float:
        return self.purse.count(self.within(radius), share)

    def noisy_mean(self, radius: float, share: float | Fraction) -> tuple[Floats, float]:
        domain = Domain(self.manifold, self.center, radius)
        query = TangentMean(domain, self.n)
        noisy, scale, _ = self.purse.add(self.coordinates(query), query.sensitivity, share)
        return noisy, scale

    # ------------------------------------------------------------------ exact, never released
    def valid_count(self) -> int:
        """How many records are points of the space."""
        return int(np.count_nonzero(valid_flags(self.manifold, self.domain.center, self.X)))

    def scales_below(self, factor: int, scale: float) -> int:
        """How many records have this scale factor at most `scale`."""
        if self._scales is None:
            scales, given = log_scales(self.manifold, self.domain.center, self.X)
            self._scales = np.asarray(scales), np.asarray(given)
        scales, given = self._scales
        return int(np.count_nonzero(given & (scales[:, factor] <= scale)))

    def take(self, center: Point) -> None:
        """Look from this centre from now on."""
        self.center = center
        self.logs, self.has_log = log_flagged(self.manifold, center, self.X)
        self.distances = np.linalg.norm(self.logs, axis=1)

    def within(self, radius: float) -> int:
        """How many records lie within a radius of the plan."""
        return int(np.count_nonzero(self.has_log & (self.distances <= radius * self.unit)))

    def coordinates(self, query: TangentMean) -> Floats:
        """The value of a query about the centre."""
        return query.coordinates(query.shorten(self.logs))

    def cut(self, query: FrechetVariance) -> Records:
        """The terms of a variance about the centre."""
        return query.cut(np.asarray(self.distances))


def valid_flags(manifold: AbstractManifold, center: Point, X: Point) -> Bool[Array, " n"]:
    """Which records are points of the space."""
    return readable(manifold, center, X)[1]


def log_scales(
    manifold: AbstractManifold, center: Point, X: Point
) -> tuple[Float[Array, "n scales"], Bool[Array, " n"]]:
    """The scale factors of every record, and which records have them; 0 for the others."""
    safe, valid = readable(manifold, center, X)
    scales = manifold._log_scales(safe)
    valid &= np.all(np.isfinite(scales), axis=-1)
    return np.where(valid[:, None], scales, 0.0), valid


def outside_of(answers: SearchAnswers, found: SearchResult, radius: float) -> OutsideCount:
    """How many of all records are no points or lie outside the ball that was found, from one more
    noisy count.
    """
    plan = found.plan
    share, n = plan.outside_share, plan.n
    count = n - round(answers.count(radius, share))
    deviation = plan.noise.count_deviation(share)
    return OutsideCount(min(max(count, 0), n), deviation, n, share, found=True)


def final_radius(answers: SearchAnswers, found: SearchResult) -> float:
    """The radius of a ball that is released itself, about the centre of the answers: what the
    search has left buys a better centre, and the radius about it.
    """
    plan, left, radius = found.plan, found.left, found.radius
    if not plan.moves:
        return radius
    answers.move(radius, _CENTER_SHARE * left, plan.stretch)
    share = (1 - _CENTER_SHARE) * left / _COUNTS
    rank = plan.valid - plan.noise.safety * plan.gap(float(share))
    return _smallest_radius(answers, radius, max(rank, plan.valid / 2), share)


def _smallest_radius(
    answers: SearchAnswers, radius: float, rank: float, share: float | Fraction
) -> float:
    """At most `_COUNTS` counts: up by sqrt 2 while too few records lie inside, else down."""
    if answers.count(radius, share) >= rank:
        for _ in range(_COUNTS - 1):
            if answers.count(radius / math.sqrt(2.0), share) < rank:
                break
            radius /= math.sqrt(2.0)
        return radius
    for _ in range(_COUNTS - 1):
        radius = min(radius * math.sqrt(2.0), 1.0)
        if radius >= 1.0 or answers.count(radius, share) >= rank:
            break
    return radius
