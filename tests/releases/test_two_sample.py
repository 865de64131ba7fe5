"""Two private means: the level of the test under the noise, its power, and what it refuses."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import riemdp
from riemdp import Ball, Budget, InvalidArgument
from tests.statistical import ALPHA, coverage_p_value, ks_p_value

PLANE, BALL, BUDGET = riemdp.Euclidean(3), Ball(np.zeros(3), 1.0), Budget(1.0, 1e-6)
X = np.random.default_rng(0).normal(scale=0.2, size=(400, 3))


def released(records=X, seed=0, ball=BALL, mechanism="wrapped-gaussian", budget=BUDGET, **given):
    return riemdp.private_frechet_mean(
        PLANE, records, ball, budget, mechanism=mechanism, rng=seed, **given
    )


def moved(release, coordinates):
    """The release as it would be with this noisy vector."""
    seen = dataclasses.replace(release.observation, coordinates=coordinates)
    return dataclasses.replace(release, observation=seen)


def p_values(a, b, sigma_a, sigma_b, count=400, **given):
    """p-values under the hypothesis, with noise drawn by another generator."""
    rng = np.random.default_rng(1)
    noise = rng.normal(size=(2, count, 3)) * np.array([sigma_a, sigma_b])[:, None, None]
    return np.array(
        [
            riemdp.two_sample_test(moved(a, x + 0.3), moved(b, y + 0.3), **given).p_value
            for x, y in zip(*noise, strict=True)
        ]
    )


def test_the_level_is_exact_for_gaussian_noise():
    """Uniform p-values; noise that is a quarter larger than stated is noticed."""
    a, b = released(), released(X[:380], seed=1)
    assert a.scale < b.scale
    right = p_values(a, b, a.scale, b.scale, 1000)
    assert ks_p_value(right, "uniform") > ALPHA
    assert ks_p_value(p_values(a, b, a.scale / 0.8, b.scale / 0.8, 1000), "uniform") < ALPHA
    assert riemdp.two_sample_test(a, b).exact


def test_other_distributions_and_populations_are_conservative():
    a, b = (released(seed=i, mechanism="wrapped-laplace", budget=Budget(1.0)) for i in (0, 1))
    found = riemdp.two_sample_test(a, b)
    assert not found.exact
    # Laplace noise: a uniform direction, and a length with the distribution Gamma(3, s)
    rng = np.random.default_rng(2)
    u = rng.normal(size=(2, 200, 3))
    u *= (rng.gamma(3, a.scale, (2, 200)) / np.linalg.norm(u, axis=-1))[..., None]
    p = np.array(
        [riemdp.two_sample_test(moved(a, x), moved(b, y)).p_value for x, y in zip(*u, strict=True)]
    )
    assert coverage_p_value(p > 0.2, 0.8, at_least=True) > ALPHA
    means = released(), released(seed=1)
    spreads = tuple(riemdp.private_frechet_variance(PLANE, X, BALL, BUDGET, rng=i) for i in (2, 3))
    n = np.array([len(X), len(X)])
    sampled = np.hypot([m.scale for m in means], 0.2 / np.sqrt(n))
    drawn = p_values(*means, *sampled, 80, of="population", dispersions=spreads)
    assert coverage_p_value(drawn > 0.1, 0.9, at_least=True) > ALPHA
    wider = p_values(*means, *(3.0 * sampled), 80, of="population", dispersions=spreads)
    assert coverage_p_value(wider > 0.1, 0.9, at_least=True) < ALPHA
    far = [moved(m, np.full(3, s)) for m, s in zip(means, (0.9, -0.9), strict=True)]
    apart = riemdp.two_sample_test(*far, of="population", dispersions=spreads)
    assert apart.rejects(0.05)
    assert "populations" in str(apart)


def test_the_front_door_finds_a_difference_and_no_other():
    same = riemdp.two_sample_test(released(seed=11), released(seed=12))
    other = riemdp.two_sample_test(released(seed=11), released(X + 0.5, seed=13))
    assert same.p_value > 1e-3
    assert other.p_value < 1e-6
    assert other.rejects()
    assert "clamped records" in other.hypothesis
    assert "made with a seed" in str(other)
    for pair in ((released(seed=None), released(seed=13)), (released(), released(seed=None))):
        assert riemdp.two_sample_test(*pair).reproducible
        assert "not private" in str(riemdp.two_sample_test(*pair))
    fresh = riemdp.two_sample_test(released(seed=None), released(seed=None))
    assert not fresh.reproducible
    assert "not private" not in str(fresh)
    people = np.arange(400) // 2
    ours = riemdp.two_sample_test(released(groups=people), released(seed=1, groups=people))
    assert "people" in ours.hypothesis
    points = [released(seed=i, mechanism="riemannian-laplace", budget=Budget(1.0)) for i in (0, 1)]
    assert not riemdp.two_sample_test(*points).exact


def test_a_solver_s_tolerance_makes_the_test_conservative():
    a, b = released(), released(seed=1)
    loose = dataclasses.replace(a.observation, slack=0.01)
    assert (
        riemdp.two_sample_test(dataclasses.replace(a, observation=loose), b).p_value
        > riemdp.two_sample_test(a, b).p_value
    )


def test_what_cannot_be_compared_is_refused():
    a = released()
    wrong = {
        "one release": a,
        "different balls": released(seed=1, ball=Ball(np.zeros(3), 2.0)),
        "people": released(seed=1, groups=np.arange(400)),
        "kinds of noise": released(seed=1, mechanism="riemannian-laplace", budget=Budget(1.0)),
        "other queries": released(seed=1, mechanism="tangent-mean"),
        "private number": released(seed=1, n_min=300, mechanism="wrapped-gaussian"),
        "distribution of its error": released(seed=1, mechanism="dp-rgd"),
    }
    for said, b in wrong.items():
        with pytest.raises(InvalidArgument, match=said):
            riemdp.two_sample_test(a, b)
    with pytest.raises(InvalidArgument, match="dispersions"):
        riemdp.two_sample_test(a, released(seed=1), of="population")
    with pytest.raises(InvalidArgument, match="dispersions"):
        riemdp.two_sample_test(a, released(seed=1), dispersions=(a, a))
