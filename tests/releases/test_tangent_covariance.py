"""The private tangent covariance: what is computed, its sensitivity, its noise, its charge."""

from __future__ import annotations

import math

import numpy as np
import pytest

import riemdp
from riemdp import Ball, Budget
from riemdp.mechanisms import TangentCovarianceNoise
from riemdp.privacy import gaussian_noise_multiplier
from riemdp.randomness import noise_source
from tests.statistical import ALPHA, gaussian_p_value

GAUSSIAN, PURE = Budget(1.0, 1e-6), Budget(1.0)
SPACES = [riemdp.SPDAffineInvariant(2), riemdp.Sphere(3), riemdp.Euclidean(3)]


def records(space, n=30, spread=0.5):
    v = space.tangent_normal(5, space.origin, spread, (n,))
    return np.array(space.exp(space.origin, v))


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
