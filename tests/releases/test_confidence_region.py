"""Confidence regions hold what they are of with the stated probability, and look at nothing but the
release.
"""

from __future__ import annotations

import dataclasses
import pathlib
import pickle
import sys

import numpy as np
import pytest

import riemdp
from riemdp import AdaptiveBall, Ball, Budget
from riemdp.mechanisms import AdaptiveMean, TangentMeanNoise
from riemdp.statistics import FrechetMean
from tests.seam import Means
from tests.statistical import ALPHA, coverage_p_value

GAUSSIAN, PURE = Budget(1.0, 1e-6), Budget(1.0)
LEVELS = 0.5, 0.8
RUNS = 250
SPACES = {
    "affine-invariant": riemdp.SPDAffineInvariant(2),
    "log-euclidean": riemdp.SPDLogEuclidean(2),
    "sphere": riemdp.Sphere(4),
    "hyperbolic": riemdp.Lorentz(4),
    "euclidean": riemdp.Euclidean(3),
}


def records(space, n=12, spread=0.3, key=0):
    """Records about a centre that is not the origin, some of them outside the ball."""
    keys = np.random.default_rng(key).spawn(2)
    center = space.exp(space.origin, space.tangent_normal(keys[0], space.origin, 0.2))
    v = space.tangent_normal(keys[1], center, spread, (n,))
    return center, np.asarray(space.exp(center, v))


def mean_of_clamped(space, X, ball):
    """An oracle: the records clamped in the user's space, and the public solver."""
    return riemdp.frechet_mean(space, ball.clamp(space, X)).value


def tangent_mean(space, X, ball):
    """An oracle: logarithms shortened one by one with NumPy."""
    y = np.asarray(space.to_coordinates(ball.center, space.log(ball.center, X)))
    length = np.linalg.norm(y, axis=1)
    y = y * np.minimum(1.0, ball.radius / length)[:, None]
    return space.exp(ball.center, space.from_coordinates(ball.center, y.mean(axis=0)))


MECHANISMS = ["wrapped-gaussian", "tangent-mean"]


def cases():
    """All of them; one is quick."""
    for name in SPACES:
        for mechanism in MECHANISMS:
            quick = (name, mechanism) == ("affine-invariant", "wrapped-gaussian")
            yield pytest.param(name, mechanism, marks=[] if quick else [pytest.mark.slow])


@pytest.mark.parametrize(("name", "mechanism"), cases())
def test_a_region_holds_the_mean_as_often_as_stated(name, mechanism):
    """From the front door, with records outside the ball; a scale that is stated 0.8 times as large
    as the noise is noticed.
    """
    space = SPACES[name]
    center, X = records(space)
    ball = Ball(center, 0.5)
    oracle = tangent_mean if mechanism == "tangent-mean" else mean_of_clamped
    target = oracle(space, X, ball)
    assert not bool(np.all(np.asarray(ball.contains(space, X))))

    def release(seed: int) -> riemdp.Release:
        return riemdp.private_frechet_mean(space, X, ball, GAUSSIAN, mechanism=mechanism, rng=seed)

    offsets = np.array([float(release(i).observation.offsets(target)) for i in range(RUNS)])
    narrow, wide = (release(0).confidence_region(level).radius for level in LEVELS)
    assert coverage_p_value(offsets <= narrow, LEVELS[0]) > ALPHA
    assert coverage_p_value(offsets <= wide, LEVELS[1]) > ALPHA
    assert coverage_p_value(offsets <= narrow / 0.8, LEVELS[0]) < ALPHA
    assert coverage_p_value(offsets <= 0.8 * wide, LEVELS[1]) < ALPHA


@pytest.mark.slow
@pytest.mark.parametrize("name", SPACES)
def test_a_region_without_a_ball_holds_the_mean_as_often_as_stated(name):
    """The ball is another one in every run: the region is of the mean of the records clamped to
    that one.
    """
    space, budget = SPACES[name], Budget(4.0, 1e-6)
    _, X = records(space, 120)
    start = Ball(space.origin, 20.0) if name == "euclidean" else None
    oracle = tangent_mean if name == "sphere" else mean_of_clamped
    mechanism = AdaptiveMean(space, AdaptiveBall(start), n=len(X), budget=budget)
    shares = []
    for seed in range(2 * RUNS):  # so many show that four fifths of the radius are too few
        release = mechanism.release(X, seed)
        target = oracle(space, X, release.details["ball"])
        shares.append(
            float(release.observation.offsets(target)) / release.confidence_region(LEVELS[1]).radius
        )
    assert coverage_p_value(np.array(shares) <= 1.0, LEVELS[1]) > ALPHA
    assert coverage_p_value(np.array(shares) <= 0.8, LEVELS[1]) < ALPHA


@pytest.mark.slow
def test_a_region_of_laplace_noise_holds_the_mean_as_often_as_stated():
    """Pure budgets: in the tangent space exactly, about the released point at least as often."""
    space = SPACES["hyperbolic"]
    center, X = records(space)
    ball = Ball(center, 0.5)
    target = mean_of_clamped(space, X, ball)

    def offsets(mechanism: str, budget: Budget) -> np.ndarray:
        found = []
        for seed in range(RUNS):
            release = riemdp.private_frechet_mean(
                space, X, ball, budget, mechanism=mechanism, rng=seed
            )
            radius = release.confidence_region(LEVELS[1]).radius
            found.append(float(release.observation.offsets(target)) / radius)
        return np.array(found)

    wrapped = offsets("wrapped-laplace", PURE)
    assert coverage_p_value(wrapped <= 1.0, LEVELS[1]) > ALPHA
    assert coverage_p_value(wrapped <= 0.7, LEVELS[1]) < ALPHA
    # a release moved into the ball is no farther from the mean, so the region holds it more often
    drawn = offsets("riemannian-laplace", Budget(2.0))
    assert coverage_p_value(drawn <= 1.0, LEVELS[1], at_least=True) > ALPHA
    assert coverage_p_value(drawn <= 0.5, LEVELS[1], at_least=True) < ALPHA


@pytest.mark.parametrize(
    "space",
    [riemdp.SPDAffineInvariant(2), riemdp.Grassmann(4, 2), riemdp.SPDBuresWasserstein(2)],
    ids=repr,
)
def test_where_the_radial_distribution_is_no_formula_a_longer_one_takes_its_place(space):
    scale = 0.25
    distribution = Means.riemannian_laplace_bound(space, scale)
    drawn = riemdp.riemannian_laplace(3, space, space.origin, scale, (400,))
    distances = np.asarray(space.dist(space.origin, drawn))
    for level in LEVELS:
        inside = distances <= distribution.quantile(level)
        assert coverage_p_value(inside, level, at_least=True) > ALPHA
        inside = distances <= 0.6 * distribution.quantile(level)
        assert coverage_p_value(inside, level, at_least=True) < ALPHA


def test_what_follows_the_noise_does_not_move_the_region():
    """Shrinking, and moving the release into the ball, look at the noisy vector alone."""
    space = SPACES["affine-invariant"]
    center, X = records(space)
    ball = Ball(center, 0.5)

    moved = riemdp.private_frechet_mean(
        space, X, ball, Budget(0.3, 1e-6), mechanism="wrapped-gaussian", count_outside=False, rng=1
    )
    mean = FrechetMean(ball.on(space), len(X))
    value, kept = mean.value(mean.prepare(X)), ball.on(space).frame.local
    region = moved.confidence_region()
    for shrink in (False, True):
        made = riemdp.WrappedGaussian(
            kept.manifold,
            kept.center,
            sensitivity=mean.sensitivity,
            budget=Budget(0.3, 1e-6),
            shrink=shrink,
        ).release(value, 1)
        back = ball.on(space).frame.back(made.value)
        assert not np.allclose(moved.value, back, rtol=1e-3)
        same = ball.on(space).frame.back(made.confidence_region().center)
        np.testing.assert_allclose(same, region.center, rtol=1e-6)
        if not shrink:
            np.testing.assert_allclose(back, region.center, rtol=1e-6)


def test_a_tolerance_widens_the_region():
    space = SPACES["affine-invariant"]
    center, X = records(space)
    ball = Ball(center, 0.5)
    release = riemdp.private_frechet_mean(
        space, X, ball, GAUSSIAN, mechanism="wrapped-gaussian", rng=1
    )
    seen = release.observation
    bound = FrechetMean(ball.on(space), len(X)).error_bound
    assert bound > 0
    assert seen.slack >= bound
    wider = seen.within(ball.on(space), 1e-3)
    other = dataclasses.replace(release, observation=wider)
    extra = other.confidence_region().radius - release.confidence_region().radius
    assert extra == pytest.approx(1e-3, rel=1e-9)


def test_a_region_is_made_of_the_release_alone():
    """A release that was stored and read again, without any record, gives the same region."""
    space = SPACES["affine-invariant"]
    _, X = records(space, 200)
    release = riemdp.private_frechet_mean(space, X, None, Budget(2.0, 1e-6), rng=4)
    stored = pickle.loads(pickle.dumps(release))
    region, again = release.confidence_region(0.9), stored.confidence_region(0.9)
    assert again.radius == region.radius
    np.testing.assert_array_equal(again.center, region.center)
    np.testing.assert_array_equal(again.contains(X), region.contains(X))
    assert str(again) == str(region)


@pytest.mark.parametrize(
    "space",
    [
        riemdp.Lorentz(3),
        pytest.param(riemdp.Sphere(3), marks=pytest.mark.slow),
        pytest.param(riemdp.SPDLogEuclidean(2), marks=pytest.mark.slow),
    ],
    ids=repr,
)
def test_the_edge_is_the_edge(space):
    center, X = records(space)
    release = riemdp.private_frechet_mean(
        space, X, Ball(center, 0.5), Budget(4.0, 1e-6), mechanism="wrapped-gaussian", rng=2
    )
    region = release.confidence_region()
    edge = region.boundary(24)
    assert edge.shape == (24, *space.shape)
    np.testing.assert_allclose(release.observation.offsets(edge), region.radius, rtol=1e-7)
    if space.dim == 2:
        np.testing.assert_allclose(edge[0], edge[-1], atol=1e-9)
    assert bool(region.contains(region.center))
    for factor, inside in ((0.99, True), (1.01, False)):
        other = dataclasses.replace(region, radius=factor * region.radius)
        assert np.all(np.asarray(region.contains(other.boundary(24))) == inside)
    bad = np.full((2, *space.shape), np.nan)
    bad[0] = np.asarray(region.center)
    assert region.contains(bad).tolist() == [True, False]


def test_no_region_where_the_distribution_of_the_error_is_not_known():
    space = SPACES["hyperbolic"]
    center, X = records(space)
    ball = Ball(center, 0.5)
    for mechanism in ("dp-rgd", "extrinsic-gaussian", "k-norm-gradient"):
        release = riemdp.private_frechet_mean(
            space, X, ball, Budget(4.0, 1e-6), mechanism=mechanism, rng=1
        )
        with pytest.raises(riemdp.InvalidArgument, match="wrapped-gaussian"):
            release.confidence_region()
    few = riemdp.private_frechet_mean(
        space, X[:2], ball, Budget(0.5), mechanism="riemannian-laplace", rng=1
    )
    assert few.details["distribution"] == "truncated to the ball"
    with pytest.raises(riemdp.InvalidArgument, match="not known"):
        few.confidence_region()
    found = riemdp.private_ball(space, records(space, 200)[1], AdaptiveBall(), GAUSSIAN, rng=1)
    with pytest.raises(riemdp.InvalidArgument, match="private-ball"):
        found.confidence_region()


def test_the_gradient_of_a_loss_of_ones_own_is_not_the_distance():
    """On flat spaces the K-norm gradient of the mean has the Laplace distribution; of another loss
    it does not.
    """
    flat, X = riemdp.Euclidean(2), np.zeros((8, 2))
    ball = Ball(np.zeros(2), 1.0)
    mean = riemdp.private_frechet_mean(flat, X, ball, PURE, mechanism="k-norm-gradient", rng=1)
    assert mean.confidence_region().radius > 0
    own = riemdp.KNormGradient(
        flat, objective_gradient=lambda x: 3.0 * x, sensitivity=0.1, epsilon=1.0
    )
    with pytest.raises(riemdp.InvalidArgument, match="k-norm-gradient"):
        own.release(np.zeros(2), 1).confidence_region()


def test_a_region_says_what_it_is_of():
    space = SPACES["euclidean"]
    X, ball = np.zeros((30, 3)), Ball(np.zeros(3), 1.0)
    release = riemdp.private_frechet_mean(
        space, X, ball, GAUSSIAN, mechanism="wrapped-gaussian", rng=1
    )
    region = release.confidence_region(0.9)
    assert (region.level, region.of) == (0.9, "sample")
    assert str(region).startswith("90 % confidence: the Fréchet mean of the clamped records lies")
    shown = float(str(region).split("within ")[1].split(" ")[0])
    assert region.radius <= shown <= 1.002 * region.radius
    lacking = riemdp.private_frechet_mean(space, X, ball, GAUSSIAN, n_min=40, rng=1)
    assert "centres that fill them up" in str(lacking.confidence_region())
    clipped = TangentMeanNoise(space, ball, n=30, budget=GAUSSIAN).release(X, 1)
    assert "the value before noise" in str(clipped.confidence_region())
    page = riemdp.report.privacy_report(release)
    assert dict(page.rows)["Confidence region"].startswith("with 95")
    stated = page.to_dict()["confidence_region"]
    assert stated["radius"] == release.confidence_region().radius
    assert stated["level"] == 0.95


@pytest.mark.parametrize("level", [0.0, 1.0, np.nan, "0.9"])
def test_a_level_is_a_probability(level):
    release = riemdp.private_frechet_mean(
        riemdp.Euclidean(1), np.zeros((9, 1)), Ball(np.zeros(1), 1.0), PURE, rng=1
    )
    with pytest.raises(riemdp.InvalidArgument, match="level"):
        release.confidence_region(level)
    with pytest.raises(riemdp.InvalidArgument, match="of"):
        release.confidence_region(of="everything")


def test_the_representation_of_a_release_computes_nothing():
    space = SPACES["affine-invariant"]
    center, X = records(space)
    release = riemdp.private_frechet_mean(
        space, X, Ball(center, 0.5), GAUSSIAN, mechanism="wrapped-gaussian", rng=1
    )
    called = set()

    def watch(frame, event, argument):
        if event == "call" and "riemdp" in frame.f_code.co_filename:
            called.add(pathlib.Path(frame.f_code.co_filename).name)

    sys.setprofile(watch)
    try:
        shown = repr(release)
    finally:
        sys.setprofile(None)
    assert called <= {"_release.py", "_budget.py"}
    assert "NOT PRIVATE" in shown
    assert "wrapped-gaussian" in shown
