"""The Riemannian product of manifolds; points and tangent vectors are tuples."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._errors import InvalidArgument, invalid
from .._namespace import namespace
from ._arrays import split
from ._base import AbstractManifold, Point, Tangent, set_field

if TYPE_CHECKING:
    from jaxtyping import ArrayLike, Bool, Float

    from .._namespace import Array


@dataclass(frozen=True, init=False)
class Product(AbstractManifold):
    """The product M_1 x ... x M_k with the sum of the metrics. Points and tangent vectors are
    tuples with one entry a factor.

    Every operation acts factor by factor; squared distances, inner products and log volume
    densities add up, coordinates and noise are concatenated in the order of the factors. A plane
    spanned by vectors of different factors is flat, so `curvature_bounds` always includes 0 when
    there are two factors or more. `shape` is the tuple of the factors' shapes. Factors may be
    products themselves.

    Args:
        *manifolds: The factors, at least one.

    Raises:
        InvalidArgument: There is no factor, or a factor is not a manifold.

    Examples:
        >>> import riemdp
        >>> space = riemdp.Product(riemdp.Sphere(3), riemdp.Euclidean(2))
        >>> space.dim, space.shape
        (4, ((3,), (2,)))
    """

    manifolds: tuple[AbstractManifold, ...]

    def __init__(self, *manifolds: AbstractManifold) -> None:
        if not manifolds:
            raise InvalidArgument(
                "argument `manifolds` is empty: give at least one manifold, as in"
                " Product(Sphere(3))"
            )
        for i, factor in enumerate(manifolds):
            if not isinstance(factor, AbstractManifold):
                raise invalid(
                    f"manifolds[{i}]",
                    factor,
                    "give manifolds, as in Product(Sphere(3), Euclidean(2))",
                )
        set_field(self, "manifolds", manifolds)

    @property
    def shape(self) -> tuple[Any, ...]:
        return tuple(m.shape for m in self.manifolds)

    @property
    def dim(self) -> int:
        return sum(m.dim for m in self.manifolds)

    @property
    def noise_size(self) -> int:
        return sum(m.noise_size for m in self.manifolds)

    @property
    def origin(self) -> Point:
        return tuple(m.origin for m in self.manifolds)

    @property
    def curvature_bounds(self) -> tuple[float, float]:
        low, high = zip(*(m.curvature_bounds for m in self.manifolds), strict=True)
        mixed = (0.0,) if len(self.manifolds) > 1 else ()
        return (min(low + mixed), max(high + mixed))

    @property
    def _mean_curvature(self) -> float:
        # planes of two factors are flat
        scalar = sum(m._mean_curvature * m.dim * (m.dim - 1) for m in self.manifolds)
        return scalar / max(1, self.dim * (self.dim - 1))

    @property
    def is_hadamard(self) -> bool:
        return all(m.is_hadamard for m in self.manifolds)

    @property
    def is_homogeneous(self) -> bool:
        return all(m.is_homogeneous for m in self.manifolds)

    @property
    def transport_is_parallel(self) -> bool:
        return all(m.transport_is_parallel for m in self.manifolds)

    @property
    def transport_is_nonexpansive(self) -> bool:
        return all(m.transport_is_nonexpansive for m in self.manifolds)

    def _each(self, operation: str, *arguments: Point) -> tuple[Any, ...]:
        """`operation` of every factor on its own entries of `arguments`."""
        return tuple(
            getattr(m, operation)(*entries)
            for m, *entries in zip(self.manifolds, *arguments, strict=True)
        )

    def _sum(self, operation: str, *arguments: Point) -> Array:
        total, *others = self._each(operation, *arguments)
        for term in others:
            total = total + term
        return total

    def _split(self, x: Array, lengths: list[int]) -> tuple[Array, ...]:
        """Cut the last axis of `x` into pieces of these lengths."""
        ends = [sum(lengths[: i + 1]) for i in range(len(lengths))]
        return tuple(x[..., end - length : end] for end, length in zip(ends, lengths, strict=True))

    def _exp(self, p: Point, v: Tangent) -> Point:
        return self._each("_exp", p, v)

    def _log(self, p: Point, q: Point) -> Tangent:
        return self._each("_log", p, q)

    def _squared_dist(self, p: Point, q: Point) -> Float[Array, "*batch"]:
        return self._sum("_squared_dist", p, q)

    def _inner(self, p: Point, u: Tangent, v: Tangent) -> Float[Array, "*batch"]:
        return self._sum("_inner", p, u, v)

    def _transport(self, p: Point, q: Point, v: Tangent) -> Tangent:
        return self._each("_transport", p, q, v)

    def _retract(self, p: Point, v: Tangent) -> Point:
        return self._each("_retract", p, v)

    def _project(self, x: Point) -> Point:
        return self._each("_project", x)

    def _to_tangent(self, p: Point, x: Tangent) -> Tangent:
        return self._each("_to_tangent", p, x)

    def _egrad_to_rgrad(self, p: Point, g: Tangent) -> Tangent:
        return self._each("_egrad_to_rgrad", p, g)

    def _defect(self, x: Point) -> Float[Array, "*batch"]:
        largest, *others = self._each("_defect", x)
        for defect in others:
            largest = namespace(largest, defect).maximum(largest, defect)
        return largest

    def _repair(self, x: Point) -> Point:
        return self._each("_repair", x)

    def _curvature_in_ball(self, center: Point, radius: float) -> float:
        # Sectional curvature is at most the largest of the factors', or 0 between them.
        return max(
            0.0,
            *(m._curvature_in_ball(c, radius) for m, c in zip(self.manifolds, center, strict=True)),
        )

    def _convexity_limit(self, center: Point) -> float:
        return min(m._convexity_limit(c) for m, c in zip(self.manifolds, center, strict=True))

    @property
    def _scales(self) -> int:
        return sum(m._scales for m in self.manifolds)

    def _log_scales(self, x: Point) -> Float[Array, "*batch scales"]:
        return namespace(x).concat(self._each("_log_scales", x), axis=-1)

    def _rescaled(self, p: Point, scales: Float[ArrayLike, " scales"]) -> Point:
        parts = self._split(
            namespace(p, scales).asarray(scales), [m._scales for m in self.manifolds]
        )
        return self._each("_rescaled", p, parts)

    def _search_radius(self, p: Point) -> float:
        return math.hypot(*self._each("_search_radius", p))

    def _resolution(self, center: Point, radius: float) -> float:
        parts = zip(self.manifolds, center, strict=True)
        return math.hypot(*(m._resolution(c, radius) for m, c in parts))

    def _is_tangent(self, p: Point, v: Tangent, atol: float) -> Bool[Array, "*batch"]:
        parts = zip(self.manifolds, p, v, strict=True)
        return functools.reduce(operator.and_, (m._is_tangent(a, b, atol) for m, a, b in parts))

    def _random_point(self, rng: Any, shape: tuple[int, ...]) -> Point:
        each = split(rng, len(self.manifolds))
        return tuple(m._random_point(k, shape) for m, k in zip(self.manifolds, each, strict=True))

    def _tangent_from_normals(self, p: Point, z: Float[Array, "*batch noise"]) -> Tangent:
        return self._each(
            "_tangent_from_normals", p, self._split(z, [m.noise_size for m in self.manifolds])
        )

    def _to_coordinates(self, p: Point, v: Tangent) -> Float[Array, "*batch dim"]:
        return _joined(self._each("_to_coordinates", p, v))

    def _from_coordinates(self, p: Point, c: Float[Array, "*batch dim"]) -> Tangent:
        return self._each("_from_coordinates", p, self._parts(c))

    def _log_coordinates(self, p: Point, q: Point) -> Float[Array, "*batch dim"]:
        return _joined(self._each("_log_coordinates", p, q))

    def _radially(self, p: Point, q: Point) -> tuple[Array, Callable[[Array], Point]]:
        """Factor by factor: a product has the points on the way that its factors have."""
        if type(self) is not Product:  # a subclass may have geodesics of its own
            return super()._radially(p, q)
        seen = self._each("_radially", p, q)
        square = sum(distance**2 for distance, _ in seen)
        return namespace(square).sqrt(square), lambda share: tuple(at(share) for _, at in seen)

    def _exp_coordinates(self, p: Point, c: Float[Array, "*batch dim"]) -> Point:
        return self._each("_exp_coordinates", p, self._parts(c))

    def _parts(self, c: Float[Array, "*batch dim"]) -> Any:
        """The coordinates of each factor."""
        return self._split(c, [m.dim for m in self.manifolds])

    def _injectivity_radius(self, p: Point) -> Float[Array, "*batch"]:
        smallest, *others = self._each("_injectivity_radius", p)
        for radius in others:
            smallest = namespace(smallest, radius).minimum(smallest, radius)
        return smallest

    def _log_volume_density(self, p: Point, v: Tangent) -> Float[Array, "*batch"]:
        return self._sum("_log_volume_density", p, v)

    def _coerce(self, name: str, x: Point) -> Any:
        """Check that `x` is a tuple (or list) with one entry a factor, and convert each entry."""
        if not isinstance(x, tuple | list) or len(x) != len(self.manifolds):
            wanted = f"{self!r} needs a tuple of {len(self.manifolds)} arrays, one a factor"
            raise invalid(
                name,
                f"a {type(x).__name__}" + (f" of {len(x)}" if isinstance(x, tuple | list) else ""),
                wanted,
            )
        entries = tuple(
            m._coerce(f"{name}[{i}]", e)
            for i, (m, e) in enumerate(zip(self.manifolds, x, strict=True))
        )
        try:
            self._batch_shape(entries)
        except ValueError as error:
            batches = [m._batch_shape(e) for m, e in zip(self.manifolds, entries, strict=True)]
            raise InvalidArgument(
                f"argument `{name}` has entries with batch shapes {batches}, which do not"
                " broadcast; give every entry the same leading axes"
            ) from error
        return entries

    def _batch_shape(self, p: Point) -> tuple[int, ...]:
        return np.broadcast_shapes(
            *(m._batch_shape(e) for m, e in zip(self.manifolds, p, strict=True))
        )


def _joined(parts: tuple[Array, ...]) -> Array:
    """Coordinates of the factors, one behind the other."""
    xp = namespace(parts)
    batch = np.broadcast_shapes(*(c.shape[:-1] for c in parts))
    return xp.concat([xp.broadcast_to(c, batch + c.shape[-1:]) for c in parts], axis=-1)
