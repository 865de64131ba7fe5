"""The mean squared distance of records from a public or released point, as a query."""

from __future__ import annotations

import dataclasses
import functools
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from .._isolation import isolated
from .._namespace import Floats
from ..domains._clamp import readable
from ..domains._sums import streamed_error
from ..manifolds import AbstractManifold
from ..manifolds._base import Point, RecordsLike
from ..privacy._guarantee import REPLACE_ONE
from ._query import AbstractQuery, Records, average


@dataclasses.dataclass(frozen=True, eq=False)
class FrechetVariance(AbstractQuery):
    """The mean of min(d(c, x), r)^2 over the records x: their Fréchet variance about the centre c
    of the ball, each distance cut off at the radius r.

    About the mean of the records themselves it would be smaller, but that mean moves with every
    record: release a mean first, and take it for the centre. Each term depends on its own record
    and lies between 0 and r^2, so replacing one moves the value by at most r^2 / n, on every
    manifold that has a distance, whatever its curvature.

    Args:
        domain: The public ball, bound to its space, or one whose centre and radius were released.
        n: The public number of records, at least 1.
        adjacency: "replace-one", the only one.

    Raises:
        InvalidArgument: An argument is out of range, or the adjacency is another one.

    Guarantee:
        `sensitivity` = r^2 / n + the rounding of the sum, under replace-one; attained by a record
        at the centre and one outside the ball.

    Source:
        Proof: docs/proofs/second-moment.md.
    """

    adjacencies: ClassVar[tuple[str, ...]] = (REPLACE_ONE,)

    @property
    def largest(self) -> float:
        """r^2, the largest value."""
        return self.domain.radius**2

    @property
    def sensitivity(self) -> float:
        """Largest change of the value, rounding included."""
        return self.largest / self.n * (1 + 1e-12) + 2 * self.error_bound

    @property
    def error_bound(self) -> float:
        """Largest rounding error of the sum."""
        return self.largest * streamed_error()

    @isolated
    def prepare(self, X: RecordsLike) -> Records:
        """The n squared distances from the centre, each at most r^2; 0 for a record that is not a
        point of the space.
        """
        d = self.domain
        return self._each(X, functools.partial(_cut_distances, d.manifold, d.center, d.radius))

    def cut(self, distances: Floats) -> Records:
        """Distances from the centre (n,), each cut off at the radius and squared."""
        return Records(_cut(distances, self.domain.radius))

    @isolated
    def value(self, records: Records) -> float:
        """The mean of the prepared terms."""
        return average(records.points)


def distances_from(manifold: AbstractManifold, center: Point, records: Point) -> Floats:
    """Distances of records from the center; 0 where a record is not a point of the space."""
    safe, valid = readable(manifold, center, records)
    distance = np.asarray(manifold._dist(center, safe))
    return np.where(np.asarray(valid) & ~np.isnan(distance), distance, 0.0)


def _cut(distances: Floats, radius: float) -> Floats:
    return np.minimum(np.square(np.minimum(distances, radius)), radius**2)


def _cut_distances(
    manifold: AbstractManifold, center: Point, radius: float, records: Point
) -> tuple[Floats, NDArray[np.bool_]]:
    """The terms of some records; none of them is flagged."""
    terms = _cut(distances_from(manifold, center, records), radius)
    return terms, np.zeros(terms.shape, dtype=bool)
