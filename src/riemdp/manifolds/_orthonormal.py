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

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .. import _decompositions as decompositions
from ._numerics import log_sinc_sqrt
from ._spectral import sym, transpose

# below this angle divided differences come from a power series, above it from a closed form
_SMALL = 0.5
_GAP = 0.1  # nodes further apart than this are divided directly
_OBTUSE = (
    -0.9,
    -0.3,
)  # a cosine below is that of an angle which its sine tells; between, either does
_LOST = 1e-6  # share of a squared length
_SQUARINGS = 16  # expm1 handles matrices of 1-norm up to 0.5 * 2**16


def inner(p: Array, x: Array) -> Array:
    """p^T x, as one product of matrices where many x meet one p."""
    if p.ndim == 2 and x.ndim == 3:
        return jnp.einsum("mr,nms->nrs", p, x)
    return jnp.swapaxes(p, -1, -2) @ x


def outer(p: Array, s: Array) -> Array:
    """p s, likewise."""
    return jnp.einsum("mr,nrs->nms", p, s) if p.ndim == 2 and s.ndim == 3 else p @ s


def skew(x: Array) -> Array:
    """Skew-symmetric part."""
    return 0.5 * (x - transpose(x))


def frobenius(u: Array, v: Array) -> Array:
    """tr(u^T v) over the last two axes."""
    return jnp.sum(u * v, axis=(-2, -1))


def is_orthonormal(x: Array, atol: float | Array) -> Array:
    """Whether X^T X = I up to atol; False for anything that is not finite."""
    gram = transpose(x) @ x
    error = jnp.max(jnp.abs(gram - jnp.eye(x.shape[-1])), axis=(-2, -1))
    return jnp.all(jnp.isfinite(x), axis=(-2, -1)) & (error <= atol)


def within(defect: Array, v: Array, atol: float | Array) -> Array:
    """Whether the defect of a tangent vector v vanishes up to atol (1 + |v|); False for anything
    that is not finite.
    """
    scale = 1.0 + jnp.max(jnp.abs(v), axis=(-2, -1))
    return jnp.all(jnp.isfinite(v), axis=(-2, -1)) & (
        jnp.max(jnp.abs(defect), axis=(-2, -1)) <= atol * scale
    )


def newton_orthonormalise(y: Array) -> Array:
    """One Newton step of the polar iteration: removes the rounding of a frame that is orthonormal
    already, without a sign or pivot choice. Its derivative at an orthonormal frame is the tangent
    projection, so it leaves derivatives alone.
    """
    return 1.5 * y - 0.5 * (y @ (transpose(y) @ y))


# ------------------------------------------------------------------------------------- scalar
# functions of an angle
def _angle_over_tan(x: Array) -> Array:
    """x cot(x), 1 at 0."""
    small = jnp.abs(x) < 1e-4
    safe = jnp.where(small, 1.0, x)
    return jnp.where(small, 1.0 - x * x / 3.0, safe * jnp.cos(safe) / jnp.sin(safe))


def _series(coefficients: list[float], x: Array, y: Array) -> tuple[Array, Array]:
    """A power series at x, and its divided difference [x, y], by one Horner pass: P[x,y] = Q(x) + y
    Q[x,y] if P = a + x Q.
    """
    value, difference = jnp.zeros_like(x + y), jnp.zeros_like(x + y)
    for a in reversed(coefficients):
        difference = value + y * difference
        value = a + x * value
    return value, difference


_RATIO_SERIES = [2.0**k * math.factorial(k) ** 2 / math.factorial(2 * k + 1) for k in range(18)]


def _pairs(x: Array) -> tuple[Array, Array]:
    return x[..., :, None], x[..., None, :]


def angle_of_cosine(c: Array) -> Array:
    """arccos without loss near -1 and 1 beyond that of `c` itself."""
    return 2.0 * jnp.arctan2(
        jnp.sqrt(jnp.maximum(1.0 - c, 0.0)), jnp.sqrt(jnp.maximum(1.0 + c, 0.0))
    )


def _angle_over_sine(c: Array) -> Array:
    """h(c) = angle / sin(angle) with c = cos(angle): analytic at c = 1, infinite at c = -1."""
    angle = angle_of_cosine(c)
    small = angle < 1e-3
    series = _series(_RATIO_SERIES[:4], 1.0 - c, 1.0 - c)[0]
    return jnp.where(small, series, angle / jnp.where(small, 1.0, jnp.sin(angle)))


def _angle_over_sine_differences(c: Array) -> Array:
    """Divided differences of `_angle_over_sine` in the cosine."""
    ci, cj = _pairs(jnp.clip(c, -1.0, 1.0))
    ai, aj = angle_of_cosine(ci), angle_of_cosine(cj)
    gap = ci - cj
    p, q = 0.5 * (ai + aj), 0.5 * (ai - aj)
    near_zero = jnp.maximum(ai, aj) < _SMALL
    apart = jnp.abs(gap) > _GAP
    direct = (_angle_over_sine(ci) - _angle_over_sine(cj)) / jnp.where(apart, gap, 1.0)
    sines = jnp.where(near_zero | apart, 1.0, jnp.sin(ai) * jnp.sin(aj))
    close = (_angle_over_tan(p) - _angle_over_tan(q)) / sines
    ui, uj = jnp.where(near_zero, 1.0 - ci, 0.0), jnp.where(near_zero, 1.0 - cj, 0.0)
    # d/dc = -d/du with u = 1 - c
    return jnp.where(near_zero, -_series(_RATIO_SERIES, ui, uj)[1], jnp.where(apart, direct, close))


# ------------------------------------------------------------------------------- functions of a
# symmetric r x r matrix
@jax.custom_jvp
def angle_over_sine(g: Array) -> tuple[Array, Array]:
    """P h(l) P^T for a symmetric matrix of cosines P l P^T with h = angle/sin(angle), with the
    Daleckii-Krein derivative, and the least of the cosines.

    (Q + Q^T)/2 of a rotation Q gives logm(Q) = h(.) (Q - Q^T)/2.
    """
    l, p = decompositions.eigh(g)
    return (p * _angle_over_sine(l)[..., None, :]) @ transpose(p), l[..., 0]


@angle_over_sine.defjvp
def _(
    primals: tuple[Array, ...], tangents: tuple[Array, ...]
) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    (g,), (dg,) = primals, tangents
    l, p = decompositions.eigh(g)
    out = (p * _angle_over_sine(l)[..., None, :]) @ transpose(p)
    change = transpose(p) @ sym(dg) @ p
    d_out = p @ (_angle_over_sine_differences(l) * change) @ transpose(p)
    return (out, l[..., 0]), (d_out, change[..., 0, 0])


def _widest_gap(x: Array, low: float, high: float) -> Array:
    """The middle of the widest gap that ascending numbers (..., k) leave between two limits,
    (..., 1): numbers that agree up to rounding lie on one side of it.
    """
    ends = jnp.broadcast_to(jnp.array([low, high]), (*x.shape[:-1], 2))
    marks = jnp.concatenate([ends[..., :1], jnp.clip(x, low, high), ends[..., 1:]], axis=-1)
    place = jnp.argmax(jnp.diff(marks, axis=-1), axis=-1, keepdims=True)
    below = jnp.take_along_axis(marks, place, axis=-1)
    return 0.5 * (below + jnp.take_along_axis(marks, place + 1, axis=-1))


def log_near_half_turns(cosines: Array, sines: Array) -> Array:
    """logm(Q) = angle/sin(angle) skew Q of rotations Q, given sym Q and skew Q; of a half turn, one
    of several logarithms. No derivative.

    A cosine near -1 tells its angle to 1e-8 only: there the angles are those of the sines. The
    length decides what lies in a ball. It is accurate where one plane turns so far, and to 1e-6
    where several do, which is beyond the injectivity radius.
    """
    cosines, sines = jax.lax.stop_gradient((cosines, sines))
    l, p = decompositions.eigh(cosines)
    s = skew(transpose(p) @ sines @ p)
    angles = jnp.arctan2(jnp.sqrt(jnp.sum(s * s, axis=-1)), l)
    far, i = l < _widest_gap(l, *_OBTUSE), jnp.arange(l.shape[-1])
    (fi, fj), (ii, ij) = _pairs(far), _pairs(i)
    a, sigma, bt = decompositions.svd(jnp.where(fi & fj, s, 0.0))
    obtuse = jnp.pi - jnp.arcsin(jnp.minimum(sigma, 1.0))
    obtuse = jnp.where(i < jnp.sum(far, axis=-1, keepdims=True), obtuse, 0.0)
    acute = jnp.where(fi | fj, 0.0, _angle_over_sine(l)[..., None] * s)
    v = skew((a * obtuse[..., None, :]) @ bt + acute)
    # A sine that is lost in rounding leaves the planes of the eigenvectors, two by two.
    sign = jnp.where(s * (ij - ii) < 0.0, -1.0, 1.0) * jnp.sign(ij - ii)
    planes = jnp.where(fi & fj & ((ii ^ 1) == ij), angles[..., None] * sign, 0.0)
    lost = frobenius(v, v) < (1.0 - _LOST) * jnp.sum(angles**2, axis=-1)
    v = jnp.where(lost[..., None, None], skew(planes + acute), v)
    return p @ v @ transpose(p)


# ------------------------------------------------------------------- generalised functions of a
# square r x r matrix
def _generalised_function(
    value: Callable[[Array], Array], differences: Callable[[Array], Array]
) -> Callable[[Array], Array]:
    """A f(s) B^T for a square matrix A s B^T, with its derivative; smooth where at most one
    singular value vanishes.

    Where two vanish the function is not continuous; one of the limits is returned, and the
    derivative leaves out the directions along which it jumps.
    """

    @jax.custom_jvp
    def function(c: Array) -> Array:
        a, s, bt = decompositions.svd(c)
        return (a * value(s)[..., None, :]) @ bt

    @function.defjvp
    def _(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Array, Array]:
        (c,), (dc,) = primals, tangents
        a, s, bt = decompositions.svd(c)
        f = value(s)
        si, sj = _pairs(s)
        fi, fj = _pairs(f)
        total = si + sj
        sums = jnp.where(total > 0.0, (fi + fj) / jnp.where(total > 0.0, total, 1.0), 0.0)
        e = transpose(a) @ dc @ transpose(bt)
        return (a * f[..., None, :]) @ bt, a @ (differences(s) * sym(e) + sums * skew(e)) @ bt

    return function


# The orthogonal factor A B^T of the polar decomposition: the rotation nearest to a square matrix A
# s B^T.
polar = _generalised_function(
    jnp.ones_like, lambda s: jnp.zeros_like(s[..., :, None] * s[..., None, :])
)
# A h(s) B^T, h = angle/sin(angle) of the principal angles whose cosines are the singular values s.
principal_angle_ratio = _generalised_function(_angle_over_sine, _angle_over_sine_differences)


@jax.custom_jvp
def nearest_orthonormal(x: Array) -> Array:
    """The orthonormal frame nearest to x (..., m, r): its polar factor, from the singular value
    decomposition.
    """
    a, _, bt = decompositions.svd(x, full_matrices=False)
    return a @ bt


@nearest_orthonormal.defjvp
def _(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Array, Array]:
    (x,), (dx,) = primals, tangents
    a, s, bt = decompositions.svd(x, full_matrices=False)
    si, sj = _pairs(s)
    total = si + sj
    rotated = dx @ transpose(bt)
    e = transpose(a) @ rotated
    inside = 2.0 * skew(e) / jnp.where(total > 0.0, total, jnp.inf)
    outside = (rotated - a @ e) / jnp.where(s > 0.0, s, jnp.inf)[..., None, :]
    return a @ bt, (a @ inside + outside) @ bt


# --------------------------------------------------------------------------- matrix exponential,
# cosine and sine by products Only products: derivatives of every order exist and no eigenvector is
# chosen. All of them halve the angle `count` times, sum a Taylor polynomial and double back, in
# variables that are small when the angle is (expm - I, I - cos), so that nothing is lost.
def _halvings(size: Array) -> Array:
    """How often to halve an angle of this size to bring it to 1/2; NaN beyond 0.5 * 2**16 (or if it
    is not finite).
    """
    size = jax.lax.stop_gradient(size)
    count = jnp.ceil(jnp.log2(jnp.maximum(size, 0.5) / 0.5))
    return jnp.where(count <= _SQUARINGS, count, jnp.nan)[..., None, None]


def expm1(x: Array) -> Array:
    """expm(x) - I. NaN beyond a 1-norm of 0.5 * 2**16."""
    count = _halvings(jnp.max(jnp.sum(jnp.abs(x), axis=-2), axis=-1))
    x = x * jnp.exp2(-count)
    eye = jnp.eye(x.shape[-1])
    x2 = x @ x
    x3, x4 = x @ x2, x2 @ x2
    t = [1.0 / math.factorial(k) for k in range(17)]
    y = t[12] * eye + t[13] * x + t[14] * x2 + t[15] * x3 + t[16] * x4
    y = t[8] * eye + t[9] * x + t[10] * x2 + t[11] * x3 + x4 @ y
    y = t[4] * eye + t[5] * x + t[6] * x2 + t[7] * x3 + x4 @ y
    y = x + t[2] * x2 + t[3] * x3 + x4 @ y

    def double(i: Array, y: Array) -> Array:
        return jnp.where(i < count, 2.0 * y + y @ y, y)

    return jax.lax.fori_loop(0, _SQUARINGS, double, y)


def cos_sinc_root(g: Array) -> tuple[Array, Array]:
    """(I - cos(G^(1/2)), sinc(G^(1/2))) of a symmetric positive semidefinite G; NaN beyond a 1-norm
    of 2**30.
    """
    count = _halvings(
        jnp.sqrt(jnp.max(jnp.sum(jnp.abs(jax.lax.stop_gradient(g)), axis=-2), axis=-1))
    )
    g = g * jnp.exp2(-2.0 * count)
    eye = jnp.eye(g.shape[-1])
    g2 = g @ g
    g3 = g @ g2
    t = [(-1.0) ** (k // 2) / math.factorial(k) for k in range(20)]
    versine = -(t[14] * eye + t[16] * g + t[18] * g2)
    versine = g3 @ versine - (t[8] * eye + t[10] * g + t[12] * g2)
    versine = g3 @ (g @ versine) - (t[2] * g + t[4] * g2 + t[6] * g3)
    ratio = t[13] * eye + t[15] * g + t[17] * g2
    ratio = t[7] * eye + t[9] * g + t[11] * g2 + g3 @ ratio
    ratio = t[1] * eye + t[3] * g + t[5] * g2 + g3 @ ratio

    def double(i: Array, pair: tuple[Array, Array]) -> tuple[Array, Array]:
        versine, ratio = pair
        go = i < count
        return (
            jnp.where(go, 4.0 * versine - 2.0 * (versine @ versine), versine),
            jnp.where(go, ratio - ratio @ versine, ratio),
        )

    return jax.lax.fori_loop(0, _SQUARINGS, double, (versine, ratio))


# -------------------------------------------------------------------------------------------
# rotations between frames
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
    gram = jnp.eye(p.shape[-1]) + sym(transpose(p) @ q)
    middle = p + q
    return v - middle @ _solve(gram, transpose(middle) @ v) + 2.0 * (q @ (transpose(p) @ v))


def _solve(a: Array, b: Array) -> Array:
    batch = jnp.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return jnp.linalg.solve(
        jnp.broadcast_to(a, batch + a.shape[-2:]), jnp.broadcast_to(b, batch + b.shape[-2:])
    )


def carry(p: Array, q: Array, v: Array) -> Array:
    """Carry a tangent vector from frame p to frame q: v -> R v o, R the least rotation with q = R p
    o and o in O(r).

    Linear and isometric, and continuous in both frames while all principal angles are below pi/2.
    On horizontal vectors it is the parallel transport of the Grassmann manifold along the
    minimising geodesic.
    """
    aligned, o = align(p, q)
    return rotate(p, aligned, v) @ o


def first_columns(m: int, r: int) -> Float[Array, "m r"]:
    """The frame of the first r coordinate axes."""
    return jnp.asarray(np.eye(m, r))


def to_first_columns(p: Array, v: Array) -> Array:
    """Carry tangent vectors isometrically from p to the frame of the first axes; inverse of
    `from_first_columns`.

    Defined at every p (the least rotation from the axes to the representative of span(p) nearest to
    them), but it jumps where the upper block of p is singular, as any frame of a tangent bundle
    must somewhere: good for coordinates, not for transport.
    """
    m, r = p.shape[-2:]
    aligned, o = _align_to_first(p)
    return rotate(aligned, jnp.eye(m, r), v @ transpose(o))


def from_first_columns(p: Array, v: Array) -> Array:
    """Inverse of `to_first_columns`."""
    m, r = p.shape[-2:]
    aligned, o = _align_to_first(p)
    return rotate(jnp.eye(m, r), aligned, v) @ o


def _align_to_first(p: Array) -> tuple[Array, Array]:
    o = polar(p[..., : p.shape[-1], :])
    return p @ transpose(o), o


# -------------------------------------------------------------------------------------------------
# volume densities
@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def log_density_of_angles(squares: Array, power: int) -> Array:
    """sum_{i<j} log |sinc(t_i - t_j) sinc(t_i + t_j)| + power * sum_i log |sinc(t_i)| with t_i^2 =
    squares (..., k).

    Analytic in the squares; the derivative is written so, because that of a square root is infinite
    at 0.
    """
    squares = jnp.maximum(squares, 0.0)
    ti, tj = _pairs(jnp.sqrt(squares))
    pairs = jnp.triu(log_sinc_sqrt((ti - tj) ** 2) + log_sinc_sqrt((ti + tj) ** 2), 1)
    return jnp.sum(pairs, axis=(-2, -1)) + power * jnp.sum(log_sinc_sqrt(squares), axis=-1)


@log_density_of_angles.defjvp
def _(power: int, primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Array, Array]:
    (squares,), (change,) = primals, tangents
    # d/dt^2 = (1/2t) d/dt is even in t: evaluating it at t >= 1e-4 costs a relative 1e-8 at most
    # and never divides by 0.
    t = jnp.sqrt(jnp.maximum(squares, 1e-8))
    ti, tj = _pairs(t)
    slopes = _log_sinc_slope(ti - tj) + _log_sinc_slope(ti + tj)
    slopes = jnp.sum(slopes * (1.0 - jnp.eye(t.shape[-1])), axis=-1) + power * _log_sinc_slope(t)
    return log_density_of_angles(squares, power), jnp.sum(slopes / (2.0 * t) * change, axis=-1)


def _log_sinc_slope(x: Array) -> Array:
    """Derivative cot(x) - 1/x of log sinc."""
    small = jnp.abs(x) < 1e-2
    safe = jnp.where(small, 1.0, x)
    return jnp.where(
        small, -x / 3.0 - x**3 / 45.0 - 2.0 * x**5 / 945.0, 1.0 / jnp.tan(safe) - 1.0 / safe
    )
