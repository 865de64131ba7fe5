"""From radii and directions to points, compiled or in batched linear algebra."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


@functools.partial(jax.jit, static_argnums=0)
def direction_and_exp(manifold: Any, eta: Any, radii: Any, z: Any) -> Any:
    """Exp_eta(r u) with u the unit tangent vector that the normals `z` (q, noise_size) point to: uniform directions."""
    base = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], eta)
    v = manifold._tangent_from_normals(base, z)
    length = manifold._norm(base, v)
    factor = radii / jnp.where(length > 0, length, 1.0)
    scaled = jax.tree.map(lambda leaf: leaf * factor.reshape(factor.shape + (1,) * (leaf.ndim - 1)), v)
    return manifold._exp(base, scaled)


def log_euclidean_points(eta: Any, radii: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """expm(log eta + r V) for unit symmetric directions V (q, k, k)."""
    w, q = np.linalg.eigh(np.asarray(eta))
    directions *= radii[:, None, None]
    directions += (q * np.log(w)) @ q.T
    values, vectors = np.linalg.eigh(directions)
    half = vectors * np.exp(0.5 * within_float64(values))[:, None, :]
    return half @ np.swapaxes(half, -1, -2)


def within_float64(logarithms: np.ndarray) -> np.ndarray:
    """Log-eigenvalues (q, k) such that float64 can hold the SPD matrix: where they spread over more than 33 (condition 10^14),
    or lie beyond 300, they are drawn together along the geodesic. Nothing else could be returned for such a draw."""
    middle = 0.5 * (np.max(logarithms, axis=1) + np.min(logarithms, axis=1))[:, None]
    half = 0.5 * np.ptp(logarithms, axis=1)[:, None]
    pulled = np.clip(middle, -300.0, 300.0) + (logarithms - middle) * np.minimum(1.0, 16.5 / np.maximum(half, 1e-300))
    return pulled
