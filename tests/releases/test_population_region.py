"""Where the mean of a population lies: coverage, the formula, and what is refused."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

import riemdp
from riemdp import Ball, Budget
from tests.statistical import ALPHA, coverage_p_value

GAUSSIAN = Budget(1.0, 1e-6)


def records(space, n, spread=0.3):
    v = space.tangent_normal(3, space.origin, spread, (n,))
    return np.asarray(space.exp(space.origin, v))


def population_releases(space, draw, ball, n, seed):
    budget = Budget(260.0, 1e-3)
    X = draw(np.random.default_rng(1000 + seed), n)
    mean = riemdp.private_frechet_mean(
        space, X, ball, budget, mechanism="wrapped-gaussian", rng=2 * seed
    )
    return X, mean, riemdp.private_frechet_variance(space, X, ball, budget, rng=2 * seed + 1)


@pytest.mark.filterwarnings("ignore::riemdp.RiemdpWarning")
def test_a_region_of_the_population_holds_even_where_no_rare_record_was_seen():
    """One record in twenty is far away, and a third of the samples holds none: the variance of the
    sample alone would make the region a point.
    """
    line, n, level, rare = riemdp.Euclidean(1), 20, 0.9, 0.05
    ball, truth = Ball(np.zeros(1), 1.0), np.array([rare])

    def draw(rng, count):
        return (rng.random((count, 1)) < rare).astype(float)

    hits, naive = [], []
    for seed in range(150):
        X, mean, spread = population_releases(line, draw, ball, n, seed)
        region = mean.confidence_region(level, "population", dispersion=spread)
        hits.append(bool(region.contains(truth)))
        noise = mean.confidence_region(1 - (1 - level) / 3).radius
        own = noise + math.sqrt(3 * float(np.mean(X**2)) / (n * (1 - level)))
        naive.append(bool(dataclasses.replace(region, radius=own).contains(truth)))
    assert coverage_p_value(np.array(hits), level, at_least=True) > ALPHA
    assert coverage_p_value(np.array(naive), level, at_least=True) < ALPHA


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::riemdp.RiemdpWarning")
def test_a_region_of_the_population_on_a_curved_space():
    """Records about a point that is their population's mean by symmetry; noise alone, without
    what sampling adds, covers too little.
    """
    space, n, level = riemdp.Lorentz(3), 25, 0.8
    center = np.asarray(space.origin)
    ball = Ball(center, 0.7)

    def draw(rng, count):
        v = space.from_coordinates(center, rng.normal(size=(count, 2)) * 0.5)
        return np.asarray(space.exp(center, v))

    hits, noise_only = [], []
    for seed in range(120):
        _, mean, spread = population_releases(space, draw, ball, n, seed)
        region = mean.confidence_region(level, "population", dispersion=spread)
        hits.append(bool(region.contains(center)))
        noise_only.append(bool(mean.confidence_region(level).contains(center)))
    assert coverage_p_value(np.array(hits), level, at_least=True) > ALPHA
    assert coverage_p_value(np.array(noise_only), level, at_least=True) < ALPHA


def test_the_radius_of_a_population_is_that_of_its_formula():
    from scipy import stats

    space, n, level, r = riemdp.SPDAffineInvariant(2), 300, 0.9, 1.0
    X = records(space, n)
    ball = Ball(np.eye(2), r)
    mean = riemdp.private_frechet_mean(
        space, X, ball, GAUSSIAN, mechanism="wrapped-gaussian", rng=1
    )
    spread = riemdp.private_frechet_variance(space, X, ball, GAUSSIAN, rng=2)
    region = mean.confidence_region(level, "population", dispersion=spread)
    a = 1 - level
    noisy = float(spread.observation.coordinates[0])
    upper = noisy + stats.norm.isf(a / 6) * spread.scale + r**2 * math.sqrt(math.log(6 / a) / 2 / n)
    expected = mean.scale * stats.chi(3).isf(a / 3) + math.sqrt(3 * min(upper, r**2) / (n * a))
    assert region.radius == pytest.approx(expected, rel=1e-6)
    assert region.of == "population"
    np.testing.assert_array_equal(region.center, mean.confidence_region().center)
    assert "population" in str(region)


def test_a_region_of_the_population_refuses_what_it_does_not_cover():
    space, ball = riemdp.Euclidean(2), Ball(np.zeros(2), 1.0)
    X = records(space, 200)
    search = riemdp.AdaptiveBall(Ball(np.zeros(2), 50.0))

    def mean_of(where, **options):
        options = {"rng": 1, **options}
        return riemdp.private_frechet_mean(space, X, where, GAUSSIAN, **options)

    def spread_of(where, records=X):
        return riemdp.private_frechet_variance(space, records, where, GAUSSIAN, rng=2)

    mean, spread = mean_of(ball, mechanism="wrapped-gaussian"), spread_of(ball)
    assert mean.confidence_region(0.9, "population", dispersion=spread).radius > 0

    def refused(match, release=mean, dispersion=spread):
        with pytest.raises(riemdp.InvalidArgument, match=match):
            release.confidence_region(0.9, "population", dispersion=dispersion)

    refused("dispersion", dispersion=None)
    refused("dispersion", dispersion=mean)
    refused("another", dispersion=spread_of(Ball(np.zeros(2), 2.0)))
    refused("another", dispersion=spread_of(Ball(np.ones(2), 1.0)))
    refused("another", dispersion=spread_of(ball, X[:-1]))
    refused("dispersion", dispersion=spread_of(search))
    refused("same records", mean_of(search))
    refused("equally weighted", mean_of(ball, weights=np.ones(200)))
    refused("equally weighted", mean_of(ball, n_min=100))
    refused("equally weighted", mean_of(ball, mechanism="tangent-mean"))
    sphere = riemdp.Sphere(3)
    Y, cap = records(sphere, 60), Ball(sphere.origin, 0.6)
    round_ = riemdp.private_frechet_mean(
        sphere, Y, cap, GAUSSIAN, mechanism="wrapped-gaussian", rng=1
    )
    refused(
        "Hadamard",
        round_,
        riemdp.private_frechet_variance(sphere, Y, cap, GAUSSIAN, rng=2),
    )
    with pytest.raises(riemdp.InvalidArgument, match="dispersion"):
        mean.confidence_region(0.9, dispersion=spread)


def test_people_and_their_dispersion():
    space, n, ball = riemdp.Euclidean(1), 300, Ball(np.zeros(1), 1.0)
    of_people = {"groups": np.repeat(np.arange(n), 2), "rng": 1}
    X = records(space, 2 * n)
    mean = riemdp.private_frechet_mean(
        space, X, ball, GAUSSIAN, mechanism="wrapped-gaussian", **of_people
    )
    spread = riemdp.private_frechet_variance(space, X, ball, GAUSSIAN, **of_people)
    region = mean.confidence_region(0.9, "population", dispersion=spread)
    assert "people in the population" in str(region)
    with pytest.raises(riemdp.InvalidArgument, match="dispersion"):
        mean.confidence_region(0.9, "population", dispersion=3)
