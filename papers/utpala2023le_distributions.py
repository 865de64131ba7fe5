"""Utpala2023LE: the exact distributions of its mechanisms, synthetic data and Markov chains."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from riemdp.manifolds import SPDLogEuclidean
from riemdp.privacy import Budget, gaussian, gaussian_noise_multiplier
from riemdp.sampling import riemannian_laplace

RANGE = 0.25  # r of the synthetic data: eigenvalues in [exp(-r), exp(r)]


# -----------------------------------------------------------------------------
# exact distributions
def dimension(k: int) -> int:
    return k * (k + 1) // 2


def gaussian_multiplier(epsilon: float, delta: float, calibration: str = "analytic") -> float:
    """sigma over sensitivity: exact, or sqrt(2 ln(1.25/delta)) / epsilon."""
    if calibration == "classical":
        return math.sqrt(2 * math.log(1.25 / delta)) / epsilon
    return gaussian_noise_multiplier(Budget(epsilon, delta))


def gaussian_utility(k: int, sigma: float) -> float:
    """E rho^2 of the tangent Gaussian: sigma^2 d (Theorem 4: 8 r^2 ln(1.25/delta) d / (n eps)^2
    when classical).
    """
    return sigma**2 * dimension(k)


def laplace_utility(k: int, scale: float) -> float:
    """E rho^2 of the Riemannian Laplace mechanism: s^2 d (d + 1)."""
    return scale**2 * dimension(k) * (dimension(k) + 1)


def crossover(
    epsilon: float, delta: float, calibration: str = "analytic", factor: float = 1.0
) -> int:
    """The smallest k from which the Gaussian has the smaller E rho^2, Laplace noise having s =
    factor * sensitivity / epsilon.
    """
    z = gaussian_multiplier(epsilon, delta, calibration)
    k = 2
    while gaussian_utility(k, z) >= laplace_utility(k, factor / epsilon):
        k += 1
    return k


def true_epsilon(shift_over_sigma: float, delta: float) -> float:
    """The exact epsilon at delta of a Gaussian release whose value can shift by this many sigma."""
    return gaussian(1.0 / shift_over_sigma).epsilon(delta)


def ambient_constants(radius: float, n: int) -> dict[str, float]:
    """Frobenius sensitivity of the log-Euclidean mean: published 2(e^r - 1)/n, proved 2 r e^r / n,
    attained by collinear data.
    """
    return {
        "published": 2 * math.expm1(radius) / n,
        "proved": 2 * radius * math.exp(radius) / n,
        "attained": math.exp(radius) * -math.expm1(-2 * radius / n),
    }


# -----------------------------------------------------------------------------
# data and releases
def synthetic(rng: np.random.Generator, n: int, k: int, r: float = RANGE) -> np.ndarray:
    """E diag(lambda) E^T with lambda uniform on [exp(-r), exp(r)] and E Haar orthogonal (section
    6.1).
    """
    q, upper = np.linalg.qr(rng.standard_normal((n, k, k)))
    q = q * np.sign(np.diagonal(upper, axis1=1, axis2=2))[:, None, :]
    values = rng.uniform(math.exp(-r), math.exp(r), (n, k))
    return (q * values[:, None, :]) @ q.swapaxes(1, 2)


def released(mechanism: Any, value: Any, runs: int, seed: int) -> np.ndarray:
    """Points released by `runs` seeded releases of the same value."""
    return np.stack([np.asarray(mechanism.release(value, seed + i).value) for i in range(runs)])


def laplace_squares(k: int, scale: float, runs: int, seed: int) -> np.ndarray:
    """rho^2 of `runs` exact Riemannian Laplace draws (flat space: the same at every footpoint, here
    I).
    """
    m = SPDLogEuclidean(k)
    return np.asarray(
        m.squared_dist(np.eye(k), riemannian_laplace(seed, m, np.eye(k), scale, (runs,)))
    )


def markov_chain_squares(
    rng: np.random.Generator,
    k: int,
    chains: int,
    burn_ins: Sequence[int],
    *,
    as_printed: bool = False,
) -> dict[int, tuple[np.ndarray, float]]:
    """rho^2 / sigma^2 after each burn-in of the paper's Metropolis-Hastings chains (appendix B.1),
    and the acceptance rate.

    In the flat coordinates of log X, footpoint 0, scale 1, start one step of the proposal away.
    `as_printed` divides by the density at distance rho(X_curr, X) instead of rho(X_mean, X_curr),
    as the appendix has it.
    """
    d = dimension(k)
    x = rng.standard_normal((chains, d))
    length = np.linalg.norm(x, axis=1)
    result: dict[int, tuple[np.ndarray, float]] = {}
    accepted = 0
    for step in range(1, max(burn_ins) + 1):
        move = rng.standard_normal((chains, d))
        y = x + move
        new = np.linalg.norm(y, axis=1)
        denominator = np.linalg.norm(move, axis=1) if as_printed else length
        take = np.log(rng.random(chains)) < denominator - new
        x = np.where(take[:, None], y, x)
        length = np.where(take, new, length)
        accepted += int(take.sum())
        if step in burn_ins:
            result[step] = (length**2, accepted / (step * chains))
    return result


def matrix_chain(rng: np.random.Generator, k: int, steps: int) -> np.ndarray:
    """The published chain as it is written: matrices, with a logarithm and an exponential at every
    step.
    """
    x, mean = np.eye(k), np.eye(k)
    weight = np.where(np.eye(k, dtype=bool), 1.0, 1 / math.sqrt(2.0))

    def function(matrix: np.ndarray, f: Any) -> np.ndarray:
        values, vectors = np.linalg.eigh(matrix)
        return (vectors * f(values)) @ vectors.T

    log_mean = function(mean, np.log)
    for _ in range(steps):
        z = np.triu(rng.standard_normal((k, k)) * weight)
        log_x = function(x, np.log)
        y = function(log_x + 0.01 * (z + np.triu(z, 1).T), np.exp)
        ratio = (
            np.linalg.norm(log_x - log_mean) - np.linalg.norm(function(y, np.log) - log_mean)
        ) / 0.01
        if math.log(rng.random()) < ratio:
            x = y
    return x
