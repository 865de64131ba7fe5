"""From radii and directions to points, compiled or in batched linear algebra."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..manifolds import AbstractManifold
from ..manifolds._base import Point, Tangent


@functools.partial(jax.jit, static_argnums=0)
def direction_and_exp(manifold: AbstractManifold, eta: Point, radii: Array, z: Array) -> Point:
    """Exp_eta(r u) with u the unit tangent vector that the normals `z` (q, noise_size) point to:
    uniform directions.
    """
    base = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], eta)
    return manifold._exp(base, _along(manifold, base, radii, z))


@functools.partial(jax.jit, static_argnums=0)
def directions(manifold: AbstractManifold, eta: Point, z: Array) -> Tangent:
    """The unit tangent vectors at eta that the normals `z` (q, noise_size) point to."""
    base = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], eta)
    return _along(manifold, base, jnp.ones(z.shape[0]), z)


def _along(manifold: AbstractManifold, base: Point, radii: Array, z: Array) -> Tangent:
    v = manifold._tangent_from_normals(base, z)
    length = manifold._norm(base, v)
    factor = radii / jnp.where(length > 0, length, 1.0)
    return jax.tree.map(
        lambda leaf: leaf * factor.reshape(factor.shape + (1,) * (leaf.ndim - 1)), v
    )
