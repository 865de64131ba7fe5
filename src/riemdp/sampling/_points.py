"""From radii and directions to points, compiled or in batched linear algebra."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp


@functools.partial(jax.jit, static_argnums=0)
def direction_and_exp(manifold: Any, eta: Any, radii: Any, z: Any) -> Any:
    """Exp_eta(r u) with u the unit tangent vector that the normals `z` (q, noise_size) point to:
    uniform directions.
    """
    base = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], eta)
    v = manifold._tangent_from_normals(base, z)
    length = manifold._norm(base, v)
    factor = radii / jnp.where(length > 0, length, 1.0)
    scaled = jax.tree.map(
        lambda leaf: leaf * factor.reshape(factor.shape + (1,) * (leaf.ndim - 1)), v
    )
    return manifold._exp(base, scaled)
