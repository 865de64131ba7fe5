"""Hyperbolic space as the Poincare ball."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from .._errors import integer
from .._namespace import namespace
from .._trees import all_finite
from ._arrays import standard_normals
from ._base import EPS, HomogeneousHadamard, set_field
from ._numerics import (
    asinhc_sqrt,
    cosh_sqrt,
    dot,
    log_sinhc_sqrt,
    safe_norm,
    safe_sqrt,
    tanhc_sqrt,
)

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

    from .._namespace import Array

_LARGEST_NORM = (
    1.0 - 1e-15
)  # farther out, 1 - |x|^2 has no correct digit; the distance to the origin is 35.2 there


@dataclass(frozen=True)
class PoincareBall(HomogeneousHadamard):
    """Hyperbolic space of curvature -1 in the open unit ball of R^n, with the metric <u, v>_p =
    4 <u, v> / (1 - |p|^2)^2. The dimension is n.

    Tangent vectors are any vectors of R^n. Formulas are written through |p - q|^2, 1 - |p|^2 and 1
    - |q|^2 alone, so that nothing cancels for close points. Results are kept inside |x| <= 1 -
    1e-15. Near the rim the coordinates themselves are ill conditioned: at distance R from the
    centre a rounding error is worth about e^R * 1e-16 in Riemannian length; beyond R = 15 use
    `Lorentz`, whose radial coordinate does not saturate.

    Args:
        n: Number of coordinates, at least 1.

    Raises:
        InvalidArgument: `n` is not a whole number of at least 1.

    Examples:
        >>> import math
        >>> import riemdp
        >>> disk = riemdp.PoincareBall(2)
        >>> round(float(disk.dist([0.0, 0.0], [math.tanh(0.5), 0.0])), 4)
        1.0
    """

    n: int

    def __post_init__(self) -> None:
        set_field(self, "n", integer("n", self.n, at_least=1))

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.n,)

    @property
    def dim(self) -> int:
        return self.n

    @property
    def origin(self) -> Array:
        """The centre of the ball."""
        return np.zeros(self.n)

    @property
    def curvature_bounds(self) -> tuple[float, float]:
        """(-1, -1); (0, 0) for the line n = 1, which has no planes."""
        return (-1.0, -1.0) if self.n > 1 else (0.0, 0.0)

    _repaired: ClassVar[str] = "each step"
    # The gap 1 - |x|^2 has 3 digits left at 30.
    _farthest: ClassVar[float] = 30.0
    _widest_ball: ClassVar[float] = 15.0

    def _why_not(self, record: np.ndarray) -> str:
        return "lies outside the unit ball"

    def _mean_start(self, mean: Array) -> Array | None:
        """The projected arithmetic mean."""
        return self._project(mean)

    def _exp(self, p: Array, v: Array) -> Array:
        xp = namespace(p, v)
        # p (+) y with y = tanh(|v| / a) v / |v|, a = 1 - |p|^2. The Mobius sum is p + a (y + |y|^2
        # p) / (|p + y|^2 + a b) with b = 1 - |y|^2 = 1 / cosh^2: written so, small steps keep their
        # accuracy and the denominator is positive.
        a = _gap(p)
        w = v / a[..., None]
        s = dot(w, w)
        y = tanhc_sqrt(s)[..., None] * w
        b = cosh_sqrt(xp.minimum(s, 300.0**2)) ** -2
        denominator = dot(p + y, p + y) + a * b
        return _inside(p + (a / denominator)[..., None] * (y + dot(y, y)[..., None] * p))

    def _log(self, p: Array, q: Array) -> Array:
        xp = namespace(p, q)
        a, b = _gap(p), _gap(q)
        delta = q - p
        u = dot(delta, delta) / (a * b)  # sinh^2(D / 2)
        factor = a * asinhc_sqrt(u) / xp.sqrt(1.0 + u)
        return factor[..., None] * (delta / b[..., None] - u[..., None] * p)

    def _dist(self, p: Array, q: Array) -> Float[Array, "*batch"]:
        xp = namespace(p, q)
        return 2.0 * xp.asinh(safe_sqrt(_squared_half_sinh(p, q)))

    def _squared_dist(self, p: Array, q: Array) -> Float[Array, "*batch"]:
        u = _squared_half_sinh(p, q)
        return 4.0 * u * asinhc_sqrt(u) ** 2

    def _inner(self, p: Array, u: Array, v: Array) -> Float[Array, "*batch"]:
        return dot(self._to_coordinates(p, u), self._to_coordinates(p, v))

    def _norm(self, p: Array, v: Array) -> Float[Array, "*batch"]:
        return safe_norm(self._to_coordinates(p, v))

    def _transport(self, p: Array, q: Array, v: Array) -> Array:
        # (1 - |q|^2) / (1 - |p|^2) gyr[q, -p] v; the gyration written so that each correction
        # carries a factor q - p.
        a, b = _gap(p), _gap(q)
        delta = q - p
        d2, pv, dv = dot(delta, delta), dot(p, v), dot(delta, v)
        along_delta = -a * pv - dv * dot(p, p) + 2.0 * dot(p, delta) * pv
        along_p = a * dv - d2 * pv
        turn = along_delta[..., None] * delta + along_p[..., None] * p
        return (b / a)[..., None] * (v + (2.0 / (d2 + a * b))[..., None] * turn)

    def _project(self, x: Array) -> Array:
        """Points outside go to the sphere |x| = 1 - 1e-15, radially."""
        return _inside(x)

    def _ambient_diameter(self, center: Array, radius: float) -> float:
        return min(radius, 2.0)

    def _ambient_reach(self, center: Array, radius: float) -> float:
        return min(radius / 2, 2.0)

    def _to_tangent(self, p: Array, x: Array) -> Array:
        return namespace(p, x).broadcast_to(x, np.broadcast_shapes(p.shape, x.shape))

    def _egrad_to_rgrad(self, p: Array, g: Array) -> Array:
        return (_gap(p) ** 2 / 4.0)[..., None] * g

    def _defect(self, x: Array) -> Float[Array, "*batch"]:
        """None inside the open ball, and no tolerance outside: the rim is infinitely far away."""
        return namespace(x).where(dot(x, x) < 1.0, 0.0, math.inf)

    def _is_tangent(self, p: Array, v: Array, atol: float) -> Bool[Array, "*batch"]:
        return all_finite(p, p.ndim - 1) & all_finite(v, v.ndim - 1)

    def _random_point(self, rng: Any, shape: tuple[int, ...]) -> Array:
        """exp at the centre of a standard normal tangent vector."""
        a = standard_normals(rng, (*shape, self.n)) / 2.0
        return _inside(tanhc_sqrt(dot(a, a))[..., None] * a)

    def _to_coordinates(self, p: Array, v: Array) -> Float[Array, "*batch dim"]:
        return v * (2.0 / _gap(p))[..., None]

    def _from_coordinates(self, p: Array, c: Float[Array, "*batch dim"]) -> Array:
        return c * (_gap(p) / 2.0)[..., None]

    @property
    def _moves_to_origin(self) -> bool:
        return True

    def _resolution(self, center: Array, radius: float) -> float:
        growth = radius + float(self._dist(self.origin, center))  # errors grow towards the rim
        spread = math.exp(growth) if growth < 700 else math.inf
        # What lies at the rim, moved inwards, loses 0.03 of this at most, of 1e7 such values.
        return EPS * math.sqrt(self.n) * (8.0 * (1.0 + radius) + 64.0 * spread)

    def _log_volume_density(self, p: Array, v: Array) -> Float[Array, "*batch"]:
        """(dim - 1) log(sinh|v| / |v|)."""
        return (self.n - 1) * log_sinhc_sqrt(self._inner(p, v, v))


def _gap(p: Array) -> Array:
    """1 - |p|^2."""
    return 1.0 - dot(p, p)


def _squared_half_sinh(p: Array, q: Array) -> Array:
    """sinh^2(D / 2)."""
    return dot(q - p, q - p) / (_gap(p) * _gap(q))


def _inside(x: Array) -> Array:
    """Radially back to |x| <= 1 - 1e-15."""
    xp = namespace(x)
    s = dot(x, x)[..., None]
    outside = s > _LARGEST_NORM**2
    return xp.where(outside, x * (_LARGEST_NORM / xp.sqrt(xp.where(outside, s, 1.0))), x)
