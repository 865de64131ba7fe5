"""Frechet mean of SPD matrices with the affine-invariant metric: Newton's method with few passes
over the data.

In the frame M = L L^T the records are Y_i = L^-1 X_i L^-T = Q exp(lambda) Q^T and F = 1/2 sum w_i
d^2(M, X_i) has gradient -G, G = sum w_i log Y_i, and Hessian S -> sum w_i Q (K o Q^T S Q) Q^T with
K_ab = theta coth theta, theta = |lambda_a - lambda_b| / 2 (at least 1: F is strongly geodesically
convex). One eigendecomposition of the data gives both, so a pass is one `eigh` of every record and
a few products with its eigenvectors, by conjugate gradients.

It is written in NumPy: LAPACK's batched `eigh` dominates, parts of the data run in threads, and
nothing has to be compiled.

The passes are few because the iteration starts at the mean of an evenly spaced subsample of public
size, found in the same way; and because the last step needs none. Along a step S the gradient of
one record is -A(t), A = log(e^(-tS/2) Y e^(-tS/2)), with A' = -f(ad A) S and f(x) = (x/2)
coth(x/2). f is |x|/2 rounded off at scale 1, and its divided differences act on operators of norm
up to log(1e6) with norm below 1.6 (Kato's bound for |x|). The norm of ad A' is the difference of
two eigenvalues of A', at most sqrt(2) |A'|; and |A'| <= h |S|, where h = f of the difference of the
extreme eigenvalues of A, which move by |S| at most. So |A''| <= 2.3 (h + |S|) |S|^2, and the
residual after a Newton step is at most that of the linear system plus 1.15 (mean h + |S|) |S|^2, a
bound that suffices when the step is short. (What is seen on data is 20 times less. The largest
|A''| / (h |S|^2) that a search for it found is .7, for matrices up to 8 x 8 whose log-eigenvalues
lie up to 45 apart: farther than the argument reaches, and as far as records of a stream may.)
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from ._newton import Found, View, conjugate_gradients, damped_newton
from ._sphere_mean import LOOSE
from ._sums import pairwise
from ._threads import Each, in_threads

Array = np.ndarray

SUBSAMPLES = (256, 2048)  # public sizes; records are chosen by position, whatever their values
# records handled at once, or so many that they are these numbers; public, so that rounding does not
# depend on the number of threads here
PART, NUMBERS = 1024, 1 << 16
_ROUGH = 0.5  # the residual of a subsample's mean, in units of its sampling error
_SEEN = 10.0  # how far below its bound the residual after a step is on data
_ACCURACY = 1e-5  # of the inverse of a Hessian
# tanh theta below which a series of three terms gives theta coth theta: it misses 1.5e-13 there,
# and so does the difference of two logarithms
_NEAR = 1e-2
SPREAD_FOR_PLAIN_EIGH = (
    1e-6  # smallest ratio of eigenvalues for which eigh of Y gives log Y to about 1e-10
)


class NotSuitable(Exception):
    """The records are too ill-conditioned relative to their mean for this method; the caller uses
    the general one.
    """


@dataclass
class _Block:
    """A part of the data in the frame of the start: records and weights, and room for what a look
    keeps of them.
    """

    records: Array
    weights: Array
    rows: Array
    kernel: Array


@dataclass
class _Part:
    """A block seen from the current point: its weight, eigenvectors as rows, theta coth theta times
    the weight, and its largest entries added up. The next look takes their place.
    """

    weight: float
    rows: Array
    kernel: Array
    gradient: Array
    hessian: float
    ratio: float
    spread: float


def affine_mean(X: ArrayLike, weights: Any | None, tol: float, max_passes: int) -> Found[Array]:
    """The mean of X (n, k, k), with normalised weights (n,) or None. Deterministic.

    Raises:
        NotSuitable: A record is not finite, not symmetric or not positive definite, or its spectrum
            relative to the mean is wider than 1e6.
    """
    X = np.asarray(X)
    n = len(X)
    w = np.full(n, 1.0 / n) if weights is None else np.asarray(weights)
    try:
        with in_threads(-(-n // _part(X))) as each:
            # Inside: where there are several parts the library keeps to one thread, and the sum
            # does not depend on how many it would take.
            start = rough_mean(X, w, SUBSAMPLES, each)
            found = _newton(X, w, start, tol, max_passes, each)
    except np.linalg.LinAlgError as error:
        raise NotSuitable from error
    return replace(found, value=symmetric(found.value @ found.value.T))


def rough_mean(X: Array, w: Array, sizes: Sequence[int], each: Each) -> Array:
    """The factor of a point near the mean: of evenly spaced subsamples of these public sizes."""
    n = len(X)
    start = np.linalg.cholesky(symmetric(np.tensordot(w, X, axes=1)))
    for size in sizes:
        chosen = (np.arange(size) * n) // size
        if n < 4 * size or not np.sum(w[chosen]) > 0:
            break
        shares = w[chosen] / np.sum(w[chosen])
        start = _newton(X[chosen], shares, start, _ROUGH, 12, each, sample=size).value
    return start


def _newton(
    X: Array,
    w: Array,
    start: Array,
    tol: float,
    max_passes: int,
    each: Each,
    sample: int | None = None,
) -> Found[Array]:
    """Damped Newton iteration from the factor `start`; the value found is the mean's factor.

    Of a sample the mean is a start and nothing more: residuals are in units of its sampling error,
    below which accuracy would be wasted, and one after a step is what is seen on data.
    """
    # Whitened once: afterwards every factor is near the identity, so rounding does not grow with
    # the condition of the mean.
    blocks = _whitened(X, w, start, each)
    eye = np.eye(X.shape[-1])

    def look(factor: Array) -> View[Array]:
        parts, gradient, residual = _look(factor, blocks, each, first=factor is eye)
        spread, ratio = max(p.spread for p in parts), min(p.ratio for p in parts)
        if not math.isfinite(residual) or not ratio > SPREAD_FOR_PLAIN_EIGH:
            raise NotSuitable

        unit = 1.0 if sample is None else max(spread, 1e-300) / math.sqrt(sample)

        def newton() -> tuple[Array, float]:
            # Far from the mean a rough step is enough (the next pass repairs it); the last one has
            # to reach the tolerance, and leaves what its length does not take of it (no step is
            # longer than the gradient: Hessians are at least 1).
            hessian = math.fsum(p.hessian for p in parts)
            spared = 0.95 * tol * unit - residual_after(gradient, 0.0, hessian)
            forcing = max(1e-2 * min(1.0, residual) * residual, 0.3 * tol * unit, spared)
            step, left = _solve(parts, gradient, forcing, each)
            after = residual_after(step, left, hessian)
            return step, after / (unit if sample is None else _SEEN * unit)

        return View(residual / unit, spread, gradient / hessian_within(spread), newton)

    found = damped_newton(look, move, eye, tol, max_passes)
    return replace(found, value=start @ found.value)


def hessian_within(distance: float) -> float:
    """No Hessian of a record within this distance exceeds this factor: so long a gradient step
    always descends. (Eigenvalues of its logarithm differ by at most sqrt(2) times the distance.)
    """
    reach = distance / math.sqrt(2.0)
    return reach / math.tanh(reach) if reach > 1e-8 else 1.0


def residual_after(step: Array, left: float, hessian: float) -> float:
    """Bound of the residual after a Newton step that leaves `left` of its linear system.

    `hessian` is a mean, with the records' weights, of bounds of their Hessians before the step.
    """
    square = float(np.sum(step**2))
    return left + 1.15 * (hessian + math.sqrt(square)) * square


def _part(X: Array) -> int:
    return min(PART, max(4, NUMBERS // X.shape[-1] ** 2))


def _whitened(
    X: Array, w: Array, start: Array, each: Each, kept: DTypeLike = np.float64
) -> list[_Block]:
    """The records seen from the factor `start`, part by part; looks at them keep numbers of type
    `kept`.
    """
    inverse, size = np.linalg.inv(start), _part(X)
    records, rows, kernel = np.empty(X.shape), np.empty(X.shape, kept), np.empty(X.shape, kept)

    def seen(part: slice) -> _Block:
        x = X[part]
        if not np.all(symmetric_to(x, LOOSE)):
            raise NotSuitable
        records[part] = symmetric(congruence(inverse, x))  # x may be symmetric but for 1e-6
        return _Block(records[part], w[part], rows[part], kernel[part])

    return list(each(seen, cuts(len(X), size)))


def cuts(n: int, size: int) -> list[slice]:
    """n records in parts of that size, the first ones smaller: threads that begin at the same time
    with equal parts stay in step, and wait for each other wherever one of them needs Python.
    """
    ends = [0]
    while ends[-1] < n:
        ends.append(ends[-1] + max(1, size * min(len(ends), 4) // 4))
    return [slice(start, min(end, n)) for start, end in itertools.pairwise(ends)]


def symmetric_to(X: Array, loose: float) -> Array:
    """Which are symmetric, as `belongs` of the space finds it; False for what is not finite."""
    size = np.abs(X).max(axis=(1, 2))
    error = np.abs(X - X.swapaxes(1, 2)).max(axis=(1, 2))
    return error <= loose * size


def _look(
    factor: Array,
    blocks: list[_Block],
    each: Each,
    *,
    first: bool = False,
) -> tuple[list[_Part], Array, float]:
    """One pass over the data: its parts seen from `factor` factor^T, the gradient G there and its
    norm.
    """
    inverse = None if first else np.linalg.inv(factor)
    parts = list(each(lambda block: _decompose(inverse, block), blocks))
    gradient = symmetric(pairwise([p.gradient for p in parts]))
    return parts, gradient, float(np.linalg.norm(gradient))


def _decompose(inverse: Array | None, block: _Block) -> _Part:
    w, rows = block.weights, block.rows
    seen = block.records if inverse is None else congruence(inverse, block.records)
    values, q = np.linalg.eigh(seen)
    if not values[:, 0].min() > 0:
        raise np.linalg.LinAlgError
    k = rows.shape[-1]
    logs = np.log(values)
    rows[...] = q.swapaxes(1, 2)
    weighted = (w[:, None] * logs)[:, :, None] * rows
    gradient = rows.reshape(-1, k).T @ weighted.reshape(-1, k)
    reach = np.maximum(0.5 * (logs[:, -1] - logs[:, 0]), 1e-8)
    hessian = float(w @ (reach / np.tanh(reach)))
    ratio = float(np.min(values[:, 0] / values[:, -1]))
    spread = float(np.sqrt(np.max(np.sum(logs**2, axis=1))))
    _kernel(values, logs, w, out=block.kernel)
    return _Part(float(np.sum(w)), rows, block.kernel, gradient, hessian, ratio, spread)


def _kernel(values: Array, logs: Array, w: Array, out: Array) -> None:
    """Into `out` (n, k, k) w theta coth theta of all pairs of eigenvalues (n, k), theta half the
    difference of their logarithms.

    tanh theta is the difference of two eigenvalues over their sum. Each pair is computed once, and
    of all records together: a fifth of the time of arrays (n, k, k) and of tanh.
    """
    n, k = values.shape
    i, j, place = _pairs(k)
    values, logs = np.ascontiguousarray(values.T), np.ascontiguousarray(logs.T)
    less, more = values[i], values[j]
    tanh = (more - less) / (more + less)
    square = tanh * tanh
    series = 1.0 + square * (1.0 / 3.0 + 0.2 * square)
    plain = 0.5 * (logs[j] - logs[i]) / np.maximum(tanh, 1e-300)
    found = np.empty((len(i) + 1, n))
    np.multiply(w, np.where(tanh < _NEAR, series, plain), out=found[:-1])
    found[-1] = w
    out.reshape(n, -1)[...] = found[place].T


@functools.lru_cache(maxsize=16)
def _pairs(k: int) -> tuple[Array, Array, Array]:
    """All i < j, and which pair each entry of a matrix (k, k), by rows, belongs to: those of the
    diagonal to the one after the last.
    """
    i, j = np.triu_indices(k, 1)
    place = np.full((k, k), len(i))
    place[i, j] = place[j, i] = np.arange(len(i))
    return i, j, place.ravel()


def _solve(parts: list[_Part], gradient: Array, target: float, each: Each) -> tuple[Array, float]:
    """(S, |G - H S|) with the second at most `target`, by conjugate gradients; one product with H
    costs a tenth of a pass.

    H takes the identity to a multiple of it, the weight of all records, and so takes what is
    orthogonal to it to the like: the flat factor of the space needs no product.
    """
    k = len(gradient)

    def product(part: _Part, s: Array) -> Array:
        rows = part.rows
        half = (rows.reshape(-1, k) @ s.astype(rows.dtype)).reshape(rows.shape)
        inside = (half @ rows.swapaxes(1, 2)) * part.kernel
        return rows.reshape(-1, k).T @ (inside @ rows).reshape(-1, k)

    def hessian(s: Array) -> Array:
        return symmetric(pairwise(list(each(lambda part: product(part, s), parts))))

    flat = np.trace(gradient) / k * np.eye(k)
    step, left = conjugate_gradients(hessian, gradient - flat, target, most=40)
    return step + flat / math.fsum(part.weight for part in parts), left


def move(factor: Array, step: Array) -> Array:
    """A factor of L expm(step) L^T, namely L expm(step / 2)."""
    values, q = np.linalg.eigh(step)
    return factor @ (q * np.exp(0.5 * values)) @ q.T


def congruence(a: Array, X: Array) -> Array:
    """a X a^T of symmetric matrices, by two products of large matrices; symmetric but for rounding
    (a decomposition reads one half).
    """
    k = len(a)
    half = (X.reshape(-1, k) @ a.T).reshape(X.shape).swapaxes(1, 2)
    return (half.reshape(-1, k) @ a.T).reshape(X.shape)


def affine_inverse(X: ArrayLike, weights: Array, point: ArrayLike) -> Callable[[Array], Array]:
    """The inverse of the Hessian of F at a point, as a map of coordinates of its frame.

    Raises:
        NotSuitable: As `affine_mean`.
    """
    try:
        factor = np.linalg.cholesky(np.asarray(point))
        # half the memory: digits that the inverse of an estimate has no use for
        blocks = _whitened(np.asarray(X), weights, factor, map, kept=np.float32)
        parts = [_decompose(None, block) for block in blocks]
    except np.linalg.LinAlgError as error:
        raise NotSuitable from error
    # finite where the smallest ratio is: no part has an infinite eigenvalue then
    if not all(p.ratio > SPREAD_FOR_PLAIN_EIGH and math.isfinite(p.spread) for p in parts):
        raise NotSuitable

    del blocks
    k = len(factor)
    rows, columns, scale = packing(k)

    def inverse(y: Array) -> Array:
        s = np.empty((k, k))
        s[rows, columns] = s[columns, rows] = y / scale
        step, _ = _solve(parts, s, _ACCURACY * float(np.linalg.norm(s)), map)
        return step[rows, columns] * scale

    return inverse


@functools.lru_cache(maxsize=32)
def packing(k: int) -> tuple[Array, Array, Array]:
    """Coordinates of a symmetric matrix, as `manifolds._spectral.pack` gives them: rows and columns
    of its entries, and what multiplies them.
    """
    i, j = np.triu_indices(k, 1)
    diagonal = np.arange(k)
    scale = np.r_[np.ones(k), np.full(i.size, math.sqrt(2.0))]
    found = np.r_[diagonal, i], np.r_[diagonal, j], scale
    for one in found:  # it is kept
        one.flags.writeable = False
    return found


def symmetric(a: Array) -> Array:
    """The symmetric part of each matrix."""
    return 0.5 * (a + a.swapaxes(-1, -2))
