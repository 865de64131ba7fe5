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

import contextlib
import math
from collections.abc import Callable, Sequence
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
        a, finite = _isolated(a, lower=True)
        values, vectors = _each(np.linalg.eigh, a)
        return _marked(finite, values, 1), _marked(finite, vectors, 2)
    return _on_jax().eigh(a)


def eigvalsh(a: Array) -> Array:
    """The eigenvalues alone: half of the time. On JAX a symmetric function of them has its right
    gradient also where they coincide (its second derivative is right only where they differ).
    """
    if namespace(a) is np:
        a, finite = _isolated(a, lower=True)
        (values,) = _each(lambda m: (np.linalg.eigvalsh(m),), a)
        return _marked(finite, values, 1)
    return _on_jax().eigvalsh(a)


def svd(a: Array, full_matrices: bool = True) -> tuple[Array, Array, Array]:
    """Left singular vectors, descending singular values, right singular vectors as rows."""
    if namespace(a) is np:
        a, finite = _isolated(a)
        u, s, vt = _each(lambda m: np.linalg.svd(m, full_matrices=full_matrices), a)
        return _marked(finite, u, 2), _marked(finite, s, 1), _marked(finite, vt, 2)
    return _on_jax().svd(a, full_matrices)


def singular_values(a: Array) -> Array:
    """Descending singular values."""
    if namespace(a) is np:
        a, finite = _isolated(a)
        (s,) = _each(lambda m: (np.linalg.svd(m, compute_uv=False),), a)
        return _marked(finite, s, 1)
    return _on_jax().singular_values(a)


def cholesky(a: Array) -> Array:
    """The lower factor L of a = L L^T, of which the lower half is read; NaN where a is not positive
    definite.
    """
    xp = namespace(a)
    if xp is np:
        a, finite = _isolated(a, lower=True)
        (lower,) = _each(lambda m: (np.linalg.cholesky(m),), a)
        return _marked(finite, lower, 2)
    return xp.linalg.cholesky(a, symmetrize_input=False)


def inverse_lower(lower: Array) -> Array:
    """The inverses of lower triangular matrices, row by row."""
    xp = namespace(lower)
    if xp is not np:
        import jax

        eye = xp.broadcast_to(xp.eye(lower.shape[-1]), lower.shape)
        return jax.lax.linalg.triangular_solve(lower, eye, left_side=True, lower=True)
    inverse = np.zeros(lower.shape)
    for i in range(lower.shape[-1]):
        scale = 1.0 / lower[..., i, i]
        inverse[..., i, i] = scale
        if i > 0:
            known = lower[..., i : i + 1, :i] @ inverse[..., :i, :i]
            inverse[..., i, :i] = -scale[..., None] * known[..., 0, :]
    return inverse


def solve(a: Array, b: Array) -> Array:
    """x with a x = b, for b (..., k, m); NaN where a is singular."""
    xp = namespace(a, b)
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a = xp.broadcast_to(a, batch + a.shape[-2:])
    b = xp.broadcast_to(b, batch + b.shape[-2:])
    if xp is not np:
        return xp.linalg.solve(a, b)
    a, finite = _isolated(a)
    (x,) = _each(lambda m, n: (np.linalg.solve(m, n),), a, np.asarray(b))
    return _marked(finite, x, 2)


def det(a: Array) -> Array:
    """Determinants."""
    xp = namespace(a)
    if xp is not np:
        return xp.linalg.det(a)
    a, finite = _isolated(a)
    return _marked(finite, np.linalg.det(a), 0)


def _on_jax() -> Any:
    from . import _decompositions

    return _decompositions


def _isolated(a: ArrayLike, lower: bool = False) -> tuple[np.ndarray, np.ndarray | None]:
    """The matrices, the identity in place of those of which an entry that is read (of the lower
    half, or any) is not finite; and which are finite, None for all.
    """
    a = np.asarray(a)
    fine = np.isfinite(a)
    if fine.all():
        return a, None
    if lower:
        fine |= ~np.tri(a.shape[-1], dtype=bool)
    finite = np.asarray(fine.all(axis=(-2, -1)))
    return np.where(finite[..., None, None], a, np.eye(*a.shape[-2:])), finite


def _marked(finite: np.ndarray | None, part: np.ndarray, axes: int) -> np.ndarray:
    """A part of a decomposition, NaN where the matrix was not finite."""
    if finite is None:
        return part
    return np.where(finite.reshape(finite.shape + (1,) * axes), part, np.nan)


def _each(
    decompose: Callable[..., Sequence[np.ndarray]], *given: np.ndarray
) -> tuple[np.ndarray, ...]:
    """`decompose` of stacks of one length, all at once; where a matrix has no decomposition, its
    parts are NaN, and the others are found in halves of the stacks.
    """
    with contextlib.suppress(np.linalg.LinAlgError):
        return tuple(decompose(*given))
    batch = given[0].shape[:-2]
    many = math.prod(batch)
    stacks = tuple(x.reshape(many, *x.shape[-2:]) for x in given)
    parts = _halved(decompose, stacks)
    return tuple(part.reshape(batch + part.shape[1:]) for part in parts)


def _halved(
    decompose: Callable[..., Sequence[np.ndarray]], stacks: tuple[np.ndarray, ...]
) -> tuple[np.ndarray, ...]:
    try:
        return tuple(decompose(*stacks))
    except np.linalg.LinAlgError:
        many = len(stacks[0])
    if many == 1:
        some = decompose(*(np.eye(*x.shape[-2:])[None] for x in stacks))
        return tuple(np.full(part.shape, np.nan) for part in some)
    halves = (
        _halved(decompose, tuple(x[cut] for x in stacks))
        for cut in (slice(many // 2), slice(many // 2, None))
    )
    return tuple(np.concatenate(pair) for pair in zip(*halves, strict=True))
