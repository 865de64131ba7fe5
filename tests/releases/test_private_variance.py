"""The private Frechet variance: what is computed, its sensitivity, its noise, its charge."""

from __future__ import annotations

import math

import jax
import numpy as np
import pytest

import riemdp
from riemdp import Ball, Budget
from riemdp.mechanisms import VarianceNoise
from riemdp.privacy import gaussian_noise_multiplier
from riemdp.statistics import FrechetVariance
from tests.statistical import ALPHA, gaussian_p_value, ks_p_value

GAUSSIAN, PURE = Budget(1.0, 1e-6), Budget(1.0)
SPACES = [
    riemdp.Euclidean(3),
    riemdp.SPDAffineInvariant(2),
    riemdp.SPDBuresWasserstein(2),
    riemdp.Sphere(3),
    riemdp.Grassmann(4, 2),
    riemdp.Lorentz(3),
    riemdp.Product(riemdp.SPDLogEuclidean(2), riemdp.Sphere(3)),
]


def records(space, n=40, spread=0.5):
    v = space.tangent_normal(5, space.origin, spread, (n,))
    return jax.tree.map(np.array, space.exp(space.origin, v))


def replaced(X, i, x):
    """The records with the i-th replaced."""
    new = jax.tree.map(np.array, X)
    for leaf, own in zip(jax.tree.leaves(new), jax.tree.leaves(x), strict=True):
        leaf[i] = own
    return new


@pytest.mark.parametrize("space", SPACES, ids=repr)
def test_the_query_is_the_mean_of_cut_off_squares(space):
    X, r = records(space), 0.6
    query = FrechetVariance(Ball(space.origin, r).on(space), 40)
    distances = np.array(
        [float(space.dist(space.origin, jax.tree.map(lambda a, i=i: a[i], X))) for i in range(40)]
    )
    assert np.any(distances > r)
    expected = np.mean(np.minimum(distances, r) ** 2)
    assert float(query.value(query.prepare(X))) == pytest.approx(expected, rel=1e-9)


def test_about_their_own_mean_one_record_would_move_it_four_times_as_far():
    r, n = 1.0, 40
    x = np.full(n, r)
    y = x.copy()
    y[0] = -r
    moved = abs(np.var(x) - np.var(y))
    assert moved == pytest.approx(4 * r**2 * (n - 1) / n**2)
    line = riemdp.Euclidean(1)
    query = FrechetVariance(Ball(np.zeros(1), r).on(line), n)
    assert moved > 3.8 * query.sensitivity


@pytest.mark.parametrize("budget", [GAUSSIAN, PURE], ids=str)
def test_the_noise_is_that_of_the_sensitivity(budget):
    """Every draw, before it is moved into [0, r^2]; noise times 0.8 is noticed."""
    n, r = 25, 2.0
    plane = riemdp.Euclidean(2)
    X = np.random.default_rng(1).normal(size=(n, 2))
    mechanism = VarianceNoise(plane, Ball(np.zeros(2), r), n=n, budget=budget)
    variance = np.mean(np.minimum(np.linalg.norm(X, axis=1), r) ** 2)
    releases = [mechanism.release(X, i) for i in range(900)]
    noise = np.array([rel.observation.coordinates - variance for rel in releases])
    if budget.delta:
        scale = r**2 / n * gaussian_noise_multiplier(budget)
        assert gaussian_p_value(noise, scale) > ALPHA
        assert gaussian_p_value(0.8 * noise, scale) < ALPHA
    else:
        scale = r**2 / n / budget.epsilon

        def distribution(x):
            return np.where(x < 0, 0.5 * np.exp(x / scale), 1 - 0.5 * np.exp(-x / scale))

        assert ks_p_value(noise, distribution) > ALPHA
        assert ks_p_value(0.6 * noise, distribution) < ALPHA
    assert scale <= releases[0].scale < 1.001 * scale
    values = np.array([float(rel.value) for rel in releases])
    assert values.min() >= 0.0
    assert values.max() <= r**2
    np.testing.assert_array_equal(values, np.clip(noise[:, 0] + variance, 0.0, r**2))


def test_a_search_and_the_variance_share_one_budget():
    space, n = riemdp.SPDAffineInvariant(2), 400
    X = records(space, n, 0.3)
    ledger = riemdp.Ledger(Budget(1.0, 1e-6))
    release = riemdp.private_frechet_variance(space, X, None, GAUSSIAN, rng=3, ledger=ledger)
    assert ledger.charges == 1
    assert 0.99 < release.guarantee.epsilon(1e-6) <= 1.0 + 1e-9
    ball, outside = release.details["ball"], release.details["outside"]
    share = release.details["share_of_search"] + outside.share
    assert 0 < share < 1
    sensitivity = ball.radius**2 / n
    assert release.sensitivity == pytest.approx(sensitivity, rel=1e-6)
    scale = sensitivity * gaussian_noise_multiplier(GAUSSIAN) / math.sqrt(1 - share)
    assert release.scale == pytest.approx(scale, rel=1e-6)
    truth = np.mean(np.minimum(np.asarray(space.dist(ball.center, X)), ball.radius) ** 2)
    assert bool(release.confidence_region(1 - 1e-9).contains(truth))
    assert float(release.value) == pytest.approx(truth, abs=6 * scale)
