"""The private tangent covariance: what is computed, its sensitivity, its noise, its charge."""

from __future__ import annotations

import math

import numpy as np
import pytest

import riemdp
from riemdp import Ball, Budget
from riemdp.audit import gaussian_mu_lower_bound
from riemdp.mechanisms import TangentCovarianceNoise
from riemdp.privacy import gaussian_noise_multiplier
from riemdp.randomness import noise_source
from tests.statistical import ALPHA, gaussian_p_value, ks_p_value

GAUSSIAN, PURE = Budget(1.0, 1e-6), Budget(1.0)
SPACES = [riemdp.SPDAffineInvariant(2), riemdp.Sphere(3), riemdp.Euclidean(3)]


def records(space, n=30, spread=0.5):
    v = space.tangent_normal(5, space.origin, spread, (n,))
    return np.array(space.exp(space.origin, v))


def at(space, *coordinates):
    return np.array(
        space.exp(space.origin, space.from_coordinates(space.origin, np.array(coordinates)))
    )


def moment(mechanism, X):
    """The matrix that noise is added to, by the definition."""
    v = np.asarray(mechanism._admit(X).points)
    return v.T @ v / len(v)


@pytest.mark.parametrize("space", SPACES, ids=repr)
def test_the_matrix_is_the_second_moment_of_clipped_logarithms(space):
    X, r, o = records(space), 0.6, space.origin
    v = np.asarray(space.to_coordinates(o, space.log(o, X)))
    length = np.linalg.norm(v, axis=1, keepdims=True)
    assert np.any(length > r)
    v = v * np.minimum(1.0, r / length)
    # so little noise that the value itself is seen
    mechanism = TangentCovarianceNoise(space, Ball(o, r), n=len(X), budget=Budget(1e7))
    release = mechanism.release(X, rng=0)
    assert np.allclose(release.value, v.T @ v / len(v), atol=1e-4)
    assert np.array_equal(release.value, release.value.T)


@pytest.mark.parametrize("space", SPACES, ids=repr)
def test_one_record_moves_the_matrix_by_no_more_than_its_sensitivity(space):
    """Orthogonal records far outside the ball attain sqrt(2) r^2 / n."""
    X, r, n = records(space), 0.4, 30
    mechanism = TangentCovarianceNoise(space, Ball(space.origin, r), n=n, budget=GAUSSIAN)
    rest = [0.0] * (space.dim - 2)
    candidates = [
        at(space, 1.2, 0.0, *rest),
        at(space, 0.0, 1.2, *rest),
        np.full(X.shape[1:], np.nan),
    ]
    found = []
    for x in candidates:
        new = np.array(X)
        new[3] = x
        found.append(moment(mechanism, new))
    moved = max(np.linalg.norm(a - b) for a in found for b in found)
    assert 0.999 * math.sqrt(2.0) * r**2 / n < moved <= mechanism.sensitivity


DELTA = math.sqrt(2.0) / 40  # sensitivity of 40 records in a ball of radius 1


def noise(budget, count):
    """What releases of one value add to it, in orthonormal coordinates."""
    space, source = riemdp.Euclidean(2), noise_source(0)
    X = records(space, 40)
    mechanism = TangentCovarianceNoise(space, Ball(np.zeros(2), 1.0), n=40, budget=budget)
    exact, admitted = moment(mechanism, X), mechanism._admit(X)
    values = [mechanism._draw(admitted, source).value for _ in range(count)]
    symmetric = riemdp.SPDAffineInvariant(2)
    return np.asarray(symmetric.to_coordinates(np.eye(2), np.stack(values) - exact))


def test_the_noise_is_that_of_the_sensitivity():
    sigma = gaussian_noise_multiplier(GAUSSIAN) * DELTA
    drawn = noise(GAUSSIAN, 250)
    assert gaussian_p_value(drawn, sigma) > ALPHA
    assert gaussian_p_value(0.8 * drawn, sigma) < ALPHA


@pytest.mark.slow
def test_pure_noise_has_its_law():
    """A length with the law Gamma(3, Delta / epsilon) in three coordinates."""
    lengths = np.linalg.norm(noise(PURE, 600), axis=1) / DELTA

    def gamma3(x):
        return 1.0 - np.exp(-x) * (1.0 + x + x**2 / 2.0)

    assert ks_p_value(lengths, gamma3) > ALPHA
    assert ks_p_value(0.8 * lengths, gamma3) < ALPHA


def test_a_release_keeps_its_promise():
    """The best attack on the worst pair; noise for a third of the sensitivity is found at once."""
    space, n = riemdp.Euclidean(2), 4
    ball, direction = Ball(np.zeros(2), 1.0), np.diag([1.0, -1.0])
    pair = [np.concatenate([np.zeros((3, 2)), [x]]) for x in ([9.0, 0.0], [0.0, 9.0])]
    mechanism = TangentCovarianceNoise(space, ball, n=n, budget=GAUSSIAN)
    scores = [
        np.array(
            [np.sum(mechanism.release(X, rng=1000 * k + i).value * direction) for i in range(100)]
        )
        for k, X in enumerate(pair)
    ]
    mu = 1.0 / gaussian_noise_multiplier(GAUSSIAN)
    assert gaussian_mu_lower_bound(*scores) <= mu
    means = np.array([1.0, -1.0]) / n  # exact scores
    planted = [m + (s - m) / 12.0 for m, s in zip(means, scores, strict=True)]
    assert gaussian_mu_lower_bound(*planted) > mu
