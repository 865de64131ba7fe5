"""Utpala2023: the exact numbers, the samplers that are timed, and the published noise."""

from __future__ import annotations

import math

import jax
import numpy as np
import pytest

import riemdp
from papers.moments import (
    ALPHA_OPTIMAL,
    bracket,
    rsvrg_epsilon,
    rsvrg_epsilon_by_moments,
    subsampled_moments,
)
from papers.tangent_sampling import Sampler
from papers.utpala2023 import _PANELS, SETTING, base_point, best_alpha
from papers.utpala2023_risk import (
    RGD,
    RSGD,
    RSVRG,
    Task,
    methods,
    published_sigma,
    run_task,
)
from riemdp.privacy import gaussian

SPACES = {
    "spd-affine": ((3, 3), lambda: riemdp.SPDAffineInvariant(3)),
    "spd-bures-wasserstein": ((3, 3), lambda: riemdp.SPDBuresWasserstein(3)),
    "spd-log-euclidean": ((3, 3), lambda: riemdp.SPDLogEuclidean(3)),
    "sphere": ((5,), lambda: riemdp.Sphere(5)),
    "lorentz": ((5,), lambda: riemdp.Lorentz(5)),
    "poincare": ((4,), lambda: riemdp.PoincareBall(4)),
    "stiefel": ((5, 2), lambda: riemdp.Stiefel(5, 2)),
    "grassmann": ((5, 2), lambda: riemdp.Grassmann(5, 2)),
}


# -----------------------------------------------------------------------------
# alpha, Figure 2
def test_alpha_is_the_minimum_of_the_printed_bracket():
    grid = np.linspace(0.001, 0.999, 99_801)
    assert grid[np.argmin(bracket(grid))] == pytest.approx(ALPHA_OPTIMAL, abs=1e-5)
    assert pytest.approx((math.sqrt(2) + math.sqrt(28)) ** 2) == bracket(ALPHA_OPTIMAL)
    # The stationary point in closed form: 26 a^2 + 4 a - 2 = 0.
    assert abs(26 * ALPHA_OPTIMAL**2 + 4 * ALPHA_OPTIMAL - 2) < 1e-12


@pytest.mark.slow
def test_the_printed_47_is_met_and_64_to_three_percent():
    def epsilon(a):
        return rsvrg_epsilon_by_moments(a, sigma=0.05, epochs=100, **SETTING)

    alpha, least = best_alpha(epsilon)
    assert round(least, 2) == 0.47
    assert epsilon(0.5) == pytest.approx(0.64, rel=0.035)
    assert abs(alpha - ALPHA_OPTIMAL) < 0.03


def test_exact_accountant_is_below_the_moments_and_above_one_query_alone():
    where = {"sigma": 0.05, "epochs": 5, **SETTING}
    exact = rsvrg_epsilon(0.5, **where)
    full = gaussian(math.sqrt(0.5) * 0.05 * 1e5 / 0.2, steps=50_000).epsilon(1e-6)
    assert full < exact < rsvrg_epsilon_by_moments(0.5, **where)


def test_moments_are_those_of_the_plain_gaussian_when_every_record_is_taken():
    """Sampling at rate 1 changes nothing, so the bound must not fall below alpha / (2 z^2)."""
    orders = np.arange(2, 12)
    assert np.all(subsampled_moments(3.0, 1.0, orders) >= orders / (2 * 9.0) - 1e-12)
    assert np.all(subsampled_moments(3.0, 1e-3, orders) < 1e-3 * orders / (2 * 9.0))


# -----------------------------------------------------------------------------
# samplers
@pytest.mark.parametrize("space", SPACES)
def test_bases_are_orthonormal_in_the_metric(space):
    shape, make = SPACES[space]
    manifold, sampler = make(), Sampler(space, shape)
    w = base_point(
        space,
        shape[0],
        shape[1] if space in ("stiefel", "grassmann") else 0,
        np.random.default_rng(3),
    )
    basis = sampler.mover(w)(sampler.reference(np.eye(sampler.dim)))
    assert sampler.dim == manifold.dim
    gram = jax.vmap(lambda u: jax.vmap(lambda v: manifold.inner(w, u, v))(basis))(basis)
    np.testing.assert_allclose(gram, np.eye(sampler.dim), atol=1e-12)
    assert np.all(manifold.is_tangent(w, basis, 1e-10))


@pytest.mark.parametrize("space", SPACES)
def test_all_baselines_have_the_distribution_of_an_isotropic_gaussian(space):
    shape, make = SPACES[space]
    manifold, sampler = make(), Sampler(space, shape)
    rng = np.random.default_rng(5)
    w = base_point(space, shape[0], shape[1] if space in ("stiefel", "grassmann") else 0, rng)
    ways = next(p[4] for p in _PANELS.values() if p[1] == space)
    for way in (*ways, "transport"):
        count = 400
        v = np.stack([getattr(sampler, way)(w, rng) for _ in range(count)])
        squares = np.asarray(manifold.norm(w, v)) ** 2
        # A chi-square of dim x count degrees of freedom: five standard deviations, two-sided, false
        # alarm 6e-7 each.
        allowed = 5 * math.sqrt(2 * sampler.dim * count)
        assert abs(squares.sum() - sampler.dim * count) < allowed, way
        assert abs(0.64 * squares.sum() - sampler.dim * count) > allowed, "noise x 0.8 must be seen"


# -----------------------------------------------------------------------------
# Figure 3
def test_published_sigma_is_the_printed_formula():
    assert published_sigma(100, 0.5, 1000, 0.1, 1e-6) == pytest.approx(
        10 * math.sqrt(math.log(1e6)) * 0.5 / 100
    )


def test_published_noise_of_full_batches_spends_more_than_stated():
    """mu = 2 eps / sqrt(log 1/delta) whatever T, n and C are."""
    sigma = published_sigma(7, 1.0, 500, 0.3, 1e-6)
    mu = 2 * 0.3 / math.sqrt(math.log(1e6))
    assert gaussian(sigma * 500 / 2, steps=7).epsilon(1e-6) == pytest.approx(
        gaussian(1 / mu).epsilon(1e-6), rel=1e-6
    )
    assert gaussian(1 / mu).epsilon(1e-6) > 1.5 * 0.3


def test_every_method_gets_about_the_same_work_and_certified_noise_is_within_the_budget():
    rng = np.random.default_rng(0)
    problem = riemdp.problems.frechet_mean(riemdp.Euclidean(2))
    x = rng.standard_normal((60, 2))
    task = Task(
        "flat",
        problem,
        x,
        np.zeros(2),
        float(problem.objective(x.mean(0), x)),
        1.0,
        (0.3, 0.01, 0.02),
        4,
    )
    chosen = methods(task)
    assert chosen[RSGD].steps == 240
    assert chosen[RSVRG].epochs * (60 + 2 * chosen[RSVRG].inner_steps) == pytest.approx(
        240, rel=0.2
    )
    curves = run_task(task, 0.5, runs=2, seed=1)
    for name, c in curves.items():
        epsilon = c.guarantee.epsilon(1e-6)
        assert c.y.shape[0] == 2
        assert np.all(np.isfinite(c.y))
        if "published" in name:
            assert epsilon > 0.5
        else:
            assert epsilon <= 0.5 * (1 + 1e-9)
    assert curves[f"{RGD}, certified noise"].sigma > curves[f"{RGD}, published noise"].sigma
