"""Calibration: within the budget, and tight."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from riemdp import SPDAffineInvariant
from riemdp.privacy import (
    Budget,
    calibrate,
    gaussian,
    gaussian_noise_multiplier,
    none,
    participation,
    subsampled_gaussian,
    subsampled_gaussian_noise_multiplier,
)
from tests.seam import Means


@pytest.mark.parametrize(
    ("epsilon", "delta", "steps"),
    itertools.product((1e-3, 0.1, 1.0, 50.0), (1e-12, 1e-5, 0.01), (1, 3, 10**6)),
)
def test_gaussian_is_exact(epsilon: float, delta: float, steps: int) -> None:
    budget = Budget(epsilon, delta)
    z = gaussian_noise_multiplier(budget, steps)
    assert gaussian(z, steps).epsilon(delta) <= epsilon
    assert gaussian(z * (1 - 1e-9), steps).epsilon(delta) > epsilon


CASES = [
    (Budget(1.0, 1e-5), 10_000, 100, 1000),
    (Budget(0.01, 1e-9), 10_000, 100, 1000),
    (Budget(8.0, 1e-5), 500, 400, 50),
    (Budget(50.0, 1e-12), 1000, 10, 100),
    (Budget(0.5, 1e-5), 10_000, 1, 30_000),
    (Budget(0.3, 1e-6), 100, 99, 2),
]


@pytest.mark.parametrize("sampling", ["without-replacement", "poisson"])
@pytest.mark.parametrize(("budget", "population", "batch_size", "steps"), CASES)
def test_sampled_is_within_and_tight(
    budget: Budget, population: int, batch_size: int, steps: int, sampling: str
) -> None:
    distribution = {
        "population": population,
        "batch_size": batch_size,
        "steps": steps,
        "sampling": sampling,
    }
    z = subsampled_gaussian_noise_multiplier(budget, **distribution)
    spent = subsampled_gaussian(z, **distribution)
    assert 0.995 * budget.epsilon <= spent.epsilon(budget.delta) <= budget.epsilon
    assert spent.within(budget)


def test_any_composition_can_be_calibrated() -> None:
    budget = Budget(0.5, 1e-5)
    z = calibrate(lambda s: participation(gaussian(s, 3), agents=20, sampled=4, rounds=10), budget)
    spent = participation(gaussian(z, 3), agents=20, sampled=4, rounds=10).epsilon(1e-5)
    assert 0.995 * 0.5 <= spent <= 0.5


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: gaussian_noise_multiplier(Budget(1.0)), "delta > 0"),
        (lambda: gaussian_noise_multiplier(1.0), "budget"),
        (lambda: gaussian_noise_multiplier(Budget(1.0, 1e-5), 0), "steps"),
        (
            lambda: subsampled_gaussian_noise_multiplier(
                Budget(1.0), population=10, batch_size=1, steps=1
            ),
            "delta > 0",
        ),
        (
            lambda: subsampled_gaussian_noise_multiplier(
                Budget(1.0, 1e-5), population=10, batch_size=11, steps=1
            ),
            "batch_size",
        ),
        (
            lambda: subsampled_gaussian_noise_multiplier(
                Budget(1.0, 0.2), population=100, batch_size=1, steps=2
            ),
            "needs no noise",
        ),
        (lambda: calibrate(lambda z: none(), Budget(1.0, 1e-5)), "any amount of noise"),
        (lambda: calibrate(gaussian, 1.0), "budget"),
    ],
)
def test_bad_input(call, name: str) -> None:
    with pytest.raises(ValueError, match=name):
        call()


def test_figures_are_found_where_numpy_is_told_to_raise() -> None:
    """Chances far out underflow to 0, which stopped the accountant and with it DP-RSGD."""
    batches = {"population": 1001, "batch_size": 9, "steps": 11}  # nothing kept from another test
    with np.errstate(all="raise"):
        made = subsampled_gaussian(1.03, **batches)
        found = [made.epsilon(1e-6), made.delta(0.5), made.compose(gaussian(3.1, 20)).epsilon(1e-6)]
        found.append(subsampled_gaussian_noise_multiplier(Budget(1.07, 1e-6), **batches))
        # the distribution of an error, where a plan is made
        distribution = Means.riemannian_laplace_errors(SPDAffineInvariant(3), 0.0713)
    assert all(0.0 < x < 10.0 for x in found)
    assert distribution.mean_square > 0.0
