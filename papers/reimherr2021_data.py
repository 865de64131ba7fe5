"""Reimherr2021: its two families of data sets, and the means of many data sets at once."""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from riemdp.manifolds import AbstractManifold

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


def many_means(manifold: AbstractManifold, X: Any, tol: float = 1e-10) -> np.ndarray:
    """Frechet means of many data sets (datasets, n, *shape) at once, by gradient steps of length 1
    until all are within `tol`.
    """
    means, residual = _means(manifold, jnp.asarray(X), tol)
    if not float(residual) <= tol:
        raise ArithmeticError(f"Frechet means stopped at a residual of {float(residual):.2g}")
    return np.asarray(means)


@functools.partial(jax.jit, static_argnums=0)
def _means(manifold: AbstractManifold, X: jax.Array, tol: float) -> tuple[Any, Any]:
    def step(x):
        return jnp.mean(manifold._log(x[:, None], X), axis=1)

    def body(carry):
        x, _, i = carry
        g = step(x)
        return manifold._exp(x, g), jnp.max(manifold._norm(x, g)), i + 1

    first = manifold.project(jnp.mean(X, axis=1))
    x, residual, _ = jax.lax.while_loop(
        lambda c: (c[1] > tol) & (c[2] < 300), body, (first, jnp.inf, 0)
    )
    return x, residual
