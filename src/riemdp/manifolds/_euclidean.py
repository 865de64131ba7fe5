"""Flat space: arrays of a fixed shape with the Euclidean (Frobenius) inner product."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._errors import integer
from .._namespace import namespace
from .._trees import all_finite
from ._arrays import standard_normals
from ._base import EPS, HomogeneousHadamard, set_field

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

    from .._namespace import Array


@dataclass(frozen=True, init=False)
class Euclidean(HomogeneousHadamard):
    """Arrays of a fixed shape with <u, v> = sum of u * v: a flat, complete, homogeneous space. Its
    dimension is the number of entries.

    `Euclidean(3)` is the space of vectors of R^3, `Euclidean(2, 3)` that of matrices, `Euclidean()`
    the real line. Every formula is exact: the exponential map is addition and transport is the
    identity. On this space the mechanisms of the package are the classical ones.

    Args:
        *shape: The length of each axis of a point, a whole number of at least 1.

    Raises:
        InvalidArgument: A length is not a whole number of at least 1.

    Examples:
        >>> import riemdp
        >>> plane = riemdp.Euclidean(2)
        >>> float(plane.dist([0.0, 0.0], [3.0, 4.0]))
        5.0
    """

    lengths: tuple[int, ...]

    def __init__(self, *shape: int) -> None:
        lengths = tuple(integer(f"shape[{i}]", n, at_least=1) for i, n in enumerate(shape))
        set_field(self, "lengths", lengths)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.lengths

    @property
    def dim(self) -> int:
        return math.prod(self.lengths)

    @property
    def origin(self) -> Array:
        return np.zeros(self.lengths)

    @property
    def curvature_bounds(self) -> tuple[float, float]:
        return (0.0, 0.0)

    def _exp(self, p: Array, v: Array) -> Array:
        return p + v

    def _log(self, p: Array, q: Array) -> Array:
        return q - p

    def _squared_dist(self, p: Array, q: Array) -> Float[Array, "*batch"]:
        xp = namespace(p, q)
        return xp.sum((q - p) ** 2, axis=self._axes)

    def _inner(self, p: Array, u: Array, v: Array) -> Float[Array, "*batch"]:
        xp = namespace(p, u, v)
        return xp.sum(self._over(p, u) * v, axis=self._axes)

    def _transport(self, p: Array, q: Array, v: Array) -> Array:
        return self._over(q, self._over(p, v))

    def _retract(self, p: Array, v: Array) -> Array:
        return p + v

    def _project(self, x: Array) -> Array:
        return x

    def _to_tangent(self, p: Array, x: Array) -> Array:
        return self._over(p, x)

    def _egrad_to_rgrad(self, p: Array, g: Array) -> Array:
        return self._over(p, g)

    def _defect(self, x: Array) -> Float[Array, "*batch"]:
        xp = namespace(x)
        return xp.where(all_finite(x, len(self._batch_shape(x))), 0.0, math.inf)

    def _is_tangent(self, p: Array, v: Array, atol: float) -> Bool[Array, "*batch"]:
        v = self._over(p, v)
        return all_finite(v, len(self._batch_shape(v)))

    def _random_point(self, rng: Any, shape: tuple[int, ...]) -> Array:
        return standard_normals(rng, shape + self.lengths)

    def _to_coordinates(self, p: Array, v: Array) -> Float[Array, "*batch dim"]:
        v = self._over(p, v)
        return namespace(v).reshape(v, (*self._batch_shape(v), self.dim))

    def _from_coordinates(self, p: Array, c: Float[Array, "*batch dim"]) -> Array:
        return self._over(p, namespace(c).reshape(c, c.shape[:-1] + self.lengths))

    def _ambient_diameter(self, center: Array, radius: float) -> float:
        return 2 * radius

    def _resolution(self, center: Array, radius: float) -> float:
        largest = float(np.max(np.abs(np.asarray(center)), initial=0.0))
        return 4.0 * EPS * math.sqrt(self.dim) * (largest + radius)

    def _log_volume_density(self, p: Array, v: Array) -> Float[Array, "*batch"]:
        return namespace(p, v).zeros(self._batch_shape(self._over(p, v)))

    def _over(self, p: Array, v: Array) -> Array:
        """v with the batch axes of p, which flat formulas would otherwise forget."""
        return namespace(p, v).broadcast_to(v, np.broadcast_shapes(p.shape, v.shape))
