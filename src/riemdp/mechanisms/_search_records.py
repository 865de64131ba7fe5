"""The private records of a search for a ball, which answer its questions with noise."""

from __future__ import annotations

import functools
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from ..domains import Domain
from ..domains._adaptive import SearchDomain
from ..domains._clamp import readable
from ..domains._stream import Stream
from ..manifolds import AbstractManifold
from ..manifolds._base import Point
from ..statistics import FrechetVariance, Records, TangentMean
from ..statistics._tangent_mean import log_flagged
from ._common import Floats
from ._purse import Purse
from ._search_answers import SearchAnswers

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

    from .._namespace import Array


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
