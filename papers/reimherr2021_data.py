"""Reimherr2021: its two families of data sets, and the means of many data sets at once."""

from __future__ import annotations

import math

import numpy as np

from riemdp.manifolds import AbstractManifold
from riemdp.statistics import frechet_mean

SPD_RADIUS, CAP_RADIUS = 1.5, math.pi / 8


def wishart_in_ball(
    rng: np.random.Generator, shape: tuple[int, ...], radius: float = SPD_RADIUS, k: int = 2
) -> np.ndarray:
    """Wishart W(I/k, k) matrices, redrawn until |log X| < radius (Reimherr2021 A.2.1)."""
    count = math.prod(shape)
    kept, have = [], 0
    while have < count:
        a = rng.standard_normal((2 * count + 64, k, k)) / math.sqrt(k)
        x = a @ a.swapaxes(1, 2)
        values = np.maximum(np.linalg.eigvalsh(x), 1e-300)
        good = x[np.sqrt(np.sum(np.log(values) ** 2, axis=1)) < radius]
        kept.append(good)
        have += len(good)
    return np.concatenate(kept)[:count].reshape(*shape, k, k)


def polar_cap(
    rng: np.random.Generator, shape: tuple[int, ...], radius: float = CAP_RADIUS
) -> np.ndarray:
    """Unit vectors with polar angle uniform on [0, radius] about the third axis and uniform azimuth
    (A.3.1, range corrected).
    """
    theta, phi = radius * rng.random(shape), 2 * math.pi * rng.random(shape)
    return np.stack(
        [np.sin(theta) * np.cos(phi), np.sin(theta) * np.sin(phi), np.cos(theta)], axis=-1
    )


def many_means(manifold: AbstractManifold, X: np.ndarray) -> np.ndarray:
    """Frechet means of many data sets (datasets, n, *shape)."""
    return np.stack([np.asarray(frechet_mean(manifold, x, tol=1e-10).value) for x in X])
