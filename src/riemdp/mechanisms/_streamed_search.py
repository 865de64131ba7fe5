"""The records of a search for a ball where they are read in parts, and where they are of people.

About a centre one pass counts the records within every radius that the search can ask for: the
largest times a power of 2^(1/8). A radius that is none of these costs a pass of its own, and so
does another scale than those of the search. The first pass counts the valid records too. What is
kept is counts and sums.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..domains._adaptive import SearchDomain
from ..domains._clamp import in_parts
from ..domains._stream import Stream
from ..manifolds import AbstractManifold
from ..manifolds._base import Point
from ..statistics import FrechetVariance, TangentMean
from ..statistics._membership import Floats, Membership
from ..statistics._query import Records
from ..statistics._tangent_mean import log_flagged
from ._ball_search import SCALE_RANGE
from ._purse import Purse
from ._search_plan import SCALE_STEPS
from ._search_records import SearchRecords, log_scales, valid_flags

_FINENESS = 8  # radii an octave
_SAME = 1e-12  # relative difference of radii that are taken for one


class StreamedRecords(SearchRecords):
    """As `SearchRecords`, for a `Stream`."""

    def __init__(self, domain: SearchDomain, X: Stream, purse: Purse):
        super().__init__(domain, X, purse)
        self._within: tuple[np.ndarray, int] | None = None
        self._unit_of_counts = 0.0

    @functools.cached_property
    def _edges(self) -> np.ndarray:
        octaves = int(np.ceil(-np.log2(self.domain.ratio))) + 1
        return 2.0 ** (np.arange(-octaves * _FINENESS, 1) / _FINENESS)

    @functools.cached_property
    def _scale_counts(self) -> tuple[np.ndarray, int]:
        """How many records have a scale factor of at most each scale that a search asks for, and
        how many are valid.
        """
        return self._count_scales(_scale_edges())

    def valid_count(self) -> int:
        if self.domain.scales:
            return self._scale_counts[1]
        # the first centre is known, and so is the unit: the pass counts within every radius too
        self.unit = self.domain.largest(self.domain.center)
        self.take(self.domain.center)
        return self._counts()[1]

    def scales_below(self, factor: int, scale: float) -> int:
        edges = _scale_edges()
        place = min(int(np.searchsorted(edges, scale)), len(edges) - 1)
        if edges[place] == scale:
            return int(self._scale_counts[0][factor, place])
        return int(self._count_scales(np.array([scale]))[0][factor, 0])  # as a server may ask

    def _count_scales(self, edges: np.ndarray) -> tuple[np.ndarray, int]:
        part = functools.partial(_scales_below, self.manifold, self.domain.center, edges)
        below, valid = self.X.sums(part)[0]
        return np.cumsum(below, axis=1), int(valid)

    def take(self, center: Point) -> None:
        if center is not self.center:
            self._within = None
        self.center = center

    def within(self, radius: float) -> int:
        counts = self._counts()[0]
        place = int(np.argmin(np.abs(self._edges - radius)))
        if abs(self._edges[place] - radius) <= _SAME * radius:
            return int(counts[place])
        return int(self._count(np.array([radius]))[0][0])

    def _counts(self) -> tuple[np.ndarray, int]:
        """Those about the centre, of every radius that the search can ask for."""
        if self._within is None or self._unit_of_counts != self.unit:
            self._within, self._unit_of_counts = self._count(self._edges), self.unit
        return self._within

    def _count(self, radii: np.ndarray) -> tuple[np.ndarray, int]:
        """How many records lie within each of ascending radii, and how many are valid: one pass."""
        part = functools.partial(_lengths_below, self.manifold, self.center, radii * self.unit)
        below, valid = self.X.sums(part)[0]
        return np.cumsum(below), int(valid)

    def coordinates(self, query: TangentMean) -> np.ndarray:
        return query.coordinates(query.prepare(self.X))

    def cut(self, query: FrechetVariance) -> Records:
        step = functools.partial(_cut_lengths, query, self.manifold, self.center)
        return Records(self.X.moved(step))


class SearchPeople(SearchRecords):
    """Private records of people and a current centre.

    A count is of the people of whom at least half the records are counted (that of valid ones: of
    whom at least half the records are points): whole numbers, which one person changes by at most
    1. A mean is that of one vector a person, the mean of that person's
    shortened vectors. So every answer has the sensitivity that it has for as many records.
    """

    def __init__(self, domain: SearchDomain, X: Any, members: Membership, purse: Purse):
        super().__init__(domain, X, purse)
        self.members = members

    @property
    def n(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride] - computed there
        """How many people there are."""
        return self.members.n

    def valid_count(self) -> int:
        """How many people have points of the space for at least half of their records."""
        flags = functools.partial(valid_flags, self.manifold, self.domain.center)
        return self.members.majority(in_parts(self.manifold, flags, self.X))

    def scales_below(self, factor: int, scale: float) -> int:
        """How many people have this scale factor at most `scale`, by half of their records."""
        if self._scales is None:
            look = functools.partial(log_scales, self.manifold, self.domain.center)
            scales, given = in_parts(self.manifold, look, self.X)
            self._scales = scales, given
        scales, given = self._scales
        return self.members.majority(given & (scales[:, factor] <= scale))

    def within(self, radius: float) -> int:
        """How many people have at least half of their records within a radius of the plan."""
        return self.members.majority(self.has_log & (self.distances <= radius * self.unit))

    def coordinates(self, query: TangentMean) -> Floats:
        """The value of a query about the centre, of one vector a person."""
        own = self.members.means(query.shorten(self.logs).points)
        return query.coordinates(query.shorten(own))


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
    weights: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    given = np.asarray(weights) > 0
    scales, has_scales = (np.asarray(a) for a in log_scales(manifold, center, records))
    seen = given & has_scales
    below = np.stack([_below(scales[:, i], edges, seen) for i in range(scales.shape[1])])
    return below, _valid(manifold, center, records, given)


def _valid(
    manifold: AbstractManifold, center: Point, records: Point, given: np.ndarray
) -> np.ndarray:
    flags = given & np.asarray(valid_flags(manifold, center, records))
    return np.asarray(float(np.count_nonzero(flags)))


def _lengths(
    manifold: AbstractManifold, center: Point, records: Point
) -> tuple[np.ndarray, np.ndarray]:
    """Lengths of logarithms, and which records have one."""
    y, has_log = log_flagged(manifold, center, records)
    return np.linalg.norm(np.asarray(y), axis=1), np.asarray(has_log)


def _lengths_below(
    manifold: AbstractManifold,
    center: Point,
    edges: np.ndarray,
    records: Point,
    _: Any,
    weights: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    given = np.asarray(weights) > 0
    lengths, has_log = _lengths(manifold, center, records)
    below = _below(lengths, edges, given & has_log)
    return below, _valid(manifold, center, records, given)


def _cut_lengths(
    query: FrechetVariance, manifold: AbstractManifold, center: Point, records: Point
) -> tuple[Any, Any]:
    terms = query.cut(_lengths(manifold, center, records)[0]).points
    return terms, np.zeros(terms.shape, dtype=bool)
