"""Matrix functions behind Stiefel and Grassmann: values and first derivatives that are finite
wherever the geometry is.

An orthonormal frame is an array (..., m, r) with X^T X = I. The singular or eigen-decompositions
below are of small r x r matrices, and no result depends on their signs or on the order inside a
repeated eigenvalue: what leaves this module is a function of the matrix alone. Automatic
differentiation through `eigh` and `svd` divides by differences of eigenvalues and gives NaN where
two agree, so each function carries its own derivative (Daleckii-Krein; Noferini for generalised
matrix functions) written with divided differences that do not cancel.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _linalg as linalg
from .._namespace import namespace, stop_gradient, with_derivative
from .._trees import all_finite
from ._numerics import log_sinc_sqrt
from ._spectral import sym, transpose

if TYPE_CHECKING:
    from .._namespace import Array

    Arrays = tuple[Array, ...]

# below this angle divided differences come from a power series, above it from a closed form
_SMALL = 0.5
_GAP = 0.1  # nodes further apart than this are divided directly
_OBTUSE = (
    -0.9,
    -0.3,
)  # a cosine below is that of an angle which its sine tells; between, either does
_LOST = 1e-6  # share of a squared length
_SQUARINGS = 16  # expm1 handles matrices of 1-norm up to 0.5 * 2**16


def skew(x: Array) -> Array:
    """Skew-symmetric part."""
    return 0.5 * (x - transpose(x))


def frobenius(u: Array, v: Array) -> Array:
    """tr(u^T v) over the last two axes."""
    return namespace(u, v).sum(u * v, axis=(-2, -1))


def within(normal: Array, v: Array, atol: float | Array) -> Array:
    """Whether the normal part of a tangent vector v vanishes up to atol (1 + |v|); False for
    anything that is not finite.
    """
    xp = namespace(normal, v)
    scale = 1.0 + xp.max(xp.abs(v), axis=(-2, -1))
    return all_finite(v, v.ndim - 2) & (xp.max(xp.abs(normal), axis=(-2, -1)) <= atol * scale)


def newton_orthonormalise(y: Array) -> Array:
    """One Newton step of the polar iteration: removes the rounding of a frame that is orthonormal
    already, without a sign or pivot choice. Its derivative at an orthonormal frame is the tangent
    projection, so it leaves derivatives alone.
    """
    return 1.5 * y - 0.5 * (y @ (transpose(y) @ y))


# ---------------------------------------------------------------- functions of an angle
def _angle_over_tan(x: Array) -> Array:
    """x cot(x), 1 at 0."""
    xp = namespace(x)
    small = xp.abs(x) < 1e-4
    safe = xp.where(small, 1.0, x)
    return xp.where(small, 1.0 - x * x / 3.0, safe * xp.cos(safe) / xp.sin(safe))


def _series(coefficients: list[float], x: Array, y: Array) -> tuple[Array, Array]:
    """A power series at x, and its divided difference [x, y], by one Horner pass: P[x,y] = Q(x) + y
    Q[x,y] if P = a + x Q.
    """
    value = difference = namespace(x, y).zeros_like(x + y)
    for a in reversed(coefficients):
        difference = value + y * difference
        value = a + x * value
    return value, difference


_RATIO_SERIES = [2.0**k * math.factorial(k) ** 2 / math.factorial(2 * k + 1) for k in range(18)]


def _pairs(x: Array) -> tuple[Array, Array]:
    return x[..., :, None], x[..., None, :]


def angle_of_cosine(c: Array) -> Array:
    """arccos without loss near -1 and 1 beyond that of `c` itself."""
    xp = namespace(c)
    return 2.0 * xp.atan2(xp.sqrt(xp.maximum(1.0 - c, 0.0)), xp.sqrt(xp.maximum(1.0 + c, 0.0)))


def _angle_over_sine(c: Array) -> Array:
    """h(c) = angle / sin(angle) with c = cos(angle): analytic at c = 1, infinite at c = -1."""
    xp = namespace(c)
    angle = angle_of_cosine(c)
    small = angle < 1e-3
    series = _series(_RATIO_SERIES[:4], 1.0 - c, 1.0 - c)[0]
    return xp.where(small, series, angle / xp.where(small, 1.0, xp.sin(angle)))


def _angle_over_sine_differences(c: Array) -> Array:
    """Divided differences of `_angle_over_sine` in the cosine."""
    xp = namespace(c)
    ci, cj = _pairs(xp.clip(c, -1.0, 1.0))
    ai, aj = angle_of_cosine(ci), angle_of_cosine(cj)
    gap = ci - cj
    p, q = 0.5 * (ai + aj), 0.5 * (ai - aj)
    near_zero = xp.maximum(ai, aj) < _SMALL
    apart = xp.abs(gap) > _GAP
    direct = (_angle_over_sine(ci) - _angle_over_sine(cj)) / xp.where(apart, gap, 1.0)
    sines = xp.where(near_zero | apart, 1.0, xp.sin(ai) * xp.sin(aj))
    close = (_angle_over_tan(p) - _angle_over_tan(q)) / sines
    ui, uj = xp.where(near_zero, 1.0 - ci, 0.0), xp.where(near_zero, 1.0 - cj, 0.0)
    # d/dc = -d/du with u = 1 - c
    return xp.where(near_zero, -_series(_RATIO_SERIES, ui, uj)[1], xp.where(apart, direct, close))


# ---------------------------------------------------------------- of a symmetric matrix
def _with_change_of_angles(primals: Arrays, tangents: Arrays) -> Any:
    (g,), (dg,) = primals, tangents
    l, p = linalg.eigh(g)
    out = (p * _angle_over_sine(l)[..., None, :]) @ transpose(p)
    change = transpose(p) @ sym(dg) @ p
    d_out = p @ (_angle_over_sine_differences(l) * change) @ transpose(p)
    return (out, l[..., 0]), (d_out, change[..., 0, 0])


@with_derivative(_with_change_of_angles)
def angle_over_sine(g: Array) -> tuple[Array, Array]:
    """P h(l) P^T for a symmetric matrix of cosines P l P^T with h = angle/sin(angle), with the
    Daleckii-Krein derivative, and the least of the cosines.

    (Q + Q^T)/2 of a rotation Q gives logm(Q) = h(.) (Q - Q^T)/2.
    """
    l, p = linalg.eigh(g)
    return (p * _angle_over_sine(l)[..., None, :]) @ transpose(p), l[..., 0]


def _widest_gap(x: Array, low: float, high: float) -> Array:
    """The middle of the widest gap that ascending numbers (..., k) leave between two limits,
    (..., 1): numbers that agree up to rounding lie on one side of it.
    """
    xp = namespace(x)
    least = xp.full_like(x[..., :1], low)
    marks = xp.concat([least, xp.clip(x, low, high), xp.full_like(least, high)], axis=-1)
    place = xp.argmax(xp.diff(marks, axis=-1), axis=-1, keepdims=True)
    below = xp.take_along_axis(marks, place, axis=-1)
    return 0.5 * (below + xp.take_along_axis(marks, place + 1, axis=-1))


def log_near_half_turns(cosines: Array, sines: Array) -> Array:
    """logm(Q) = angle/sin(angle) skew Q of rotations Q, given sym Q and skew Q; of a half turn, one
    of several logarithms. No derivative.

    A cosine near -1 tells its angle to 1e-8 only: there the angles are those of the sines. The
    length decides what lies in a ball. It is accurate where one plane turns so far, and to 1e-6
    where several do, which is beyond the injectivity radius.
    """
    cosines, sines = stop_gradient((cosines, sines))
    l, p = linalg.eigh(cosines)
    xp = namespace(l)
    s = skew(transpose(p) @ sines @ p)
    angles = xp.atan2(xp.sqrt(xp.sum(s * s, axis=-1)), l)
    far, i = l < _widest_gap(l, *_OBTUSE), np.arange(l.shape[-1])
    (fi, fj), (ii, ij) = _pairs(far), _pairs(i)
    a, sigma, bt = linalg.svd(xp.where(fi & fj, s, 0.0))
    obtuse = math.pi - xp.asin(xp.minimum(sigma, 1.0))
    obtuse = xp.where(i < xp.sum(far, axis=-1, keepdims=True), obtuse, 0.0)
    acute = xp.where(fi | fj, 0.0, _angle_over_sine(l)[..., None] * s)
    v = skew((a * obtuse[..., None, :]) @ bt + acute)
    # A sine that is lost in rounding leaves the planes of the eigenvectors, two by two.
    sign = xp.where(s * (ij - ii) < 0.0, -1.0, 1.0) * np.sign(ij - ii)
    planes = xp.where(fi & fj & ((ii ^ 1) == ij), angles[..., None] * sign, 0.0)
    lost = frobenius(v, v) < (1.0 - _LOST) * xp.sum(angles**2, axis=-1)
    v = xp.where(lost[..., None, None], skew(planes + acute), v)
    return p @ v @ transpose(p)


# ---------------------------------------------------------------- of a square matrix
def _generalised_function(
    value: Callable[[Array], Array], differences: Callable[[Array], Array]
) -> Callable[[Array], Array]:
    """A f(s) B^T for a square matrix A s B^T, with its derivative; smooth where at most one
    singular value vanishes.

    Where two vanish the function is not continuous; one of the limits is returned, and the
    derivative leaves out the directions along which it jumps.
    """

    def with_change(primals: Arrays, tangents: Arrays) -> Any:
        (c,), (dc,) = primals, tangents
        xp = namespace(c, dc)
        a, s, bt = linalg.svd(c)
        f = value(s)
        si, sj = _pairs(s)
        fi, fj = _pairs(f)
        total = si + sj
        sums = xp.where(total > 0.0, (fi + fj) / xp.where(total > 0.0, total, 1.0), 0.0)
        e = transpose(a) @ dc @ transpose(bt)
        return (a * f[..., None, :]) @ bt, a @ (differences(s) * sym(e) + sums * skew(e)) @ bt

    @with_derivative(with_change)
    def function(c: Array) -> Array:
        a, s, bt = linalg.svd(c)
        return (a * value(s)[..., None, :]) @ bt

    return function


# The orthogonal factor A B^T of the polar decomposition: the rotation nearest to a square matrix A
# s B^T.
polar = _generalised_function(
    lambda s: namespace(s).ones_like(s),
    lambda s: namespace(s).zeros_like(s[..., :, None] * s[..., None, :]),
)
# A h(s) B^T, h = angle/sin(angle) of the principal angles whose cosines are the singular values s.
principal_angle_ratio = _generalised_function(_angle_over_sine, _angle_over_sine_differences)


def _with_change_of_frame(primals: Arrays, tangents: Arrays) -> Any:
    (x,), (dx,) = primals, tangents
    xp = namespace(x, dx)
    a, s, bt = linalg.svd(x, full_matrices=False)
    si, sj = _pairs(s)
    total = si + sj
    rotated = dx @ transpose(bt)
    e = transpose(a) @ rotated
    inside = 2.0 * skew(e) / xp.where(total > 0.0, total, math.inf)
    outside = (rotated - a @ e) / xp.where(s > 0.0, s, math.inf)[..., None, :]
    return a @ bt, (a @ inside + outside) @ bt


@with_derivative(_with_change_of_frame)
def nearest_orthonormal(x: Array) -> Array:
    """The orthonormal frame nearest to x (..., m, r): its polar factor, from the singular value
    decomposition.
    """
    a, _, bt = linalg.svd(x, full_matrices=False)
    return a @ bt


# ---------------------------------------------------------------- exponential, cosine and sine
# Only products: derivatives of every order exist and no eigenvector is chosen. All of them halve
# the angle `count` times, sum a Taylor polynomial and double back, in variables that are small when
# the angle is (expm - I, I - cos), so that nothing is lost.
def _halvings(size: Array) -> Array:
    """How often to halve an angle of this size to bring it to 1/2; NaN beyond 0.5 * 2**16 (or if it
    is not finite).
    """
    xp, size = namespace(size), stop_gradient(size)
    count = xp.ceil(xp.log2(xp.maximum(size, 0.5) / 0.5))
    return xp.where(count <= _SQUARINGS, count, math.nan)[..., None, None]


def _repeated(double: Callable[[Any, Any], Any], start: Any) -> Any:
    """`double` as often as any angle may have been halved: a public number."""
    if namespace(start) is np:
        for i in range(_SQUARINGS):
            start = double(i, start)
        return start
    from jax.lax import fori_loop

    return fori_loop(0, _SQUARINGS, double, start)


def _one_norm(x: Array) -> Array:
    xp = namespace(x)
    return xp.max(xp.sum(xp.abs(x), axis=-2), axis=-1)


def expm1(x: Array) -> Array:
    """expm(x) - I. NaN beyond a 1-norm of 0.5 * 2**16."""
    xp = namespace(x)
    count = _halvings(_one_norm(x))
    x = x * xp.exp2(-count)
    eye = np.eye(x.shape[-1])
    x2 = x @ x
    x3, x4 = x @ x2, x2 @ x2
    t = [1.0 / math.factorial(k) for k in range(17)]
    y = t[12] * eye + t[13] * x + t[14] * x2 + t[15] * x3 + t[16] * x4
    y = t[8] * eye + t[9] * x + t[10] * x2 + t[11] * x3 + x4 @ y
    y = t[4] * eye + t[5] * x + t[6] * x2 + t[7] * x3 + x4 @ y
    y = x + t[2] * x2 + t[3] * x3 + x4 @ y

    def double(i: Any, y: Array) -> Array:
        return xp.where(i < count, 2.0 * y + y @ y, y)

    return _repeated(double, y)


def cos_sinc_root(g: Array) -> tuple[Array, Array]:
    """(I - cos(G^(1/2)), sinc(G^(1/2))) of a symmetric positive semidefinite G; NaN beyond a 1-norm
    of 2**30.
    """
    xp = namespace(g)
    count = _halvings(xp.sqrt(_one_norm(stop_gradient(g))))
    g = g * xp.exp2(-2.0 * count)
    eye = np.eye(g.shape[-1])
    g2 = g @ g
    g3 = g @ g2
    t = [(-1.0) ** (k // 2) / math.factorial(k) for k in range(20)]
    versine = -(t[14] * eye + t[16] * g + t[18] * g2)
    versine = g3 @ versine - (t[8] * eye + t[10] * g + t[12] * g2)
    versine = g3 @ (g @ versine) - (t[2] * g + t[4] * g2 + t[6] * g3)
    ratio = t[13] * eye + t[15] * g + t[17] * g2
    ratio = t[7] * eye + t[9] * g + t[11] * g2 + g3 @ ratio
    ratio = t[1] * eye + t[3] * g + t[5] * g2 + g3 @ ratio

    def double(i: Any, pair: tuple[Array, Array]) -> tuple[Array, Array]:
        versine, ratio = pair
        go = i < count
        return (
            xp.where(go, 4.0 * versine - 2.0 * (versine @ versine), versine),
            xp.where(go, ratio - ratio @ versine, ratio),
        )

    return _repeated(double, (versine, ratio))


# ---------------------------------------------------------------- rotations between frames
def align(p: Array, q: Array) -> tuple[Array, Array]:
    """The representative q o^T of span(q) nearest to p, and o: p^T (q o^T) is then symmetric
    positive semidefinite.
    """
    o = polar(transpose(p) @ q)
    return q @ transpose(o), o


def rotate(p: Array, q: Array, v: Array) -> Array:
    """Apply to the columns of v the least rotation of R^m that takes frame p to the aligned frame q
    (p^T q symmetric >= 0).

    It turns by the principal angles in the planes of the principal vectors and fixes all else: the
    product of the reflections in span(p) and in the subspace halfway. No frame of any eigenspace is
    chosen.
    """
    gram = np.eye(p.shape[-1]) + sym(transpose(p) @ q)
    middle = p + q
    return v - middle @ linalg.solve(gram, transpose(middle) @ v) + 2.0 * (q @ (transpose(p) @ v))


def carry(p: Array, q: Array, v: Array) -> Array:
    """Carry a tangent vector from frame p to frame q: v -> R v o, R the least rotation with q = R p
    o and o in O(r).

    Linear and isometric, and continuous in both frames while all principal angles are below pi/2.
    On horizontal vectors it is the parallel transport of the Grassmann manifold along the
    minimising geodesic.
    """
    aligned, o = align(p, q)
    return rotate(p, aligned, v) @ o


def pack_skew(a: Array) -> Array:
    """Isometry from skew-symmetric r x r matrices with the Frobenius product to R^{r(r-1)/2}."""
    r = a.shape[-1]
    entries, _, _ = _packing(r)
    flat = a.reshape(*a.shape[:-2], r * r)
    return math.sqrt(2.0) * namespace(a).take(flat, entries, axis=-1)


def unpack_skew(c: Array, r: int) -> Array:
    """Inverse of `pack_skew`."""
    xp = namespace(c)
    _, places, factors = _packing(r)
    with_zero = xp.concat([c, xp.zeros((*c.shape[:-1], 1))], axis=-1)
    return (xp.take(with_zero, places, axis=-1) * factors).reshape(*c.shape[:-1], r, r)


@functools.cache
def _packing(r: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The entries of a flat skew-symmetric matrix that are packed; the place where each entry of it
    is found again (that behind the last, of a zero, for the diagonal), with its factor.
    """
    i, j = np.triu_indices(r, 1)
    places, factors = np.full((r, r), i.size), np.zeros((r, r))
    places[i, j] = places[j, i] = np.arange(i.size)
    factors[i, j], factors[j, i] = math.sqrt(0.5), -math.sqrt(0.5)
    return i * r + j, places.reshape(-1), factors.reshape(-1)


def to_first_columns(p: Array, v: Array) -> Array:
    """Carry tangent vectors isometrically from p to the frame of the first axes; inverse of
    `from_first_columns`.

    Defined at every p (the least rotation from the axes to the representative of span(p) nearest to
    them), but it jumps where the upper block of p is singular, as any frame of a tangent bundle
    must somewhere: good for coordinates, not for transport.
    """
    m, r = p.shape[-2:]
    aligned, o = _align_to_first(p)
    return rotate(aligned, np.eye(m, r), v @ transpose(o))


def from_first_columns(p: Array, v: Array) -> Array:
    """Inverse of `to_first_columns`."""
    m, r = p.shape[-2:]
    aligned, o = _align_to_first(p)
    return rotate(np.eye(m, r), aligned, v) @ o


def _align_to_first(p: Array) -> tuple[Array, Array]:
    o = polar(p[..., : p.shape[-1], :])
    return p @ transpose(o), o


# ---------------------------------------------------------------- volume densities
def _with_change_of_density(power: int, primals: Arrays, tangents: Arrays) -> Any:
    (squares,), (change,) = primals, tangents
    xp = namespace(squares, change)
    # d/dt^2 = (1/2t) d/dt is even in t: evaluating it at t >= 1e-4 costs a relative 1e-8 at most
    # and never divides by 0.
    t = xp.sqrt(xp.maximum(squares, 1e-8))
    ti, tj = _pairs(t)
    slopes = _log_sinc_slope(ti - tj) + _log_sinc_slope(ti + tj)
    slopes = xp.sum(slopes * (1.0 - np.eye(t.shape[-1])), axis=-1) + power * _log_sinc_slope(t)
    return log_density_of_angles(squares, power), xp.sum(slopes / (2.0 * t) * change, axis=-1)


@with_derivative(_with_change_of_density, static=(1,))
def log_density_of_angles(squares: Array, power: int) -> Array:
    """sum_{i<j} log |sinc(t_i - t_j) sinc(t_i + t_j)| + power * sum_i log |sinc(t_i)| with t_i^2 =
    squares (..., k).

    Analytic in the squares; the derivative is written so, because that of a square root is infinite
    at 0.
    """
    xp = namespace(squares)
    squares = xp.maximum(squares, 0.0)
    ti, tj = _pairs(xp.sqrt(squares))
    pairs = xp.triu(log_sinc_sqrt((ti - tj) ** 2) + log_sinc_sqrt((ti + tj) ** 2), k=1)
    return xp.sum(pairs, axis=(-2, -1)) + power * xp.sum(log_sinc_sqrt(squares), axis=-1)


def _log_sinc_slope(x: Array) -> Array:
    """Derivative cot(x) - 1/x of log sinc."""
    xp = namespace(x)
    small = xp.abs(x) < 1e-2
    safe = xp.where(small, 1.0, x)
    return xp.where(
        small, -x / 3.0 - x**3 / 45.0 - 2.0 * x**5 / 945.0, 1.0 / xp.tan(safe) - 1.0 / safe
    )
