"""Regions of the population by the central limit theorem: curvature, formula, coverage."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy import stats

import riemdp
from riemdp import Ball, Budget
from tests.seam import Means
from tests.statistical import ALPHA, coverage_p_value

GAUSSIAN = Budget(1.0, 1e-6)
LOOSE = Budget(400.0, 1e-3)
CURVED = [
    riemdp.Euclidean(2),
    riemdp.Sphere(3),
    riemdp.Lorentz(4),
    riemdp.PoincareBall(2),
    riemdp.SPDAffineInvariant(2),
    riemdp.SPDAffineInvariant(3),
    riemdp.Grassmann(5, 2),
    riemdp.Product(riemdp.SPDAffineInvariant(2), riemdp.Sphere(3)),
]
pytestmark = pytest.mark.filterwarnings("ignore::riemdp.RiemdpWarning")


def off_centre(space):
    o = space.origin
    return space.exp(o, space.from_coordinates(o, np.linspace(0.3, 0.1, space.dim)))


def hessian_by_differences(space, p, points, step=1e-3):
    """An oracle: second differences of the mean of d(exp_p(u), x)^2 / 2 along u, at 0."""
    dim = space.dim

    def objective(u):
        end = space.exp(p, space.from_coordinates(p, u))
        return float(np.mean(0.5 * np.asarray(space.squared_dist(end, points))))

    h, e = np.zeros((dim, dim)), step * np.eye(dim)
    for i in range(dim):
        for j in range(i, dim):
            signs = [(s, t) for s in (1, -1) for t in (1, -1)]
            total = sum(s * t * objective(s * e[i] + t * e[j]) for s, t in signs)
            h[i, j] = h[j, i] = total / (4.0 * step**2)
    return h


@pytest.mark.parametrize("space", CURVED, ids=repr)
def test_the_hessian_of_a_mean_is_that_of_differences(space):
    """For short vectors it is the same; for long ones never more, and nearer than the identity on
    spaces of negative curvature.
    """
    p, rng = off_centre(space), np.random.default_rng(1)
    for length in (0.1, 1.2):
        v = rng.normal(size=(5, space.dim)) * np.linspace(1.0, 0.2, space.dim)
        v *= length / np.max(np.linalg.norm(v, axis=1))
        points = space.exp(p, space.from_coordinates(p, v))
        exact = hessian_by_differences(space, p, points) - np.eye(space.dim)
        ours = Means.mean_hessian(space, v.T @ v / 5, length) - np.eye(space.dim)
        if length < 1.0:
            assert np.allclose(ours, exact, atol=1e-6 + 0.02 * np.max(np.abs(exact)))
        assert np.linalg.eigvalsh(exact - ours)[0] > -1e-6
        if space.is_hadamard:
            assert np.linalg.norm(exact - ours) <= 0.5 * np.linalg.norm(exact) + 1e-6


def test_no_formula_for_the_curvature_is_no_region():
    assert Means.mean_hessian(riemdp.Stiefel(4, 2), np.eye(5), 0.5) is None
    both = riemdp.Product(riemdp.Sphere(3), riemdp.SPDBuresWasserstein(2))
    assert Means.mean_hessian(both, np.eye(5), 0.5) is None


def released(space, X, ball, budget, seed, mechanism="wrapped-gaussian", reach=None):
    mean = riemdp.private_frechet_mean(space, X, ball, budget, mechanism=mechanism, rng=2 * seed)
    about = Ball(mean.value, reach or ball.radius)
    return mean, riemdp.private_tangent_covariance(space, X, about, budget, rng=2 * seed + 1)


def region_of(mean, moment, level):
    return mean.confidence_region(level, "population", dispersion=moment, method="limit-theorem")


def test_on_flat_spaces_it_is_the_ellipsoid_of_its_formula():
    space, n, a = riemdp.Euclidean(3), 400, 0.1
    X = np.random.default_rng(0).normal(size=(n, 3)) * [0.4, 0.2, 0.1]
    mean, moment = released(space, X, Ball(np.zeros(3), 2.0), GAUSSIAN, 1)
    region = region_of(mean, moment, 1 - a)
    values, vectors = np.linalg.eigh(np.asarray(moment.value))
    upper = (vectors * (np.maximum(values, 0.0) + moment.scale)) @ vectors.T
    covariance = upper / n + mean.scale**2 * np.eye(3)
    assert np.allclose(region.axes @ region.axes.T, covariance, rtol=1e-6)
    assert region.radius == pytest.approx(stats.chi(3).isf(a), rel=1e-5)
    assert region.half_axes[0] == pytest.approx(
        region.radius * np.sqrt(np.linalg.eigvalsh(covariance)[-1]), rel=1e-6
    )
    edge = np.asarray(region.boundary(40))
    inner, outer = ((edge - region.center) * s + region.center for s in (0.999, 1.001))
    assert np.all(region.contains(inner))
    assert not np.any(region.contains(outer))
    assert "asymptotic, by the central limit theorem, n = 400" in str(region)
    assert "ellipsoid" in str(region)
    bound = riemdp.private_frechet_variance(space, X, Ball(np.zeros(3), 2.0), GAUSSIAN, rng=5)
    safe = mean.confidence_region(1 - a, "population", dispersion=bound)
    assert region.half_axes[0] < safe.radius


def coverage(space, ball, scales, level, n, runs, seed=0):
    """How often a region holds the mean of a symmetric law, and one of the noise alone does."""
    center, rng = ball.center, np.random.default_rng(seed)
    hits, noise_only = [], []
    for run in range(runs):
        v = rng.normal(size=(n, space.dim)) * scales
        X = np.asarray(space.exp(center, space.from_coordinates(center, v)))
        mean, moment = released(space, X, ball, LOOSE, 1000 * seed + run)
        region = region_of(mean, moment, level)
        hits.append(bool(region.contains(center)))
        noise_only.append(bool(mean.confidence_region(level).contains(center)))
    return np.array(hits), np.array(noise_only)


def test_it_holds_the_mean_of_a_population_about_as_often_as_stated():
    """Noise alone, without what sampling adds, covers too little."""
    space = riemdp.Sphere(3)
    ball = Ball(np.array([0.6, 0.0, 0.8]), 0.75)
    hits, noise_only = coverage(space, ball, np.array([0.3, 0.1]), 0.8, 60, 100)
    assert coverage_p_value(hits, 0.75, at_least=True) > ALPHA  # asymptotic: nearly the level
    assert coverage_p_value(noise_only, 0.75, at_least=True) < ALPHA


@pytest.mark.slow
@pytest.mark.parametrize(
    ("space", "scales"),
    [
        (riemdp.SPDAffineInvariant(2), np.array([0.6, 0.3, 0.1])),
        (riemdp.Lorentz(3), np.array([0.8, 0.3])),
        (riemdp.Grassmann(4, 2), np.array([0.2, 0.1, 0.1, 0.05])),
    ],
    ids=repr,
)
def test_it_holds_the_mean_on_curved_spaces(space, scales):
    ball = Ball(np.asarray(off_centre(space)), 2.5 if space.is_hadamard else 0.54)
    hits, noise_only = coverage(space, ball, scales, 0.8, 80, 300)
    assert coverage_p_value(hits, 0.77, at_least=True) > ALPHA
    assert coverage_p_value(noise_only, 0.77, at_least=True) < ALPHA


def test_a_matrix_of_noise_alone_makes_a_region_too():
    """Other laws of noise, people, eigenvalues below 0: a region, and never an error."""
    space, ball = riemdp.SPDAffineInvariant(2), Ball(np.eye(2), 1.0)
    v = space.tangent_normal(3, space.origin, 0.2, (60,))
    X = np.asarray(space.exp(space.origin, v))
    for mechanism in ("wrapped-gaussian", "riemannian-laplace"):
        mean, moment = released(space, X, ball, GAUSSIAN, 1, mechanism)
        assert np.linalg.eigvalsh(np.asarray(moment.value))[0] < 0.0
        region = region_of(mean, moment, 0.9)
        assert region.radius > 0.0
        assert (region.axes is None) == (mechanism == "riemannian-laplace")
    groups = np.arange(60) // 2
    mean = riemdp.private_frechet_mean(
        space, X, ball, GAUSSIAN, mechanism="wrapped-laplace", groups=groups, rng=1
    )
    about = Ball(mean.value, 1.0)
    moment = riemdp.private_tangent_covariance(space, X, about, Budget(1.0), groups=groups, rng=2)
    assert "people" in str(region_of(mean, moment, 0.9))


def test_what_it_does_not_cover_is_refused():
    space, ball = riemdp.SPDAffineInvariant(2), Ball(np.eye(2), 1.0)
    v = space.tangent_normal(3, space.origin, 0.2, (60,))
    X = np.asarray(space.exp(space.origin, v))
    mean, moment = released(space, X, ball, GAUSSIAN, 1)

    def refused(match, mean=mean, moment=moment, **more):
        options = {"dispersion": moment, "method": "limit-theorem"} | more
        with pytest.raises(riemdp.InvalidArgument, match=match):
            mean.confidence_region(0.9, **({"of": "population"} | options))

    refused("dispersion", moment=None)
    refused("dispersion", moment=mean)
    refused("dispersion", moment=riemdp.private_frechet_variance(space, X, ball, GAUSSIAN, rng=1))
    refused("method", method="clt")
    refused("method", of="sample", dispersion=None)
    refused("private_frechet_variance", method="finite-sample")
    refused("smaller ball", moment=released(space, X, ball, GAUSSIAN, 1, reach=0.5)[1])
    refused("another", moment=dataclasses.replace(moment, facts=moment.facts.told({"n": 61})))
    at_centre = riemdp.private_tangent_covariance(space, X, ball, GAUSSIAN, rng=1)
    refused("another", moment=at_centre)
    weighted = riemdp.private_frechet_mean(
        space, X, ball, GAUSSIAN, mechanism="wrapped-gaussian", weights=np.ones(60), rng=1
    )
    refused("equally weighted", mean=weighted)
    bures = riemdp.SPDBuresWasserstein(2)
    near = Ball(np.eye(2), 0.3)
    refused("curvature", *released(bures, X, near, GAUSSIAN, 1))
