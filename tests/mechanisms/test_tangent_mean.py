"""The mean of clipped tangent vectors as a mechanism: noise, sensitivity, charge, front door."""

from __future__ import annotations

import math

import numpy as np
import pytest

import riemdp
from riemdp import Ball, Budget
from riemdp.mechanisms import TangentMeanNoise

GAUSSIAN, PURE = Budget(1.0, 1e-6), Budget(1.0)
SPACES = [
    riemdp.Sphere(4),
    riemdp.SPDBuresWasserstein(2),
    riemdp.Grassmann(4, 2),
    riemdp.SPDAffineInvariant(2),
    riemdp.Euclidean(3),
]


def records(space, n=60, spread=0.4):
    v = space.tangent_normal(2, space.origin, spread, (n,))
    return np.array(space.exp(space.origin, v))


@pytest.mark.parametrize("budget", [GAUSSIAN, PURE], ids=str)
@pytest.mark.parametrize("space", SPACES, ids=repr)
def test_errors_are_at_most_what_is_stated(space, budget):
    """And the guarantee, the charge and the point are right."""
    X, ball = records(space), Ball(space.origin, 0.5)
    mechanism = TangentMeanNoise(space, ball, n=60, budget=budget)
    query = riemdp.statistics.TangentMean(ball.on(space), 60)
    target = space.exp(space.origin, query.value(query.prepare(X)))
    errors = []
    ledger = riemdp.Ledger(Budget(1000.0, 1e-3))
    for seed in range(60):
        release = mechanism.release(X, seed, ledger=ledger)
        errors.append(float(space.dist(target, release.value)))
    assert bool(space.belongs(release.value, 1e-8))
    assert ledger.charges == 60
    assert release.guarantee.within(budget)
    assert release.error_law is not None
    square = np.square(errors)
    room = 4 * np.std(square) / math.sqrt(len(square))
    assert np.mean(square) - room <= release.error_law.mean_square
    assert max(errors) <= 2 * ball.radius * 1.2


@pytest.mark.parametrize("budget", [GAUSSIAN, PURE], ids=str)
def test_noise_is_that_of_the_sensitivity(budget):
    """In a plane nothing is shrunk, and nothing is clipped in a wide ball with many records."""
    n, r = 2000, 1.0
    space = riemdp.Euclidean(2)
    mechanism = TangentMeanNoise(space, Ball(np.zeros(2), r), n=n, budget=budget)
    multiplier = (
        riemdp.privacy.gaussian_noise_multiplier(budget) if budget.delta else 1 / budget.epsilon
    )
    assert mechanism.scale == pytest.approx(2 * r / n * multiplier, rel=1e-6)
    assert mechanism.scale >= 2 * r / n * multiplier
    X = np.zeros((n, 2))
    square = np.array(
        [float(np.sum(np.asarray(mechanism.release(X, i).value) ** 2)) for i in range(1200)]
    )
    expected = mechanism.scale**2 * (2 if budget.delta else 6)  # d, or d (d + 1)
    room = 5 * np.std(square) / math.sqrt(len(square))
    assert abs(np.mean(square) - expected) < room
    assert abs(0.64 * np.mean(square) - expected) > room  # noise times 0.8 is noticed
