"""Kendall's space of planar shapes: landmarks in the plane up to position, size and rotation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from .._errors import integer
from .._namespace import namespace
from ._base import Homogeneous, set_field
from ._numerics import dot, log_sinc_sqrt, normalised
from ._sphere import Sphere

if TYPE_CHECKING:
    from jaxtyping import Float

    from .._namespace import Array


@dataclass(frozen=True)
class KendallShapes(Homogeneous):
    """Shapes of k landmarks in the plane: outlines of leaves, bones or the corpus callosum, of
    which position, size and rotation do not matter. The dimension is 2 k - 4.

    A point is given by any of its preshapes: an array (k, 2) of landmarks whose mean is 0 and whose
    squares add up to 1. `project` makes one of raw landmarks (k, 2), whatever their position and
    size; landmarks that all coincide have no shape, and go to the origin. A preshape and the same
    one turned are the same point: `dist` does not tell them apart. A mirror image is another point,
    and so is the same outline with its landmarks in another order.

    With landmarks as complex numbers this is the complex projective space CP^(k-2), the quotient of
    the sphere of preshapes by turns. A tangent vector at a preshape p is its horizontal lift: an
    array v (k, 2) of mean 0 with <p, v> = 0 in complex numbers, so that it neither moves, sizes nor
    turns; the metric is the sum of products. exp(p, v) is the great circle of the sphere, which
    stays horizontal; for log(p, q) first q is turned to where <p, q> is real and at least 0.
    Results of `log` and `transport` belong to the preshapes that were passed in.

    **Where things are defined.** cos dist(p, q) = |<p, q>|. The injectivity radius is pi/2; the cut
    locus of p is where <p, q> = 0, at distance pi/2, the largest there is. There one minimising
    geodesic is returned. Sectional curvature is from 1 to 4, and 4 for k = 3. So a Fréchet mean has
    a sensitivity in balls of radius below pi/8, and a tangent mean below pi/2.

    Args:
        k: Number of landmarks, at least 3.

    Raises:
        InvalidArgument: `k` is not a whole number of at least 3.

    Source:
        Kendall 1984 (shapes in the plane are CP^(k-2)); Le and Kendall 1993 (horizontal lifts, and
        curvature by them).

    Examples:
        >>> import numpy as np
        >>> import riemdp
        >>> shapes = riemdp.KendallShapes(4)
        >>> square = shapes.project([[0, 0], [1, 0], [1, 1], [0, 1]])
        >>> turned = shapes.project([[5, 5], [5, 7], [3, 7], [3, 5]])
        >>> oblong = shapes.project([[0, 0], [2, 0], [2, 1], [0, 1]])
        >>> bool(shapes.dist(square, turned) < 1e-15), round(float(shapes.dist(square, oblong)), 4)
        (True, 0.3218)
    """

    k: int

    def __post_init__(self) -> None:
        set_field(self, "k", integer("k", self.k, at_least=3))

    # ---------------------------------------------------------------- facts
    @property
    def shape(self) -> tuple[int, ...]:
        return (self.k, 2)

    @property
    def dim(self) -> int:
        return 2 * self.k - 4

    @property
    def origin(self) -> Float[Array, "k 2"]:
        """The regular polygon, its corners in order against the clock."""
        turns = 2.0 * math.pi * np.arange(self.k) / self.k
        return np.stack([np.cos(turns), np.sin(turns)], axis=-1) / math.sqrt(self.k)

    @property
    def curvature_bounds(self) -> tuple[float, float]:
        """(1, 4); (4, 4) for triangles, which form a sphere of radius 1/2."""
        return (1.0 if self.k > 3 else 4.0, 4.0)

    @property
    def _mean_curvature(self) -> float:
        return (self.dim + 2) / (self.dim - 1)  # the Ricci curvature is dim + 2

    @property
    def is_hadamard(self) -> bool:
        return False

    _repaired: ClassVar[str] = "each block"
    _is_submanifold: ClassVar[bool] = True

    def _why_not(self, record: np.ndarray) -> str:
        return "does not have mean 0 and squares that add up to 1: `project` the landmarks"

    @property
    def _preshapes(self) -> Sphere:
        return Sphere(2 * self.k)

    # ---------------------------------------------------------------- geodesics
    def _exp(self, p: Array, v: Array) -> Array:
        return _unflat(self._preshapes._exp(_flat(p), _flat(v)))

    def _log(self, p: Array, q: Array) -> Array:
        return self._to_tangent(p, _unflat(self._preshapes._log(_flat(p), _flat(_turned(p, q)))))

    def _dist(self, p: Array, q: Array) -> Float[Array, "*batch"]:
        return self._preshapes._dist(_flat(p), _flat(_turned(p, q)))

    def _squared_dist(self, p: Array, q: Array) -> Float[Array, "*batch"]:
        return self._preshapes._squared_dist(_flat(p), _flat(_turned(p, q)))

    def _transport(self, p: Array, q: Array, v: Array) -> Array:
        # Complex lines along the geodesic are parallel, what is orthogonal to them stays: with
        # m = p + q, q turned towards p, this is v - 2 <m, v> / |m|^2 m in complex numbers.
        near = _turned(p, q)
        m = p + near
        share = -2.0 * _product(m, v) / dot(_flat(m), _flat(m))[..., None]
        moved = v + _times(share, m)
        return self._to_tangent(q, _times(normalised(_product(near, q)), moved))

    def _retract(self, p: Array, v: Array) -> Array:
        return _unflat(normalised(_flat(p + v)))

    # ---------------------------------------------------------------- metric and ambient space
    def _inner(self, p: Array, u: Array, v: Array) -> Float[Array, "*batch"]:
        return self._preshapes._inner(_flat(p), _flat(u), _flat(v))

    def _project(self, x: Array) -> Array:
        """x less its mean, over its size."""
        xp = namespace(x)
        found = _unflat(normalised(_flat(_centred(x))))
        coincide = xp.all(x == x[..., :1, :], axis=(-2, -1))
        return xp.where(coincide[..., None, None], self.origin, found)

    def _to_tangent(self, p: Array, x: Array) -> Array:
        """The horizontal part: without what moves, sizes (<p, x> real) or turns (imaginary)."""
        centred = _centred(x)
        return centred - _times(_product(p, centred), p)

    # ---------------------------------------------------------------- coordinates
    def _to_coordinates(self, p: Array, v: Array) -> Float[Array, "*batch dim"]:
        return _flat(_reflect(self._reduced(p), self._reduced(v))[..., 1:, :])

    def _from_coordinates(self, p: Array, c: Float[Array, "*batch dim"]) -> Array:
        xp = namespace(p, c)
        v = xp.concat([xp.zeros((*c.shape[:-1], 1, 2)), _unflat(c)], axis=-2)
        y = _reflect(self._reduced(p), v)
        total = xp.sum(y, axis=-2, keepdims=True) / math.sqrt(self.k)
        rest = y - total / (math.sqrt(self.k) + 1.0)
        return self._to_tangent(p, xp.concat([-total, rest], axis=-2))

    def _reduced(self, x: Array) -> Array:
        """Centred landmarks as k - 1 complex coordinates of the same length: the reflection that
        carries the vector of ones to the first axis, without that axis.
        """
        return x[..., 1:, :] - x[..., :1, :] / (math.sqrt(self.k) + 1.0)

    def _injectivity_radius(self, p: Array) -> Float[Array, "*batch"]:
        return namespace(p).full(self._batch_shape(p), 0.5 * math.pi)

    def _log_volume_density(self, p: Array, v: Array) -> Float[Array, "*batch"]:
        """(dim - 2) log(sin|v| / |v|) + log(sin(2|v|) / (2|v|))."""
        square = self._inner(p, v, v)
        return (self.dim - 2) * log_sinc_sqrt(square) + log_sinc_sqrt(4.0 * square)


def _flat(x: Array) -> Array:
    return x.reshape(*x.shape[:-2], 2 * x.shape[-2])


def _unflat(x: Array) -> Array:
    return x.reshape(*x.shape[:-1], x.shape[-1] // 2, 2)


def _centred(x: Array) -> Array:
    return x - namespace(x).mean(x, axis=-2, keepdims=True)


def _product(p: Array, q: Array) -> Float[Array, "*batch 2"]:
    """The complex product <p, q>, real and imaginary part; exactly real for p = q."""
    (px, py), (qx, qy) = ((a[..., 0], a[..., 1]) for a in (p, q))
    return namespace(p, q).stack([dot(px, qx) + dot(py, qy), dot(px, qy) - dot(py, qx)], axis=-1)


def _times(number: Float[Array, "*batch 2"], x: Array) -> Array:
    """x, its landmarks as complex numbers, times a complex number."""
    re, im = number[..., 0, None], number[..., 1, None]
    return namespace(number, x).stack(
        [re * x[..., 0] - im * x[..., 1], re * x[..., 1] + im * x[..., 0]], axis=-1
    )


def _turned(p: Array, q: Array) -> Array:
    """q turned to where <p, q> is real and at least 0; as it is where that is 0."""
    return _times(normalised(_product(p, q)) * np.array([1.0, -1.0]), q)


def _reflect(p: Array, v: Array) -> Array:
    """The complex reflection that carries p to a multiple of the first axis, on the far side from
    p: unitary and its own inverse, so that it carries what is orthogonal to p to the other axes.
    """
    xp = namespace(p, v)
    phase = normalised(p[..., 0, :])
    normal = xp.concat([p[..., :1, :] + phase[..., None, :], p[..., 1:, :]], axis=-2)
    share = -2.0 * _product(normal, v) / dot(_flat(normal), _flat(normal))[..., None]
    return v + _times(share, normal)
