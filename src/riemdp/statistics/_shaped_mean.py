"""The mean of shaped logarithms at a public or released centre."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._namespace import Floats
from ..domains import Domain
from ..manifolds import AbstractManifold
from ..manifolds._base import Point, Tangent
from ._query import Records
from ._tangent_mean import Flags, TangentMean, clipped, log_flagged


class Shape(NamedTuple):
    """An orthonormal frame at a public or released centre, and how noise is shaped in it.

    Attributes:
        manifold: The space.
        center: Where the tangent space is.
        basis: (dim, rank), orthonormal columns: coordinates at the centre of the frame's vectors.
        roots: (rank,) roots of the shape in these directions, above 0.
    """

    manifold: AbstractManifold
    center: Point
    basis: Floats
    roots: Floats

    def seen(self, records: Point) -> tuple[Floats, NDArray[np.bool_]]:
        """Shaped coordinates z = S^(-1/2) log of admitted records, (n, rank), record by record, and
        which records have them; 0 where the logarithm is not defined, or z is not finite.
        """
        return self.mapped(records, lambda y: each_by(y, self.basis) / self.roots)

    def mapped(
        self, records: Point, function: Callable[[Floats], Floats]
    ) -> tuple[Floats, NDArray[np.bool_]]:
        """The same of a function of the logarithms' coordinates (n, dim), which is one of each row
        by itself.
        """
        y, valid = log_flagged(self.manifold, self.center, records)
        z = function(y)
        valid = valid & np.isfinite(np.sum(z**2, axis=-1))
        return np.where(valid[:, None], z, 0.0), valid

    def coordinates(self, z: Floats) -> Floats:
        """Orthonormal coordinates at the centre of S^(1/2) z: post-processing."""
        return self.basis @ (self.roots * z)


@dataclasses.dataclass(frozen=True, eq=False)
class ShapedMean(TangentMean):
    """The mean of z = S^(-1/2) log_c x over the records, each z shortened to at most the radius.

    The clip comes after the shape, so replacing one record moves the mean by at most 2 r / n in the
    Euclidean norm whatever the shape is, also one of low rank; a record counts as z = 0 where its
    logarithm is not defined or z is not finite. `of` makes one.

    Guarantee:
        As of `TangentMean`, in the coordinates z.

    Source:
        Proof: docs/proofs/mean-sensitivity.md, Theorem 1.
    """

    shape: Shape = dataclasses.field(kw_only=True)

    @classmethod
    def of(cls, shape: Shape, radius: float, n: int) -> ShapedMean:
        """The query with this shape and clip radius for n records."""
        return cls(Domain(shape.manifold, shape.center, radius), n, shape=shape)

    @property
    def _step(self) -> Callable[[Point], tuple[Floats, Flags]]:
        return functools.partial(_shortened_in_shape, self.shape, self.domain.radius)

    def value(self, records: Records) -> Tangent:
        """The mean as a tangent vector at the centre, S^(1/2) applied."""
        y = self.shape.coordinates(self.coordinates(records))
        return self.shape.manifold.from_coordinates(self.shape.center, y)


def _shortened_in_shape(shape: Shape, radius: float, records: Point) -> tuple[Floats, Flags]:
    z, valid = shape.seen(records)
    points, longer = clipped(z, radius)
    return points, longer | ~valid


def each_by(rows: Floats, matrix: Floats) -> Floats:
    """A product for each row: one of all of them gives a record other bits at another place."""
    return (rows[:, None, :] @ matrix)[:, 0, :]
