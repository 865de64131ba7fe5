"""Decompositions of stacks of matrices that no single matrix can stop.

`numpy.linalg` raises for a whole stack where one matrix is not finite, singular or does not
converge: a record would decide about an error. This is the one module that calls it on what comes
from records. A matrix that is not finite is replaced by the identity before LAPACK sees it (whose
singular values of one infinite entry never return), and its results are NaN; so are those of a
matrix that has no decomposition. Each matrix gives the same bits whatever stands beside it.

Arrays of JAX go to JAX, with its eigenvalues and singular values checked on accelerators
(`_decompositions`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from ._namespace import namespace

if TYPE_CHECKING:
    import jax

    Array: TypeAlias = np.ndarray | jax.Array


def eigh(a: Array) -> tuple[Array, Array]:
    """Ascending eigenvalues (..., k) and eigenvectors (..., k, k) of symmetric matrices, of which
    the lower half is read. Carries no derivative.
    """
    if namespace(a) is np:
        a, finite = _isolated(a, np.tril(a))
        values, vectors = _each(np.linalg.eigh, a)
        return _marked(finite, values, 1), _marked(finite, vectors, 2)
    return _on_jax().eigh(a)


def eigvalsh(a: Array) -> Array:
    """The eigenvalues alone: half of the time."""
    if namespace(a) is np:
        a, finite = _isolated(a, np.tril(a))
        (values,) = _each(lambda m: (np.linalg.eigvalsh(m),), a)
        return _marked(finite, values, 1)
    return _on_jax().eigvalsh(a)


def svd(a: Array, full_matrices: bool = True) -> tuple[Array, Array, Array]:
    """Left singular vectors, descending singular values, right singular vectors as rows."""
    if namespace(a) is np:
        a, finite = _isolated(a, a)
        u, s, vt = _each(lambda m: np.linalg.svd(m, full_matrices=full_matrices), a)
        return _marked(finite, u, 2), _marked(finite, s, 1), _marked(finite, vt, 2)
    return _on_jax().svd(a, full_matrices)


def singular_values(a: Array) -> Array:
    """Descending singular values."""
    if namespace(a) is np:
        a, finite = _isolated(a, a)
        (s,) = _each(lambda m: (np.linalg.svd(m, compute_uv=False),), a)
        return _marked(finite, s, 1)
    return _on_jax().singular_values(a)


def cholesky(a: Array) -> Array:
    """The lower factor L of a = L L^T, of which the lower half is read; NaN where a is not positive
    definite.
    """
    xp = namespace(a)
    if xp is np:
        a, finite = _isolated(a, np.tril(a))
        (lower,) = _each(lambda m: (np.linalg.cholesky(m),), a)
        return _marked(finite, lower, 2)
    return xp.linalg.cholesky(a, symmetrize_input=False)


def inverse_lower(lower: Array) -> Array:
    """The inverses of lower triangular matrices, by substitution."""
    xp = namespace(lower)
    if xp is not np:
        import jax

        eye = xp.broadcast_to(xp.eye(lower.shape[-1]), lower.shape)
        return jax.lax.linalg.triangular_solve(lower, eye, left_side=True, lower=True)
    inverse = np.zeros_like(lower)
    for i in range(lower.shape[-1]):
        row = -np.sum(lower[..., i, :i, None] * inverse[..., :i, :], axis=-2)
        row[..., i] += 1.0
        inverse[..., i, :] = row / lower[..., i, i, None]
    return inverse


def solve(a: Array, b: Array) -> Array:
    """x with a x = b, for b (..., k, m); NaN where a is singular."""
    xp = namespace(a, b)
    if xp is not np:
        return xp.linalg.solve(a, b)
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a = np.broadcast_to(a, batch + a.shape[-2:])
    a, finite = _isolated(a, a)
    try:
        x = np.linalg.solve(a, b)
    except np.linalg.LinAlgError:
        x = np.full(batch + b.shape[-2:], np.nan)
        b = np.broadcast_to(b, x.shape)
        for where in np.ndindex(batch):
            try:
                x[where] = np.linalg.solve(a[where], b[where])
            except np.linalg.LinAlgError:
                continue
    return _marked(finite, x, 2)


def inv(a: Array) -> Array:
    """Inverse matrices; NaN where there is none."""
    xp = namespace(a)
    if xp is not np:
        return xp.linalg.inv(a)
    a, finite = _isolated(a, a)
    (inverse,) = _each(lambda m: (np.linalg.inv(m),), a)
    return _marked(finite, inverse, 2)


def det(a: Array) -> Array:
    """Determinants."""
    xp = namespace(a)
    if xp is not np:
        return xp.linalg.det(a)
    a, finite = _isolated(a, a)
    return _marked(finite, np.linalg.det(a), 0)


def slogdet(a: Array) -> tuple[Array, Array]:
    """The sign and the logarithm of the size of determinants."""
    xp = namespace(a)
    if xp is not np:
        return xp.linalg.slogdet(a)
    a, finite = _isolated(a, a)
    sign, size = np.linalg.slogdet(a)
    return _marked(finite, sign, 0), _marked(finite, size, 0)


def _on_jax() -> Any:
    from . import _decompositions

    return _decompositions


def _isolated(a: ArrayLike, read: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """The matrices, the identity in place of those of which an entry that is read is not finite;
    and which are finite.
    """
    a, finite = np.asarray(a), np.all(np.isfinite(read), axis=(-2, -1))
    if np.all(finite):
        return a, finite
    return np.where(finite[..., None, None], a, np.eye(*a.shape[-2:])), finite


def _marked(finite: np.ndarray, part: np.ndarray, axes: int) -> np.ndarray:
    """A part of a decomposition, NaN where the matrix was not finite."""
    if np.all(finite):
        return part
    return np.where(finite.reshape(finite.shape + (1,) * axes), part, np.nan)


def _each(decompose: Callable[[np.ndarray], Any], a: np.ndarray) -> tuple[np.ndarray, ...]:
    """`decompose` of all matrices at once; one by one where a matrix has no decomposition, whose
    parts are then NaN.
    """
    try:
        return tuple(decompose(a))
    except np.linalg.LinAlgError:
        pass
    batch = a.shape[:-2]
    some = tuple(decompose(np.eye(*a.shape[-2:])))
    parts = tuple(np.full(batch + np.shape(part), np.nan) for part in some)
    for where in np.ndindex(batch):
        try:
            found = decompose(a[where])
        except np.linalg.LinAlgError:
            continue
        for part, one in zip(parts, found, strict=True):
            part[where] = one
    return parts
