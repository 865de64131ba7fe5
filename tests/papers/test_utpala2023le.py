"""Utpala2023LE: the distributions, constants and radii behind its figures."""

from __future__ import annotations

import math

import numpy as np
import pytest

import riemdp
from papers import utpala2023le_distributions as paper
from papers import utpala2023le_images as images


def test_theorem_4_constant():
    """E rho^2 = 8 r^2 ln(1.25/delta) d / (n eps)^2 with the classical calibration: twice the
    printed 4 r^2.
    """
    k, n, r, eps, delta = 5, 500, 0.3, 0.2, 1e-6
    sigma = paper.gaussian_multiplier(eps, delta, "classical") * 2 * r / n
    exact = 8 * r**2 * math.log(1.25 / delta) * paper.dimension(k) / (n * eps) ** 2
    assert paper.gaussian_utility(k, sigma) == pytest.approx(exact, rel=1e-12)


@pytest.mark.slow
def test_distributions_of_both_errors():
    """Releases follow sigma^2 chi^2_d and Gamma(d, s)^2; with noise x 0.8 the same test fails."""
    from scipy.stats import gamma, kstest

    k = 2
    d = paper.dimension(k)
    m = riemdp.SPDLogEuclidean(k)
    mechanism = riemdp.mechanisms.WrappedGaussian(
        m, np.eye(k), sensitivity=1e-3, budget=riemdp.Budget(1.0, 1e-6)
    )
    value = m.project(np.array([[1.2, 0.2], [0.2, 0.7]]))
    squares = (
        np.asarray(m.squared_dist(value, paper.released(mechanism, value, 600, 11)))
        / mechanism.sigma**2
    )
    distribution = gamma(d / 2, scale=2.0).cdf
    assert kstest(squares, distribution).pvalue > 1e-6
    assert kstest(0.64 * squares, distribution).pvalue < 1e-6
    lengths = np.sqrt(paper.laplace_squares(k, 1e-3, 1000, 12)) / 1e-3
    assert kstest(lengths, gamma(d).cdf).pvalue > 1e-6
    assert kstest(0.8 * lengths, gamma(d).cdf).pvalue < 1e-6
    assert np.mean(lengths**2) == pytest.approx(d * (d + 1), rel=0.25)


def test_laplace_is_better_for_small_matrices():
    """At (0.1, 1e-6) the pure mechanism wins for k < 5; d + 1 against z^2 eps^2 decides."""
    first = paper.crossover(0.1, 1e-6)
    assert first == 5
    z = paper.gaussian_multiplier(0.1, 1e-6)
    assert paper.dimension(first - 1) + 1 <= (0.1 * z) ** 2 < paper.dimension(first) + 1
    assert paper.crossover(0.1, 1e-6, "classical") > first
    assert paper.crossover(0.1, 1e-6, factor=2.0) == 2


def test_classical_noise_is_more_than_needed():
    z = paper.gaussian_multiplier(0.1, 1e-6, "classical")
    assert paper.true_epsilon(1 / z, 1e-6) < 0.1
    assert paper.true_epsilon(1 / paper.gaussian_multiplier(0.1, 1e-6), 1e-6) == pytest.approx(
        0.1, rel=1e-6
    )


def test_ambient_sensitivity_is_exceeded_and_the_proved_one_is_not():
    """Two collinear data sets in the log-Euclidean ball, their real means: beyond 2(e^r - 1)/n,
    within 2 r e^r / n.
    """
    n, r = 500, math.sqrt(30) / 4
    c = paper.ambient_constants(r, n)
    X = np.stack([np.diag([math.exp(r), 1.0]), np.diag([math.exp(-r), 1.0])])
    m = riemdp.SPDLogEuclidean(2)
    means = [
        np.asarray(riemdp.frechet_mean(m, X, weights=np.array([n - last, last])).value)
        for last in (0.0, 1.0)
    ]
    shift = float(np.linalg.norm(means[0] - means[1]))
    assert shift == pytest.approx(c["attained"], rel=1e-9)
    assert c["published"] < shift <= c["proved"]


def test_markov_chain_settles_on_the_exact_distribution_only_when_corrected():
    rng = np.random.default_rng(5)
    k, d = 3, 6
    corrected, rate = paper.markov_chain_squares(rng, k, 1500, (400,))[400]
    assert np.mean(corrected) == pytest.approx(d * (d + 1), rel=0.15)
    assert 0.45 < rate < 0.7
    printed, _ = paper.markov_chain_squares(rng, 8, 400, (400,), as_printed=True)[400]
    assert np.mean(printed) < 0.2 * 36 * 37


def test_tightness_obeys_the_corrected_bounds_and_not_smaller_ones():
    row = images._tightness("stripes", "stripes", images._stripes(), False)
    assert row["largest_eigenvalue"] <= riemdp.datasets.descriptor_spread(1)
    assert row["largest_eigenvalue"] > 0.3 * riemdp.datasets.descriptor_spread(1)
    blank = images._tightness("blank", "blank", np.zeros((1, 28, 28)), False)
    assert blank["largest_from_identity"] > 0.85 * images.published_radius(1)
