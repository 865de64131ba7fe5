"""Hyperbolic space as the upper sheet of the hyperboloid, time coordinate first."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from .._errors import integer
from .._namespace import is_jax, namespace, with_derivative
from .._trees import all_finite
from ._arrays import standard_normals
from ._base import HomogeneousHadamard, set_field
from ._numerics import (
    asinhc_sqrt,
    cosh_sqrt,
    dot,
    log_sinhc_sqrt,
    safe_norm,
    safe_sqrt,
    sinhc_sqrt,
)

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

    from .._namespace import Array, Floats

_FAR = 1.5  # time coordinate from which a point counts as far from the origin in a sum
_NEAR = 0.25  # square of the space coordinates up to which one counts as near it in a distance


@dataclass(frozen=True)
class Lorentz(HomogeneousHadamard):
    """Hyperbolic space of curvature -1 as a hyperboloid in R^n: points with <x, x>_L = -x_0^2 +
    x_1^2 + ... = -1 and x_0 > 0. The dimension is n - 1.

    A tangent vector at p satisfies <p, v>_L = 0. Every result is put back on the
    sheet (the time coordinate is recomputed from the others), and no formula subtracts large
    squares: norms and inner products are taken in the frame that the boost of p gives, in which
    they are sums of squares. What remains is the conditioning of the coordinates themselves: at
    distance R from the origin a rounding error is worth about e^R * 1e-16 in Riemannian length
    (1e-8 at R = 18). `exp` from there back towards the origin subtracts: after a way of length s
    its error is about e^(R + s) * 1e-16. What moves records, values and releases into a ball and
    back does not use it.
    Distances up to 708 are numbers, wherever the points are; a logarithm can overflow at points
    beyond 176.

    Tangent noise is the boost of noise at the origin. Projecting ambient noise would be wrong here,
    because the ambient form is indefinite.

    Args:
        n: Number of coordinates, time included, at least 2.

    Raises:
        InvalidArgument: `n` is not a whole number of at least 2.

    Examples:
        >>> import riemdp
        >>> space = riemdp.Lorentz(3)
        >>> p = space.exp(space.origin, [0.0, 2.0, 0.0])
        >>> round(float(space.dist(space.origin, p)), 4)
        2.0
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
        """(1, 0, ..., 0)."""
        return np.eye(1, self.n)[0]

    @property
    def curvature_bounds(self) -> tuple[float, float]:
        """(-1, -1); (0, 0) for the line n = 2, which has no planes."""
        return (-1.0, -1.0) if self.dim > 1 else (0.0, 0.0)

    _repaired: ClassVar[str] = "each step"
    # Squares of coordinates overflow at 354.
    _farthest: ClassVar[float] = 300.0
    _widest_ball: ClassVar[float] = 100.0

    def _why_not(self, record: np.ndarray) -> str:
        return "does not lie on the hyperboloid (time coordinate first, -t^2 + |x|^2 = -1, t > 0)"

    def _mean_start(self, mean: Array) -> Array | None:
        """The point of the hyperboloid that is nearest to the arithmetic mean in Minkowski space
        (`project` would keep the space coordinates).
        """
        xp = namespace(mean)
        return self._project(mean / xp.sqrt(mean[0] ** 2 - xp.sum(mean[1:] ** 2)))

    def _exp(self, p: Array, v: Array) -> Array:
        c = self._to_coordinates(p, v)
        s = dot(c, c)[..., None]
        return _on_sheet((cosh_sqrt(s) * p + sinhc_sqrt(s) * v)[..., 1:])

    def _log(self, p: Array, q: Array) -> Array:
        xp = namespace(p, q)
        s = squared_chord(p, q)
        # D / sinh D and q - cosh(D) p, both through s = 4 sinh^2(D / 2): cosh D - 1 = s / 2.
        spatial = (q[..., 1:] - p[..., 1:]) - (s / 2.0)[..., None] * p[..., 1:]
        return _tangent(p, (asinhc_sqrt(s / 4.0) / xp.sqrt(1.0 + s / 4.0))[..., None] * spatial)

    def _log_sum(self, p: Array, q: Array, added: Callable[[Any], Any]) -> tuple[Floats, Any]:
        if type(self) is not Lorentz or self.dim == 1 or p[0] > _FAR:
            return super()._log_sum(p, q, added)
        # log q is D / sinh(D) times q - p - (cosh(D) - 1) p
        x, time = q[:, 1:], p[0] + q[:, 0]
        way = x - p[1:]
        across = np.vecdot(way, x + p[1:]) / time
        close = np.maximum(np.vecdot(way, way) - across * across, 0.0)
        mixed = 2.0 * (p[0] * q[:, 0] - np.vecdot(x, p[1:]) - 1.0)
        chord = np.where(time > 4.0, mixed, close)  # 4 sinh(D / 2)^2, as in `squared_chord`
        half = 0.5 * np.sqrt(chord)
        distance, half = 2.0 * np.arcsinh(half), np.where(half > 0.0, half, 1.0)
        straight = 2.0 * half * np.sqrt(1.0 + half * half)
        stretch = np.where(distance > 0.0, distance / straight, 1.0)
        ways, backs = stretch[:, None] * way, 0.5 * stretch * chord
        whole, back, squares = added((ways, backs, distance * distance))
        return np.asarray(_unboost(p, whole - back * p[1:])), squares

    def _radially(self, p: Array, q: Array) -> tuple[Array, Callable[[Array], Array]]:
        if type(self) is not Lorentz:  # a subclass may have geodesics of its own
            return super()._radially(p, q)
        chord = squared_chord(p, q)
        distance = 2.0 * namespace(chord).asinh(safe_sqrt(chord) / 2.0)
        return distance, lambda share: between(p, q, chord, share)

    def _dist(self, p: Array, q: Array) -> Float[Array, "*batch"]:
        xp = namespace(p, q)
        return 2.0 * xp.asinh(safe_sqrt(squared_chord(p, q)) / 2.0)

    def _squared_dist(self, p: Array, q: Array) -> Float[Array, "*batch"]:
        s = squared_chord(p, q)
        return s * asinhc_sqrt(s / 4.0) ** 2

    def _inner(self, p: Array, u: Array, v: Array) -> Float[Array, "*batch"]:
        return dot(self._to_coordinates(p, u), self._to_coordinates(p, v))

    def _norm(self, p: Array, v: Array) -> Float[Array, "*batch"]:
        return safe_norm(self._to_coordinates(p, v))

    def _transport(self, p: Array, q: Array, v: Array) -> Array:
        # v + <q, v>_L / (1 - <p, q>_L) (p + q), with <q, v>_L = <q - cosh(D) p, v>_L taken in the
        # frame at p and 1 - <p, q>_L = 2 + s / 2.
        s = squared_chord(p, q)
        towards = (q[..., 1:] - p[..., 1:]) - (s / 2.0)[..., None] * p[..., 1:]
        along = dot(_unboost(p, towards), _unboost(p, v[..., 1:]))
        return _tangent(q, v[..., 1:] + (along / (2.0 + s / 2.0))[..., None] * (p + q)[..., 1:])

    def _retract(self, p: Array, v: Array) -> Array:
        return _on_sheet(p[..., 1:] + v[..., 1:])

    def _project(self, x: Array) -> Array:
        """Keeps the space coordinates and recomputes the time coordinate."""
        return _on_sheet(x[..., 1:])

    def _to_tangent(self, p: Array, x: Array) -> Array:
        """x + <p, x>_L p, orthogonal in the Lorentz form."""
        along = p[..., :1] * (dot(p[..., 1:], x[..., 1:])[..., None] / p[..., :1] - x[..., :1])
        return _tangent(p, x[..., 1:] + along * p[..., 1:])

    def _egrad_to_rgrad(self, p: Array, g: Array) -> Array:
        return _tangent(p, g[..., 1:] + dot(p, g)[..., None] * p[..., 1:])

    def _defect(self, x: Array) -> Float[Array, "*batch"]:
        xp = namespace(x)
        off = xp.abs(x[..., 0] - xp.sqrt(1.0 + dot(x[..., 1:], x[..., 1:])))
        return off / xp.maximum(1.0, xp.abs(x[..., 0]))

    def _is_tangent(self, p: Array, v: Array, atol: float) -> Bool[Array, "*batch"]:
        xp = namespace(p, v)
        off = xp.abs(v[..., 0] - dot(p[..., 1:], v[..., 1:]) / p[..., 0])
        finite = all_finite(p, p.ndim - 1) & all_finite(v, v.ndim - 1)
        return finite & (off <= atol * xp.maximum(1.0, safe_norm(v)))

    def _random_point(self, rng: Any, shape: tuple[int, ...]) -> Array:
        """exp at the origin of a standard normal tangent vector."""
        a = standard_normals(rng, (*shape, self.n - 1))
        return _on_sheet(sinhc_sqrt(dot(a, a))[..., None] * a)

    def _to_coordinates(self, p: Array, v: Array) -> Float[Array, "*batch dim"]:
        return _unboost(p, v[..., 1:])

    def _from_coordinates(self, p: Array, c: Float[Array, "*batch dim"]) -> Array:
        """(0, c) + <p, (0, c)>_L / (1 + p_0) (e_0 + p): the boost that carries the origin to p."""
        return _boosted(p, c, dot(p[..., 1:], c))

    # A line is seen in these coordinates from its public center, and comes back by them.
    def _exp_coordinates(self, p: Array, c: Float[Array, "*batch dim"]) -> Array:
        xp = namespace(p, c)
        if self.dim > 1:
            return super()._exp_coordinates(p, c)
        return _on_sheet(seen_from(-p[..., 1:], xp.sinh(c)))

    def _log_coordinates(self, p: Array, q: Array) -> Float[Array, "*batch dim"]:
        if self.dim > 1:
            return super()._log_coordinates(p, q)
        return self._log_coordinates_from_afar(p, q)

    def _log_coordinates_from_afar(self, p: Array, q: Array) -> Float[Array, "*batch dim"]:
        xp = namespace(p, q)
        seen = seen_from(p[..., 1:], q[..., 1:])
        if self.dim == 1:
            return xp.asinh(seen)
        length = _lengths(seen)
        return xp.asinh(length) * (seen / _not_zero(length))

    def _to_origin(self, p: Array, x: Array) -> Array:
        return _on_sheet(seen_from(p[..., 1:], x[..., 1:]))

    def _from_origin(self, p: Array, x: Array) -> Array:
        return _on_sheet(seen_from(-p[..., 1:], x[..., 1:]))

    def _ambient_diameter(self, center: Array, radius: float) -> float:
        return 2 * math.expm1(radius) * math.sqrt(2 * float(center[0]) ** 2 - 1)

    @property
    def _moves_to_origin(self) -> bool:
        return True

    def _log_volume_density(self, p: Array, v: Array) -> Float[Array, "*batch"]:
        """(dim - 1) log(sinh|v| / |v|)."""
        return (self.dim - 1) * log_sinhc_sqrt(self._inner(p, v, v))


def _on_sheet(x: Array) -> Array:
    """The point with these space coordinates."""
    xp = namespace(x)
    return xp.concat([xp.sqrt(1.0 + dot(x, x))[..., None], x], axis=-1)


def _tangent(p: Array, v: Array) -> Array:
    """The tangent vector at p with these space coordinates."""
    xp = namespace(p, v)
    time = dot(p[..., 1:], v)[..., None] / p[..., :1]
    return xp.concat([time, xp.broadcast_to(v, time.shape[:-1] + v.shape[-1:])], axis=-1)


def between(p: Array, q: Array, chord: Array, share: Array) -> Array:
    """The points at these shares, from 0 to 1, of the way from p to q, of `squared_chord` s.

    (sinh(D - g) p + sinh(g) q) / sinh(D), g a share of the distance D: times are added, so that the
    end is as exact as its coordinates can be. The exponential map subtracts: where the way leads
    back towards the origin, its error grows like e^(R + g) at distance R. sinh(D) comes from s,
    because D itself has a rounding of its own size.
    """
    xp = namespace(p, q, chord, share)
    apart = chord > 0.0
    s = xp.where(apart, chord, 1.0)
    distance, sinh = 2.0 * xp.asinh(xp.sqrt(s) / 2.0), xp.sqrt(s) * xp.sqrt(1.0 + s / 4.0)
    way = share * distance
    there = xp.sinh(way) / sinh
    here = xp.exp(-way) - xp.exp(-distance) * there
    there, here = xp.where(apart, there, share), xp.where(apart, here, 1.0 - share)
    return _on_sheet(here[..., None] * p[..., 1:] + there[..., None] * q[..., 1:])


def _boosted(p: Array, c: Array, along: Array) -> Array:
    """(0, c) carried from the origin to p, where `along` is the product of c with the rest of p."""
    xp = namespace(p, c, along)
    rest = c + along[..., None] * p[..., 1:] / (1.0 + p[..., :1])
    return xp.concat([along[..., None], rest], axis=-1)


def _unboost(p: Array, v: Array) -> Array:
    """Space coordinates at the origin of the tangent vector at p with space coordinates v (the
    inverse boost).
    """
    time = dot(p[..., 1:], v)[..., None] / p[..., :1]
    return v - time * p[..., 1:] / (1.0 + p[..., :1])


def _slope_of_seen(points: tuple[Array, Array], ways: tuple[Array, Array]) -> tuple[Array, Array]:
    """The derivatives of y - (y_0 - <y, c> / (1 + c_0)) c, the same boost written as a matrix:
    lengths have no slope at 0.
    """
    xp = namespace(*points)
    (c, y), (dc, dy) = points, ways
    c0, y0 = (xp.sqrt(1.0 + dot(x, x)) for x in points)
    product = dot(y, c)
    share = y0 - product / (1.0 + c0)
    change = dot(y, dy) / y0 - (dot(dy, c) + dot(y, dc)) / (1.0 + c0)
    change += product * dot(c, dc) / (c0 * (1.0 + c0) ** 2)
    return seen_from(c, y), dy - share[..., None] * dc - change[..., None] * c


@with_derivative(_slope_of_seen)
def seen_from(c: Array, y: Array) -> Array:
    """Space coordinates of the points y, carried by the boost that carries c to the origin, both
    given by space coordinates (..., n); that of -c carries the origin to c.

    With y at the angle t to c and distances R and S from the origin: sinh(R - S) - sinh R cosh S (1
    - cos t) along c, and sinh R sin t across. Nothing cancels but y and c themselves, so that the
    error is about e^R * 1e-16, what a rounding of y is worth, and none along an axis.
    """
    xp = namespace(c, y)
    rc, ry = _lengths(c), _lengths(y)
    c0, y0 = xp.sqrt(1.0 + rc * rc), xp.sqrt(1.0 + ry * ry)
    delta = y - c
    unlike = dot(delta, y + c)[..., None]  # |y|^2 - |c|^2
    # y / |y| - c / |c|, from y - c less what one of them is longer
    shorter = xp.where(rc < ry, c, y) / _not_zero(xp.minimum(rc, ry))
    turn = delta - unlike / _not_zero(rc + ry) * shorter
    turn = xp.where(_same_axis(c, rc, y, ry), 0.0, turn) / _not_zero(xp.maximum(rc, ry))
    versine = 0.5 * dot(turn, turn)[..., None]
    apart = unlike / _not_zero(rc * y0 + ry * c0)  # sinh(R - S)
    along = c / _not_zero(rc)
    return (apart - ry * c0 * versine) * along + ry * (turn + versine * along)


def _lengths(y: Array) -> Array:
    """Lengths (..., 1) of vectors (..., n), whose squares may overflow or vanish."""
    xp = namespace(y)
    largest = xp.max(xp.abs(y), axis=-1, keepdims=True)
    scale = xp.where(largest > 1e150, 2.0**-500, xp.where(largest < 1e-150, 2.0**900, 1.0))
    return xp.sqrt(xp.sum((scale * y) ** 2, axis=-1, keepdims=True)) / scale


def _not_zero(a: Array) -> Array:
    xp = namespace(a)
    return xp.where(a > 0.0, a, 1.0)


def squared_chord(p: Array, q: Array) -> Array:
    """s = <p - q, p - q>_L = 4 sinh^2(D / 2), exactly 0 for equal arguments, to full relative
    accuracy.

    Three equal expressions, each where nothing in it cancels: (near the origin) |x - y|^2 - (x_0 -
    y_0)^2 with the time difference taken from the space coordinates; (one point near the origin,
    one far) 2 (x_0 y_0 - <x, y> - 1); (both far) the hyperbolic law of cosines in half angles, a
    sum of a radial and an angular square. The angle is taken between y and a multiple of x that is
    as long: between arrows of unlike length the difference would lose it.
    """
    xp = namespace(p, q)
    x, y = p[..., 1:], q[..., 1:]
    x0, y0 = p[..., 0], q[..., 0]
    delta, total = y - x, x + y
    across = dot(delta, total)  # |y|^2 - |x|^2
    squared, time = dot(delta, delta), x0 + y0
    close = squared - (across / time) ** 2
    product = dot(x, y)
    mixed = 2.0 * (x0 * y0 - product - 1.0)
    usual = xp.where(time > 4.0, mixed, close)

    xx, yy = dot(x, x), dot(y, y)
    if xp is np and x.ndim == 1 and xx <= _NEAR:  # the one point p alone says so, mostly a center
        return usual
    far = (time > 4.0) & (xx > _NEAR) & (yy > _NEAR)
    # Harmless numbers where the far formula is not used, so that its derivative is finite there.
    rx, ry = xp.sqrt(xp.where(far, xx, 1.0)), xp.sqrt(xp.where(far, yy, 1.0))
    # An exact power of two, so that no product of two far coordinates overflows.
    shrink = xp.where(ry > 2.0**500, 2.0**-500, 1.0)
    sinh_radial = shrink * across / (rx * (shrink * y0) + (shrink * ry) * x0)
    radial = 2.0 * sinh_radial * (sinh_radial / (1.0 + xp.sqrt(1.0 + sinh_radial**2)))
    beside = _same_axis(x, rx[..., None], y, ry[..., None])
    y, ry = xp.where(far, shrink, 0.0)[..., None] * y, shrink * ry
    scale = _coarse(ry / rx)
    scaled, apart = _times(xp.where(far, scale, 0.0), x, y)
    longer, both = scale * rx, scaled + y
    slide = (dot(apart, both) / (longer + ry) ** 2)[..., None] * both
    rest = xp.where(beside, 0.0, apart - slide)
    sum_ratio = (longer + ry) / longer * ((longer + ry) / ry)
    angular = dot(rest, rest) / scale * sum_ratio / 4.0 / shrink
    return xp.where(far, radial + angular, usual)


def _same_axis(x: Array, rx: Array, y: Array, ry: Array) -> Array:
    """Which entries of the arrows x and y lie along the one axis that both point along; rx and ry
    (..., 1) are their lengths.

    Beside an axis nothing of an angle is left along it, however the compiler rounds: a rounding
    taken for an angle is worth e^R * 1e-16 at distance R. What is left out so is 2^-28 of the rest.
    """
    xp = namespace(x, y)
    used = (xp.abs(x) > 2.0**-28 * rx) | (xp.abs(y) > 2.0**-28 * ry)
    alone = xp.sum(xp.where(used, 1.0, 0.0), axis=-1, keepdims=True) == 1.0
    return used & alone & (((x > 0.0) & (y > 0.0)) | ((x < 0.0) & (y < 0.0)))


def _coarse(a: Array) -> Array:
    """a to 24 bits. What is made of it does not depend on which number near it is taken, so
    derivatives take it as a constant.
    """
    if is_jax(a):
        import jax

        return jax.lax.stop_gradient(jax.lax.reduce_precision(a, 11, 23))
    xp = namespace(a)
    shrink = xp.where(xp.abs(a) > 1e200, 2.0**-100, 1.0)
    cut = (2.0**29 + 1.0) * (shrink * a)
    return (cut - (cut - shrink * a)) / shrink


def _times(c: Array, x: Array, y: Array) -> tuple[Array, Array]:
    """c x and y - c x with hardly any rounding, for a number c of 24 bits: x is cut in two, so that
    both products with c are exact.
    """
    c, leading = c[..., None], _coarse(x)
    return c * x, (y - c * leading) - c * (x - leading)
