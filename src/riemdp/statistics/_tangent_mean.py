"""The mean of clipped logarithms at a public center."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from .._isolation import isolated
from .._namespace import Floats
from ..domains._clamp import in_parts, readable
from ..domains._sums import streamed_error
from ..manifolds import AbstractManifold
from ..manifolds._base import Point, RecordsLike, Tangent
from ..privacy._guarantee import REPLACE_ONE
from ._query import AbstractQuery, Records, average

Flags = NDArray[np.bool_]


@dataclasses.dataclass(frozen=True, eq=False)
class TangentMean(AbstractQuery):
    """The mean of the logarithms log_c x of the records at the center c, each shortened to at most
    the radius.

    It needs no solver, no tolerance and no limit on the radius: each term depends on its own record
    and has length at most r, so replacing one moves the mean by at most 2 r / n on every manifold
    that has a logarithm.

    Args:
        domain: The public ball, bound to its space. The curvature does not limit its radius.
        n: The public number of records, at least 1.
        adjacency: "replace-one", the only one.

    Raises:
        InvalidArgument: An argument is out of range, or the adjacency is another one.

    Guarantee:
        `sensitivity` = 2 r / n + the rounding of the sum, under replace-one, in the metric at the
        center.

    Source:
        Proof: docs/proofs/mean-sensitivity.md.

    Examples:
        >>> import riemdp
        >>> sphere = riemdp.Sphere(3)
        >>> ball = riemdp.Ball(sphere.origin, 3.0).on(sphere)
        >>> round(riemdp.statistics.TangentMean(ball, 100).sensitivity, 6)
        0.06
    """

    adjacencies: ClassVar[tuple[str, ...]] = (REPLACE_ONE,)

    @property
    def sensitivity(self) -> float:
        """Largest change of the mean in the metric at the center."""
        r = self.domain.radius
        return 2 * r / self.n * (1 + 1e-12) + 2 * r * streamed_error()

    @property
    def error_bound(self) -> float:
        """Largest length of the rounding error of the mean."""
        return self.domain.radius * streamed_error()

    @isolated
    def prepare(self, X: RecordsLike) -> Records:
        """Orthonormal coordinates (n, dim) at the center of the shortened logarithms; 0 where a
        record is not a point of the space.
        """
        return self._each(X, self._step)

    @property
    def _step(self) -> Callable[[Point], tuple[Floats, Flags]]:
        """Records to the vectors that are averaged, and flags of what was longer or no point."""
        d = self.domain
        return functools.partial(shortened_logs, d.manifold, d.center, d.radius)

    def shorten(self, y: Floats) -> Records:
        """Coordinates (n, dim) of the logarithms at the center, each shortened to the radius."""
        points, longer = clipped(y, self.domain.radius)
        return Records(points, None, longer)

    def coordinates(self, records: Records) -> Floats:
        """Orthonormal coordinates (dim,) of the mean at the center."""
        return average(records.points)

    @isolated
    def value(self, records: Records) -> Tangent:
        """The mean as a tangent vector at the center."""
        d = self.domain
        return d.manifold.from_coordinates(d.center, self.coordinates(records))


def log_flagged(manifold: AbstractManifold, center: Point, records: Point) -> tuple[Floats, Flags]:
    """Orthonormal coordinates (n, dim) at the center of the logarithms of admitted records, record
    by record, and which records have one; 0 where a record is no point of the space, or its
    logarithm is not finite.
    """

    def some(part: Point) -> tuple[Floats, Flags]:
        safe, valid = readable(manifold, center, part)
        y = np.asarray(manifold._log_coordinates(center, safe))
        valid = np.asarray(valid) & np.isfinite(np.sum(y**2, axis=-1))
        return np.where(valid[:, None], y, 0.0), valid

    return in_parts(manifold, some, records)


def shortened_logs(
    manifold: AbstractManifold, center: Point, radius: float, records: Point
) -> tuple[Floats, Flags]:
    """Coordinates of shortened logarithms, and which records are longer or no points."""
    y, valid = log_flagged(manifold, center, records)
    points, longer = clipped(y, radius)
    return points, longer | ~valid


def clipped(y: Floats, radius: float) -> tuple[Floats, Flags]:
    """Vectors shortened to the radius, and which of them were longer."""
    length = np.sqrt(np.sum(y**2, axis=-1))
    longer = length > radius
    factor = np.where(longer, radius / np.where(length > 0, length, 1.0), 1.0)
    return y * factor[:, None], longer


def kept_shares(length: Floats | float, dim: int, deviation: Floats | float) -> Floats:
    """What James and Stein's estimate keeps of vectors of these lengths, noise included."""
    return np.maximum(0.0, 1.0 - max(dim - 2, 0) * (deviation / length) ** 2)
