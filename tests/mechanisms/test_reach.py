"""Noise that is far smaller than the value: every release from integers on a grid is as near to its
value as it says, however many steps of the grid lie between the value and 0.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import jax
import numpy as np
import pytest

import riemdp
from riemdp import AdaptiveBall, Ball, Budget, mechanisms, noise_source
from tests.seam import Noise, Searches, Sums

PLANE, LINE = riemdp.Euclidean(2), riemdp.Euclidean(1)
N = 400
X = np.random.default_rng(0).normal([0.6, 0.3], 0.05, (N, 2))
LABELS = np.arange(N) % 2
BALL, NEAR = Ball(np.zeros(2), 1.0), Ball(np.zeros(2), 0.3)
SEARCH = AdaptiveBall(Ball(np.zeros(2), 2.0))
PURE, GAUSSIAN = Budget(1e13), Budget(1e24, 1e-6)  # noise of 1e-13 and 7e-13 sensitivities
LARGE = {PURE: Budget(1e5), GAUSSIAN: Budget(1e10, 1e-6)}  # of 1e-5 and 7e-6


def made(kind: Callable[..., Any], *args: Any, **options: Any) -> Callable[[Budget, Any], Any]:
    return lambda budget, value: kind(*args, n=N, budget=budget, **options).release(value, 1).value


RECORDS = {
    "tangent-mean": made(mechanisms.TangentMeanNoise, PLANE, BALL),
    "tangent-covariance": made(mechanisms.TangentCovarianceNoise, PLANE, BALL),
    "variance": made(mechanisms.VarianceNoise, PLANE, BALL),
    "private-ball": made(mechanisms.PrivateBall, PLANE, SEARCH),
    "adaptive-mean": made(mechanisms.AdaptiveMean, PLANE, SEARCH),
    "adaptive-variance": made(mechanisms.AdaptiveVariance, PLANE, SEARCH),
    "adaptive-second-moment": made(Sums.AdaptiveSecondMoment, 2),
}
LABELLED = {
    "tangent-class-means": made(Sums.ClassMeansNoise, PLANE, BALL, classes=2),
    "of-public-labels": made(Sums.ClassMeansNoise, PLANE, BALL, classes=2, sizes=(N // 2, N // 2)),
    "adaptive-class-means": made(Sums.ClassMeansNoise, PLANE, SEARCH, classes=2),
    "tangent-discriminant": made(Sums.DiscriminantNoise, PLANE, BALL, classes=2),
    "adaptive-discriminant": made(Sums.DiscriminantNoise, PLANE, SEARCH, classes=2),
}


@pytest.mark.parametrize("budget", [PURE, GAUSSIAN], ids=["pure", "gaussian"])
@pytest.mark.parametrize("name", [*RECORDS, *LABELLED])
def test_a_mechanism_with_hardly_any_noise_releases_what_it_does_with_little(name, budget):
    """Before: values were moved to 2^61 steps of the grid, 5e8 deviations from 0."""
    release, value = (RECORDS[name], X) if name in RECORDS else (LABELLED[name], (X, LABELS))
    found, expected = (
        np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(_plain(release(b, value)))])
        for b in (budget, LARGE[budget])
    )
    assert np.max(np.abs(expected)) > 1e-3
    np.testing.assert_allclose(found, expected, rtol=1e-2, atol=1e-4)


def _plain(value: Any) -> Any:
    return (value.center, np.asarray(value.radius)) if isinstance(value, Ball) else value


@pytest.mark.parametrize("share", [1e-8, 1e-10, 1e-13])
@pytest.mark.parametrize("ball", [BALL, None])
def test_a_value_is_released_with_the_noise_that_is_stated(share, ball):
    """Before: (.6, .3) was released as (.06, .06), where an error of 1e-9 was stated."""
    value, zero = np.array([0.6, 0.3]), np.zeros(2)
    budget = Budget(1.0, 1e-6)
    for mechanism in (
        riemdp.WrappedGaussian(PLANE, zero, sensitivity=share, budget=budget, ball=ball),
        riemdp.WrappedLaplace(PLANE, zero, sensitivity=share, epsilon=1.0, ball=ball),
        riemdp.TangentGaussian(PLANE, zero, sensitivity=share, budget=budget),
    ):
        release = mechanism.release(value, 1)
        assert (
            0.0
            < np.linalg.norm(release.value - value)
            < release.error_distribution.quantile(1 - 1e-9)
        )


def test_a_mean_of_very_many_records_is_where_it_says():
    """The noise of 1e12 records, and of a search at a site that holds as many as it may."""
    y = np.array([0.6, 0.3])
    for budget in (Budget(1.0), Budget(1.0, 1e-6)):
        noise = mechanisms.TangentMeanNoise(PLANE, BALL, n=10**12, budget=budget)
        noisy = noise._purse(noise_source(1)).add(y, noise.sensitivity, 1)[0]
        assert 0.0 < np.linalg.norm(noisy - y) < 40 * noise.scale < 1e-9
    sites, most = Searches.NoiseOfSites(Budget(1.0, 1e-6), 3, None), 2.0**24
    for kind, sums in ((Searches.TANGENTS, most * y), (Searches.SQUARES, np.array([most]))):
        ask = Searches.Ask(kind, 0.5, np.zeros(2), 1.0)
        steps = np.ldexp(sums, -sites.exponent(ask, len(sums))).astype(np.int64)
        noisy = sites.noisy(steps, ask, noise_source(1))
        deviation = sites.deviation(ask, len(sums), 1)
        assert 0.0 < np.linalg.norm(noisy - sums) < 10 * deviation < 1e3


# ------------------------------------------------------------------------------------------------
# the sum
@pytest.mark.parametrize("steps", [0.0, 3.0, 2.0**53 - 1, 2.0**55 + 8, 2.0**70, -(2.0**53)])
def test_what_is_released_is_a_function_of_the_exact_sum(steps):
    """Also where float64 does not hold the noise: two whole numbers with one sum are released
    alike.
    """
    for noise in (5, -7, 2**40 + 1, 2**53 + 1, -(2**60) - 3):
        exact = int(steps) + noise
        found = Noise.sum_of(np.array([steps]), np.array([noise], dtype=np.int64))
        assert found[0] == float(exact)
        # the same sum from other parts
        other = Noise.sum_of(np.array([steps - 8.0]), np.array([noise + 8], dtype=np.int64))
        if int(steps - 8.0) == int(steps) - 8:
            assert other[0] == found[0]


@pytest.mark.parametrize("sensitivity", [1e-100, 1e-30, 1.0, 1e99])
def test_the_farthest_coordinates_are_finite(sensitivity):
    scale = Noise.on_grid(4.0, sensitivity, 3)
    for value in (1e300, np.inf, 1e9 * sensitivity):
        y = np.array([value, -value, np.nan])
        noisy = Noise.added(y, scale, noise_source(1))
        assert np.all(np.isfinite(noisy))
        assert noisy[0] > 1e8 * sensitivity > -1e8 * sensitivity > noisy[1]
    k = Fraction(noisy[0]) / Fraction(Noise.grid_of(scale))
    assert k.denominator == 1
