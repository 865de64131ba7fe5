"""The mean of shaped logarithms at a public or released centre, and their clip radius, which public
records decide.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import numpy as np

from .. import _linalg
from ..domains import Domain
from ..manifolds._base import Point, Tangent
from ._prior_constants import BIAS_WEIGHT, RADIUS_FACTORS, RADIUS_QUANTILES
from ._public_prior import Shape
from ._query import Records
from ._tangent_mean import Flags, Floats, TangentMean, clipped


@dataclasses.dataclass(frozen=True, eq=False)
class ShapedMean(TangentMean):
    """The mean of z = S^(-1/2) log_c x over the records, each z shortened to at most the radius.

    The clip comes after the shape, so replacing one record moves the mean by at most 2 r / n in the
    Euclidean norm whatever the shape is, also one of low rank; a record counts as z = 0 where its
    logarithm is not defined or z is not finite. `of` makes one.

    Guarantee:
        As of `TangentMean`, in the coordinates z.

    Source:
        Proof: docs/proofs/prior.md, Theorem 1.
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


def transported(shape: Shape, to: Point) -> Shape:
    """The shape at another released point, its frame transported there: post-processing. What a
    transport that is no isometry bends is made orthonormal again.
    """
    space, center = shape.manifold, shape.center
    frame = space._transport(center, to, space._from_coordinates(center, shape.basis.T))
    left, _, right = _linalg.svd(np.asarray(space._to_coordinates(to, frame)).T, False)
    basis = np.asarray(left @ right)
    return shape._replace(center=to, basis=basis if np.isfinite(basis).all() else shape.basis)


def clip_radius(rows: Floats, shape: Shape, strength: float) -> float:
    """The radius at which the bias of clipping public vectors and the noise are least together.

    Args:
        rows: (n, rank), public tangent vectors in the frame: `PublicPrior.logs`, or `residuals` for
            a centre that is near the private mean.
        shape: At the public centre.
        strength: The number of private records over the noise multiplier.
    """
    lengths, sizes = shaped_lengths(rows, shape), np.linalg.norm(rows, axis=1)
    radii = [
        *np.quantile(lengths, RADIUS_QUANTILES),
        *(factor * lengths.max() for factor in RADIUS_FACTORS),
    ]
    whole = float(np.sum(shape.roots**2))

    def loss(radius: float) -> float:
        cut = float(np.mean(np.maximum(0.0, 1.0 - radius / np.maximum(lengths, radius)) * sizes))
        return (BIAS_WEIGHT * cut) ** 2 + 4.0 * radius**2 * whole / strength**2

    return float(min((radius for radius in radii if radius > 0.0), key=loss))


def shaped_lengths(rows: Floats, shape: Shape) -> Floats:
    """Lengths of public tangent vectors in the shape."""
    return np.linalg.norm(rows / shape.roots, axis=1)
