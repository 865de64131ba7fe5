"""Wrapped and tangent Gaussian: the distribution of the noise, its calibration, what is refused."""

from __future__ import annotations

import math

import jax
import numpy as np
import pytest
from scipy import stats

import riemdp as R
from riemdp.mechanisms import TangentGaussian, WrappedGaussian, WrappedLaplace
from tests.seam import Means
from tests.statistical import ALPHA, gaussian_p_value, ks_p_value

BUDGET = R.Budget(1.0, 1e-5)
# manifold, radius of the public ball, number of releases
SPACES = {
    "Euclidean(3)": (R.Euclidean(3), 1.0, 300),
    "Lorentz(4)": (R.Lorentz(4), 1.0, 300),
    "PoincareBall(3)": (R.PoincareBall(3), 1.0, 300),
    "Sphere(4)": (R.Sphere(4), 0.5, 300),
    "SPDAffineInvariant(2)": (R.SPDAffineInvariant(2), 1.0, 300),
    "SPDLogEuclidean(2)": (R.SPDLogEuclidean(2), 1.0, 300),
    "SPDBuresWasserstein(2)": (R.SPDBuresWasserstein(2), 0.2, 300),
    "Grassmann(4,2)": (R.Grassmann(4, 2), 0.3, 250),
    "Product": (R.Product(R.Sphere(3), R.SPDLogEuclidean(2)), 0.3, 250),
}


def near(manifold, base, distance, seed=0):
    """A point at the given distance from the base."""
    v = manifold.tangent_normal(seed, base)
    factor = distance / float(manifold.norm(base, v))
    return manifold.exp(base, jax.tree.map(lambda leaf: factor * leaf, v))


def noise_of(mechanism, value, count):
    """Coordinates, at the base, of what the mechanism added, over many releases."""
    m, base = mechanism.manifold, mechanism.base
    released = [mechanism.release(value, rng=i).value for i in range(count)]
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *released)
    at = m.to_coordinates(base, m.log(base, stacked))
    return np.asarray(at) - np.asarray(m.to_coordinates(base, m.log(base, value)))


SLOW_TO_COMPILE = {"Grassmann(4,2)", "Product", "PoincareBall(3)"}


@pytest.mark.parametrize(
    "name", [pytest.param(s, marks=pytest.mark.slow) if s in SLOW_TO_COMPILE else s for s in SPACES]
)
def test_wrapped_gaussian_noise_has_the_distribution_it_was_accounted_for(name):
    manifold, radius, count = SPACES[name]
    base = manifold.origin
    ball = R.Ball(base, radius)
    mechanism = WrappedGaussian(manifold, base, sensitivity=0.01, budget=BUDGET, ball=ball)
    noise = noise_of(mechanism, near(manifold, base, 0.8 * radius), count)
    assert gaussian_p_value(noise, mechanism.sigma) > ALPHA
    assert gaussian_p_value(0.8 * noise, mechanism.sigma) < ALPHA  # planted: noise x 0.8
    assert (
        gaussian_p_value(noise, 2 * mechanism.sigma) < ALPHA
    )  # planted: noise for half the sensitivity
    guarantee = mechanism.release(base, rng=0).guarantee
    assert guarantee.epsilon(BUDGET.delta) <= BUDGET.epsilon
    assert guarantee.epsilon(BUDGET.delta) > 0.999 * BUDGET.epsilon
    assert mechanism.sigma >= mechanism.tangent_sensitivity * R.gaussian_noise_multiplier(BUDGET)


@pytest.mark.parametrize("name", ["Lorentz(4)", "Sphere(4)", "SPDAffineInvariant(2)"])
def test_wrapped_laplace_noise_has_the_distribution_it_was_accounted_for(name):
    manifold, radius, count = SPACES[name]
    base, d = manifold.origin, manifold.dim
    mechanism = WrappedLaplace(
        manifold, base, sensitivity=0.01, epsilon=1.0, ball=R.Ball(base, radius)
    )
    noise = noise_of(mechanism, near(manifold, base, 0.8 * radius), 2 * count)
    length = np.linalg.norm(noise, axis=1)
    assert ks_p_value(length, lambda r: stats.gamma.cdf(r, d, scale=mechanism.scale)) > ALPHA
    assert ks_p_value(0.8 * length, lambda r: stats.gamma.cdf(r, d, scale=mechanism.scale)) < ALPHA
    side = (1 + noise[:, 0] / length) / 2
    assert ks_p_value(side, lambda t: stats.beta.cdf(t, (d - 1) / 2, (d - 1) / 2)) > ALPHA
    assert mechanism.scale >= mechanism.tangent_sensitivity / 1.0


def test_positively_curved_spaces_pay_for_the_logarithm():
    sphere = R.Sphere(3)
    r = 0.7
    m = WrappedGaussian(
        sphere, sphere.origin, sensitivity=0.1, budget=BUDGET, ball=R.Ball(sphere.origin, r)
    )
    assert m.tangent_sensitivity == pytest.approx(0.1 * r / math.sin(r), rel=1e-12)
    off = WrappedGaussian(
        sphere,
        near(sphere, sphere.origin, 0.05),
        sensitivity=0.1,
        budget=BUDGET,
        ball=R.Ball(sphere.origin, r),
    )
    assert off.tangent_sensitivity == pytest.approx(0.1 * 0.75 / math.sin(0.75), rel=1e-9)
    # the bound is what the logarithm really needs: pairs of close points on the edge of the ball,
    # across the radius
    a, b = (
        sphere.exp(sphere.origin, r * np.array([0.0, math.cos(t), math.sin(t)]))
        for t in (0.0, 1e-5)
    )
    stretch = float(
        np.linalg.norm(np.asarray(sphere.log(sphere.origin, a) - sphere.log(sphere.origin, b)))
    ) / float(sphere.dist(a, b))
    assert stretch == pytest.approx(r / math.sin(r), rel=1e-6)


def test_values_outside_the_public_ball_are_clamped_first():
    sphere = R.Sphere(3)
    ball = R.Ball(sphere.origin, 0.3)
    m = WrappedGaussian(sphere, sphere.origin, sensitivity=1e-3, budget=BUDGET, ball=ball)
    far, edge = (
        near(sphere, sphere.origin, 1.4, 3),
        near(sphere, sphere.origin, 0.3 * (1 - 1e-12), 3),
    )
    np.testing.assert_allclose(m.release(far, rng=1).value, m.release(edge, rng=1).value, atol=1e-9)


def test_classical_calibration_is_the_published_formula_and_the_analytic_one_is_smaller():
    manifold, budget = R.SPDLogEuclidean(3), R.Budget(0.5, 1e-5)
    classical = WrappedGaussian(
        manifold, np.eye(3), sensitivity=0.2, budget=budget, calibration="classical"
    )
    analytic = WrappedGaussian(manifold, np.eye(3), sensitivity=0.2, budget=budget)
    published = 0.2 * math.sqrt(2 * math.log(1.25e5)) / 0.5
    assert published <= classical.sigma <= published * (1 + 1e-7)  # the grid is paid for
    assert analytic.sigma < classical.sigma
    assert classical.release(np.eye(3), rng=0).guarantee.epsilon(1e-5) <= 0.5


def test_tangent_gaussian_is_isotropic_in_the_metric_of_the_point():
    manifold = R.SPDAffineInvariant(2)
    at = np.array([[3.0, 0.5], [0.5, 0.2]])
    v = np.asarray(manifold.tangent_normal(1, at))
    m = TangentGaussian(manifold, at, sensitivity=0.3, budget=BUDGET)
    out = np.stack([m.release(v, rng=i).value for i in range(400)])
    noise = np.asarray(manifold.to_coordinates(at, out)) - np.asarray(
        manifold.to_coordinates(at, v)
    )
    assert gaussian_p_value(noise, m.sigma) > ALPHA
    assert gaussian_p_value(0.8 * noise, m.sigma) < ALPHA
    ambient = (out - v).reshape(-1, 4)[:, [0, 3, 1]]
    assert (
        gaussian_p_value(ambient, m.sigma) < ALPHA
    )  # planted: noise that ignores the metric would pass this
    assert m.release(v, rng=0).expected_error == pytest.approx(m.sigma * math.sqrt(3))


def test_noise_at_the_private_value_is_not_offered_and_why():
    """On hyperbolic space the delta of Exp_value(xi) with xi at the private value exceeds the
    Euclidean formula (dim 10, sigma 1, distance .5, epsilon .5: .42 against .052). Checked from
    densities, as the reason why bases here are public.
    """
    rng, d, delta, eps = np.random.default_rng(0), 10, 0.5, 0.5
    m = R.Lorentz(d + 1)
    p = np.asarray(m.origin)
    q = np.asarray(m.exp(p, np.eye(d + 1)[1] * delta))
    v = np.zeros((40_000, d + 1))
    v[:, 1:] = rng.standard_normal((40_000, d))
    x = m.exp(p, v)

    def log_density(base):
        r = np.asarray(m.dist(base, x))
        return -(r**2) / 2 - (d - 1) * np.log(np.sinh(r) / r)

    loss = log_density(p) - log_density(q)
    true_delta = np.mean(np.maximum(0.0, 1 - np.exp(eps - loss)))
    assert true_delta > 0.3
    assert R.gaussian(1 / delta).delta(eps) == pytest.approx(0.0524, abs=1e-3)
    # the mechanism offered here, at the same scale, keeps to the Gaussian figure: its base is
    # public
    log_p, log_q = m.log(p, p[None]), m.log(p, q[None])
    assert float(np.linalg.norm(np.asarray(log_p - log_q))) <= delta + 1e-12


def test_bures_wasserstein_output_is_positive_definite_beyond_the_domain_of_the_geodesic():
    w, rng = np.diag([1.0, 0.3]), np.random.default_rng(2)
    manifold = R.SPDBuresWasserstein(2)
    for scale in (0.1, 1.0, 10.0):
        u = (
            np.asarray(manifold.tangent_from_normals(w, rng.standard_normal(manifold.noise_size)))
            * scale
        )
        v = (
            np.asarray(manifold.tangent_from_normals(w, rng.standard_normal(manifold.noise_size)))
            * scale
        )
        x, y = (
            np.asarray(Means.bures_wasserstein_exp(w, u)),
            np.asarray(Means.bures_wasserstein_exp(w, v)),
        )
        assert np.all(np.linalg.eigvalsh(x) > 0)
        assert float(manifold.dist(x, y)) <= float(manifold.norm(w, u - v)) * (1 + 1e-6) + 1e-5
    small = 0.05 * np.asarray(
        manifold.tangent_from_normals(w, rng.standard_normal(manifold.noise_size))
    )
    np.testing.assert_allclose(
        Means.bures_wasserstein_exp(w, small), manifold.exp(w, small), atol=1e-12
    )


def test_a_draw_that_float64_cannot_hold_is_shortened_to_a_valid_point():
    for manifold in (R.SPDAffineInvariant(3), R.Lorentz(4), R.PoincareBall(2)):
        m = WrappedGaussian(manifold, manifold.origin, sensitivity=500.0, budget=BUDGET)
        x = m.release(manifold.origin, rng=3).value
        assert bool(manifold.belongs(x, 1e-6))


def test_expected_error_and_quantiles_hold_on_flat_space():
    manifold = R.Euclidean(5)
    m = WrappedGaussian(manifold, manifold.origin, sensitivity=0.1, budget=BUDGET)
    d = np.array([float(np.linalg.norm(m.release(np.zeros(5), rng=i).value)) for i in range(600)])
    release = m.release(np.zeros(5), rng=0)
    assert release.expected_error == pytest.approx(np.sqrt(5) * m.sigma)
    assert release.error_distribution.kind == "exact"
    assert ks_p_value(d, lambda r: stats.chi.cdf(r / m.sigma, 5)) > ALPHA
    for q in (0.1, 0.5, 0.95):
        exact = stats.chi.ppf(q, 5) * m.sigma
        assert release.error_distribution.quantile(q) == pytest.approx(exact, rel=1e-9)
    with pytest.raises(R.InvalidArgument, match="`q`"):
        release.error_distribution.quantile(1.0)


@pytest.mark.parametrize(
    ("manifold", "exact"),
    [(R.Lorentz(4), True), (R.SPDAffineInvariant(3), False), (R.Sphere(4), False)],
)
def test_error_formula_on_curved_spaces_is_an_upper_bound_and_attained_on_hyperbolic_space(
    manifold, exact
):
    base, radius = manifold.origin, 0.7
    ball = R.Ball(base, radius)
    m = WrappedGaussian(manifold, base, sensitivity=0.1, budget=BUDGET, ball=ball, shrink=False)
    value = near(manifold, base, radius * (1 - 1e-9))
    z = R.noise_source(1).normals((20_000, manifold.noise_size))
    v = manifold.log(base, value) + m.sigma * manifold.tangent_from_normals(base, z)
    d2 = np.asarray(manifold.dist(value, manifold.exp(base, v))) ** 2
    se = d2.std() / np.sqrt(d2.size)
    bound = m.error_distribution.mean_square
    assert d2.mean() <= bound + 5 * se
    if exact:
        assert bound == pytest.approx(d2.mean(), abs=6 * se + 0.02 * bound)
    inner = near(manifold, base, 0.3 * radius)
    v = manifold.log(base, inner) + m.sigma * manifold.tangent_from_normals(base, z)
    assert np.mean(np.asarray(manifold.dist(inner, manifold.exp(base, v))) ** 2) <= bound + 5 * se


# -------------------------------------------------------------------- bad input, ledgers
BAD = {
    "sensitivity zero": ({"sensitivity": 0.0}, "sensitivity"),
    "sensitivity negative": ({"sensitivity": -1.0}, "sensitivity"),
    "sensitivity nan": ({"sensitivity": float("nan")}, "sensitivity"),
    "sensitivity bool": ({"sensitivity": True}, "sensitivity"),
    "pure budget": ({"budget": R.Budget(1.0)}, "delta > 0"),
    "not a budget": ({"budget": 1.0}, "budget"),
    "unknown calibration": ({"calibration": "renyi"}, "calibration"),
    "classical beyond 1": (
        {"calibration": "classical", "budget": R.Budget(2.0, 1e-5)},
        "epsilon <= 1",
    ),
    "base off the manifold": ({"base": np.array([1.0, 1.0, 0.0])}, "base"),
    "base with batch axes": ({"base": np.array([[1.0, 0.0, 0.0]])}, "base"),
    "no ball on the sphere": ({"ball": None}, "ball"),
    "ball too large": ({"ball": R.Ball(np.array([1.0, 0.0, 0.0]), 0.8)}, "radius must be below"),
    "ball of another kind": ({"ball": 0.3}, "ball"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_arguments_are_named(case):
    changed, match = BAD[case]
    arguments = {
        "base": np.array([1.0, 0.0, 0.0]),
        "sensitivity": 0.1,
        "budget": BUDGET,
        "ball": R.Ball(np.array([1.0, 0.0, 0.0]), 0.3),
    } | changed
    with pytest.raises(R.InvalidArgument, match=match):
        WrappedGaussian(R.Sphere(3), arguments.pop("base"), **arguments)


def test_spaces_without_a_logarithm_are_refused_with_the_reason():
    stiefel = R.Stiefel(4, 2)
    with pytest.raises(NotImplementedError, match="logarithm"):
        WrappedGaussian(
            stiefel,
            stiefel.origin,
            sensitivity=0.1,
            budget=BUDGET,
            ball=R.Ball(stiefel.origin, 0.1),
        )
    v = stiefel.to_tangent(stiefel.origin, np.ones((4, 2)))
    assert TangentGaussian(stiefel, stiefel.origin, sensitivity=0.1, budget=BUDGET).release(
        v, rng=1
    ).value.shape == (4, 2)
