"""Functions of symmetric matrices whose derivatives, of every order, are right also where
eigenvalues coincide.

Differentiating through the eigenvectors of a repeated eigenvalue gives 0/0. Here f(A) = Q f(L) Q^T
is one primitive whose derivatives are multilinear in the directions (Daleckii-Krein),

    D^n f(A)[H_1 .. H_n] = Q (sum over orderings of  sum f[l_i, l_a, .., l_j] (Q^T H_1 Q)_ia .. (Q^T
    H_n Q)_.j) Q^T,

with divided differences f[...] that are computed without cancellation. The decomposition (Q, l) is
handed in beside A and is never differentiated, so callers may obtain it in whatever way is accurate
(see `relative_spectrum` of the affine space), and f(A) and its derivatives share it. A plain nested
`custom_jvp` would not do: JAX inlines the inner function when it linearises the rule, and a second
derivative would then run through `eigh` after all.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array, Float

from .. import _decompositions as decompositions
from ._numerics import sinhc_sqrt

Matrix = Float[Array, "*batch k k"]

TAYLOR_TERMS = 12
# relative spread of the nodes below which a divided difference of order >= 2 is summed as a series
TAYLOR_SPREAD = 0.1


class Spectrum(NamedTuple):
    """Eigenvectors `q` and eigenvalues `values + offset` of a symmetric matrix.

    With `offset` 1 the `values` are eigenvalues minus one, known to full relative accuracy however
    small they are.
    """

    q: Matrix
    values: Float[Array, "*batch k"]
    offset: Float[Array, "*batch"]


def sym(x: Matrix) -> Matrix:
    """Symmetric part; bitwise the identity on symmetric input."""
    return 0.5 * (x + jnp.swapaxes(x, -1, -2))


def transpose(x: Matrix) -> Matrix:
    return jnp.swapaxes(x, -1, -2)


def spectrum(a: Matrix) -> Spectrum:
    """Eigendecomposition that carries no derivative (the functions below supply them)."""
    values, q = decompositions.eigh(jax.lax.stop_gradient(a))
    return Spectrum(q, values, jnp.zeros(values.shape[:-1], values.dtype))


def logs(eig: Spectrum) -> Float[Array, "*batch k"]:
    """Logarithms of the eigenvalues, in their order."""
    one = eig.offset[..., None] == 1.0
    return jnp.where(one, jnp.log1p(eig.values), jnp.log(jnp.where(one, 1.0, eig.values)))


# ------------------------------------------------------------------------------------------------
# scalar functions Each function has: values f(x; c), first divided differences, and Taylor
# coefficients f^(m)(x)/m!. x are `values`, c `offset`.
def _log_values(x: Array, c: Array, _: float) -> Array:
    return jnp.where(c == 1.0, jnp.log1p(x), jnp.log(x + c))


def _log_first(x: Array, y: Array, c: Array, _: float) -> Array:
    # 2 artanh((x - y)/(x + y)) / (x - y) where the ratio is moderate; plain difference of
    # logarithms beyond.
    total = x + y + 2.0 * c
    t = (x - y) / total
    near = jnp.abs(t) < 0.5
    tiny = jnp.abs(t) < 1e-3
    t2 = t * t
    series = 1.0 + t2 * (1.0 / 3.0 + t2 * (1.0 / 5.0 + t2 / 7.0))
    safe = jnp.where(near & ~tiny, t, 0.25)
    close = 2.0 / total * jnp.where(tiny, series, jnp.arctanh(safe) / safe)
    gap = jnp.where(near, 1.0, x - y)
    return jnp.where(near, close, (jnp.log(x + c) - jnp.log(y + c)) / gap)


def _exp_values(x: Array, c: Array, _: float) -> Array:
    return jnp.where(c == 1.0, jnp.expm1(x), jnp.exp(x) - c)


def _exp_first(x: Array, y: Array, c: Array, _: float) -> Array:
    half = 0.5 * (x - y)
    far = jnp.abs(half) > 300.0
    close = jnp.exp(0.5 * (x + y)) * sinhc_sqrt(jnp.where(far, 0.0, half) ** 2)
    return jnp.where(far, (jnp.exp(x) - jnp.exp(y)) / jnp.where(far, 2.0 * half, 1.0), close)


def exp_slopes(values: Array) -> Array:
    """(..., k, k): the divided differences of exp at all pairs of these (..., k) values."""
    return _exp_first(values[..., :, None], values[..., None, :], jnp.zeros(()), 0.0)


def log_quotients(values: Array) -> Array:
    """log(x) / (x - 1) at these values, also near 1."""
    return _log_first(values, jnp.ones(()), jnp.zeros(()), 0.0)


def _power_values(x: Array, c: Array, t: float) -> Array:
    return jnp.sqrt(x + c) if t == 0.5 else (x + c) ** t


def _power_first(x: Array, y: Array, c: Array, t: float) -> Array:
    if t == 0.5:
        return 1.0 / (jnp.sqrt(x + c) + jnp.sqrt(y + c))
    if t == -0.5:
        a, b = jnp.sqrt(x + c), jnp.sqrt(y + c)
        return -1.0 / (a * b * (a + b))
    top = jnp.maximum(x, y) + c
    r = -jnp.abs(x - y) / top
    safe = jnp.where(r == 0.0, -0.5, r)
    return top ** (t - 1.0) * jnp.where(r == 0.0, t, jnp.expm1(t * jnp.log1p(safe)) / safe)


def _floor_values(x: Array, c: Array, _: float) -> Array:
    return jnp.maximum(x, c)


def _floor_first(x: Array, y: Array, c: Array, _: float) -> Array:
    equal = x == y
    slope = (jnp.maximum(x, c) - jnp.maximum(y, c)) / jnp.where(equal, 1.0, x - y)
    return jnp.where(equal, jnp.where(x > c, 1.0, 0.0), slope)


def _binomial(t: float, m: int) -> float:
    out = 1.0
    for i in range(m):
        out *= (t - i) / (i + 1)
    return out


def _factorial_reciprocal(m: int) -> float:
    return 1.0 / float(np.prod(np.arange(1, m + 1, dtype=np.float64)))


class _Function(NamedTuple):
    values: Callable[[Array, Array, float], Array]
    first: Callable[[Array, Array, Array, float], Array]
    taylor: Callable[
        [Array, int, float], Array
    ]  # m-th Taylor coefficient (m >= 2) at the eigenvalue given
    # whether the eigenvalue is values + offset (else the offset is subtracted from f, or is a
    # parameter)
    shifted: bool


_FUNCTIONS = {
    "log": _Function(
        _log_values, _log_first, lambda x, m, t: (-1.0) ** (m - 1) / m * x ** (-m), True
    ),
    "exp": _Function(
        _exp_values, _exp_first, lambda x, m, t: jnp.exp(x) * _factorial_reciprocal(m), False
    ),
    "power": _Function(
        _power_values, _power_first, lambda x, m, t: _binomial(t, m) * x ** (t - m), True
    ),
    "floor": _Function(_floor_values, _floor_first, lambda x, m, t: jnp.zeros_like(x), False),
}


def _divided_differences(kind: str, t: float, values: Array, offset: Array, order: int) -> Array:
    """All divided differences f[l_i0, .., l_in], n = order >= 1, as a symmetric array (*batch, k,
    .., k).
    """
    function = _FUNCTIONS[kind]
    if order == 1:
        return function.first(
            values[..., :, None], values[..., None, :], offset[..., None, None], t
        )
    k = values.shape[-1]
    lower = _divided_differences(kind, t, values, offset, order - 1)
    # Eigenvalues ascend, so sorting the indices sorts the nodes: the recursion then divides by the
    # widest gap.
    index = np.sort(np.indices((k,) * (order + 1)), axis=0)
    nodes = values[..., np.moveaxis(index, 0, -1)]  # (*batch, k, .., k, order + 1)
    gap = nodes[..., -1] - nodes[..., 0]
    centre = jnp.mean(nodes, axis=-1)
    lift = offset.reshape(offset.shape + (1,) * (order + 1)) if function.shifted else jnp.zeros(())
    x = centre + lift
    scale = 1.0 if kind == "exp" else jnp.abs(x)
    near = gap <= TAYLOR_SPREAD * scale
    direct = (lower[(..., *index[1:])] - lower[(..., *index[:-1])]) / jnp.where(near, 1.0, gap)
    # Complete homogeneous polynomials of the deviations, by the recursion h_m(d_0..d_j) =
    # h_m(d_0..d_j-1) + d_j h_m-1(d_0..d_j).
    deviation = jnp.where(near[..., None], nodes - centre[..., None], 0.0)
    homogeneous = [jnp.ones_like(centre)] + [jnp.zeros_like(centre)] * (TAYLOR_TERMS - 1)
    for j in range(order + 1):
        for m in range(1, TAYLOR_TERMS):
            homogeneous[m] = homogeneous[m] + deviation[..., j] * homogeneous[m - 1]
    series = sum(function.taylor(x, order + m, t) * homogeneous[m] for m in range(TAYLOR_TERMS))
    return jnp.where(near, series, direct)


# ------------------------------------------------------------------------------------------------
# the primitive
def _evaluate(
    a: Array, q: Array, values: Array, offset: Array, *directions: Array, kind: str, t: float
) -> Array:
    del a  # carries the derivative only
    order = len(directions)
    if order == 0:
        f = _FUNCTIONS[kind].values(values, offset[..., None], t)
        return sym((q * f[..., None, :]) @ transpose(q))
    rotated = [transpose(q) @ h @ q for h in directions]
    weights = _divided_differences(kind, t, values, offset, order)
    if order == 1:
        inner = weights * rotated[0]
    else:
        letters = "abcdefgh"[: order + 1]
        terms = [f"...{letters[i]}{letters[i + 1]}" for i in range(order)]
        recipe = f"...{letters}," + ",".join(terms) + f"->...{letters[0]}{letters[-1]}"
        inner = sum(
            jnp.einsum(recipe, weights, *chain) for chain in itertools.permutations(rotated)
        )
    return sym(q @ inner @ transpose(q))


def _abstract(
    a: ShapedArray,
    q: ShapedArray,
    values: ShapedArray,
    offset: ShapedArray,
    *directions: ShapedArray,
    kind: str,
    t: float,
) -> Any:
    batch = jnp.broadcast_shapes(
        q.shape[:-2], values.shape[:-1], offset.shape, *(h.shape[:-2] for h in directions)
    )
    return ShapedArray(batch + q.shape[-2:], q.dtype)


def _jvp(primals: tuple[Array, ...], tangents: tuple[Array, ...], **how: Any) -> Any:
    out = _spectral_p.bind(*primals, **how)
    parts = []
    fixed, directions = primals[:4], primals[4:]
    if not isinstance(tangents[0], ad.Zero):
        parts.append(
            _spectral_p.bind(*fixed, *directions, ad.instantiate_zeros(tangents[0]), **how)
        )
    for i, dh in enumerate(tangents[4:]):
        if not isinstance(dh, ad.Zero):
            changed = (*directions[:i], ad.instantiate_zeros(dh), *directions[i + 1 :])
            parts.append(_spectral_p.bind(*fixed, *changed, **how))
    total = sum(parts[1:], parts[0]) if parts else jnp.zeros_like(out)
    return out, jnp.broadcast_to(total, out.shape)


def _transpose(cotangent: Any, *operands: Any, **how: Any) -> Any:
    # D^n f(A) is symmetric in (H_1, .., H_n, C) under the trace product, so its transpose is
    # itself.
    unknown = [i for i, operand in enumerate(operands) if ad.is_undefined_primal(operand)]
    out: list[Any] = [None] * len(operands)
    if isinstance(cotangent, ad.Zero):
        return [ad.Zero(operands[i].aval) if i in unknown else None for i in range(len(operands))]
    (slot,) = unknown
    shape = operands[slot].aval.shape
    filled = [sym(cotangent) if i == slot else operand for i, operand in enumerate(operands)]
    result = _spectral_p.bind(*filled, **how)
    extra = result.ndim - len(shape)
    result = jnp.sum(result, axis=tuple(range(extra)))
    kept = tuple(i for i, n in enumerate(shape) if n == 1 and result.shape[i] != 1)
    out[slot] = jnp.sum(result, axis=kept, keepdims=True) if kept else result
    return out


_TRAILING = (2, 2, 1, 0)


def _batch(operands: Sequence[Array], axes: Sequence[int | None], **how: Any) -> Any:
    def trailing(i: int) -> int:
        return _TRAILING[i] if i < 4 else 2

    lead = max(
        x.ndim - trailing(i) - (axis is not None)
        for i, (x, axis) in enumerate(zip(operands, axes, strict=True))
    )
    moved = []
    for i, (x, axis) in enumerate(zip(operands, axes, strict=True)):
        if axis is None:
            moved.append(x)
            continue
        x = jnp.moveaxis(x, axis, 0)
        pad = lead - (x.ndim - 1 - trailing(i))
        moved.append(x.reshape(x.shape[:1] + (1,) * pad + x.shape[1:]))
    return _spectral_p.bind(*moved, **how), 0


_spectral_p = Primitive("symmetric_matrix_function")
_spectral_p.def_impl(jax.jit(_evaluate, static_argnames=("kind", "t")))
_spectral_p.def_abstract_eval(_abstract)
ad.primitive_jvps[_spectral_p] = _jvp
ad.primitive_transposes[_spectral_p] = _transpose
batching.primitive_batchers[_spectral_p] = _batch
mlir.register_lowering(_spectral_p, mlir.lower_fun(_evaluate, multiple_results=False))


def apply(
    kind: str,
    a: Matrix,
    eig: Spectrum,
    *directions: Matrix,
    t: float = 0.0,
    offset: Array | None = None,
) -> Matrix:
    """D^n f(a)[directions] for f = `kind`; f(a) itself without directions. `eig` is the
    decomposition of `a`.
    """
    c = eig.offset if offset is None else offset
    stopped = jax.lax.stop_gradient((eig.q, eig.values, c))
    return _spectral_p.bind(a, *stopped, *directions, kind=kind, t=float(t))


def expm(a: Matrix) -> Matrix:
    """Matrix exponential of a symmetric matrix."""
    return apply("exp", sym(a), spectrum(sym(a)))


def logm(a: Matrix) -> Matrix:
    """Logarithm of a symmetric positive definite matrix."""
    return apply("log", sym(a), spectrum(sym(a)))


def powm(a: Matrix, t: float) -> Matrix:
    """Real power a^t of a symmetric positive definite matrix."""
    return apply("power", sym(a), spectrum(sym(a)), t=t)


def sqrtm(a: Matrix) -> Matrix:
    """Square root of a symmetric positive definite matrix."""
    return powm(a, 0.5)


def invsqrtm(a: Matrix) -> Matrix:
    """Inverse square root of a symmetric positive definite matrix."""
    return powm(a, -0.5)


def lyapunov(w: Matrix, u: Matrix, eig: Spectrum | None = None) -> Matrix:
    """The symmetric solution L of L w + w L = u; `eig` is the decomposition of `w` if it is already
    known.

    It is the derivative of the square root at w^2, which is how it gets its own derivatives.
    """
    eig = spectrum(w) if eig is None else eig
    return apply("power", sym(w @ w), Spectrum(eig.q, eig.values**2, eig.offset), sym(u), t=0.5)


@jax.custom_jvp
def eigenvalues(a: Matrix) -> Float[Array, "*batch k"]:
    """Ascending eigenvalues. A symmetric function of them has its right gradient also where they
    coincide (its second derivative is right only where they differ).
    """
    return decompositions.eigvalsh(a)


@eigenvalues.defjvp
def _eigenvalues_jvp(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> Any:
    (a,), (da,) = primals, tangents
    values, q = decompositions.eigh(a)
    return values, jnp.einsum("...ri,...rs,...si->...i", q, da, q)


def difference(kind: str, x: Spectrum, y: Spectrum, gap: Matrix) -> Matrix:
    """f(X) - f(Y) from the decompositions of X and Y and their exact difference, without
    cancellation and without derivative.

    In the two eigenbases the entries of f(X) - f(Y) are those of X - Y times f[x_r, y_s]; an
    identity, not an expansion.
    """
    x, y, gap = jax.lax.stop_gradient((x, y, gap))
    weights = _FUNCTIONS[kind].first(
        x.values[..., :, None], y.values[..., None, :], jnp.zeros(()), 0.0
    )
    return sym(x.q @ (weights * (transpose(x.q) @ gap @ y.q)) @ transpose(y.q))


# ------------------------------------------------------------------------------------------------
# packing
def pack(s: Matrix) -> Float[Array, "*batch d"]:
    """Isometry from symmetric matrices with the Frobenius product to R^{k(k+1)/2}: diagonal, then
    sqrt(2) above it.
    """
    k = s.shape[-1]
    i, j = np.triu_indices(k, 1)
    return jnp.concatenate(
        [jnp.diagonal(s, axis1=-2, axis2=-1), np.sqrt(2.0) * s[..., i, j]], axis=-1
    )


def unpack(c: Float[Array, "*batch d"], k: int) -> Matrix:
    """Inverse of `pack`; iid standard normals become the isotropic Gaussian of the Frobenius
    product.
    """
    i, j = np.triu_indices(k, 1)
    position = np.zeros((k, k), dtype=np.int64)
    position[np.arange(k), np.arange(k)] = np.arange(k)
    position[i, j] = position[j, i] = k + np.arange(i.size)
    scale = np.full((k, k), np.sqrt(0.5))
    np.fill_diagonal(scale, 1.0)
    return c[..., position] * scale
