"""DP-PGD, the baseline of Han2024: projected gradient descent for a leading eigenvector.

Noise stands on every coordinate of the ambient gradient -2 A w, and the iterate is divided by its
norm. The gradient changes by at most 2 R^2 / n when one row is replaced: |2 (z z^T - z' z'^T) w| <=
2 R^2, because a difference of two positive semidefinite matrices of norm at most R^2 has its
eigenvalues in [-R^2, R^2].
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from riemdp import Ball, Budget, Euclidean, Guarantee, gaussian, gaussian_noise_multiplier
from riemdp.optimizers import DPRGD, plan_optimizer
from riemdp.problems import principal_eigenvector
from riemdp.randomness import noise_source


def projected_descent(
    data: Any,
    budget: Budget,
    *,
    row_norm: float,
    steps: int | None,
    learning_rate: float | None,
    initial: Any,
    rng: int,
) -> tuple[np.ndarray, Guarantee]:
    """The last iterate, and what T Gaussian releases of the gradient cost.

    Args:
        data: Rows (n, d), clipped to `row_norm` by the library's own query.
        budget: A `Budget` with delta > 0.
        row_norm: R, public.
        steps: T; None for the default of DP-RGD.
        learning_rate: The same.
        initial: A public unit vector.
        rng: A seed: reproducible, and not private.
    """
    n, d = np.shape(data)
    rows = Ball(np.zeros(d), row_norm).clamp(Euclidean(d), jnp.asarray(data, dtype=float))
    problem = principal_eigenvector(d, row_norm=row_norm)
    rates = plan_optimizer(problem, n, DPRGD(steps, learning_rate), budget).rates
    multiplier = gaussian_noise_multiplier(budget, len(rates))
    sigma = math.nextafter(multiplier * 2.0 * row_norm**2 / n, math.inf)
    normals = noise_source(rng).normals((len(rates), d))
    w = _descend(rows, jnp.asarray(initial), normals, rates, sigma)
    return np.asarray(w), gaussian(multiplier, len(rates))


@jax.jit
def _descend(rows: Array, start: Array, normals: Array, rates: Array, sigma: float) -> Array:
    n = rows.shape[0]

    def step(w: Array, drawn: tuple[Array, Array]) -> tuple[Any, None]:
        z, rate = drawn
        gradient = -2.0 * (rows.T @ (rows @ w)) / n
        moved = w - rate * (gradient + sigma * z)
        return moved / jnp.linalg.norm(moved), None

    return jax.lax.scan(step, start, (normals, rates))[0]
