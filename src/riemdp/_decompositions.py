"""Eigenvalues and singular values, checked where they do not come from LAPACK.

The sensitivity rests on them: a wrong decomposition measures a wrong distance, and a record far
outside the ball is kept. On the CPU LAPACK says when it did not converge. Solvers of accelerators
iterate a limited number of times (cuSOLVER's batched Jacobi method up to 32 rows), and some of them
returned what they had without a word: of ordinary SPD matrices one in thirty missed the limits
below on an H200, by up to six times. So on a machine with any device besides the CPU every
decomposition is multiplied out. Where that does not come back, LAPACK decomposes the matrix again
on the host. What was decomposed again shows in the time alone.

Whether there is such a device is a public fact, and on the CPU alone the programs are those without
a check.

No solver sees a matrix that is not finite: LAPACK's singular values of one infinite entry never
return. The identity takes its place, and what comes out of it is NaN.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.extend.backend
import jax.numpy as jnp
import numpy as np
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Bool, Float, PyTree
from threadpoolctl import ThreadpoolController

EPS = 2.0**-52  # distance from 1 to the next float64

Matrix = Float[Array, "*batch m n"]
Parts = tuple[Array, ...]

# What a decomposition may miss, in units of rounding times rows: A Q by RESIDUAL, relative to the
# largest eigenvalue, and Q^T Q by ORTHOGONALITY. Eigenvalues err by no more than the residual, so
# these are the two terms of `AbstractSPD._resolution`. LAPACK stays below 2.9 and 4.2.
RESIDUAL, ORTHOGONALITY = 4.0, 8.0


def lapack_alone() -> bool:
    """Whether every decomposition comes from LAPACK: a public fact of the machine, False where JAX
    has any device besides the CPU, whichever is in use.
    """
    return set(jax.extend.backend.backends()) <= {"cpu"}


@functools.cache
def _one_thread_each() -> None:
    """Keep each call of LAPACK in the thread that JAX makes it from.

    JAX decomposes the matrices of a batch in as many threads as there are cores, each by SciPy's
    LAPACK. From 64 rows or so that starts threads of its own for every matrix, which wait for each
    other: 64 matrices of 100 rows take thirty times as long on two cores. So SciPy's library is
    told to stay in one thread, when the first decomposition is compiled and JAX loads it. NumPy
    has a library of its own where both come as wheels, and keeps its threads; where they share
    one, nothing is changed.
    """
    import scipy.linalg.cython_lapack  # noqa: F401  what JAX calls

    for library in ThreadpoolController().lib_controllers:
        if library.user_api == "blas" and of_scipy(library.filepath):
            library.set_num_threads(1)


def of_scipy(path: str) -> bool:
    """Whether a library came with SciPy, for its use alone."""
    return any(folder.startswith("scipy") for folder in Path(path).parts[-3:-1])


def eigh(a: Matrix) -> tuple[Array, Array]:
    """Ascending eigenvalues and eigenvectors of a symmetric matrix, of which the lower half is
    read.
    """
    _one_thread_each()
    a, finite = _isolated(a, jnp.tril(a))
    found = jnp.linalg.eigh(a, symmetrize_input=False)
    values, q = found.eigenvalues, found.eigenvectors
    if lapack_alone():
        return _marked(finite, values), _marked(finite, q)
    whole = jnp.tril(a) + _transpose(jnp.tril(a, -1))
    bad = wrong(whole, q, values)
    size, turned = _checked(np.linalg.eigh, whole, bad, (values, q))
    values, q = _kept(bad, (values, q), (size, turned * _signs(q, turned)))
    return _marked(finite, values), _marked(finite, q)


@jax.custom_jvp
def eigvalsh(a: Matrix) -> Array:
    """Ascending eigenvalues of a symmetric matrix, of which the lower half is read."""
    return eigh(a)[0]


@eigvalsh.defjvp
def _(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Array, Array]:
    (a,), (da,) = primals, tangents
    values, q = eigh(a)
    return values, jnp.einsum("...ri,...rs,...si->...i", q, da, q)


def svd(a: Matrix, full_matrices: bool = True) -> tuple[Array, Array, Array]:
    """Left singular vectors, descending singular values, right singular vectors as rows."""
    _one_thread_each()
    a, finite = _isolated(a, a)
    u, s, vt = jnp.linalg.svd(a, full_matrices=full_matrices)
    if lapack_alone():
        return _marked(finite, u), _marked(finite, s), _marked(finite, vt)
    some = s.shape[-1]
    bad = wrong(a, u, -s, -_transpose(vt)[..., :some]) | _skewed(vt)
    solve = functools.partial(np.linalg.svd, full_matrices=full_matrices)
    left, size, right = _checked(solve, a, bad, (u, s, vt))
    signs = _signs(u, left)
    left = left * signs
    right = right.at[..., :some, :].multiply(_transpose(signs)[..., :some, :])
    u, s, vt = _kept(bad, (u, s, vt), (left, size, right))
    return _marked(finite, u), _marked(finite, s), _marked(finite, vt)


def singular_values(a: Matrix) -> Array:
    """Descending singular values."""
    if not lapack_alone():
        return svd(a, False)[1]
    _one_thread_each()
    a, finite = _isolated(a, a)
    return _marked(finite, jnp.linalg.svd(a, compute_uv=False))


def _isolated(a: Matrix, read: Matrix) -> tuple[Array, Bool[Array, "*batch"]]:
    """The matrices, the identity in place of those of which an entry that is read is not finite;
    and which are finite.
    """
    finite = _finite(read)
    return jnp.where(_expand(finite, a), a, jnp.eye(*a.shape[-2:], dtype=a.dtype)), finite


def _marked(finite: Bool[Array, "*batch"], part: Array) -> Array:
    """A part of a decomposition, NaN where the matrix was not finite."""
    return jnp.where(_expand(finite, part), part, jnp.nan)


def wrong(
    a: Matrix, q: Matrix, values: Float[Array, "*batch k"], right: Matrix | None = None
) -> Bool[Array, "*batch"]:
    """Which finite matrices were decomposed wrongly: a times `right`, by default q, is not q times
    the values, these do not ascend, or the columns of q are not orthonormal.
    """
    # No entry exceeds the largest value. Taken to the size of 1 first, nothing underflows.
    size = jnp.maximum(_largest(values, 1), _largest(a, 2))
    size = jnp.where(size > 0.0, size, 1.0)
    share = values / size[..., None]
    moved = (a / size[..., None, None]) @ (q if right is None else right)
    gap = moved - q[..., : values.shape[-1]] * share[..., None, :]
    limit = RESIDUAL * EPS * max(a.shape[-2:])
    # What is not a number satisfies no inequality.
    sound = (jnp.sum(gap**2, axis=(-2, -1)) <= limit**2) & ~_skewed(q)
    sound &= jnp.all(share[..., 1:] >= share[..., :-1] - limit, axis=-1)
    return _finite(a) & ~sound


def _largest(x: Array, axes: int) -> Array:
    return jnp.max(jnp.abs(x), axis=tuple(range(-axes, 0)))


def _finite(a: Matrix) -> Bool[Array, "*batch"]:
    return jnp.all(jnp.isfinite(a), axis=(-2, -1))


def _skewed(q: Matrix) -> Bool[Array, "*batch"]:
    """Whether the columns, or the rows of a wide matrix, are not orthonormal."""
    q = q if q.shape[-2] >= q.shape[-1] else _transpose(q)
    gap = _transpose(q) @ q - jnp.eye(q.shape[-1], dtype=q.dtype)
    limit = ORTHOGONALITY * EPS * q.shape[-2]
    return ~(jnp.sum(gap**2, axis=(-2, -1)) <= limit**2)


def _transpose(a: Matrix) -> Matrix:
    return jnp.swapaxes(a, -1, -2)


def _checked(
    solve: Callable[[np.ndarray], Any], a: Matrix, bad: Bool[Array, "*batch"], parts: Parts
) -> Parts:
    """The parts of a decomposition, of bad matrices those of LAPACK, which is asked only if there
    are any, also under vmap. Carries no derivative.
    """
    shapes = tuple((part.shape[bad.ndim :], part.dtype) for part in parts)

    @custom_vmap
    def run(bad: Array, parts: Parts, a: Array) -> Parts:
        def again() -> Parts:
            found = zip(_on_host(solve, shapes, a, bad), parts, strict=True)
            return tuple(jnp.where(_expand(bad, old), new, old) for new, old in found)

        return jax.lax.cond(jnp.any(bad), again, lambda: parts)

    @run.def_vmap
    def _rule(axis_size: int, batched: Sequence[Any], *arguments: PyTree[Array]) -> Any:
        def lead(x: Array, b: bool) -> Array:
            return x if b else jnp.broadcast_to(x, (axis_size, *x.shape))

        full = jax.tree.map(lead, arguments, tuple(batched))
        return run(*full), tuple(True for _ in parts)

    return jax.lax.stop_gradient(run(*jax.lax.stop_gradient((bad, parts, a))))


def _kept(bad: Bool[Array, "*batch"], old: Parts, new: Parts) -> Parts:
    """The new parts of bad matrices, and else the old ones. All have the derivatives of the old
    ones, of which a solver that stops early misses as little.
    """

    def choose(old: Array, new: Array) -> Array:
        given = jnp.where(jnp.isfinite(old), old, 0.0)
        new = jax.lax.stop_gradient(new) + (given - jax.lax.stop_gradient(given))
        return jnp.where(_expand(bad, old), new, old)

    return tuple(map(choose, old, new))


def _signs(old: Matrix, new: Matrix) -> Matrix:
    """What turns new columns to the side of the old ones: one row."""
    along = jnp.sum(old * new, axis=-2, keepdims=True)
    return jax.lax.stop_gradient(jnp.where(along < 0.0, -1.0, 1.0))


def _on_host(
    solve: Callable[[np.ndarray], Any],
    shapes: Sequence[tuple[tuple[int, ...], Any]],
    a: Matrix,
    bad: Bool[Array, "*batch"],
) -> Parts:
    """NumPy's decomposition of the bad matrices; NaN where LAPACK has none, which is never an
    error: it would be an event of a record.
    """

    def run(a: Any, bad: Any) -> Any:
        a, bad = np.asarray(a), np.asarray(bad)
        parts = tuple(np.full(bad.shape + shape, np.nan, dtype) for shape, dtype in shapes)
        for where in map(tuple, np.argwhere(bad)):
            try:
                found = solve(a[where])
            except np.linalg.LinAlgError:
                continue
            for part, one in zip(parts, found, strict=True):
                part[where] = one
        return parts

    results = tuple(jax.ShapeDtypeStruct(bad.shape + shape, dtype) for shape, dtype in shapes)
    return jax.pure_callback(run, results, a, bad)


def _expand(flag: Array, leaf: Array) -> Array:
    return flag.reshape(flag.shape + (1,) * (leaf.ndim - flag.ndim))
