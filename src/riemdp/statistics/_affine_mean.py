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
coth(x/2). Since f is |x|/2 rounded off at scale 1, whose divided differences act on operators of
norm up to log(1e6) with norm below 1.6 (Kato's bound for |x|), |A''| <= 2 * 2 |A'| |S| <= 4 f_max
|S|^2. So the residual after a Newton step is at most the residual of the linear system plus 2 f_max
|S|^2, a bound that suffices when the step is short. (What is seen on data is 40 times less.)
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ._newton import Found, View, conjugate_gradients, damped_newton
from ._sums import pairwise

Array = np.ndarray
Each = Callable[..., Iterable[Any]]  # `map`, or that of a pool of threads

SUBSAMPLES = (256, 2048)  # public sizes; records are chosen by position, whatever their values
PART = (
    1024  # records handled at once; fixed, so that rounding does not depend on the number of cores
)
SPREAD_FOR_PLAIN_EIGH = (
    1e-6  # smallest ratio of eigenvalues for which eigh of Y gives log Y to about 1e-10
)


class NotSuitable(Exception):
    """The records are too ill-conditioned relative to their mean for this method; the caller uses
    the general one.
    """


@dataclass
class _Part:
    """A part of the data seen from the current point: eigenvectors as columns and as weighted rows,
    and theta coth theta.
    """

    q: Array
    weighted: Array
    kernel: Array
    gradient: Array
    ratio: float
    spread: float


def affine_mean(X: ArrayLike, weights: Any | None, tol: float, max_passes: int) -> Found[Array]:
    """The mean of X (n, k, k), with normalised weights (n,) or None. Deterministic.

    Raises:
        NotSuitable: A record is not positive definite, or its spectrum relative to the mean is
            wider than 1e6.
    """
    X = np.asarray(X)
    n = len(X)
    w = np.full(n, 1.0 / n) if weights is None else np.asarray(weights)
    try:
        start = np.linalg.cholesky(_symmetric(np.tensordot(w, X, axes=1)))
        cores = (
            len(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else os.cpu_count() or 1
        )
        workers = max(1, min(cores, -(-n // PART)))
        with contextlib.ExitStack() as stack:
            each: Each = map  # to start a thread takes as long as a small mean
            if workers > 1:
                each = stack.enter_context(ThreadPoolExecutor(workers)).map
            for size in SUBSAMPLES:
                chosen = (np.arange(size) * n) // size
                if n < 4 * size or not np.sum(w[chosen]) > 0:
                    break
                # A tolerance far below the sampling error of the subsample would be wasted.
                shares = w[chosen] / np.sum(w[chosen])
                start = _newton(X[chosen], shares, start, 1e-3, 12, each).value
            found = _newton(X, w, start, tol, max_passes, each)
    except np.linalg.LinAlgError as error:
        raise NotSuitable from error
    return replace(found, value=_symmetric(found.value @ found.value.T))


def _newton(
    X: Array, w: Array, start: Array, tol: float, max_passes: int, each: Each
) -> Found[Array]:
    """Damped Newton iteration from the factor `start`; the value found is the mean's factor."""
    cuts = range(0, len(X), PART)
    # Whitened once: afterwards every factor is near the identity, so rounding does not grow with
    # the condition of the mean.
    inverse = np.linalg.inv(start)
    blocks = list(each(lambda i: (_congruence(inverse, X[i : i + PART]), w[i : i + PART]), cuts))
    eye = np.eye(X.shape[-1])

    def look(factor: Array) -> View[Array]:
        parts, gradient, residual = _look(factor, blocks, each, first=factor is eye)
        spread, ratio = max(p.spread for p in parts), min(p.ratio for p in parts)
        if not math.isfinite(residual) or not ratio > SPREAD_FOR_PLAIN_EIGH:
            raise NotSuitable

        def newton() -> tuple[Array, float]:
            # Far from the mean a rough step is enough (the next pass repairs it); the last one has
            # to reach the tolerance.
            forcing = max(1e-2 * min(1.0, residual) * residual, 0.3 * tol)
            step, left = _solve(parts, gradient, forcing, each)
            return step, left + 2.0 * _largest_factor(ratio) * float(np.sum(step**2))

        # No Hessian exceeds this, so the gradient step always descends.
        reach = spread / math.sqrt(2.0)
        lipschitz = reach / math.tanh(reach) if reach > 1e-8 else 1.0
        return View(residual, spread, gradient / lipschitz, newton)

    found = damped_newton(look, _move, eye, tol, max_passes)
    return replace(found, value=start @ found.value)


def _largest_factor(ratio: float) -> float:
    """Largest theta coth theta, the Hessian's largest eigenvalue for a record whose eigenvalues
    have this ratio.
    """
    theta = -0.5 * math.log(ratio)
    return theta / math.tanh(theta) if theta > 1e-4 else 1.0


def _look(
    factor: Array,
    blocks: list[tuple[Array, Array]],
    each: Each,
    *,
    first: bool = False,
) -> tuple[list[_Part], Array, float]:
    """One pass over the data: its parts seen from `factor` factor^T, the gradient G there and its
    norm.
    """
    inverse = None if first else np.linalg.inv(factor)
    parts = list(each(lambda block: _decompose(inverse, *block), blocks))
    gradient = _symmetric(pairwise([p.gradient for p in parts]))
    return parts, gradient, float(np.linalg.norm(gradient))


def _decompose(inverse: Array | None, Y: Array, w: Array) -> _Part:
    values, q = np.linalg.eigh(Y if inverse is None else _congruence(inverse, Y))
    if not values[:, 0].min() > 0:
        raise np.linalg.LinAlgError
    k = Y.shape[-1]
    logs = np.log(values)
    rows = np.ascontiguousarray(q.swapaxes(1, 2))
    weighted = w[:, None, None] * rows
    gradient = rows.reshape(-1, k).T @ (logs[:, :, None] * weighted).reshape(-1, k)
    theta = 0.5 * (logs[:, :, None] - logs[:, None, :])
    kernel = np.ones_like(theta)
    np.divide(theta, np.tanh(theta), out=kernel, where=theta != 0.0)
    ratio = float(np.min(values[:, 0] / values[:, -1]))
    spread = float(np.sqrt(np.max(np.sum(logs**2, axis=1))))
    return _Part(q, weighted, kernel, gradient, ratio, spread)


def _solve(parts: list[_Part], gradient: Array, target: float, each: Each) -> tuple[Array, float]:
    """(S, |G - H S|) with the second at most `target`, by conjugate gradients; one product with H
    costs a tenth of a pass.
    """
    k = len(gradient)

    def product(part: _Part, s: Array) -> Array:
        rows = part.q.swapaxes(1, 2)
        inside = np.matmul(np.matmul(rows, s), part.q)
        inside *= part.kernel
        return np.matmul(
            part.q.transpose(1, 0, 2).reshape(k, -1),
            np.matmul(inside, part.weighted).reshape(-1, k),
        )

    def hessian(s: Array) -> Array:
        return _symmetric(pairwise(list(each(lambda part: product(part, s), parts))))

    return conjugate_gradients(hessian, gradient, target, most=40)


def _move(factor: Array, step: Array) -> Array:
    """A factor of L expm(step) L^T, namely L expm(step / 2)."""
    values, q = np.linalg.eigh(step)
    return factor @ (q * np.exp(0.5 * values)) @ q.T


def _congruence(a: Array, X: Array) -> Array:
    y = np.matmul(np.matmul(a, X), a.T)
    return 0.5 * (y + y.swapaxes(1, 2))


def _symmetric(a: Array) -> Array:
    return 0.5 * (a + a.T)
