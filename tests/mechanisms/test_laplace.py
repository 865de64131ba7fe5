"""Riemannian Laplace, K-norm gradient, extrinsic baselines: pure epsilon on grids, the distribution
of what is released, refusals.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import riemdp as R
from riemdp.mechanisms import (
    ExtrinsicGaussian,
    ExtrinsicLaplace,
    KNormGradient,
    MeanGradient,
    RiemannianLaplace,
)
from riemdp.statistics import FrechetMean
from tests.sampling import oracles
from tests.seam import Doors, plant
from tests.statistical import ALPHA, gaussian_p_value, ks_p_value

SMALL = {"sensitivity": 0.1, "epsilon": 1.0}
OF_ZEROS = MeanGradient(R.Euclidean(2), np.zeros((4, 2)))


def largest_loss(exponent_a, exponent_b, log_volume):
    """max |log density ratio| on the grid of distributions given by unnormalised log densities."""

    def normalised(e):
        total = e + log_volume
        top = np.max(total)
        return e - top - np.log(np.sum(np.exp(total - top)))

    return float(np.max(np.abs(normalised(exponent_a) - normalised(exponent_b))))


@pytest.mark.parametrize("space", ["H2", "S2"])
@pytest.mark.parametrize("epsilon", [0.3, 1.5])
def test_laplace_is_pure_and_tight_on_a_grid(space, epsilon):
    """The distribution of the mechanism at two values `sensitivity` apart, normalised numerically:
    loss <= eps and >= .9 eps.
    """
    manifold = R.Lorentz(3) if space == "H2" else R.Sphere(3)
    points, log_volume = (
        oracles.hyperbolic_grid(30 * 0.1 / epsilon)
        if space == "H2"
        else oracles.sphere_grid(math.pi)
    )
    m = RiemannianLaplace(manifold, sensitivity=0.1, epsilon=epsilon)
    a = np.asarray(manifold.exp(manifold.origin, np.array([0.0, 0.05, 0.0])))
    b = np.asarray(manifold.exp(manifold.origin, np.array([0.0, -0.05, 0.0])))
    da, db = (np.asarray(manifold.dist(x, points)) for x in (a, b))
    loss = largest_loss(-da / m.scale, -db / m.scale, log_volume)
    assert 0.9 * epsilon <= loss <= epsilon * (1 + 1e-3)
    assert (
        largest_loss(-da / (m.scale / 2), -db / (m.scale / 2), log_volume) > 1.5 * epsilon
    )  # planted: half the sensitivity


def test_truncated_laplace_needs_and_gets_twice_the_scale():
    manifold, epsilon = R.Lorentz(3), 0.11
    ball = R.Ball(manifold.origin, 1.0)
    m = RiemannianLaplace(manifold, sensitivity=0.2, epsilon=epsilon, ball=ball)
    assert m.truncated
    assert m.scale == pytest.approx(2 * 0.2 / epsilon)
    points, log_volume = oracles.hyperbolic_grid(1.0)
    a = np.asarray(manifold.exp(manifold.origin, np.array([0.0, 1.0, 0.0])))
    b = np.asarray(manifold.exp(manifold.origin, np.array([0.0, 0.8, 0.0])))
    da, db = (np.asarray(manifold.dist(x, points)) for x in (a, b))
    assert largest_loss(-da / m.scale, -db / m.scale, log_volume) <= epsilon
    assert (
        largest_loss(-2 * da / m.scale, -2 * db / m.scale, log_volume) > epsilon
    )  # planted: the untruncated scale
    out = np.stack([m.release(a, rng=i).value for i in range(40)])
    assert np.all(np.asarray(manifold.dist(manifold.origin, out)) <= 1.0)


def test_bures_wasserstein_pays_twice_because_its_constant_moves():
    manifold = R.SPDBuresWasserstein(2)
    m = RiemannianLaplace(manifold, sensitivity=0.05, epsilon=0.5)
    assert m.scale == pytest.approx(2 * 0.05 / 0.5)
    assert (
        m.release(np.eye(2), rng=1).details["distribution"]
        == "whole space, constant not homogeneous"
    )


@pytest.mark.parametrize(
    "manifold",
    [R.Lorentz(4), R.Sphere(4), R.SPDAffineInvariant(3), R.Grassmann(5, 2), R.SPDLogEuclidean(3)],
)
def test_error_distribution_agrees_with_many_exact_draws(manifold):
    m = RiemannianLaplace(manifold, sensitivity=0.1, epsilon=0.7)
    d = np.asarray(
        manifold.dist(
            manifold.origin, R.riemannian_laplace(1, manifold, manifold.origin, m.scale, (20_000,))
        )
    )
    distribution = m.error_distribution
    assert distribution.mean_square == pytest.approx(np.mean(d**2), rel=0.03)
    for q in (0.1, 0.5, 0.9):
        assert distribution.quantile(q) == pytest.approx(np.quantile(d, q), rel=0.03)


# -------------------------------------------------------------------- K-norm gradient
def hyperbolic_data():
    manifold = R.Lorentz(3)
    ball = R.Ball(manifold.origin, 1.0)
    v = np.array([[0.0, 1.0, 0.0], [0.0, -0.9, 0.3], [0.0, 0.2, -0.9], [0.0, -0.1, 0.8]])
    return manifold, ball, np.asarray(manifold.exp(manifold.origin, v))


def solved_mean(manifold, records, steps=60):
    x = records[0]
    for _ in range(steps):
        x = manifold.exp(x, np.mean(np.asarray(manifold.log(x, records)), axis=0))
    return np.asarray(x)


def gradient_norms(manifold, records, points):
    logs = sum(np.asarray(manifold.log(points, x)) for x in records) / len(records)
    return np.asarray(manifold.norm(points, logs))


def k_norm(manifold, ball, records, epsilon):
    return KNormGradient(
        manifold,
        objective_gradient=MeanGradient(manifold, records),
        epsilon=epsilon,
        sensitivity=FrechetMean(ball.on(manifold), len(records)).gradient_sensitivity,
        strong_convexity=ball.on(manifold).strong_convexity,
        ball=None if manifold.is_hadamard else ball,
    )


def test_k_norm_draws_follow_its_density_even_from_an_inexact_minimiser():
    manifold, ball, records = hyperbolic_data()
    m = k_norm(manifold, ball, records, 6.0)
    points, log_volume = oracles.hyperbolic_grid(8.0, (900, 120))
    log_density = log_volume - gradient_norms(manifold, records, points) / m.scale
    cdf = oracles.cdf_from_weights(np.asarray(manifold.dist(manifold.origin, points)), log_density)
    exact = solved_mean(manifold, records)
    rough = np.asarray(
        manifold.exp(exact, np.array(manifold.to_tangent(exact, np.array([0.0, 0.02, 0.01]))))
    )
    wrong = np.log(
        np.sinh(1e-9 + np.asarray(manifold.dist(exact, points)))
    )  # the Laplace distribution of the same scale
    other = oracles.cdf_from_weights(
        np.asarray(manifold.dist(exact, points)),
        log_volume - np.asarray(manifold.dist(exact, points)) / m.scale,
    )
    assert wrong.shape == log_volume.shape
    for value in (exact, rough):
        drawn = k_norm_draws(m, value, 4)
        assert ks_p_value(manifold.dist(manifold.origin, drawn), cdf) > ALPHA
        # planted: proposals taken without the acceptance
        assert ks_p_value(manifold.dist(exact, drawn), other) < ALPHA


def test_k_norm_is_pure_on_a_grid_for_worst_case_neighbours():
    manifold, ball, records = hyperbolic_data()
    epsilon = 6.0
    m = k_norm(manifold, ball, records, epsilon)
    points, log_volume = oracles.hyperbolic_grid(8.0, (500, 120))
    neighbour = records.copy()
    neighbour[0] = np.asarray(manifold.exp(manifold.origin, np.array([0.0, -1.0, 0.0])))
    a, b = (-gradient_norms(manifold, x, points) / m.scale for x in (records, neighbour))
    assert 0.3 * epsilon < largest_loss(a, b, log_volume) <= epsilon
    assert m.release(solved_mean(manifold, records), rng=1).guarantee == R.pure(epsilon)


@pytest.mark.slow
def test_k_norm_on_the_sphere_stays_in_the_ball_and_follows_its_density():
    sphere = R.Sphere(3)
    ball = R.Ball(sphere.origin, 0.4)
    v = np.array([[0.0, 0.4, 0.0], [0.0, -0.3, 0.2], [0.0, 0.1, -0.35]])
    records = np.asarray(sphere.exp(sphere.origin, v))
    m = k_norm(sphere, ball, records, 4.0)
    mean = solved_mean(sphere, records)
    releases = np.stack([m.release(mean, rng=i).value for i in range(200)])
    points, log_volume = oracles.sphere_grid(0.4)
    log_density = log_volume - gradient_norms(sphere, records, points) / m.scale
    cdf = oracles.cdf_from_weights(np.asarray(sphere.dist(mean, points)), log_density)
    assert np.all(np.asarray(sphere.dist(sphere.origin, releases)) <= 0.4)
    assert ks_p_value(sphere.dist(mean, releases), cdf) > ALPHA
    assert ks_p_value(0.7 * np.asarray(sphere.dist(mean, releases)), cdf) < ALPHA


def k_norm_draws(m, value, rounds=2):
    """Accepted proposals of the mechanism's own rejection, in batches: gradients, which it computes
    one point at a time, are compared at a few.
    """
    source, kept, gradient = R.noise_source(3), [], m.objective_gradient
    offset, one_by_one = float(gradient.norms(np.asarray(value)[None])[0]), gradient.norms

    def together(points):
        found = gradient_norms(m.manifold, gradient.records, points)
        np.testing.assert_allclose(found[:40], one_by_one(points[:40]), rtol=1e-9, atol=1e-12)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gradient, "norms", together)
        plant(patch, "draws of K-norm noise at once", 4096)
        for _ in range(rounds):
            proposals = m._proposals(value, source)
            ratio = m._log_ratios(value, offset, proposals)
            kept.append(np.asarray(proposals)[np.log(source.uniforms((4096,))) < ratio])
    return np.concatenate(kept)


def test_k_norm_refuses_what_it_cannot_draw_exactly():
    sphere, ball = R.Sphere(3), R.Ball(R.Sphere(3).origin, 0.4)
    with pytest.raises(R.InvalidArgument, match="strong_convexity"):
        KNormGradient(
            sphere, objective_gradient=lambda x: x, sensitivity=0.1, epsilon=1.0, ball=ball
        )
    with pytest.raises(R.InvalidArgument, match="ball"):
        KNormGradient(
            sphere,
            objective_gradient=lambda x: x,
            sensitivity=0.1,
            epsilon=1.0,
            strong_convexity=0.5,
        )
    with pytest.raises(R.InvalidArgument, match="objective_gradient"):
        KNormGradient(R.Euclidean(2), objective_gradient=3, sensitivity=0.1, epsilon=1.0)
    flat = R.Euclidean(2)
    ledger = R.Ledger(R.Budget(5.0))
    weak = KNormGradient(
        flat, objective_gradient=lambda x: 0.5 * x, sensitivity=0.1, epsilon=1.0
    )  # only 1/2-strongly monotone
    with pytest.raises(R.InvalidArgument, match="exact sampling is impossible"):
        weak.release(np.zeros(2), rng=1, ledger=ledger)
    broken = KNormGradient(
        flat, objective_gradient=lambda x: x * np.nan, sensitivity=0.1, epsilon=1.0
    )
    with pytest.raises(R.InvalidArgument, match="not finite"):
        broken.release(np.zeros(2), rng=1, ledger=ledger)
    assert ledger.spent.epsilon(0.0) == 0.0
    good = KNormGradient(
        flat, objective_gradient=lambda x: x, sensitivity=0.1, epsilon=1.0
    ).release(np.zeros(2), rng=1, ledger=ledger)
    assert ledger.spent == R.pure(1.0)
    assert good.scale == pytest.approx(0.2)


def test_noise_near_the_rounding_of_float64_is_refused_where_no_draw_would_end():
    """A mean at epsilon 1e12 was charged, and its draw went on for ever."""
    line = R.Euclidean(1)
    given = {"objective_gradient": lambda x: x, "sensitivity": 0.1}
    KNormGradient(line, epsilon=1e10, **given)
    with pytest.raises(R.InvalidArgument, match="may never end; give a smaller epsilon"):
        KNormGradient(line, epsilon=1e12, **given)
    ledger = R.Ledger(R.Budget(1e30))
    records, ball = np.linspace(0.0, 1.0, 50)[:, None], R.Ball(np.zeros(1), 1.0)
    with ledger, pytest.raises(R.InvalidArgument, match="may never end"):
        R.private_frechet_mean(line, records, ball, R.Budget(1e12), mechanism="k-norm-gradient")
    assert ledger.charges == 0
    R.private_frechet_mean(line, records, ball, R.Budget(1e12), rng=1)


def test_a_value_far_from_the_minimum_is_refused_before_the_charge():
    """A draw about it would take exp(|grad F(value)| / s) tries."""
    ledger = R.Ledger(R.Budget(5.0))
    for name, mechanism in (
        ("own", KNormGradient(R.Euclidean(2), objective_gradient=lambda x: x, **SMALL)),
        ("mean", KNormGradient(R.Euclidean(2), objective_gradient=OF_ZEROS, **SMALL)),
    ):
        for far in (8.5 * mechanism.scale, 1e3, 1e100):
            with pytest.raises(R.InvalidArgument, match="too far from the minimum"):
                mechanism.release(np.array([far, 0.0]), rng=1, ledger=ledger)
        assert ledger.spent.epsilon(0.0) == 0.0, name
    mechanism.release(np.array([2 * mechanism.scale, 0.0]), rng=1, ledger=ledger)


# -------------------------------------------------------------------- extrinsic baselines
def test_extrinsic_gaussian_noise_fills_the_symmetric_matrices_isotropically():
    manifold = R.SPDLogEuclidean(2)
    m = ExtrinsicGaussian(manifold, sensitivity=0.01, budget=R.Budget(1.0, 1e-5), project=False)
    noise = np.stack([m.release(np.eye(2), rng=i).value for i in range(400)]) - np.eye(2)
    assert np.all(noise == np.swapaxes(noise, 1, 2))
    c = np.stack([noise[:, 0, 0], noise[:, 1, 1], np.sqrt(2) * noise[:, 0, 1]], axis=1)
    assert gaussian_p_value(c, m.sigma) > ALPHA
    assert gaussian_p_value(0.8 * c, m.sigma) < ALPHA
    assert m.release(np.eye(2), rng=0).details["baseline"] == "ambient noise"


def test_extrinsic_laplace_has_the_l2_distribution_of_the_ambient_dimension_and_projects():
    sphere = R.Sphere(4)
    m = ExtrinsicLaplace(sphere, sensitivity=0.1, epsilon=1.0, project=False)
    noise = np.stack([m.release(sphere.origin, rng=i).value for i in range(400)]) - np.asarray(
        sphere.origin
    )
    cdf = stats.gamma(4, scale=0.1).cdf
    assert ks_p_value(np.linalg.norm(noise, axis=1), cdf) > ALPHA
    assert ks_p_value(0.8 * np.linalg.norm(noise, axis=1), cdf) < ALPHA
    projected = ExtrinsicLaplace(sphere, sensitivity=0.1, epsilon=R.Budget(1.0, 1e-5)).release(
        sphere.origin, rng=0
    )
    assert bool(sphere.belongs(projected.value))
    assert projected.guarantee == R.pure(1.0)


# -------------------------------------------------------------------- refusals and the ledger
@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"sensitivity": 0.0}, "sensitivity"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": math.inf}, "epsilon"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"epsilon": "1"}, "epsilon"),
        ({"sensitivity": 0.8}, "sigma < 0.707107"),
        ({"ball": 3.0}, "ball"),
    ],
)
def test_bad_arguments_are_named(arguments, match):
    with pytest.raises(R.InvalidArgument, match=match):
        RiemannianLaplace(
            R.SPDAffineInvariant(3), **({"sensitivity": 0.1, "epsilon": 1.0} | arguments)
        )


def test_where_the_distribution_does_not_exist_a_ball_truncates_it():
    manifold = R.SPDAffineInvariant(3)
    m = RiemannianLaplace(manifold, sensitivity=0.8, epsilon=1.0, ball=R.Ball(np.eye(3), 0.5))
    assert m.truncated
    assert m.scale == pytest.approx(1.6)
    assert m.release(np.eye(3), rng=0).details["distribution"] == "truncated to the ball"


def test_a_value_that_float64_moves_past_the_edge_is_clamped():
    """Where nothing is folded, some matrices at distance 24 move past 20 by more than the slack
    here: they go to the center.
    """
    space, rng, radius = R.SPDAffineInvariant(3), np.random.default_rng(0), 20.0
    domain = R.Ball(np.eye(3), radius).on(space)
    vars(domain)["fold"] = math.inf
    y = rng.normal(size=(200, space.dim))
    y *= 1.2 * radius / np.linalg.norm(y, axis=1)[:, None]
    values = np.asarray(space.exp(np.eye(3), space.from_coordinates(np.eye(3), y)))
    values = values[np.linalg.eigvalsh(values)[:, 0] > 0.0]
    admitted = np.stack([Doors.admit_value(space, "value", x, domain) for x in values])
    distance = np.asarray(space.dist(np.eye(3), admitted))
    assert np.max(distance) <= radius + Doors.slack(radius)
    lost = distance == 0.0
    assert 0 < np.sum(lost) < len(values) / 4
    assert np.min(distance[~lost]) >= radius - domain.resolution
