"""`groups=`: a person's point is a function of that person's records alone, sensitivities hold for
people, and nothing public tells how many records anybody has.
"""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pytest

import riemdp
from riemdp import Ball, Budget, InvalidArgument, Ledger
from riemdp.privacy import gaussian_noise_multiplier
from riemdp.report import privacy_report
from riemdp.statistics import FrechetMean
from tests.seam import Sums

BUDGET = Budget(1.0, 1e-6)
PLANE, SPD, SPHERE = riemdp.Euclidean(2), riemdp.SPDAffineInvariant(2), riemdp.Sphere(3)
SPACES = [PLANE, SPD, SPHERE]
LABELS = np.repeat(np.arange(6), [1, 2, 3, 4, 2, 3])


def records(space, n, seed=5, spread=0.4):
    v = space.tangent_normal(seed, space.origin, spread, (n,))
    return np.array(space.exp(space.origin, v))


def hostile(space, n):
    """Records far outside the ball on one side, duplicates, NaN, infinity and no points."""
    far = np.array(
        space.exp(space.origin, space.from_coordinates(space.origin, [1.4, 0.0, 0.0][: space.dim]))
    )
    X = np.tile(far, (n, *[1] * len(space.shape)))
    X[1::7], X[2::7], X[3::7] = np.nan, np.inf, 1e300
    return X


# ------------------------------------------------------------------------ one point a person
def test_a_persons_mean_is_found_where_its_records_lie_far_apart():
    """At the mean of three records the mean of their logarithms is 0; steps that are twice too long
    went to and fro, and one person in twenty was left half a unit from the mean.
    """
    space, each = riemdp.Lorentz(3), 3
    y = np.random.default_rng(5).normal(size=(60 * each, 2))
    y *= 3.0 / np.linalg.norm(y, axis=1, keepdims=True)
    X = np.asarray(space.exp(space.origin, space.from_coordinates(space.origin, y)))
    domain = Ball(space.origin, 3.0).on(space)
    found = np.asarray(Sums.people(space, X, np.repeat(np.arange(60), each), domain=domain).points)
    at = np.repeat(found, each, axis=0)
    logs = np.asarray(space.to_coordinates(at, space.log(at, domain.clamp(X))))
    gradients = logs.reshape(60, each, 2).mean(axis=1)
    assert np.max(np.linalg.norm(gradients, axis=1)) < 1e-8


@pytest.mark.parametrize("space", SPACES, ids=repr)
def test_a_person_is_the_same_whatever_the_others_are(space):
    """Bit for bit: other people's records and their number, and the order of the rows, change
    nothing.
    """
    X, domain = records(space, len(LABELS)), Ball(space.origin, 0.6).on(space)
    alone = Sums.people(space, X, LABELS, domain=domain)
    mix = np.random.default_rng(0).permutation(len(X))
    shuffled = Sums.people(space, X[mix], LABELS[mix], domain=domain)
    assert np.array_equal(shuffled.points, alone.points)
    other = LABELS == 4
    replaced = np.concatenate([X[~other], hostile(space, 60)])
    labels = np.concatenate([LABELS[~other], np.full(60, 4)])
    with_other = Sums.people(space, replaced, labels, domain=domain)
    keep = np.arange(6) != 4
    assert np.array_equal(with_other.points[keep], alone.points[keep])
    assert not np.array_equal(with_other.points[4], alone.points[4])


@pytest.mark.parametrize("space", SPACES, ids=repr)
def test_a_person_is_the_frechet_mean_of_the_clamped_records(space):
    X, ball = records(space, len(LABELS)), Ball(space.origin, 0.6)
    found = Sums.people(space, X, LABELS, domain=ball.on(space))
    assert found.n == 6
    inside = np.asarray(ball.clamp(space, X))
    for i in range(1, 6):
        mean = riemdp.frechet_mean(space, inside[i == LABELS]).value
        assert float(space.dist(mean, found.points[i])) < 1e-7
    assert np.array_equal(found.points[0], X[0])  # one record is itself


def test_records_that_are_no_points_are_left_out_of_their_persons_mean():
    X = records(PLANE, 8)
    X[1], X[2, 0], X[6:] = np.nan, np.inf, np.nan
    found = Sums.people(PLANE, X, [0, 0, 0, 0, 1, 1, 2, 2], domain=Ball(np.zeros(2), 5.0).on(PLANE))
    assert np.allclose(found.points[0], (X[0] + X[3]) / 2)
    assert np.allclose(found.points[1], (X[4] + X[5]) / 2)
    assert np.isnan(found.points[2]).all()  # the center takes this person's place
    assert found.outside.tolist() == [False, False, True]
    ball = Ball(np.zeros(2), 5.0)
    query = FrechetMean(ball.on(PLANE), 3)
    assert np.allclose(query.prepare(found.points).points[2], 0.0)


# ------------------------------------------------------------------------ sensitivity and noise


def test_the_noise_is_made_for_people():
    X, ball = records(PLANE, 200), Ball(np.zeros(2), 1.0)
    groups = np.arange(200) % 20
    release = riemdp.private_frechet_mean(
        PLANE, X, ball, BUDGET, mechanism="wrapped-gaussian", groups=groups, count_outside=False
    )
    assert release.scale == pytest.approx(gaussian_noise_multiplier(BUDGET) * 2.0 / 20, rel=1e-5)


# ------------------------------------------------------------------------ what is public
def test_nothing_public_tells_how_many_records_there_are():
    X, ball = records(SPD, 30), Ball(SPD.origin, 0.6)
    groups = np.arange(30)
    more, labels = np.concatenate([X, X, X[:7]]), np.concatenate([groups, groups, groups[:7]])

    def shown(X, groups, **given):
        release = riemdp.private_frechet_mean(SPD, X, ball, BUDGET, groups=groups, rng=0, **given)
        page = json.loads(privacy_report(release).to_json())
        page.pop("created_utc")
        return str(release), page, sorted(release.details), release.details["n"]

    for given in ({"mechanism": "wrapped-gaussian"}, {"mechanism": "riemannian-laplace"}):
        few, lots = shown(X, groups, **given), shown(more, labels, **given)
        assert few == lots
        assert few[1]["people"] == 30
        assert few[1]["records"] is None
        assert few[1]["protects"] == "one person"
    with pytest.raises(InvalidArgument) as caught:
        riemdp.private_frechet_mean(SPD, more, ball, BUDGET, groups=groups)
    assert not re.search(r"\d", str(caught.value))


# ------------------------------------------------------------------------ labels
@pytest.mark.parametrize(
    "groups",
    [
        [1, 2],
        [1, None, 2, 3],
        [1.0, math.nan, 2.0, 3.0],
        ["a", "", "b", "c"],
        ["a", "nan", "b", "c"],
        [[1], [2], [3], [4]],
        np.ones((4, 1)),
        "abcd",
        7,
        {1: 2},
        [(1,), (2,), (3,), (4,)],
    ],
)
def test_labels_that_name_nobody_are_refused_before_anything_is_spent(groups):
    ball = Ball(np.zeros(2), 1.0)
    with Ledger(BUDGET) as ledger, pytest.raises(InvalidArgument, match="groups"):
        riemdp.private_frechet_mean(PLANE, np.zeros((4, 2)), ball, BUDGET, groups=groups)
    assert ledger.charges == 0


def test_labels_that_say_the_same_name_one_person():
    X = records(PLANE, 6)
    for groups in ([7, 7, 8, 8, 9, 9], ["7", " 7", "8", "8 ", "9", "9"], [7.0, 7, "8", 8, b"9", 9]):
        assert np.array_equal(
            Sums.people(PLANE, X, groups).points, Sums.people(PLANE, X, [0, 0, 1, 1, 2, 2]).points
        )
    assert Sums.people(PLANE, X, [1, 1, 1, 1, 1, 1]).n == 1
    release = riemdp.private_frechet_mean(
        PLANE, X, Ball(np.zeros(2), 1.0), Budget(1.0), groups=["a"] * 6, rng=0
    )
    assert release.sensitivity == pytest.approx(2.0, rel=1e-3)  # one person: the whole ball


@pytest.mark.parametrize("mechanism", ["dp-rgd", "dp-rsgd"])
def test_optimisers_take_one_point_a_person(mechanism):
    """One person has 500 of 900 records, far from the others, and counts once."""
    X = records(PLANE, 900, spread=0.05)
    X[400:] += 0.9
    groups = np.concatenate([np.arange(400), np.full(500, 400)])
    with Ledger(BUDGET) as ledger:
        release = riemdp.private_frechet_mean(
            PLANE, X, Ball(np.zeros(2), 2.0), BUDGET, groups=groups, mechanism=mechanism, rng=1
        )
    assert release.guarantee.unit == "person"
    assert ledger.spent == release.guarantee
    assert release.details["people"] == release.details["n"] == 401
    assert np.linalg.norm(np.asarray(release.value)) < 0.35
    alone = riemdp.private_frechet_mean(
        PLANE, X, Ball(np.zeros(2), 2.0), BUDGET, mechanism=mechanism, rng=1
    )
    assert np.linalg.norm(np.asarray(alone.value)) > 0.45


# ------------------------------------------------------------------------ the other releases
def test_how_many_people_there_are_can_be_protected():
    ball = Ball(np.zeros(2), 1.0)
    given = {"n_min": 50, "rng": 0}
    X = records(PLANE, 120)
    release = riemdp.private_frechet_mean(
        PLANE, X, ball, Budget(1.0), groups=np.arange(120) // 2, **given
    )
    assert release.details["people"] is None
    assert (release.guarantee.unit, release.guarantee.adjacency) == ("person", "add-or-remove-one")
    nobody = riemdp.private_frechet_mean(
        PLANE, np.zeros((0, 2)), ball, Budget(1.0), groups=[], **given
    )
    assert nobody.sensitivity == release.sensitivity == pytest.approx(2 / 51, rel=1e-3)


def test_a_population_of_people_needs_a_dispersion_of_people():
    X, ball = records(PLANE, 400), Ball(np.zeros(2), 1.0)
    groups = np.arange(400)
    mean = riemdp.private_frechet_mean(
        PLANE, X, ball, BUDGET, groups=groups, mechanism="wrapped-gaussian", rng=0
    )
    of_people = riemdp.private_frechet_variance(PLANE, X, ball, BUDGET, groups=groups, rng=1)
    of_records = riemdp.private_frechet_variance(PLANE, X, ball, BUDGET, rng=1)
    region = mean.confidence_region(0.9, of="population", dispersion=of_people)
    assert "people" in region.subject
    with pytest.raises(InvalidArgument, match="dispersion"):
        mean.confidence_region(0.9, of="population", dispersion=of_records)
