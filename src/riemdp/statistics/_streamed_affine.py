"""The Frechet mean of SPD matrices that are read in parts: Newton's method with the Hessian of all
of them, which a pass gives beside the mean logarithm where matrices are small.

The formulas are those of `_affine_mean`, and so is the bound of the residual after a step that
saves the last pass. What the bound needs of the records, how far they lie from the current point,
is a public fact: they lie in the ball.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..domains import Domain
from ..domains._stream import Stream, weighted_pairwise
from ..manifolds import AbstractManifold, SPDAffineInvariant
from ..manifolds import _spectral as sp
from ..manifolds._base import Point
from ..manifolds._spd_affine import relative_spectrum
from ._affine_mean import hessian_within, packing, residual_after
from ._newton import Found, View, damped_newton

_MOST = 21  # dimensions in which the Hessian costs less than the decompositions
_TOGETHER = 1024  # records whose rotated bases are in memory


def suits(manifold: AbstractManifold) -> bool:
    """Whether `streamed_affine_mean` is the method of this space."""
    return isinstance(manifold, SPDAffineInvariant) and manifold.dim <= _MOST


def streamed_affine_mean(
    domain: Domain, records: Stream, start: Point, tolerance: float, max_passes: int
) -> Found[Point]:
    """The mean of points of the ball, from `start`."""
    manifold = domain.manifold
    assert isinstance(manifold, SPDAffineInvariant)

    def look(point: Point) -> View[np.ndarray]:
        sums, weight = records.sums(functools.partial(_sums, manifold, point))
        gradient, hessian = (np.asarray(leaf) / weight for leaf in sums)
        residual = float(np.linalg.norm(gradient))
        spread = domain.radius + float(manifold.dist(domain.center, point))

        def newton() -> tuple[np.ndarray, float]:
            step = np.linalg.solve(hessian, gradient)
            left = float(np.linalg.norm(gradient - hessian @ step))
            return step, residual_after(step, left, hessian_within(spread))

        return View(residual, spread, gradient / hessian_within(spread), newton)

    def move(point: Point, step: np.ndarray) -> Point:
        return ends(manifold, point, jnp.asarray(step))

    return damped_newton(look, move, start, tolerance, max_passes)


@functools.partial(jax.jit, static_argnums=0)
def ends(manifold: AbstractManifold, base: Point, y: Array) -> Point:
    """The points at these coordinates of the tangent space at `base`."""
    return manifold._exp_coordinates(base, y)


def _sums(
    manifold: SPDAffineInvariant, point: Point, records: Point, _: Any, weights: Array
) -> tuple[Array, Array]:
    return _compiled_sums(manifold, point, records, weights)


@functools.partial(jax.jit, static_argnums=0)
def _compiled_sums(
    manifold: SPDAffineInvariant, point: Array, records: Array, weights: Array
) -> tuple[Array, Array]:
    """Weighted sums of logarithms and of Hessians, in coordinates of the frame of `point`."""
    _, m, eig = relative_spectrum(point, records)
    gradient = weighted_pairwise(sp.pack(sp.apply("log", m, eig)), weights)
    one = eig.offset[..., None] == 1.0
    logs = jnp.where(one, jnp.log1p(eig.values), jnp.log(jnp.where(one, 1.0, eig.values)))
    a, b, scale = packing(manifold.k)
    theta = jnp.maximum(jnp.abs(0.5 * (logs[:, a] - logs[:, b])), 1e-8)  # 1 in float64 below that
    weight = weights[:, None]  # what has none may be anything
    kernel = jnp.where(weight == 0.0, 0.0, weight * theta / jnp.tanh(theta))

    def some(part: tuple[Array, Array]) -> Array:
        # H = sum over a <= b of kernel_ab E_ab E_ab^T, E_ab = (q_a q_b^T + q_b q_a^T) / sqrt(2)
        q, kernel = part
        i, j = a[:, None], b[:, None]
        entries = q[:, i, a] * q[:, j, b] + q[:, i, b] * q[:, j, a]
        packed = (0.5 * scale[:, None] * scale) * entries
        packed = jnp.where(kernel[:, None, :] == 0.0, 0.0, packed)
        return jnp.einsum("nix,nx,njx->ij", packed, kernel, packed)

    rows = min(_TOGETHER, records.shape[0])
    parts = (x.reshape(-1, rows, *x.shape[1:]) for x in (eig.q, kernel))
    return gradient, jnp.sum(jax.lax.map(some, tuple(parts)), axis=0)
