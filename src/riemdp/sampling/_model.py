"""Draws from a normal distribution in the tangent space of a point, carried to the manifold."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..manifolds import AbstractManifold
from ..manifolds._base import Point
from ..randomness import NoiseSource

Floats = NDArray[np.float64]


def tangent_gaussian(
    source: NoiseSource,
    manifold: AbstractManifold,
    center: Point,
    moment: Floats,
    radius: float,
    n: int,
) -> Point:
    """n points Exp_c(v), v normal in orthonormal coordinates at `center` with mean 0 and the second
    moment nearest to `moment`, each v shortened to the radius.

    Args:
        source: What the normals are drawn from.
        manifold: The space.
        center: The point c.
        moment: A symmetric (dim, dim) matrix, whose eigenvalues may be negative.
        radius: The largest length of v.
        n: How many.
    """
    values, vectors = np.linalg.eigh(moment)
    drawn = source.normals((n, len(values))) * np.sqrt(nearest_spectrum(values))
    v = drawn @ vectors.T
    length = np.linalg.norm(v, axis=1, keepdims=True)
    v *= np.minimum(1.0, radius / np.where(length > 0.0, length, 1.0))
    return manifold.exp(center, manifold.from_coordinates(center, v))


def nearest_spectrum(values: Floats) -> Floats:
    """The numbers >= 0 nearest to these that have the same sum, or 0 where that is negative.

    Noise on a symmetric matrix spreads its eigenvalues and leaves their sum: to cut off the
    negative ones alone would make it too large.
    """
    total = max(float(np.sum(values)), 0.0)
    largest = np.sort(values)[::-1]
    excess = (np.cumsum(largest) - total) / np.arange(1, len(values) + 1)
    kept = np.flatnonzero(largest > excess)
    return np.maximum(values - (excess[kept[-1]] if len(kept) else np.inf), 0.0)
