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
    assert release.error_distribution is not None
    square = np.square(errors)
    room = 4 * np.std(square) / math.sqrt(len(square))
    assert np.mean(square) - room <= release.error_distribution.mean_square
    assert max(errors) <= 2 * ball.radius * 1.2
