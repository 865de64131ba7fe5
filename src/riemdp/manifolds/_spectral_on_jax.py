"""The functions of `_spectral` as one primitive of JAX, with derivatives of every order that are
right also where eigenvalues coincide.

Differentiating through the eigenvectors of a repeated eigenvalue gives 0/0. The derivatives of
f(A) = Q f(L) Q^T are multilinear in the directions (Daleckii-Krein),

    D^n f(A)[H_1 .. H_n] = Q (sum over orderings of  sum f[l_i, l_a, .., l_j] (Q^T H_1 Q)_ia .. (Q^T
    H_n Q)_.j) Q^T,

with divided differences f[...] that are computed without cancellation. The decomposition (Q, l) is
handed in beside A and is never differentiated. A plain nested `custom_jvp` would not do: JAX
inlines the inner function when it linearises the rule, and a second derivative would then run
through `eigh` after all.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from ._divided import FUNCTIONS, evaluated, sym, transpose

if TYPE_CHECKING:
    from .._namespace import Array

TAYLOR_TERMS = 12
# relative spread of the nodes below which a divided difference of order >= 2 is summed as a series
TAYLOR_SPREAD = 0.1


def applied(
    kind: str, t: float, a: Array, q: Array, values: Array, offset: Array, *directions: Array
) -> Array:
    """D^n f(a)[directions], of which a and the directions carry derivatives."""
    stopped = jax.lax.stop_gradient((q, values, offset))
    return _spectral_p.bind(a, *stopped, *directions, kind=kind, t=t)


def _binomial(t: float, m: int) -> float:
    out = 1.0
    for i in range(m):
        out *= (t - i) / (i + 1)
    return out


# the m-th Taylor coefficient, m >= 2, of each function at an eigenvalue
_TAYLOR: dict[str, Callable[[Array, int, float], Array]] = {
    "log": lambda x, m, t: (-1.0) ** (m - 1) / m * x ** (-m),
    "exp": lambda x, m, t: jnp.exp(x) / math.factorial(m),
    "power": lambda x, m, t: _binomial(t, m) * x ** (t - m),
    "floor": lambda x, m, t: jnp.zeros_like(x),
}
# where the eigenvalue is values + offset; else the offset is subtracted from f, or a parameter
_SHIFTED = {"log", "power"}


def _divided_differences(kind: str, t: float, values: Array, offset: Array, order: int) -> Array:
    """All divided differences f[l_i0, .., l_in], n = order >= 1, as a symmetric array (*batch, k,
    .., k).
    """
    if order == 1:
        first = FUNCTIONS[kind].first
        return first(values[..., :, None], values[..., None, :], offset[..., None, None], t)
    k = values.shape[-1]
    lower = _divided_differences(kind, t, values, offset, order - 1)
    # Eigenvalues ascend, so sorting the indices sorts the nodes: the recursion then divides by the
    # widest gap.
    index = np.sort(np.indices((k,) * (order + 1)), axis=0)
    nodes = values[..., np.moveaxis(index, 0, -1)]  # (*batch, k, .., k, order + 1)
    gap = nodes[..., -1] - nodes[..., 0]
    centre = jnp.mean(nodes, axis=-1)
    lift = offset.reshape(offset.shape + (1,) * (order + 1)) if kind in _SHIFTED else jnp.zeros(())
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
    series = sum(_TAYLOR[kind](x, order + m, t) * homogeneous[m] for m in range(TAYLOR_TERMS))
    return jnp.where(near, series, direct)


def _evaluate(
    a: Array, q: Array, values: Array, offset: Array, *directions: Array, kind: str, t: float
) -> Array:
    del a  # carries the derivative only
    order = len(directions)
    if order < 2:
        return evaluated(kind, t, q, values, offset, *directions)
    rotated = [transpose(q) @ h @ q for h in directions]
    weights = _divided_differences(kind, t, values, offset, order)
    letters = "abcdefgh"[: order + 1]
    terms = [f"...{letters[i]}{letters[i + 1]}" for i in range(order)]
    recipe = f"...{letters}," + ",".join(terms) + f"->...{letters[0]}{letters[-1]}"
    inner = sum(jnp.einsum(recipe, weights, *chain) for chain in itertools.permutations(rotated))
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
