"""Han2024: the true cost of its noise formula, its settings, and the helpers of its figures."""

from __future__ import annotations

import math

import numpy as np
import pytest

import riemdp
from papers import han2024 as paper
from papers import han2024_problems as problems


@pytest.mark.parametrize(
    ("epsilon", "delta", "true_delta", "constant"),
    [(0.1, 1e-3, 3.5e-3, 1.75), (0.15, 1e-4, 3.0e-3, 2.88), (0.3, 1e-5, 3.8e-3, 3.95)],
)
def test_stated_noise_is_too_small(epsilon, delta, true_delta, constant):
    """sigma^2 = T log(1/delta) L0^2 / (n eps)^2: its true delta, and the missing factor."""
    assert paper.stated_delta(epsilon, delta) == pytest.approx(true_delta, rel=0.02)
    assert paper.needed_constant(epsilon, delta) == pytest.approx(constant, rel=0.01)
    assert paper.stated_true_epsilon(epsilon, delta) > epsilon


def test_stated_multiplier_composes_to_the_same_guarantee_for_any_number_of_steps():
    for steps in (1, 20, 300):
        z = paper.stated_multiplier(0.1, 1e-3, steps)
        assert riemdp.privacy.gaussian(z, steps).epsilon(1e-3) == pytest.approx(
            paper.stated_true_epsilon(0.1, 1e-3), rel=1e-9
        )


def test_the_run_reports_the_epsilon_of_the_stated_noise():
    """private_minimize itself, given the published sigma, names the same true epsilon."""
    m, n, steps = riemdp.SPDAffineInvariant(2), 12, 12
    ball = riemdp.Ball(np.eye(2), 1.0)
    X = paper.wishart_ball(np.random.default_rng(0), m, n, 1.0)
    sigma = 2 * math.sqrt(steps * math.log(1e3)) / (n * 0.1)
    result = riemdp.private_minimize(
        riemdp.problems.frechet_mean(m, ball=ball),
        X,
        np.eye(2),
        riemdp.DPRGD(steps, 0.005, 2.0),
        noise_std=sigma,
        rng=1,
    )
    assert result.guarantee.epsilon(1e-3) == pytest.approx(
        paper.stated_true_epsilon(0.1, 1e-3), rel=1e-6
    )
    halved = riemdp.privacy.gaussian(sigma / 2 / (4 / n), steps)
    assert halved.epsilon(1e-3) > 1.5 * paper.stated_true_epsilon(
        0.1, 1e-3
    )  # a wrong sensitivity would be seen


def test_code_multiplier_is_far_below_any_useful_noise():
    """n^2 * eps * 2 under a gradient of the sum: thousands of epsilon, whatever T."""
    for steps in (1, 15):
        z = problems.code_multiplier(6430, 0.1, steps)
        assert riemdp.privacy.gaussian(z, steps).epsilon(1e-3) > 1e5


def test_prediction_constants():
    """One dominant weight w: L0 = 10 w, and sigma on the mean costs one epsilon for every T."""
    weights = np.full(1000, 1e-3)
    c = problems.prediction_constants(weights)
    assert c["multiplier_on_mean"] == pytest.approx(1000 * c["multiplier_on_sum"])
    mu = math.sqrt(c["steps"]) / c["multiplier_on_mean"]
    assert mu == pytest.approx(4 * 0.1 / math.sqrt(math.log(1e3)), rel=1e-9)
