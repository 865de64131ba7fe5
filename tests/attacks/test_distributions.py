"""The noise that is really drawn, against the scale that privacy needs: a few hundred draws each.

Scales are computed here, from the sensitivity and the budget. Seeds are fixed, and the bounds leave
six standard errors: a scale wrong by a factor of sqrt 2 is far outside.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate

import riemdp
from riemdp import (
    Ball,
    Budget,
    ExtrinsicGaussian,
    ExtrinsicLaplace,
    InvalidArgument,
    RiemannianLaplace,
    TangentGaussian,
    WrappedGaussian,
    private_frechet_mean,
)
from riemdp.privacy import gaussian_noise_multiplier
from riemdp.randomness import noise_source

BUDGET = Budget(1.0, 1e-6)
Z = gaussian_noise_multiplier(BUDGET)
TRIALS = 300
NORTH = np.array([0.0, 0.0, 1.0])


def lengths(mechanism, value, base=None):
    """Distances of releases from the value, or of tangent vectors at a base."""
    source, space = noise_source(5), mechanism.manifold
    found = [mechanism.release(value, source).value for _ in range(TRIALS)]
    if base is None:
        return np.array([float(space.dist(value, x)) for x in found])
    logs = [space.log(base, x) - space.log(base, value) for x in found]
    return np.array([float(space.norm(base, v)) for v in logs])


def near(values, mean, spread):
    """The average of `values` is `mean` to six standard errors."""
    assert abs(np.mean(values) - mean) < 6 * spread / math.sqrt(len(values)), (
        np.mean(values),
        mean,
    )


def test_gaussian_on_a_sphere_is_wider_by_the_constant_of_the_logarithm():
    """R / sin R times the sensitivity, R the distance within which values lie."""
    space, ball = riemdp.Sphere(3), Ball(NORTH, 0.5)
    base = np.array([0.0, math.sin(0.2), math.cos(0.2)])
    mechanism = WrappedGaussian(space, base, sensitivity=0.01, budget=BUDGET, ball=ball)
    reach = 0.7 / math.sin(0.7)
    release = mechanism.release(NORTH, 1)
    assert release.scale >= 0.01 * Z * reach * (1 - 1e-12)
    near((lengths(mechanism, NORTH, base) / release.scale) ** 2, 2, 2.0)
    with pytest.raises(InvalidArgument):
        WrappedGaussian(space, base, sensitivity=0.01, budget=BUDGET)


def test_gaussian_of_a_tangent_vector():
    space, at = riemdp.PoincareBall(3), np.array([0.5, 0.0, 0.0])
    mechanism = TangentGaussian(space, at, sensitivity=0.2, budget=BUDGET)
    source = noise_source(5)
    found = [mechanism.release(np.zeros(3), source).value for _ in range(TRIALS)]
    square = [(float(space.norm(at, v)) / (0.2 * Z)) ** 2 for v in found]
    near(square, 3, math.sqrt(6))


def _mean_radius(density, end):
    weight = integrate.quad(density, 0, end, limit=200)[0]
    return integrate.quad(lambda r: r * density(r), 0, end, limit=200)[0] / weight


@pytest.mark.parametrize(
    ("space", "volume", "end"),
    [
        (riemdp.Euclidean(3), lambda r: r**2, 60.0),
        (riemdp.Lorentz(3), math.sinh, 60.0),
        (riemdp.PoincareBall(2), math.sinh, 60.0),
        (riemdp.Sphere(3), math.sin, math.pi),
    ],
    ids=["euclidean", "lorentz", "poincare", "sphere"],
)
def test_riemannian_laplace(space, volume, end):
    """Mean distance of the density exp(-r / s), s = sensitivity / epsilon, homogeneous spaces."""
    s = 0.4
    mechanism = RiemannianLaplace(space, sensitivity=0.2, epsilon=0.5)
    found = lengths(mechanism, space.origin)
    mean = _mean_radius(lambda r: math.exp(-r / s) * volume(r), end)
    near(found, mean, float(np.std(found)))


def test_riemannian_laplace_on_spd():
    """On SPD(2): eigenvalues e^(a +- b) about the value, volume sinh(b) da db."""
    s, space = 0.4, riemdp.SPDAffineInvariant(2)
    mechanism = RiemannianLaplace(space, sensitivity=0.2, epsilon=0.5)
    found = lengths(mechanism, np.diag([3.0, 0.5]))

    def density(r):  # over the circle a = r cos t / sqrt 2, b = r sin t / sqrt 2
        turned = integrate.quad(lambda t: math.sinh(r * math.sin(t) / math.sqrt(2)), 0, math.pi)
        return math.exp(-r / s) * r * turned[0]

    near(found, _mean_radius(density, 15.0), float(np.std(found)))


def test_laplace_needs_twice_the_scale_where_its_constant_depends_on_the_value():
    """Bures-Wasserstein is not homogeneous, and neither is a distribution truncated to a ball."""
    ball = Ball(np.eye(2), 0.2)
    assert RiemannianLaplace(
        riemdp.SPDBuresWasserstein(2), sensitivity=0.1, epsilon=1.0, ball=ball
    ).scale >= 0.2 * (1 - 1e-12)
    cut = RiemannianLaplace(
        riemdp.SPDAffineInvariant(2), sensitivity=1.0, epsilon=0.5, ball=Ball(np.eye(2), 1.0)
    )
    assert cut.scale >= 4.0 * (1 - 1e-12)
    for seed in range(20):
        value = cut.release(np.eye(2), seed).value
        assert float(riemdp.SPDAffineInvariant(2).dist(np.eye(2), value)) <= 1.0 + 1e-9
    whole = RiemannianLaplace(
        riemdp.SPDAffineInvariant(2), sensitivity=0.5, epsilon=1.0, ball=Ball(np.eye(2), 0.3)
    )
    for seed in range(20):
        value = whole.release(np.eye(2), seed).value
        assert float(riemdp.SPDAffineInvariant(2).dist(np.eye(2), value)) <= 0.3 + 1e-9


def test_ambient_noise():
    """The extrinsic baselines, on a flat space where projection does nothing."""
    space = riemdp.Euclidean(3)
    near(
        (lengths(ExtrinsicGaussian(space, sensitivity=0.1, budget=BUDGET), np.zeros(3)) / (0.1 * Z))
        ** 2,
        3,
        math.sqrt(6),
    )
    near(
        lengths(ExtrinsicLaplace(space, sensitivity=0.1, epsilon=0.5), np.zeros(3)) / 0.2,
        3,
        math.sqrt(3),
    )


def test_k_norm_scale():
    """s = 2 sensitivity of the gradient / epsilon; on a flat space twice the Laplace one's."""
    space, ball, n = riemdp.Euclidean(2), Ball(np.zeros(2), 50.0), 20
    source = noise_source(5)
    found = [
        float(
            np.linalg.norm(
                private_frechet_mean(
                    space,
                    np.zeros((n, 2)),
                    ball,
                    Budget(1.0),
                    mechanism="k-norm-gradient",
                    rng=source,
                ).value
            )
        )
        for _ in range(100)
    ]
    release = private_frechet_mean(
        space, np.zeros((n, 2)), ball, Budget(1.0), mechanism="k-norm-gradient", rng=source
    )
    assert release.scale >= 2 * (2 * 50.0 / n) * (1 - 1e-12)
    near(np.array(found) / release.scale, 2.0, math.sqrt(2.0))


def test_classical_noise():
    """sqrt(2 ln(1.25 / delta)) / epsilon, for epsilon <= 1 only."""
    space = riemdp.Euclidean(1)
    release = WrappedGaussian(
        space, np.zeros(1), sensitivity=1.0, budget=BUDGET, calibration="classical"
    ).release(np.zeros(1), 1)
    assert release.scale >= math.sqrt(2 * math.log(1.25 / 1e-6)) * (1 - 1e-12)
    with pytest.raises(InvalidArgument):
        WrappedGaussian(
            space, np.zeros(1), sensitivity=1.0, budget=Budget(1.5, 1e-6), calibration="classical"
        )


# ------------------------------------------------------------------------------------------------
# post-processing looks at the released object only
def _tangent(space, base, x):
    return np.asarray(space.to_coordinates(base, space.log(base, x)))


@pytest.mark.parametrize(
    ("name", "scale"),
    [
        ("euclidean", 0.1),
        ("euclidean", 10.0),
        ("lorentz", 2.0),
        ("lorentz", 200.0),
        ("lorentz, 12 coordinates", 200.0),
        ("affine-invariant", 0.5),
        ("log-euclidean", 2.0),
    ],
)
@pytest.mark.parametrize("distribution", ["gaussian", "laplace"])
def test_another_value_under_the_same_draw(name, scale, distribution):
    """The released point is a function of (value + noise), also where the draw is shortened.

    The noise of a seed is read off a release at a tiny scale, or drawn from another source of this
    seed (Laplace noise on a grid, up to ten coordinates: that of another scale is no multiple). At
    the real scale the release of either of two values points from the public base along value +
    noise, no farther than that. On hyperbolic space at scale 200 most draws are beyond what
    float64 holds.
    """
    space = {
        "euclidean": riemdp.Euclidean(2),
        "lorentz": riemdp.Lorentz(3),
        "lorentz, 12 coordinates": riemdp.Lorentz(12),
        "affine-invariant": riemdp.SPDAffineInvariant(2),
        "log-euclidean": riemdp.SPDLogEuclidean(2),
    }[name]
    base = space.origin

    def mechanism(s):
        if distribution == "laplace":
            return riemdp.WrappedLaplace(space, base, sensitivity=s, epsilon=1.0)
        wanted = riemdp.WrappedGaussian(space, base, sensitivity=1.0, budget=BUDGET).scale
        return riemdp.WrappedGaussian(space, base, sensitivity=s / wanted, budget=BUDGET)

    tiny, real = mechanism(1e-3), mechanism(scale)
    pair = [
        space.exp(base, space.from_coordinates(base, np.linspace(sign * 0.3, 0.2, space.dim)))
        for sign in (1, -1)
    ]
    shortened = 0
    for seed in range(12):
        noise = _tangent(space, base, tiny.release(base, seed).value) / 1e-3
        details = real.release(base, seed).details
        if distribution == "laplace" and "grid" in details:
            steps = int(real.scale / details["grid"])
            noise = noise_source(seed).laplace_integers(steps, space.dim) / steps
        for value in pair:
            wanted = _tangent(space, base, value) + scale * noise
            found = _tangent(space, base, real.release(value, seed).value)
            length, reached = float(np.linalg.norm(wanted)), float(np.linalg.norm(found))
            assert reached <= length * (1 + 1e-4)
            shortened += reached < 0.99 * length
            assert np.linalg.norm(found / reached - wanted / length) <= 1e-5
            if length < 10:
                assert reached == pytest.approx(length, rel=1e-4)
    assert (shortened > 3) == (scale == 200.0)
