"""Functions of symmetric matrices, f(A) = Q f(L) Q^T, and their derivatives

    D f(A)[H] = Q (f[l_i, l_j] (Q^T H Q)_ij) Q^T

with divided differences f[., .] that are computed without cancellation. The decomposition (Q, l) is
handed in beside A and is never differentiated, so callers may obtain it in whatever way is accurate
(see `relative_spectrum` of the affine space), and f(A) and its derivatives share it. On JAX each is
one primitive with derivatives of every order (`_spectral_on_jax`).
"""

from __future__ import annotations

import functools
import math
import sys
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .. import _linalg as linalg
from .._namespace import namespace, stop_gradient
from ._divided import FUNCTIONS, evaluated, sym, transpose

if TYPE_CHECKING:
    from typing import TypeAlias

    from jaxtyping import Float

    from .._namespace import Array

    Matrix: TypeAlias = Float[Array, "*batch k k"]


class Spectrum(NamedTuple):
    """Eigenvectors `q` and eigenvalues `values + offset` of a symmetric matrix.

    With `offset` 1 the `values` are eigenvalues minus one, known to full relative accuracy however
    small they are.
    """

    q: Matrix
    values: Float[Array, "*batch k"]
    offset: Float[Array, "*batch"]


def spectrum(a: Matrix) -> Spectrum:
    """Eigendecomposition that carries no derivative (the functions below supply them)."""
    values, q = linalg.eigh(stop_gradient(a))
    return Spectrum(q, values, namespace(a).zeros(values.shape[:-1]))


def logs(eig: Spectrum) -> Float[Array, "*batch k"]:
    """Logarithms of the eigenvalues, in their order."""
    xp = namespace(eig.values)
    one = eig.offset[..., None] == 1.0
    return xp.where(one, xp.log1p(eig.values), xp.log(xp.where(one, 1.0, eig.values)))


def apply(
    kind: str,
    a: Matrix,
    eig: Spectrum,
    *directions: Matrix,
    t: float = 0.0,
    offset: Array | None = None,
) -> Matrix:
    """D^n f(a)[directions] for f = `kind`; f(a) itself without directions, of which JAX takes any
    number and others one. `eig` is the decomposition of `a`.
    """
    c = eig.offset if offset is None else offset
    if namespace(a, eig, c, directions) is not sys.modules.get("jax.numpy"):
        return evaluated(kind, t, eig.q, eig.values, c, *directions)
    from ._spectral_on_jax import applied

    return applied(kind, float(t), a, eig.q, eig.values, c, *directions)


def expm(a: Matrix) -> Matrix:
    """Matrix exponential of a symmetric matrix."""
    return apply("exp", sym(a), spectrum(sym(a)))


def lyapunov(w: Matrix, u: Matrix) -> Matrix:
    """The symmetric solution L of L w + w L = u.

    It is the derivative of the square root at w^2, which is how it gets its own derivatives.
    """
    eig = spectrum(w)
    return apply("power", sym(w @ w), Spectrum(eig.q, eig.values**2, eig.offset), sym(u), t=0.5)


def difference(kind: str, x: Spectrum, y: Spectrum, gap: Matrix) -> Matrix:
    """f(X) - f(Y) from the decompositions of X and Y and their exact difference, without
    cancellation and without derivative.

    In the two eigenbases the entries of f(X) - f(Y) are those of X - Y times f[x_r, y_s]; an
    identity, not an expansion.
    """
    x, y, gap = stop_gradient((x, y, gap))
    weights = FUNCTIONS[kind].first(x.values[..., :, None], y.values[..., None, :], 0.0, 0.0)
    return sym(x.q @ (weights * (transpose(x.q) @ gap @ y.q)) @ transpose(y.q))


# ------------------------------------------------------------------------------------------------
# packing
def pack(s: Matrix) -> Float[Array, "*batch d"]:
    """Isometry from symmetric matrices with the Frobenius product to R^{k(k+1)/2}: diagonal, then
    sqrt(2) above it.
    """
    k = s.shape[-1]
    entries, factors, _, _ = _packing(k)
    return namespace(s).take(s.reshape(*s.shape[:-2], k * k), entries, axis=-1) * factors


def unpack(c: Float[Array, "*batch d"], k: int) -> Matrix:
    """Inverse of `pack`; iid standard normals become the isotropic Gaussian of the Frobenius
    product.
    """
    _, _, places, factors = _packing(k)
    return (namespace(c).take(c, places, axis=-1) * factors).reshape(*c.shape[:-1], k, k)


@functools.cache
def _packing(k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The entries of a flat matrix that are packed, with their factors; the place where each entry
    of it is found again, with its factor.
    """
    i, j = np.triu_indices(k, 1)
    diagonal = np.arange(k)
    entries = np.concatenate([diagonal * (k + 1), i * k + j])
    factors = np.concatenate([np.ones(k), np.full(i.size, math.sqrt(2.0))])
    places = np.zeros((k, k), dtype=np.int64)
    places[diagonal, diagonal] = diagonal
    places[i, j] = places[j, i] = k + np.arange(i.size)
    scale = np.full((k, k), math.sqrt(0.5))
    np.fill_diagonal(scale, 1.0)
    return entries, factors, places.reshape(-1), scale.reshape(-1)
