"""Reimherr2021: the exact numbers behind the figures, and how the searches and the draws are
checked.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import riemdp
from papers import reimherr2021 as paper
from papers import reimherr2021_bounds as bounds
from papers import reimherr2021_data as data

R = math.pi / 8


def test_bounds_at_pi_over_8():
    found = bounds.log_spread_bounds(R)
    assert found["flat"] == pytest.approx(0.7854, abs=5e-5)
    assert found["ours"] == pytest.approx(0.8724, abs=5e-5)
    assert found["published"] == pytest.approx(0.9539, abs=5e-5)
    assert bounds.largest_log_spread(R) == pytest.approx(0.8062, abs=5e-5)


@pytest.mark.parametrize("radius", [0.05, 0.3, R, 0.6, 0.75])
def test_search_lies_between_flat_and_both_bounds(radius):
    found = bounds.log_spread_bounds(radius)
    largest = bounds.largest_log_spread(radius, 360)
    assert found["flat"] < largest < found["ours"] < found["published"]


def test_largest_log_spread_against_the_manifold():
    """Another route: riemdp's logarithm at points inside and on the boundary never exceeds the
    boundary search by more than its grid error.
    """
    rng = np.random.default_rng(0)
    m = riemdp.Sphere(3)
    p, x, y = (data.polar_cap(rng, (4000,), 0.6) for _ in range(3))
    spread = np.asarray(m.norm(p, np.asarray(m.log(p, x)) - np.asarray(m.log(p, y))))
    assert spread.max() <= bounds.largest_log_spread(0.6) * (1 + 1e-4)


def test_worst_shift_is_attained_by_real_means_and_respects_the_bound():
    """The configuration that the first-order search finds, replayed with Frechet means of 4000
    records.
    """
    worst, found = bounds.worst_configuration(R, draws=100_000)
    m, n = riemdp.Sphere(3), 4000
    ball = riemdp.Ball(np.array([0.0, 0.0, 1.0]), R)
    phi = np.array([found["a"], -found["a"], found["x"], found["y"]])
    X = np.stack(
        [math.sin(R) * np.cos(phi), math.sin(R) * np.sin(phi), np.full(4, math.cos(R))], axis=1
    )
    heavy = (n - 1) * np.array([found["share"], 1 - found["share"]])
    means = [
        np.asarray(riemdp.frechet_mean(m, X, weights=np.array([*heavy, *last])).value)
        for last in ((1.0, 0.0), (0.0, 1.0))
    ]
    shift = n * float(m.dist(*means))
    assert shift == pytest.approx(worst, rel=2e-3)
    assert 2 * R < 0.8195 <= shift  # positive curvature: the flat bound 2 r / n is not valid
    assert shift <= n * riemdp.statistics.frechet_mean_sensitivity(m, ball, n)


def test_the_published_bound_is_above_the_one_that_is_used():
    assert 100 * bounds.published_sensitivity(math.pi / 8, 1.0, 100) == pytest.approx(
        1.2146, abs=1e-4
    )
    assert 1e3 * bounds.published_sensitivity(0.7, 1.0, 1000) == pytest.approx(10.20, abs=0.01)
    sphere = riemdp.Sphere(3)
    for r in np.linspace(0.01, 0.78, 40):
        used = riemdp.frechet_mean_sensitivity(sphere, riemdp.Ball(sphere.origin, float(r)), 10)
        assert used <= bounds.published_sensitivity(float(r), 1.0, 10) + 1e-15


def test_ambient_noise_of_the_paper_is_too_small_on_spd():
    """2 (e^r - 1) / n is exceeded by collinear records, 2 r e^r / n is not; 2 r / n is attained
    exactly.
    """
    for n in (20, 160):
        geodesic, frobenius = bounds.collinear_shift(1.5, n)
        assert geodesic == pytest.approx(3.0 / n, rel=1e-10)
        assert 2 * math.expm1(1.5) / n < frobenius < 2 * 1.5 * math.exp(1.5) / n


def test_draws_have_the_distribution_of_the_mechanisms():
    """Lengths of both kinds of noise: E |v| = 3 s in the ambient space and, for small s, 3 s on the
    manifold.
    """
    means = np.repeat(np.array([[[0.8, 0.1], [0.1, 0.6]]]), 4000, axis=0)
    s = 0.01
    inside = np.asarray(
        riemdp.SPDAffineInvariant(2).dist(means, paper._spd_intrinsic(means, s, (1, 2)))
    )
    outside = np.linalg.norm(paper._spd_ambient(means, s, (1, 2)) - means, axis=(1, 2))
    for lengths in (inside, outside):
        assert abs(np.mean(lengths) / s - 3) < 5 * math.sqrt(3 / 4000)
    assert abs(np.mean(0.8 * outside) / s - 3) > 5 * math.sqrt(
        3 / 4000
    )  # the planted fault would be seen
