"""The unit sphere with the metric of the space around it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from .._errors import integer
from .._namespace import namespace
from .._trees import all_finite
from ._base import Homogeneous, set_field
from ._numerics import (
    atanc_sqrt,
    cos_sqrt,
    dot,
    log_sinc_sqrt,
    normalised,
    safe_divide,
    safe_norm,
    safe_sqrt,
    sinc_sqrt,
)

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

    from .._namespace import Array, Floats


@dataclass(frozen=True)
class Sphere(Homogeneous):
    """Unit vectors of R^n with the metric of R^n. The dimension is n - 1, the sectional curvature
    is 1, the injectivity radius is pi.

    A tangent vector at p is a vector of R^n orthogonal to p. Distances use chord lengths, 2
    atan2(|p - q|, |p + q|), which are accurate both for close and for nearly opposite points (an
    arccos is accurate for neither). At exactly opposite points the geodesic is not unique: `log`
    then returns one of the vectors of length pi (so that |log| = dist always holds), and
    `transport`, which has no limit there, carries along the geodesic of that vector.

    Args:
        n: Number of coordinates, at least 2.

    Raises:
        InvalidArgument: `n` is not a whole number of at least 2.

    Examples:
        >>> import riemdp
        >>> space = riemdp.Sphere(3)
        >>> round(float(space.dist([1.0, 0.0, 0.0], [-1.0, 0.0, 0.0])), 4)
        3.1416
    """

    n: int

    def __post_init__(self) -> None:
        set_field(self, "n", integer("n", self.n, at_least=2))

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.n,)

    @property
    def dim(self) -> int:
        return self.n - 1

    @property
    def origin(self) -> Array:
        """The first unit vector."""
        return np.eye(1, self.n)[0]

    @property
    def curvature_bounds(self) -> tuple[float, float]:
        """(1, 1). A circle has no planes to be curved; the same bound is kept there, which errs on
        the safe side.
        """
        return (1.0, 1.0)

    @property
    def is_hadamard(self) -> bool:
        return False

    _repaired: ClassVar[str] = "never"  # exp and the retraction end on the sphere
    _is_submanifold: ClassVar[bool] = True

    def _why_not(self, record: np.ndarray) -> str:
        return "does not have length 1"

    def _mean_start(self, mean: Array) -> Array | None:
        """The direction of the arithmetic mean."""
        return self._project(mean)

    def _exp(self, p: Array, v: Array) -> Array:
        xp = namespace(p, v)
        s = dot(v, v)[..., None]
        end = cos_sqrt(s) * p + sinc_sqrt(s) * v
        # Rounding must not accumulate over many steps. The length is nearly 1: no square overflows.
        return end / xp.sqrt(dot(end, end))[..., None]

    def _log(self, p: Array, q: Array) -> Array:
        xp = namespace(p, q)
        s, t = _chords(p, q)
        same_side = s <= t
        # q - <p, q> p without cancellation: take it from q - p or q + p, whichever is short.
        short = q + xp.where(same_side, -1.0, 1.0)[..., None] * p
        u = short - dot(p, short)[..., None] * p
        ratio = xp.where(same_side, s / xp.where(same_side, t, 1.0), 0.0)
        near = (atanc_sqrt(ratio) * (1.0 + ratio))[..., None] * u  # D / sin D, analytic at D = 0
        far_u = xp.where(same_side[..., None], 1.0, u)
        length = safe_norm(far_u)
        opposite = (length == 0.0)[..., None]
        unit = far_u / xp.where(opposite, 1.0, length[..., None])
        unit = xp.where(opposite, self._first_direction(p), unit)
        return xp.where(same_side[..., None], near, _angle(s, t)[..., None] * unit)

    def _log_sum(self, p: Array, q: Array, added: Callable[[Any], Any]) -> tuple[Floats, Any]:
        if type(self) is not Sphere:  # a subclass may have logarithms of its own
            return super()._log_sum(p, q, added)
        # log q is angle / sin(angle) times the tangent part of q, which q - p and q + p have too:
        # the shorter is taken, in which nothing cancels
        cosine = np.vecdot(q, p)
        near = cosine >= 0.0
        way = np.multiply.outer(np.where(near, -1.0, 1.0), p)
        way += q
        square, off = np.vecdot(way, way), np.vecdot(way, p)
        across = square - off * off  # what is tangent to the sphere
        turn = np.arctan2(np.sqrt(np.maximum(across, 0.0)), np.abs(cosine))
        angle = np.where(near, turn, math.pi - turn)
        aligned = across <= 0.0
        stretch = np.where(aligned, 1.0, angle / np.sqrt(np.where(aligned, 1.0, across)))
        opposite = np.where(aligned & ~near, math.pi, 0.0)  # along the first coordinate
        way *= stretch[:, None]
        whole, aside, squares = added((way, opposite, angle * angle))
        log: Any = self._to_coordinates(p, whole)  # which has no coordinate along p
        log[0] += aside
        return log, squares

    def _first_direction(self, p: Array) -> Array:
        """The way to the opposite point, where all directions are as short."""
        return _reflect(p, np.eye(1, self.n, 1)[0])

    def _dist(self, p: Array, q: Array) -> Float[Array, "*batch"]:
        return _angle(*_chords(p, q))

    def _squared_dist(self, p: Array, q: Array) -> Float[Array, "*batch"]:
        xp = namespace(p, q)
        s, t = _chords(p, q)
        near = s <= t
        ratio = xp.where(near, s / xp.where(near, t, 1.0), 0.0)
        return xp.where(near, 4.0 * ratio * atanc_sqrt(ratio) ** 2, _angle(s, t) ** 2)

    def _inner(self, p: Array, u: Array, v: Array) -> Float[Array, "*batch"]:
        return dot(u, v) + np.zeros(self._batch_shape(p))

    def _transport(self, p: Array, q: Array, v: Array) -> Array:
        xp = namespace(p, q, v)
        # u - <q, u> / (1 + <p, q>) (p + q) is, on vectors orthogonal to p, the reflection in the
        # hyperplane orthogonal to p + q: written so, nothing cancels when q comes near -p.
        m = p + q
        across = m - dot(p, m)[..., None] * p
        opposite = (dot(p, q) < 0.0) & (dot(across, across) == 0.0)
        m = xp.where(opposite[..., None], self._first_direction(p), m)
        return v - safe_divide(2.0 * dot(m, v), dot(m, m))[..., None] * m

    def _retract(self, p: Array, v: Array) -> Array:
        return normalised(p + v)

    def _project(self, x: Array) -> Array:
        """x / |x|; the zero vector, which has no nearest point, goes to the origin of the space."""
        return normalised(x)

    def _to_tangent(self, p: Array, x: Array) -> Array:
        return x - dot(p, x)[..., None] * p

    def _defect(self, x: Array) -> Float[Array, "*batch"]:
        return namespace(x).abs(safe_norm(x) - 1.0)

    def _is_tangent(self, p: Array, v: Array, atol: float) -> Bool[Array, "*batch"]:
        xp = namespace(p, v)
        return (
            all_finite(p, p.ndim - 1)
            & all_finite(v, v.ndim - 1)
            & (xp.abs(dot(p, v)) <= atol * xp.maximum(1.0, safe_norm(v)))
        )

    def _to_coordinates(self, p: Array, v: Array) -> Float[Array, "*batch dim"]:
        return _reflect(p, v)[..., 1:]

    def _from_coordinates(self, p: Array, c: Float[Array, "*batch dim"]) -> Array:
        xp = namespace(p, c)
        return _reflect(p, xp.concat([xp.zeros_like(c[..., :1]), c], axis=-1))

    def _injectivity_radius(self, p: Array) -> Float[Array, "*batch"]:
        return namespace(p).full(self._batch_shape(p), math.pi)

    def _ambient_diameter(self, center: Array, radius: float) -> float:
        return 2 * math.sin(radius) if radius < math.pi / 2 else 2.0

    def _ambient_reach(self, center: Array, radius: float) -> float:
        return 2 * math.sin(min(radius, math.pi) / 2)

    def _log_volume_density(self, p: Array, v: Array) -> Float[Array, "*batch"]:
        """(dim - 1) log(sin|v| / |v|)."""
        return (self.dim - 1) * log_sinc_sqrt(self._inner(p, v, v))


def _chords(p: Array, q: Array) -> tuple[Array, Array]:
    """|p - q|^2 and |p + q|^2; their root ratio is the tangent of half the angle.

    p - q and p + q are orthogonal if both lengths are exactly 1. The shorter one is made so:
    lengths wrong by one rounding would add 1e-16 to a chord, which is 1e-4 of one of length 1e-12.
    """
    xp = namespace(p, q)
    d, m = p - q, p + q
    dd, mm, along = dot(d, d), dot(m, m), dot(d, m)
    near = dd <= mm
    short, long = xp.where(near, dd, mm), xp.where(near, mm, dd)
    off = along * along / long
    short = xp.where(off > short, 0.0, short - off)
    return xp.where(near, short, long), xp.where(near, long, short)


def _angle(s: Array, t: Array) -> Array:
    return 2.0 * namespace(s, t).atan2(safe_sqrt(s), safe_sqrt(t))


def _reflect(p: Array, v: Array) -> Array:
    """The reflection that carries p to the first axis, on the far side from p (then the mirror's
    normal has length >= sqrt 2).

    It is orthogonal and its own inverse, so it carries the tangent space at p to the last n - 1
    axes and back.
    """
    xp = namespace(p, v)
    side = xp.where(p[..., :1] >= 0.0, 1.0, -1.0)
    normal = xp.concat([p[..., :1] + side, p[..., 1:]], axis=-1)
    return v - (2.0 * dot(normal, v) / dot(normal, normal))[..., None] * normal
