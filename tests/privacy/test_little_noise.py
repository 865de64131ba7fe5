"""Guarantees of runs with next to no noise: losses far above what can be exponentiated must be
counted, not forgotten.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import log_ndtr

from riemdp import gaussian, participation, subsampled_gaussian
from riemdp.privacy.accounting.gaussian import gaussian_epsilon, gaussian_mu

N, STEPS, DELTA = 2000, 600, 1e-6
SEEN = -math.expm1(STEPS * math.log1p(-1 / N))  # that the record is in at least one batch of one
NOISE = [1e-5, 1e-3, 0.01, 0.015, 0.02, 0.025, 0.028, 0.03, 0.032, 0.035, 0.04, 0.05, 0.07, 0.1]


def run(z, sampling, steps=STEPS):
    return subsampled_gaussian(z, population=N, batch_size=1, steps=steps, sampling=sampling)


def attack(z):
    """Log of the odds of "some step saw more than 1/z - 6": an epsilon that the run has at least
    (up to DELTA in `SEEN`).
    """
    log_false_alarm = math.log(STEPS) + float(log_ndtr(-(1 / z - 6)))
    return math.log(0.999 * SEEN - DELTA) - log_false_alarm


@pytest.mark.parametrize("sampling", ["poisson", "without-replacement"])
def test_epsilon_lies_between_the_attack_and_the_run_without_sampling(sampling):
    found = [run(z, sampling).epsilon(DELTA) for z in NOISE]
    for z, eps in zip(NOISE, found, strict=True):
        assert eps <= gaussian(z, STEPS).epsilon(DELTA) * (1 + 1e-6)
        if 1 / z > 20:
            assert eps >= attack(z)
    assert np.all(np.diff(found) <= 0)  # more noise never costs more


@pytest.mark.parametrize("sampling", ["poisson", "without-replacement"])
@pytest.mark.parametrize("z", [1e-4, 0.01, 0.02, 0.03])
def test_delta_is_the_chance_of_having_been_seen(z, sampling):
    assert run(z, sampling).delta(50.0) == pytest.approx(SEEN, rel=1e-3)
    assert run(z, sampling).delta(50.0) >= SEEN * (1 - 1e-9)


@pytest.mark.parametrize("z", [1e-4, 0.01, 0.03])
def test_agents_with_little_noise_that_take_part_now_and_then(z):
    plan = participation(gaussian(z), agents=100, sampled=5, rounds=20)
    part = 1 - 0.95**20
    assert plan.delta(50.0) == pytest.approx(part, rel=1e-3)
    assert plan.epsilon(DELTA) >= 1 / z**2 / 3
    assert plan.epsilon(DELTA) <= gaussian(z, 20).epsilon(DELTA) * (1 + 1e-6)


def test_noise_of_no_size_is_no_privacy():
    """`gaussian(1e-160)` divided by zero."""
    for nothing in (gaussian(1e-160), gaussian(5e-324, 7), gaussian(1e-149, 10**4)):
        assert nothing.delta(1e9) == 1.0
        assert nothing.epsilon(DELTA) == math.inf
    for sampling in ("poisson", "without-replacement"):
        for z in (1e-160, 1e-100):
            assert run(z, sampling).delta(50.0) == pytest.approx(SEEN, rel=1e-9)


@pytest.mark.parametrize("epsilon", [1e20, 1e27, 1e29, 1e33, 1e100, 1e300])
@pytest.mark.parametrize("delta", [1e-5, 1e-300])
def test_absurd_budgets_have_noise_within_them(epsilon, delta):
    """Before: "there is no zero between the two points", after the charge."""
    mu = gaussian_mu(epsilon, delta)
    spent = gaussian_epsilon(delta, mu)
    assert epsilon * (1 - 1e-9) <= spent <= epsilon
    assert spent >= mu * mu / 2
    assert gaussian(1e-150).epsilon(delta) >= 5e299
