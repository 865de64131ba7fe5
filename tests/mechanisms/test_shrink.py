"""James-Stein shrinking of a wrapped Gaussian: post-processing, never worse on average, and what is
stated about its error.
"""

from __future__ import annotations

import numpy as np
import pytest

import riemdp as R
from riemdp.mechanisms import WrappedGaussian
from tests.seam import Means

BUDGET = R.Budget(1.0, 1e-5)


def squared_errors(shrink, value, count=600):
    """Squared tangent errors at dimension 6."""
    manifold = R.Euclidean(6)
    m = WrappedGaussian(manifold, np.zeros(6), sensitivity=0.1, budget=BUDGET, shrink=shrink)
    x = np.stack([np.asarray(m.release(value, i).value) for i in range(count)])
    return np.sum((x - value) ** 2, axis=1), m


@pytest.mark.parametrize("distance", [0.0, 0.5, 2.0])
def test_the_bound_of_the_squared_error_knows_the_distance(distance):
    """Between what is found and the noise without shrinking, and tight far away."""
    value = distance * np.eye(6)[0]
    found, m = squared_errors(True, value, 2000)
    distribution = m.errors_at(distance)
    se = np.std(found) / np.sqrt(found.size)
    noise = 6 * m.sigma**2
    assert np.mean(found) - 4 * se <= distribution.mean_square < noise
    assert m.errors_at(2 * distance + 0.1).mean_square > distribution.mean_square
    plain = (
        noise - distribution.mean_square
    )  # what is gained, at least: (d - 2)^2 sigma^4 / (v^2 + ...)
    assert np.isclose(plain, 16 * m.sigma**4 / (distance**2 + 4 * m.sigma**2))
    if distance == 2.0:
        assert np.mean(found) > 0.9 * distribution.mean_square


def test_shrinking_looks_at_the_released_vector_alone():
    """Plain releases of two values that coincide are shrunk to one point."""
    manifold, base = R.SPDAffineInvariant(2), np.eye(2)
    kwargs = {"sensitivity": 0.1, "budget": BUDGET}
    plain = WrappedGaussian(manifold, base, **kwargs)
    shrunk = WrappedGaussian(manifold, base, shrink=True, **kwargs)
    assert shrunk.scale == plain.scale
    assert shrunk.guarantee == plain.guarantee
    for seed in range(5):
        y = manifold.log(base, plain.release(1.3 * base, seed).value)
        square = float(manifold.inner(base, y, y))
        keep = max(0.0, 1 - (manifold.dim - 2) * plain.sigma**2 / square)
        expected = manifold.exp(base, keep * np.asarray(y))
        released = shrunk.release(1.3 * base, seed)
        np.testing.assert_allclose(released.value, expected, rtol=1e-9)
        assert "shrunk" in released.details


@pytest.mark.parametrize("space", [R.Euclidean(6), R.Sphere(7)], ids=repr)
def test_without_negative_curvature_it_is_the_james_stein_estimate(space):
    noisy, deviation = np.array([3.0, 0.0, 1.0, 0.0, 0.0, 0.0]), 0.7
    kept = Means.shortened(space, space.origin, noisy, deviation, 100.0)
    np.testing.assert_allclose(kept, (1 - 4 * deviation**2 / 10) * noisy, rtol=1e-12)
    near = Means.shortened(R.Lorentz(7), R.Lorentz(7).origin, 0.1 * noisy, 0.1 * deviation, 100.0)
    np.testing.assert_allclose(near, 0.1 * kept, rtol=1e-12)
    short = Means.shortened(space, space.origin, noisy, deviation, 0.5)
    assert np.linalg.norm(short) == pytest.approx(0.5)
    pure = Means.shortened(space, space.origin, noisy, deviation, 100.0, flat=False)
    np.testing.assert_allclose(pure, noisy)
    assert not np.any(Means.shortened(space, space.origin, np.full(6, np.nan), deviation, 1.0))


@pytest.mark.parametrize(
    ("space", "distance", "gain"),
    [(R.Lorentz(6), 2.0, 0.97), (R.Lorentz(6), 9.0, 1.6), (R.SPDAffineInvariant(4), 9.0, 1.15)],
    ids=str,
)
def test_far_from_the_centre_less_of_a_noisy_vector_is_kept(space, distance, gain):
    """Noise of a tenth of the distance in all: the end of the whole noisy vector is farther from
    the truth than the end of what is kept, `gain` times or more.
    """
    rng, dim = np.random.default_rng(1), space.dim
    sigma = 0.1 * distance / np.sqrt(dim)
    errors = {"whole": [], "kept": []}
    for _ in range(40):
        truth = rng.normal(size=dim)
        truth *= distance / np.linalg.norm(truth)
        noisy = truth + sigma * rng.normal(size=dim)
        kept = Means.shortened(space, space.origin, noisy, sigma, 20.0)
        end = [
            space.exp(space.origin, space.from_coordinates(space.origin, y))
            for y in (truth, noisy, kept)
        ]
        errors["whole"].append(float(space.dist(end[0], end[1])))
        errors["kept"].append(float(space.dist(end[0], end[2])))
    rms = {k: np.sqrt(np.mean(np.square(v))) for k, v in errors.items()}
    assert rms["whole"] >= gain * rms["kept"]


# ------------------------------------------------------------------------------------------------
# where nobody decides
SPD = R.SPDAffineInvariant(3)
TANGENT = "tangent-mean"


def near(share, n):
    """n equal records at this share of the radius 2 from the identity."""
    way = SPD.from_coordinates(np.eye(3), 2.0 * share * np.eye(6)[1])
    return np.tile(SPD.exp(np.eye(3), way), (n, 1, 1))


@pytest.mark.parametrize("mechanism", ["wrapped-gaussian", TANGENT])
@pytest.mark.parametrize("n", [40, 2000])
def test_public_numbers_decide_and_noise_comes_first(mechanism, n):
    """Whatever the records are: what is released is a function of the noisy vector alone, the plan
    said which, and noise of one seed is the same whether it is shrunk or not.
    """
    ball, made = R.Ball(np.eye(3), 2.0), {}
    (row,) = [r for r in R.plan_private_mean(SPD, ball, n, BUDGET) if r.mechanism == mechanism]
    assert row.shrunk == (n == 40) == (np.sqrt(6) * row.scale > 0.2 * 2.0)
    for share in (0.0, 0.4, 0.9):
        made[share] = R.private_frechet_mean(
            SPD, near(share, n), ball, BUDGET, mechanism=mechanism, rng=3
        )
        assert ("shrunk" in made[share].details) == row.shrunk
        assert ("shrunk" in made[share].words) == row.shrunk
        seen = made[share].observation
        kept = Means.james_stein(seen.coordinates, row.scale if row.shrunk else 0.0, 2.0)
        expected = SPD.exp(np.eye(3), SPD.from_coordinates(np.eye(3), kept))
        assert float(SPD.dist(expected, made[share].value)) < 1e-6
        noise = seen.coordinates - 2.0 * share * np.eye(6)[1]
        np.testing.assert_allclose(noise, made[0.0].observation.coordinates, atol=1e-6)


def test_without_a_ball_nothing_is_known_and_nothing_is_shrunk():
    free = WrappedGaussian(SPD, np.eye(3), sensitivity=1.0, budget=BUDGET)
    assert not free.shrinks
    told = WrappedGaussian(SPD, np.eye(3), sensitivity=1.0, budget=BUDGET, shrink=True)
    assert told.shrinks
    assert told.error_distribution is None  # an error that is not known is not stated
    ball = R.Ball(1.5 * np.eye(3), 1.0)  # the value may be farther from the base than the radius
    off = WrappedGaussian(SPD, np.eye(3), sensitivity=0.027, budget=BUDGET, ball=ball)
    assert 0.2 * 1.0 < np.sqrt(6) * off.scale < 0.2 * off.largest_distance
    assert not off.shrinks
    flat = WrappedGaussian(R.Lorentz(3), R.Lorentz(3).origin, sensitivity=1.0, budget=BUDGET)
    assert not flat.shrinks  # in two dimensions there is nothing to gain


@pytest.mark.parametrize("space", [R.Lorentz(6), R.SPDAffineInvariant(3)], ids=repr)
@pytest.mark.parametrize("noise", [0.3, 2.0])
def test_the_stated_error_holds_anywhere_in_the_ball(space, noise):
    """In the most curved direction, on average and at quantiles; it says more than the noise."""
    radius, dim, rng = 2.0, space.dim, np.random.default_rng(3)
    ball = R.Ball(space.origin, radius)
    multiplier = R.privacy.gaussian_noise_multiplier(BUDGET)
    sensitivity = noise * radius / np.sqrt(dim) / multiplier
    made = {"sensitivity": sensitivity, "budget": BUDGET, "ball": ball}
    mechanism = WrappedGaussian(space, space.origin, **made)
    assert mechanism.shrinks
    distribution, plain = (
        mechanism.error_distribution,
        WrappedGaussian(space, space.origin, shrink=False, **made),
    )
    assert distribution.kind == "upper bound"
    if noise > 1.0:
        assert distribution.expected_error < 0.7 * plain.error_distribution.expected_error
    for share in (0.0, 0.5, 1.0):
        mean = share * radius * np.eye(dim)[0]
        noisy = mean + mechanism.sigma * rng.normal(size=(400, dim))
        kept = np.stack([Means.james_stein(y, mechanism.sigma, np.inf) for y in noisy])
        ends = [
            space.exp(space.origin, space.from_coordinates(space.origin, c)) for c in (mean, kept)
        ]
        errors = np.asarray(space.dist(*ends))
        room = 4 * np.std(errors**2) / np.sqrt(errors.size)
        assert np.mean(errors**2) - room <= distribution.mean_square
        for q in (0.5, 0.9, 0.99):
            assert np.mean(errors <= distribution.quantile(q)) >= q - 4 * np.sqrt(q * (1 - q) / 400)
        if share == 1.0 and isinstance(space, R.Lorentz):  # there it is nearly attained
            assert np.mean(errors**2) >= 0.8 * distribution.mean_square


@pytest.mark.parametrize(("dim", "chance"), [(3, 0.006), (6, 0.001), (30, 0.001)])
def test_the_stated_quantiles_hold_between_those_of_the_table(dim, chance):
    """The first quantiles bend down, so that a chord between two of them lies below: it was up to
    1.7 times too small.
    """
    space, radius, rng = R.Lorentz(dim + 1), 6.0, np.random.default_rng(4)
    sigma = 0.2 * radius / np.sqrt(dim)
    budget = {"budget": BUDGET, "ball": R.Ball(space.origin, radius)}
    multiplier = R.privacy.gaussian_noise_multiplier(BUDGET)
    made = WrappedGaussian(
        space, space.origin, sensitivity=sigma / multiplier, shrink=True, **budget
    )
    noisy = made.sigma * rng.normal(size=(60_000, dim))
    noisy[:, 0] += radius
    length = np.linalg.norm(noisy, axis=1)
    kept = np.maximum(0.0, length - (dim - 2) * made.sigma**2 / length)
    half = (1.0 - noisy[:, 0] / length) / 2.0
    across = np.sinh(radius) * np.sinh(kept) * half
    errors = 2.0 * np.arcsinh(np.sqrt(np.sinh((radius - kept) / 2.0) ** 2 + across))
    for q in (chance, 0.5012, 0.9513, 0.9989):
        below = np.mean(errors <= made.error_distribution.quantile(q))
        assert below >= q - 4 * np.sqrt(q * (1 - q) / len(errors))


@pytest.mark.parametrize("unit", [1e80, 1e99])
def test_a_shrunk_mean_is_released_in_any_unit(unit):
    """The fourth power of the noise overflowed, after the charge."""
    space, X = R.Euclidean(3), np.random.default_rng(0).normal(size=(400, 3))

    def made(scale):
        return R.private_frechet_mean(
            space,
            scale * X,
            R.Ball(np.zeros(3), 2.0 * scale),
            R.Budget(1.0, 1e-6),
            mechanism="wrapped-gaussian",
            rng=0,
        )

    assert made(unit).expected_error == pytest.approx(unit * made(1.0).expected_error, rel=1e-6)
