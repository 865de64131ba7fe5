"""The bound for sampling without replacement against brute force: exact mixtures of small data
sets, one and two steps.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from riemdp.privacy import subsampled_gaussian

EPSILONS = (0.0, 0.1, 0.4, 1.0)


def density(records: np.ndarray, b: int, sigma: float, x: np.ndarray) -> np.ndarray:
    """Density of mean of a uniformly random batch of exactly b records plus N(0, sigma^2)."""
    means = np.array([np.mean(s) for s in itertools.combinations(records, b)])
    return (
        np.mean(np.exp(-((x[:, None] - means) ** 2) / (2 * sigma**2)), axis=1)
        / np.sqrt(2 * np.pi)
        / sigma
    )


def exact_delta(p: np.ndarray, q: np.ndarray, cell: float, epsilon: float, steps: int) -> float:
    if steps == 1:
        return float(np.sum(np.maximum(p - np.exp(epsilon) * q, 0.0)) * cell)
    return float(
        np.sum(np.maximum(np.outer(p, p) - np.exp(epsilon) * np.outer(q, q), 0.0)) * cell**2
    )


def worst(
    n: int, b: int, z: float, steps: int, sensitivity_factor: float = 1.0
) -> tuple[float, float]:
    """(largest exact delta / bound, over pairs and epsilons; the same with a bound made for half
    the sensitivity).
    """
    rng = np.random.default_rng(n * 100 + b)
    sigma = z * 2 / b  # records in [-1, 1]: replace-one sensitivity of the mean is 2/b
    x = np.linspace(-1 - 9 * sigma, 1 + 9 * sigma, 6001 if steps == 1 else 501)
    cell = x[1] - x[0]
    bound = subsampled_gaussian(z * sensitivity_factor, population=n, batch_size=b, steps=steps)
    deltas = [bound.delta(e) for e in EPSILONS]
    ratio = 0.0
    for trial in range(40 if steps == 1 else 12):
        rest = (
            np.zeros(n - 1)
            if trial == 0
            else rng.choice([-1.0, 1.0, 0.0, rng.uniform(-1, 1)], n - 1)
        )
        pair = (1.0, -1.0) if trial % 3 == 0 else tuple(rng.uniform(-1, 1, 2))
        p, q = (density(np.append(rest, value), b, sigma, x) for value in pair)
        for e, d in zip(EPSILONS, deltas, strict=True):
            ratio = max(
                ratio, exact_delta(p, q, cell, e, steps) / d, exact_delta(q, p, cell, e, steps) / d
            )
    return ratio, deltas[0]


@pytest.mark.parametrize(
    ("n", "b", "z"), [(3, 1, 0.5), (5, 2, 0.5), (6, 3, 1.0), (4, 3, 0.4), (8, 1, 0.7)]
)
@pytest.mark.parametrize("steps", [1, 2])
def test_no_small_data_set_beats_the_bound(n: int, b: int, z: float, steps: int) -> None:
    ratio, _ = worst(n, b, z, steps)
    assert ratio <= 1.0 + 1e-4  # quadrature
    assert ratio > 0.3  # the search is not blind


@pytest.mark.parametrize("steps", [1, 2])
def test_half_the_sensitivity_is_beaten(steps: int) -> None:
    """The planted twin: a bound computed for twice the noise multiplier (the replace-one trap) is
    exceeded.
    """
    assert worst(5, 2, 0.5, steps, sensitivity_factor=2.0)[0] > 1.05
