"""private_k_means: what the centres are, what one record or person can do in all rounds, the plan.

Charges, refusals, records that are no points, bits and noise of the whole: tests/contract.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import riemdp
from riemdp import AdaptiveBall, Ball, Budget, private_k_means
from tests.purses import Silent, noted
from tests.seam import plant
from tests.statistical import ALPHA, gaussian_p_value

BUDGET, HARDLY_ANY = Budget(3.0, 1e-6), Budget(1e9, 1e-3)
SPACE = riemdp.Euclidean(3)
BALL = Ball(np.zeros(3), 2.0)  # so that vectors at a centre are shortened to length 1
SEARCH = AdaptiveBall(BALL)
START = np.array([[-1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
MIDDLES = np.array([[-1.0, 0.5, 0.0], [1.0, -0.4, 0.1], [0.0, 0.0, 1.2]])
pytestmark = pytest.mark.filterwarnings("ignore::riemdp.RiemdpWarning")


def groups_of(middles, n=300, seed=0, scatter=0.15):
    rng = np.random.default_rng(seed)
    return np.repeat(middles, n, axis=0) + scatter * rng.normal(size=(n * len(middles), 3))


def release(X, clusters=START, ball=BALL, budget=BUDGET, **options):
    return private_k_means(SPACE, X, clusters, ball, budget, **{"rng": 1} | options)


def vector(X, centres, length=1.0):
    """Sums and sizes of one round, by NumPy alone: a record that is not finite is in no cluster."""
    away = X[:, None] - centres
    labels = np.argmin(np.linalg.norm(away, axis=2), axis=1)
    z = away[np.arange(len(X)), labels]
    z = z / np.maximum(np.linalg.norm(z, axis=1, keepdims=True), length)
    own = (labels[:, None] == np.arange(len(centres))) & np.isfinite(X).all(axis=1)[:, None]
    sums = [z[flags].sum(axis=0) for flags in own.T]
    return np.concatenate([*sums, own.sum(axis=0)])


def moved(centres, answer, deviation, length=1.0):
    """The next centres, from an answer alone, by NumPy alone."""
    sums, sizes = answer[: centres.size].reshape(centres.shape), answer[centres.size :]
    found = []
    for centre, total, size in zip(centres, sums, sizes, strict=True):
        if size <= 2.0 * deviation:
            found.append(centre)
            continue
        move = total / size
        move /= max(1.0, np.linalg.norm(move))
        kept = max(0.0, 1.0 - (deviation / size / np.linalg.norm(move)) ** 2)
        found.append(centre + length * kept * move)
    return np.array(found)


# ------------------------------------------------------------------------------- what is released
def test_without_noise_it_is_lloyds_algorithm_with_vectors_cut_off():
    X = groups_of(MIDDLES[:2], 100)
    X[:3] = [[np.nan] * 3, [1e100, 0.0, 0.0], [-9.0, 9.0, 0.0]]
    made = release(X, budget=HARDLY_ANY, rounds=3)
    centres = START
    for answer in made.details["answers"]:
        exact = vector(X, centres)
        assert np.allclose(answer, exact, atol=1e-3)
        centres = moved(centres, exact, 1e-9)
    assert np.allclose(made.value, centres, atol=1e-5)
    assert "centres of 2 clusters, moved 3 times" in riemdp.report.privacy_report(made).html()
    assert made.details["sizes"] == pytest.approx([99.0, 100.0], abs=1e-3)


def test_centres_follow_from_the_answers_alone():
    """Those of every round: the assignment of a record looks at no other."""
    X = groups_of(MIDDLES[:2], 60)
    for budget in (BUDGET, Budget(20.0)):
        made = release(X, budget=budget)
        centres = START
        deviation = made.scale * (1.0 if budget.delta else math.sqrt(9.0))
        for answer in made.details["answers"]:
            centres = moved(centres, answer, deviation)
        assert np.allclose(made.value, centres, atol=1e-12)
        assert made.value.shape == (2, 3)


@pytest.mark.parametrize("where", [BALL, SEARCH], ids=["public", "found"])
def test_it_finds_the_middles_from_points_that_fill_the_ball(where):
    X = groups_of(MIDDLES, 1000)
    made = release(X, 3, where, rounds=6)
    apart = np.linalg.norm(made.value[:, None] - MIDDLES, axis=2)
    assert np.all(apart.min(axis=0) < 0.1)
    assert sorted(np.argmin(apart, axis=0)) == [0, 1, 2]
    assert sum(made.details["sizes"]) == pytest.approx(3000, abs=100)
    assert 2.9 < made.guarantee.epsilon(1e-6) <= 3.0 * (1 + 1e-9)


@pytest.mark.parametrize(
    ("space", "radius"),
    [(riemdp.Sphere(3), 3.0), (riemdp.SPDAffineInvariant(2), 2.0), (riemdp.KendallShapes(4), 1.5)],
    ids=str,
)
def test_on_curved_spaces(space, radius):
    """Two groups about points far from each other, and a centre that no record is near to."""
    y = np.zeros((2, space.dim))
    y[:, 0] = [0.3 * radius, -0.3 * radius]
    middles = space.exp(space.origin, space.from_coordinates(space.origin, y))
    X = np.concatenate([middles[[0]].repeat(400, axis=0), middles[[1]].repeat(400, axis=0)])
    X = space.exp(X, space.tangent_normal(0, X, 0.1))
    made = private_k_means(space, X, 2, Ball(space.origin, radius), BUDGET, rng=0)
    apart = space.dist(middles[:, None], made.value[None])
    assert np.max(apart.min(axis=1)) < 0.15


def test_a_centre_without_records_stays_in_the_last_round_and_halves_the_largest_before():
    far, X = np.array([[0.0, 0.0, -50.0]]), groups_of(MIDDLES)
    X = X[:800]  # of the last group fewer, so that both others are larger
    made = release(X, np.concatenate([START, far]), rounds=1)
    assert np.array_equal(made.value[2], far[0])
    assert made.details["sizes"][2] < 60.0
    made = release(X, np.concatenate([START, far]), rounds=6)
    apart = np.linalg.norm(made.value[:, None] - MIDDLES, axis=2)
    assert np.all(apart.min(axis=0) < 0.15)


def test_a_product_and_points_to_start_from_that_are_tuples():
    space = riemdp.Product(riemdp.Euclidean(2), riemdp.Sphere(3))
    X = (np.zeros((50, 2)), np.tile(riemdp.Sphere(3).origin, (50, 1)))
    start = (np.eye(2), np.eye(3)[:2])
    made = private_k_means(space, X, start, Ball(space.origin, 1.0), BUDGET, rng=0)
    assert [np.shape(leaf) for leaf in made.value] == [(2, 2), (2, 3)]


# ------------------------------------------------------------------------------------- guarantees
FAR = [*np.eye(3), *-np.eye(3), np.zeros(3), [9.0, 1.0, 0.0], [-9.0, 0.0, 1.0], [np.nan] * 3]


def test_one_record_moves_an_answer_by_at_most_two(monkeypatch):
    """Its cluster may change with it; and the best pair of a search attains it, in one cluster and
    across two.
    """
    plant(monkeypatch, "noise of shares", Silent)
    rest = np.array([[-1.0, 0.2, 0.0], [1.0, 0.0, 0.1]])
    found = {}
    for place, x in enumerate(FAR):
        made = release(np.concatenate([[x], rest]), rounds=1)
        found[place] = made.details["answers"][0]
    apart = {(i, j): np.linalg.norm(found[i] - found[j]) for i in found for j in found if i < j}
    worst = max(apart.values())
    assert worst <= made.sensitivity
    assert made.sensitivity == pytest.approx(2.0, rel=1e-9)
    assert worst >= 0.99 * made.sensitivity
    across = [d for (i, j), d in apart.items() if found[i][-1] != found[j][-1]]
    assert max(across) >= 0.99 * made.sensitivity


def test_one_person_moves_an_answer_by_no_more_than_one_record(monkeypatch):
    """With one record or many, in one cluster or in both."""
    plant(monkeypatch, "noise of shares", Silent)
    rest = np.array([[-1.0, 0.2, 0.0], [1.0, 0.0, 0.1]])
    found = []
    for records in ([FAR[7]] * 40, [FAR[8]] * 40, [FAR[7], FAR[8]], [FAR[9]], [[-1.0, 9.0, 0.0]]):
        groups = [0, 1, *[2] * len(records)]
        made = release(np.concatenate([rest, records]), rounds=1, groups=groups)
        found.append(made.details["answers"][0])
        assert np.sum(found[-1][-2:]) <= 3.0 + 1e-9
    worst = max(np.linalg.norm(a - b) for a in found for b in found)
    assert 0.99 * made.sensitivity <= worst <= made.sensitivity
    assert made.guarantee.unit == "person"
    assert made.details["people"] == 3


@pytest.mark.parametrize("where", ["public ball", "found ball"])
def test_rounds_share_the_budget_and_have_their_noise(where, monkeypatch):
    notes = noted(monkeypatch)
    X, drawn, share = groups_of(MIDDLES[:2], 100), [], 0.0
    for seed in range(25):
        notes.begin()
        ball = BALL if where == "public ball" else SEARCH
        made = release(X, ball=ball, rounds=3, rng=seed)
        assert notes.add_up()
        share = made.details["share_of_round"]
        assert [float(s) for s in notes.shares[-3:]] == [share] * 3
        drawn.extend(notes.noise[-3:])
    scale = 2.0 * riemdp.gaussian_noise_multiplier(BUDGET) / math.sqrt(share)
    assert made.scale == pytest.approx(scale, rel=1e-6)
    assert np.shape(drawn) == (75, 8)
    assert gaussian_p_value(np.array(drawn) / scale, 1.0) > ALPHA
    assert gaussian_p_value(0.8 * np.array(drawn) / scale, 1.0) < ALPHA


def test_the_privacy_loss_of_all_rounds_is_that_of_the_budget():
    """Of the worst neighbours for given answers: a record that jumps between two clusters. The
    squares of what it moves, over the noise, add up to at most mu^2, and come near it.
    """
    X = groups_of(MIDDLES[:2], 100)
    mu = 1.0 / riemdp.gaussian_noise_multiplier(BUDGET)
    most = 0.0
    for seed in range(3):
        made = release(X, rounds=5, rng=seed)
        losses = []
        for x in FAR:
            centres, square = START, 0.0
            for answer in made.details["answers"]:
                change = vector(np.array([x]), centres) - vector(X[:1], centres)
                square += float(np.sum(change**2)) / made.scale**2
                centres = moved(centres, answer, made.scale)
            losses.append(square)
        assert max(losses) <= mu**2
        most = max(most, *losses)
    assert most > 0.7 * mu**2


# ------------------------------------------------------------------------------- the plan
def test_a_plan_foretells_the_noise():
    X = np.repeat(START, 200, axis=0)
    row = riemdp.plan_k_means(SPACE, BALL, 400, BUDGET, clusters=2)[0]
    moves, sizes = [], []
    for seed in range(20):
        made = release(X, rng=seed)
        answer = made.details["answers"][-1]
        sizes.append(answer[6:].sum() - 400.0)
        moves.append(np.linalg.norm(answer[:3] / 200.0))
        assert made.scale == pytest.approx(row.size, rel=1e-6)
    assert np.std(sizes) == pytest.approx(row.size * math.sqrt(2.0), rel=0.5)
    assert np.sqrt(np.mean(np.square(moves))) == pytest.approx(row.expected_error, rel=0.5)
    found = riemdp.plan_k_means(SPACE, SEARCH, 400, [BUDGET, Budget(1.0)], clusters=2)
    assert [r.need > 1 and r.share < 1.0 for r in found] == [True, True]
    assert "2 clusters, 6 rounds" in str(found)
