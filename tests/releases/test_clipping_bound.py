"""The private bound of what clipping did to a mean: value, sensitivity, noise, coverage, charge."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
import pytest

import riemdp
from riemdp import Ball, Budget
from riemdp.audit import gaussian_mu_lower_bound
from riemdp.mechanisms import ClippingBoundNoise
from riemdp.privacy import gaussian_noise_multiplier, split_budget
from riemdp.statistics import ClippingExcess
from tests.seam import Sums
from tests.statistical import ALPHA, coverage_p_value, gaussian_p_value, ks_p_value

GAUSSIAN, PURE = Budget(1.0, 1e-6), Budget(1.0)
SPACES = [
    riemdp.Euclidean(3),
    riemdp.SPDAffineInvariant(2),
    riemdp.Sphere(3),
    riemdp.Lorentz(3),
    riemdp.Product(riemdp.SPDLogEuclidean(2), riemdp.Sphere(3)),
]


def records(space, n=40, spread=0.5, key=5):
    v = space.tangent_normal(key, space.origin, spread, (n,))
    return jax.tree.map(np.array, space.exp(space.origin, v))


def seen(release):
    """The noisy number."""
    assert release.observation is not None
    return release.observation.coordinates


def one(X, i):
    return jax.tree.map(lambda leaf: leaf[i], X)


@pytest.mark.parametrize("space", SPACES, ids=repr)
def test_the_value_is_the_mean_length_outside_the_ball(space):
    X, r, reach = records(space), 0.4, 0.9
    query = ClippingExcess(Ball(space.origin, r).on(space), 40, reach=reach)
    lengths = []
    for i in range(40):
        d = float(space.dist(space.origin, one(X, i)))
        lengths.append(0.0 if d <= r else d - r if d <= reach else reach - r)
    assert max(lengths) > 0.0
    assert float(query.value(query.prepare(X))) == pytest.approx(np.mean(lengths), rel=1e-9)


@pytest.mark.parametrize("space", SPACES, ids=repr)
def test_one_record_moves_the_bound_by_no_more_than_its_sensitivity(space):
    """A record in the ball and one at the reach attain it; what is no point is the centre."""
    r, reach, n = 0.2, 0.5, 40
    query = ClippingExcess(Ball(space.origin, r).on(space), n, reach=reach)
    away = space.from_coordinates(space.origin, 0.7 * np.eye(space.dim)[0])
    far = space.exp(space.origin, away)
    broken = jax.tree.map(lambda leaf: np.full(np.shape(leaf), np.nan), far)
    values = []
    for x in (space.origin, far, broken):
        X = records(space)
        for leaf, own in zip(jax.tree.leaves(X), jax.tree.leaves(x), strict=True):
            leaf[3] = own
        values.append(float(query.value(query.prepare(X))))
    assert values[0] == values[2]
    assert 0.999 * (reach - r) / n < values[1] - values[0] <= query.sensitivity
    assert query.sensitivity < 1.001 * (reach - r) / n


@pytest.mark.parametrize(
    "space",
    [riemdp.SPDAffineInvariant(2), pytest.param(riemdp.Lorentz(3), marks=pytest.mark.slow)],
    ids=repr,
)
def test_clipping_moves_a_mean_by_no_more_than_the_bound(space):
    """The lemma itself, by the public solver: lopsided records, small balls."""
    for key in range(3):
        v = space.tangent_normal(key, space.origin, 1.0, (9,))
        v = np.abs(np.asarray(space.to_coordinates(space.origin, v)))
        X = space.exp(space.origin, space.from_coordinates(space.origin, v))
        ball, wide = Ball(space.origin, 0.4), Ball(space.origin, 2.0)
        means = [riemdp.frechet_mean(space, b.clamp(space, X)).value for b in (ball, wide)]
        query = ClippingExcess(ball.on(space), 9, reach=2.0)
        bound = float(query.value(query.prepare(X)))
        moved = float(space.dist(*means))
        assert 0.3 * bound < moved <= bound * (1.0 + 1e-9)


@pytest.mark.parametrize("budget", [GAUSSIAN, PURE], ids=str)
def test_the_noise_is_that_of_the_sensitivity(budget):
    """Every draw, before it is moved into [0, R - r]; noise times 0.8 (0.6) is noticed."""
    n, r, reach = 25, 0.5, 2.5
    plane = riemdp.Euclidean(2)
    X = np.random.default_rng(1).normal(size=(n, 2))
    ball = Ball(np.zeros(2), r)
    mechanism = ClippingBoundNoise(plane, ball, n=n, reach=reach, budget=budget)
    excess = np.mean(np.clip(np.linalg.norm(X, axis=1) - r, 0.0, reach - r))
    releases = [mechanism.release(X, i) for i in range(900)]
    noise = np.array([seen(rel) - excess for rel in releases])
    if budget.delta:
        scale = (reach - r) / n * gaussian_noise_multiplier(budget)
        assert gaussian_p_value(noise, scale) > ALPHA
        assert gaussian_p_value(0.8 * noise, scale) < ALPHA
    else:
        scale = (reach - r) / n / budget.epsilon

        def law(x):
            return np.where(x < 0, 0.5 * np.exp(x / scale), 1 - 0.5 * np.exp(-x / scale))

        assert ks_p_value(noise, law) > ALPHA
        assert ks_p_value(0.6 * noise, law) < ALPHA
    assert scale <= releases[0].scale < 1.001 * scale
    values = np.array([float(rel.value) for rel in releases])
    np.testing.assert_array_equal(values, np.clip(noise[:, 0] + excess, 0.0, reach - r))


@pytest.mark.filterwarnings("ignore::riemdp.RiemdpWarning")
def test_a_region_with_the_bound_holds_the_mean_before_clipping():
    """Where clipping moves the mean far, the region without the bound hardly ever holds it."""
    line, ball = riemdp.Euclidean(1), Ball(np.zeros(1), 0.5)
    X = np.repeat([[0.2], [2.5]], [30, 10], axis=0)
    truth, level = X.mean(axis=0), 0.8
    budget = Budget(6.0, 1e-3)
    hits, without, unpaid = [], [], []
    for seed in range(50):
        mean = riemdp.private_frechet_mean(
            line, X, ball, budget, mechanism="wrapped-gaussian", rng=2 * seed
        )
        moved = riemdp.private_clipping_bound(line, X, ball, budget, reach=3.0, rng=2 * seed + 1)
        region = mean.confidence_region(level, clipping=moved)
        hits.append(bool(region.contains(truth)))
        without.append(bool(mean.confidence_region(level).contains(truth)))
        half = dataclasses.replace(region, radius=0.8 * region.radius)
        unpaid.append(bool(half.contains(truth)))
    assert coverage_p_value(np.array(hits), level, at_least=True) > ALPHA
    assert coverage_p_value(np.array(without), level, at_least=True) < ALPHA
    assert coverage_p_value(np.array(unpaid), level, at_least=True) < ALPHA


def test_the_radius_is_that_of_its_formula():
    from scipy import stats

    space, n, a, r, reach = riemdp.SPDAffineInvariant(2), 300, 0.1, 0.4, 3.0
    X, ball = records(space, n), Ball(np.eye(2), 0.4)
    mean = riemdp.private_frechet_mean(
        space, X, ball, GAUSSIAN, mechanism="wrapped-gaussian", rng=1
    )
    moved = riemdp.private_clipping_bound(space, X, ball, GAUSSIAN, reach=reach, rng=2)
    region = mean.confidence_region(1 - a, clipping=moved)
    upper = float(seen(moved)[0]) + stats.norm.isf(0.2 * a) * moved.scale
    expected = mean.scale * stats.chi(3).isf(0.8 * a) + min(max(upper, 0.0), reach - r)
    assert region.radius == pytest.approx(expected, rel=1e-6)
    assert region.of == "sample"
    assert "clamped at distance 3 from the centre" in str(region)
    assert "outside the ball" in str(moved.confidence_region())


def test_balls_that_were_found_and_spaces_of_positive_curvature():
    space = riemdp.SPDAffineInvariant(2)
    X = records(space, 600, 0.6)
    mean = riemdp.private_frechet_mean(space, X, None, GAUSSIAN, rng=1)
    found = mean.details["ball"]
    moved = riemdp.private_clipping_bound(space, X, found, GAUSSIAN, reach=20.0, rng=2)
    region = mean.confidence_region(0.999, clipping=moved)
    assert bool(region.contains(riemdp.frechet_mean(space, X).value))
    sphere = riemdp.Sphere(3)
    Y, cap = records(sphere, 200), Ball(sphere.origin, 0.5)
    of_tangents = riemdp.private_frechet_mean(
        sphere, Y, cap, GAUSSIAN, mechanism="tangent-mean", rng=3
    )
    wide = riemdp.private_clipping_bound(sphere, Y, cap, GAUSSIAN, reach=3.0, rng=4)
    y = np.asarray(sphere.to_coordinates(sphere.origin, sphere.log(sphere.origin, Y))).mean(axis=0)
    end = sphere.exp(sphere.origin, sphere.from_coordinates(sphere.origin, y))
    region = of_tangents.confidence_region(0.999, clipping=wide)
    assert bool(region.contains(end))
    assert "tangent vectors" in str(region)


def test_the_front_door_keeps_its_promise():
    """The best attack on the worst pair; a twelfth of the noise is found at once."""
    line, ball, n = riemdp.Euclidean(1), Ball(np.zeros(1), 1.0), 4
    pair = [np.concatenate([np.zeros((3, 1)), [[x]]]) for x in (1e9, 0.0)]
    scores = [
        np.array(
            [
                seen(
                    riemdp.private_clipping_bound(
                        line, X, ball, GAUSSIAN, reach=2.0, rng=1000 * k + i
                    )
                )[0]
                for i in range(100)
            ]
        )
        for k, X in enumerate(pair)
    ]
    mu = 1.0 / gaussian_noise_multiplier(GAUSSIAN)
    assert gaussian_mu_lower_bound(scores[0], scores[1]) <= mu
    planted = [m + (s - m) / 12.0 for m, s in zip((1.0 / n, 0.0), scores, strict=True)]
    assert gaussian_mu_lower_bound(planted[0], planted[1]) > mu


def test_regions_that_no_bound_is_known_for_are_refused():
    space, ball = riemdp.SPDAffineInvariant(2), Ball(np.eye(2), 0.5)
    X = records(space)
    moved = riemdp.private_clipping_bound(space, X, ball, GAUSSIAN, reach=3.0, rng=1)
    spread = riemdp.private_frechet_variance(space, X, ball, GAUSSIAN, rng=1)

    def refused(match, mean, clipping=moved, of="sample", **more):
        with pytest.raises(riemdp.InvalidArgument, match=match):
            mean.confidence_region(0.9, of, clipping=clipping, **more)

    def mean_of(where=ball, records=X, **options):
        options = {"mechanism": "wrapped-gaussian", "rng": 1, **options}
        return riemdp.private_frechet_mean(space, records, where, GAUSSIAN, **options)

    refused("clipping", mean_of(), spread)
    refused("another", mean_of(Ball(np.eye(2), 0.6)))
    refused("another", mean_of(Ball(2 * np.eye(2), 0.5)))
    refused("another", mean_of(records=X[:-1]))
    refused("equally weighted", mean_of(weights=np.ones(40)))
    refused("equally weighted", mean_of(n_min=20))
    refused("people", mean_of(groups=np.arange(40)))
    whose = np.arange(40) // 2
    people = riemdp.private_clipping_bound(space, X, ball, GAUSSIAN, reach=3.0, groups=whose, rng=1)
    refused("people", mean_of(), people)
    refused("another", mean_of(groups=np.arange(40) // 4), people)
    many, names = records(space, 600), np.arange(600) // 2
    found = riemdp.private_frechet_mean(space, many, None, GAUSSIAN, groups=names, rng=1)
    where = found.details["ball"]
    for_found = riemdp.private_clipping_bound(
        space, many, where, GAUSSIAN, reach=9.0, groups=names, rng=2
    )
    refused("was found", found, for_found)
    refused("equally weighted", spread)
    refused("sample", mean_of(), of="population", dispersion=spread)
    sphere = riemdp.Sphere(3)
    Y, cap = records(sphere), Ball(sphere.origin, 0.5)
    wide = riemdp.private_clipping_bound(sphere, Y, cap, GAUSSIAN, reach=3.0, rng=2)
    round_ = riemdp.private_frechet_mean(
        sphere, Y, cap, GAUSSIAN, mechanism="wrapped-gaussian", rng=1
    )
    refused("Hadamard", round_, wide)
    tangents, of_people = (
        riemdp.private_frechet_mean(
            sphere, Y, cap, GAUSSIAN, mechanism="tangent-mean", groups=whose, rng=1
        ),
        riemdp.private_clipping_bound(sphere, Y, cap, GAUSSIAN, reach=3.0, groups=whose, rng=2),
    )
    refused("Hadamard", tangents, of_people)


# ------------------------------------------------------------------------------- people
LABELS = [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]


def of_people(query, X, labels):
    return float(query.value(query.prepare(Sums.GroupedRecords(query.domain.manifold, X, labels))))


@pytest.mark.parametrize("space", SPACES[:4], ids=repr)
def test_one_person_moves_the_bound_by_no_more_than_its_sensitivity(space):
    """With one record at the centre, then with 60 at ten times the reach, which attains it."""
    query = ClippingExcess(Ball(space.origin, 0.2).on(space), 5, reach=0.5)
    away = space.from_coordinates(space.origin, 0.7 * np.eye(space.dim)[0])
    rest, far = records(space, 12), np.asarray(space.exp(space.origin, away))
    one = np.concatenate([rest, np.asarray(space.origin)[None]])
    many = np.concatenate([rest, np.tile(far, (60, *[1] * far.ndim))])
    low = of_people(query, one, [*LABELS, 9])
    high = of_people(query, many, [*LABELS, *[9] * 60])
    assert 0.999 * 0.3 / 5 < high - low <= query.sensitivity
    # what is no point is left out, wherever it stands; where nothing is left, it is the centre
    broken = np.full((30, *far.shape), np.nan)
    mixed = np.concatenate([broken[:7], many, broken])
    labels = [*[9] * 7, *LABELS, *[9] * 60, *[9] * 30]
    assert of_people(query, mixed, labels) == high
    nothing = np.concatenate([rest, broken])
    assert of_people(query, nothing, [*LABELS, *[9] * 30]) == low


def test_lengths_of_people_are_means_of_their_own_records():
    line, ball = riemdp.Euclidean(1), Ball(np.zeros(1), 1.0)
    X = np.array([[0.5], [3.0], [np.nan], [-2.0], [0.0], [9.0]])
    labels = ["a", "a", "a", "b", "b", "c"]
    query = ClippingExcess(ball.on(line), 3, reach=5.0)
    terms = query.prepare(Sums.GroupedRecords(line, X, labels)).points
    np.testing.assert_array_equal(terms, [1.0, 0.5, 4.0])
    order = np.array([5, 3, 2, 0, 4, 1])
    mixed = query.prepare(Sums.GroupedRecords(line, X[order], np.array(labels)[order])).points
    np.testing.assert_array_equal(mixed, terms)
    with pytest.raises(riemdp.InvalidArgument, match="n = 3"):
        query.prepare(Sums.GroupedRecords(line, X[:5], labels[:5]))


@pytest.mark.parametrize("space", [riemdp.SPDAffineInvariant(2), riemdp.Lorentz(3)], ids=repr)
def test_clipping_moves_a_mean_of_people_by_no_more_than_the_bound(space):
    """The lemma itself: clipping of records, then means of people, then their mean."""

    labels = np.repeat([0, 1, 2, 3], [1, 2, 5, 9])
    v = np.abs(np.random.default_rng(3).normal(size=(17, space.dim)))
    X = np.asarray(space.exp(space.origin, space.from_coordinates(space.origin, v)))
    means = []
    for radius in (0.4, 2.0):
        own = Sums.people(space, X, labels, domain=Ball(space.origin, radius).on(space)).points
        inside = Ball(space.origin, radius).clamp(space, own)
        means.append(riemdp.frechet_mean(space, inside).value)
    query = ClippingExcess(Ball(space.origin, 0.4).on(space), 4, reach=2.0)
    bound, moved = of_people(query, X, labels), float(space.dist(*means))
    assert 0.3 * bound < moved <= bound * (1.0 + 1e-8)


def test_the_bound_of_people_widens_the_region_of_their_mean():
    space, ball = riemdp.SPDAffineInvariant(2), Ball(np.eye(2), 0.4)
    X, whose = records(space, 300), np.arange(300) // 3
    parts = split_budget(Budget(20.0, 1e-5), [0.8, 0.2])
    with riemdp.Ledger(Budget(20.0, 1e-5)) as ledger:
        mean = riemdp.private_frechet_mean(
            space, X, ball, parts[0], mechanism="wrapped-gaussian", groups=whose, rng=1
        )
        moved = riemdp.private_clipping_bound(
            space, X, ball, parts[1], reach=3.0, groups=whose, rng=2
        )
    assert (ledger.spent.unit, ledger.charges) == ("person", 2)
    assert moved.guarantee.unit == "person"
    assert (moved.details["people"], moved.details["n"]) == (100, 100)
    assert moved.sensitivity == pytest.approx(2.6 / 100, rel=1e-9)
    region = mean.confidence_region(0.999, clipping=moved)

    points = Sums.people(space, X, whose).points
    assert bool(region.contains(riemdp.frechet_mean(space, points).value))
    assert "one point a person" in str(region)
    assert "100 people" in riemdp.report.privacy_report(moved).html()
    with pytest.raises(riemdp.InvalidArgument, match="groups"), ledger:
        riemdp.private_clipping_bound(space, X, ball, parts[1], reach=3.0, groups=whose[:-1])
    assert ledger.charges == 2
