"""The answers of a search for a ball about records that one party holds.

What is asked next is decided in `_ball_search`, from answers alone.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from .._namespace import Floats
from ..domains import Domain
from ..domains._adaptive import SearchDomain
from ..domains._clamp import in_parts, readable
from ..inference._counts import OutsideCount
from ..manifolds import AbstractManifold
from ..manifolds._base import Point
from ..statistics import FrechetVariance, Records, TangentMean
from ..statistics._tangent_mean import Flags, log_flagged
from ._ball_search import SearchAnswers, SearchResult
from ._lattice import Purse

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

    from .._namespace import Array

T = TypeVar("T")
# Of what a search for a ball alone has left; the radius has the rest.
_CENTER_SHARE = Fraction(7, 10)
_COUNTS = 8  # for that radius, at most


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
        self._scales: tuple[Any, Any] | None = None

    @property
    def n(self) -> int:
        """How many records there are."""
        return int(self.manifold._batch_shape(self.X)[0])

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
    def _each(self, look: Callable[[Point], T]) -> T:
        """What `look` makes of every record."""
        return in_parts(self.manifold, look, self.X)

    def _number(self, flags: Flags) -> int:
        """How many records have the flag."""
        return int(np.count_nonzero(flags))

    def valid_count(self) -> int:
        """How many records are points of the space."""
        flags = functools.partial(valid_flags, self.manifold, self.domain.center)
        return self._number(self._each(flags))

    def scales_below(self, factor: int, scale: float) -> int:
        """How many records have this scale factor at most `scale`."""
        if self._scales is None:
            look = functools.partial(log_scales, self.manifold, self.domain.center)
            self._scales = self._each(look)
        scales, given = self._scales
        return self._number(given & (scales[:, factor] <= scale))

    def take(self, center: Point) -> None:
        """Look from this centre from now on."""
        self.center = center
        self.logs, self.has_log = log_flagged(self.manifold, center, self.X)
        self.distances = np.linalg.norm(self.logs, axis=1)

    def within(self, radius: float) -> int:
        """How many records lie within a radius of the plan."""
        return self._number(self.has_log & (self.distances <= radius * self.unit))

    def coordinates(self, query: TangentMean) -> Floats:
        """The value of a query about the centre."""
        return query.coordinates(query.shorten(self.logs))

    def cut(self, query: FrechetVariance) -> Records:
        """The terms of a variance about the centre."""
        return query.cut(self.distances)


def valid_flags(manifold: AbstractManifold, center: Point, X: Point) -> Flags:
    """Which records are points of the space."""
    return np.asarray(readable(manifold, center, X)[1])


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
