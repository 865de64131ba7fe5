"""The Frechet mean of SPD matrices that are read in parts: Newton's method with the Hessian of all
of them, which a pass gives beside the mean logarithm where matrices are small.

The formulas are those of `_affine_mean`, and so is the bound of the residual after a step that
saves the last pass. What the bound needs of the records, how far they lie from the current point,
is a public fact: they lie in the ball.

The Hessian of a record with logarithm A takes S to f(ad A) S, f(x) = (x / 2) coth(x / 2). With a
polynomial in place of f, even and of degree 6, it is a sum of A^i S A^j, so the Hessian of all is
found from a matrix of second moments of A, A^2 and A^3 in the time of a few products. In the frame
of A's eigenvectors both multiply the entries of S, so their difference has the norm of its largest
entry: the mean of these over the records is part of the bound.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..domains._stream import Part, Stream, weighted_pairwise
from ..manifolds import AbstractManifold, SPDAffineInvariant
from ..manifolds import _spectral as sp
from ..manifolds._base import Point
from ..manifolds._spd_affine import relative_spectrum
from ._affine_mean import hessian_within, packing, residual_after
from ._look import MOST, AbstractLook
from ._newton import View

_DEGREES = 4  # coefficients of the polynomial, of even degrees
_WIDER = 1.3  # where it is fitted, in units of how wide records were
_CLOSE = 0.25  # the error of the Hessian up to which it has no small eigenvalue


def suits(manifold: AbstractManifold) -> bool:
    """Whether `AffineLook` is for this space."""
    return isinstance(manifold, SPDAffineInvariant) and manifold.dim <= MOST


class AffineLook(AbstractLook[SPDAffineInvariant]):
    """Looks at points of the ball."""

    def __init__(self, manifold: SPDAffineInvariant, center: Point, radius: float):
        self.manifold, self.center, self.radius = manifold, center, radius
        self._widest = math.sqrt(2.0) * radius
        self._spread, self._series = math.inf, np.empty(0)

    def part(self, point: Point) -> Part:
        self._spread = self.radius + float(self.manifold.dist(self.center, point))
        self._widest = min(self._widest, math.sqrt(2.0) * self._spread)
        self._series = fitted(self._widest)
        return functools.partial(_sums, self.manifold, point, jnp.asarray(self._series))

    def view(self, means: Any) -> View[np.ndarray]:
        gradient, second, one_sided, marks = means
        series, spread, k = self._series, self._spread, self.manifold.k
        missed, width = float(marks[0]), float(marks[1]) ** 0.125
        if math.isfinite(width) and width > 0.0:
            self._widest = _WIDER * width
        residual = float(np.linalg.norm(gradient))

        def newton() -> tuple[np.ndarray, float]:
            hessian = assembled(k, float(series[0]), second, one_sided)
            if not missed < _CLOSE:  # no Hessian has an eigenvalue below 1
                values, q = np.linalg.eigh(hessian)
                hessian = (q * np.maximum(values, 1.0)) @ q.T
            step = np.linalg.solve(hessian, gradient)
            left = float(np.linalg.norm(gradient - hessian @ step))
            left += missed * float(np.linalg.norm(step)) if missed < _CLOSE else math.inf
            return step, residual_after(step, left, hessian_within(spread))

        return View(residual, spread, gradient / hessian_within(spread), newton)


def bent_logs(
    manifold: SPDAffineInvariant, records: Stream, point: Point
) -> tuple[np.ndarray, float, float]:
    """The mean logarithm at the point, in coordinates, a bound of what the largest eigenvalue of
    the Hessian there exceeds 1 by, and the mean of such bounds of single records: one pass.

    f(x) is at most 1 + x^2 / 12, and (ad A)^2 S = A^2 S + S A^2 - 2 A S A at most twice the first
    two terms, as quadratic forms: so the mean Hessian exceeds 1 by a third of the largest
    eigenvalue of the mean A^2 at most. Where eigenvectors differ from record to record, that is a
    quarter of what the records do one by one.
    """
    sums, weight = records.sums(functools.partial(_bent_sums, manifold, point))
    gradient, bend, square = (np.asarray(leaf) / weight for leaf in sums)
    together = (
        float(np.linalg.eigvalsh(square)[-1]) / 3.0 if np.isfinite(square).all() else math.inf
    )
    return gradient, min(float(bend), together), float(bend)


def fitted(width: float) -> np.ndarray:
    """Coefficients of 1, x^2, x^4 and x^6: f(x) on [-width, width] but for a small error."""
    width = max(width, 0.1)
    nodes = width * np.cos(np.pi * (np.arange(_DEGREES) + 0.5) / (2 * _DEGREES))
    powers = np.vander((nodes / width) ** 2, increasing=True)
    return np.linalg.solve(powers, bent(nodes)) / width ** (2.0 * np.arange(_DEGREES))


def bent(x: np.ndarray) -> np.ndarray:
    """f."""
    half = np.maximum(np.abs(0.5 * x), 1e-8)
    return half / np.tanh(half)


def assembled(k: int, constant: float, second: np.ndarray, one_sided: np.ndarray) -> np.ndarray:
    """The matrix, in orthonormal coordinates, of S -> constant S + W S + S W + sum X S Y, from W
    and the sum of the products of the entries of X and Y.
    """
    i, j, scale = packing(k)
    a, d, b, c = i[:, None], j[:, None], i, j
    total = np.take(second.ravel(), _orders(k)).sum(axis=0)
    one = np.eye(k)
    for p, q, r, s in ((a, b, c, d), (a, c, b, d), (d, b, c, a), (d, c, b, a)):
        total = total + one_sided[p, q] * one[r, s] + one[p, q] * one_sided[r, s]
    found = 0.25 * (scale[:, None] * scale) * total
    return 0.5 * (found + found.T) + constant * np.eye(i.size)


@functools.lru_cache(maxsize=2)
def _orders(k: int) -> np.ndarray:
    """Where the products of entries that make one entry of the matrix stand: four of each."""
    i, j, _scale = packing(k)
    place = np.empty((k, k), dtype=np.int32)
    place[i, j] = place[j, i] = np.arange(i.size)
    a, d, b, c = i[:, None], j[:, None], i, j
    pairs = ((a, b, c, d), (a, c, b, d), (d, b, c, a), (d, c, b, a))
    return np.stack([place[p, q] * i.size + place[r, s] for p, q, r, s in pairs])


def _sums(
    manifold: SPDAffineInvariant,
    point: Point,
    series: Array,
    records: Point,
    _: Any,
    weights: Array,
) -> tuple[Array, ...]:
    return _compiled_sums(manifold, point, series, records, weights)


@functools.partial(jax.jit, static_argnums=0)
def _compiled_sums(
    manifold: SPDAffineInvariant, point: Array, series: Array, records: Array, weights: Array
) -> tuple[Array, ...]:
    """Weighted sums of logarithms, in coordinates of the frame of `point`, and of what the Hessian
    is assembled from; of the largest errors of its entries, and of the eighth powers of how far
    eigenvalues lie apart.
    """
    _, m, eig = relative_spectrum(point, records)
    log = sp.apply("log", m, eig)
    gradient = weighted_pairwise(sp.pack(log), weights)
    logs = sp.logs(eig)
    none = weights == 0.0  # what has no weight may be anything
    logs = jnp.where(none[:, None], 0.0, logs)
    log = jnp.where(none[:, None, None], 0.0, log)
    i, j, _scale = packing(manifold.k)
    gaps = jnp.abs(logs[:, i] - logs[:, j])
    theta = jnp.maximum(0.5 * gaps, 1e-8)  # f is 1 in float64 below that
    squares = gaps**2
    c0, c1, c2, c3 = (series[n] for n in range(_DEGREES))
    polynomial = c0 + squares * (c1 + squares * (c2 + squares * c3))
    missed = jnp.max(jnp.abs(theta / jnp.tanh(theta) - polynomial), axis=1)
    width = (logs[:, -1] - logs[:, 0]) ** 8
    marks = weighted_pairwise(jnp.stack([missed, width], axis=1), weights)
    # (x - y)^2, ^4 and ^6 multiplied out, of products with a power of x or y alone
    square = log @ log
    cube, fourth = square @ log, square @ square
    heavy = weights[:, None, None]
    left = jnp.concatenate([part[:, i, j] for part in (log, square, cube)])
    right = jnp.concatenate(
        [
            part[:, i, j]
            for part in (
                heavy * (-2.0 * c1 * log - 8.0 * c2 * cube - 12.0 * c3 * (fourth @ log)),
                heavy * (6.0 * c2 * square + 30.0 * c3 * fourth),
                heavy * (-20.0 * c3 * cube),
            )
        ]
    )
    one_sided = c1 * square + c2 * fourth + c3 * (fourth @ square)
    return gradient, left.T @ right, jnp.sum(heavy * one_sided, axis=0), marks


def _bent_sums(
    manifold: SPDAffineInvariant, point: Point, records: Point, _: Any, weights: Array
) -> tuple[Array, ...]:
    return _compiled_bent_sums(manifold, point, records, weights)


@functools.partial(jax.jit, static_argnums=0)
def _compiled_bent_sums(
    manifold: SPDAffineInvariant, point: Array, records: Array, weights: Array
) -> tuple[Array, ...]:
    """Weighted sums of logarithms, in coordinates of the frame of `point`, of what no eigenvalue of
    the Hessian of a record exceeds 1 by, f of how far its eigenvalues lie apart, and of squares.
    """
    _, m, eig = relative_spectrum(point, records)
    logs = sp.logs(eig)
    theta = jnp.maximum(0.5 * (logs[:, -1] - logs[:, 0]), 1e-8)
    bend = theta / jnp.tanh(theta) - 1.0
    log = sp.apply("log", m, eig)
    gradient, total = weighted_pairwise((sp.pack(log), bend), weights)
    given = jnp.where((weights == 0.0)[:, None, None], 0.0, log)
    heavy = weights[:, None, None] * given
    rows = heavy.reshape(-1, manifold.k).T @ given.reshape(-1, manifold.k)
    return gradient, total, sp.sym(rows)
