"""The records of a search for a ball, where they are read in parts.

About a centre one pass counts the records within every radius that the search can ask for: the
largest times a power of 2^(1/8). A radius that is none of these costs a pass of its own, and so
does another scale than those of the search. What is kept is counts and sums.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np

from ..domains._adaptive import SearchDomain
from ..domains._stream import Stream
from ..manifolds import AbstractManifold
from ..manifolds._base import Point
from ..randomness import NoiseSource
from ..statistics import FrechetVariance, TangentMean
from ..statistics._query import Records
from ..statistics._tangent_mean import log_coordinates
from ._ball_search import SCALE_RANGE, SCALE_STEPS
from ._budgeted import BudgetedNoise
from ._search_records import SearchRecords, log_scales

_FINENESS = 8  # radii an octave
_SAME = 1e-12  # relative difference of radii that are taken for one


class StreamedRecords(SearchRecords):
    """As `SearchRecords`, for a `Stream`."""

    def __init__(self, domain: SearchDomain, X: Stream, noise: BudgetedNoise, source: NoiseSource):
        super().__init__(domain, X, noise, source)
        self._within: np.ndarray | None = None

    @functools.cached_property
    def _edges(self) -> np.ndarray:
        octaves = int(np.ceil(-np.log2(self.domain.ratio))) + 1
        return 2.0 ** (np.arange(-octaves * _FINENESS, 1) / _FINENESS)

    @functools.cached_property
    def _scale_counts(self) -> np.ndarray:
        """How many records have a scale factor of at most each scale that a search asks for."""
        return self._count_scales(_scale_edges())

    def scales_below(self, factor: int, scale: float) -> int:
        edges = _scale_edges()
        place = min(int(np.searchsorted(edges, scale)), len(edges) - 1)
        if edges[place] == scale:
            return int(self._scale_counts[factor, place])
        return int(self._count_scales(np.array([scale]))[factor, 0])  # as a server may ask

    def _count_scales(self, edges: np.ndarray) -> np.ndarray:
        part = functools.partial(_scales_below, self.manifold, self.domain.center, edges)
        return np.cumsum(self.X.sums(part)[0], axis=1)

    def take(self, center: Point) -> None:
        self.center, self._within = center, None

    def within(self, radius: float) -> int:
        if self._within is None:
            self._within = self._count(self._edges)
        place = int(np.argmin(np.abs(self._edges - radius)))
        if abs(self._edges[place] - radius) <= _SAME * radius:
            return int(self._within[place])
        return int(self._count(np.array([radius]))[0])

    def _count(self, radii: np.ndarray) -> np.ndarray:
        """How many records lie within each of ascending radii: one pass."""
        part = functools.partial(_lengths_below, self.manifold, self.center, radii * self.unit)
        return np.cumsum(self.X.sums(part)[0])

    def coordinates(self, query: TangentMean) -> jax.Array:
        return query.coordinates(query.prepare(self.X))

    def cut(self, query: FrechetVariance) -> Records:
        step = functools.partial(_cut_lengths, query, self.manifold, self.center)
        return Records(self.X.moved(step))


def _scale_edges() -> np.ndarray:
    count = 2**SCALE_STEPS
    return (np.arange(count + 1) / count - 0.5) * 2.0 * SCALE_RANGE


def _below(values: np.ndarray, edges: np.ndarray, given: np.ndarray) -> np.ndarray:
    """How many of the given values are at most each edge and above the edge before it."""
    places = np.searchsorted(edges, values[given], side="left")
    return np.bincount(places, minlength=len(edges) + 1)[: len(edges)].astype(np.float64)


def _scales_below(
    manifold: AbstractManifold,
    center: Point,
    edges: np.ndarray,
    records: Point,
    _: Any,
    weights: jax.Array,
) -> np.ndarray:
    scales, given = np.asarray(log_scales(manifold, center, records)), np.asarray(weights) > 0
    return np.stack([_below(scales[:, i], edges, given) for i in range(scales.shape[1])])


def _lengths(manifold: AbstractManifold, center: Point, records: Point) -> np.ndarray:
    return np.linalg.norm(np.asarray(log_coordinates(manifold, center, records)), axis=1)


def _lengths_below(
    manifold: AbstractManifold,
    center: Point,
    edges: np.ndarray,
    records: Point,
    _: Any,
    weights: jax.Array,
) -> np.ndarray:
    return _below(_lengths(manifold, center, records), edges, np.asarray(weights) > 0)


def _cut_lengths(
    query: FrechetVariance, manifold: AbstractManifold, center: Point, records: Point
) -> tuple[Any, Any]:
    terms = query.cut(jax.numpy.asarray(_lengths(manifold, center, records))).points
    return terms, np.zeros(terms.shape, dtype=bool)
