"""Exponentials of isotropic symmetric matrices, for Laplace draws on log-Euclidean spaces."""

from __future__ import annotations

import numpy as np

from ..randomness import NoiseSource
from ._spectral import symmetric_directions

_BLOCK = 2048  # draws that are worked out together: a bound of the memory beside the result


def exponentials_of_directions(
    center: np.ndarray, lengths: np.ndarray, source: NoiseSource
) -> np.ndarray:
    """exp(center + lengths[i] V_i), V_i independent and uniform on the unit sphere of symmetric
    matrices: (q, k, k).
    """
    count, k = lengths.size, center.shape[-1]
    out = np.empty((count, k, k))
    # apart, so that a far centre costs no digits
    shift = float(np.trace(center)) / k
    traceless = center - shift * np.eye(k)
    for start in range(0, count, _BLOCK):
        block = slice(start, min(count, start + _BLOCK))
        directions = symmetric_directions(k, lengths[block].size, source)
        s = traceless + lengths[block, None, None] * directions
        out[block] = exponential_by_eigenvectors(s, shift)
    return out


def exponential_by_eigenvectors(s: np.ndarray, shift: float) -> np.ndarray:
    """exp(shift I + s), by eigenvectors, with log-eigenvalues that float64 can hold (see
    `within_float64`).
    """
    values, vectors = np.linalg.eigh(s)
    half = vectors * np.exp(0.5 * within_float64(values + shift))[:, None, :]
    product = half @ np.swapaxes(half, -1, -2)
    return 0.5 * (product + np.swapaxes(product, -1, -2))


def within_float64(logarithms: np.ndarray) -> np.ndarray:
    """Log-eigenvalues (q, k) such that float64 can hold the SPD matrix: where they spread over more
    than 33 (condition 10^14), or lie beyond 300, they are drawn together along the geodesic.
    Nothing else could be returned for such a draw.
    """
    middle = 0.5 * (np.max(logarithms, axis=1) + np.min(logarithms, axis=1))[:, None]
    half = 0.5 * np.ptp(logarithms, axis=1)[:, None]
    pulled = np.clip(middle, -300.0, 300.0) + (logarithms - middle) * np.minimum(
        1.0, 16.5 / np.maximum(half, 1e-300)
    )
    return pulled
