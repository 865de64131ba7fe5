"""From radii and directions to points."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .._trees import map_leaves
from ..manifolds import AbstractManifold, Lorentz
from ..manifolds._base import Point, Tangent

if TYPE_CHECKING:
    from .._namespace import Array


def direction_and_exp(manifold: AbstractManifold, eta: Point, radii: Array, z: Array) -> Point:
    """Exp_eta(r u) with u the unit tangent vector that the normals `z` (q, noise_size) point to:
    uniform directions.
    """
    if isinstance(manifold, Lorentz):
        return _on_hyperboloid(np.asarray(eta), radii, z)
    base = map_leaves(lambda leaf: np.asarray(leaf)[None], eta)
    return manifold._exp(base, _along(manifold, base, radii, z))


def _on_hyperboloid(eta: Array, radii: Array, z: Array) -> Array:
    """The same from coordinates, whose length is that of the tangent vector: no norm is taken of
    vectors that a boost has carried to eta.
    """
    length = np.sqrt(np.sum(z * z, axis=-1))
    share = np.sinh(radii) / np.where(length > 0, length, 1.0)
    place = eta[1:]
    at_place = np.cosh(radii) + share * (z @ place) / (1.0 + eta[0])
    space = share[:, None] * z + at_place[:, None] * place
    return np.concatenate([np.sqrt(1.0 + np.sum(space**2, axis=-1, keepdims=True)), space], -1)


def _along(manifold: AbstractManifold, base: Point, radii: Array, z: Array) -> Tangent:
    v = manifold._tangent_from_normals(base, z)
    length = manifold._norm(base, v)
    factor = radii / np.where(length > 0, length, 1.0)
    return map_leaves(lambda leaf: leaf * factor.reshape(factor.shape + (1,) * (leaf.ndim - 1)), v)
