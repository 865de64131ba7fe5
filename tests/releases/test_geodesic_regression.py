"""private_geodesic_regression: what it fits, what one record or person can do, what its bands hold.

Charges, refusals, records that are no points, bits and noise of the whole: tests/contract.
"""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

import riemdp
from riemdp import AdaptiveBall, Ball, Budget, InvalidArgument, private_geodesic_regression
from tests.purses import Silent, noted
from tests.seam import plant
from tests.statistical import ALPHA, gaussian_p_value

BUDGET = Budget(3.0, 1e-6)
SPACE = riemdp.SPDLogEuclidean(2)
BALL = Ball(np.eye(2), 1.0)
AGES = (20.0, 80.0)
SLOPES = np.array([[0.05, 0.0, -0.05], [0.006, 0.002, 0.0]])  # at age 0, and a year
pytestmark = pytest.mark.filterwarnings("ignore::riemdp.RiemdpWarning")


def points(y):
    return np.asarray(SPACE.exp(np.eye(2), SPACE.from_coordinates(np.eye(2), np.asarray(y))))


def study(n=2000, seed=0, scatter=0.15):
    rng = np.random.default_rng(seed)
    age = rng.uniform(*AGES, n)
    curve = np.stack([np.ones(n), age], axis=1) @ SLOPES
    return points(curve + rng.normal(size=(n, 3)) * scatter), age


def release(X, t, ball=BALL, budget=BUDGET, **options):
    options = {"t_range": AGES, "rng": 1} | options
    return private_geodesic_regression(SPACE, X, t, ball, budget, **options)


# ------------------------------------------------------------------------------- what is released
def test_without_noise_it_is_the_least_squares_fit_of_clipped_records():
    """Coefficients and residuals, written down here with NumPy alone."""
    X, age = study(300)
    age[:4] = np.nan, 1e300, -np.inf, 10.0
    model = release(X, age, budget=Budget(1e9, 1e-3)).value
    y = np.asarray(SPACE.to_coordinates(np.eye(2), SPACE.log(np.eye(2), X)))
    z = y / np.maximum(1.0, np.linalg.norm(y, axis=1))[:, None]
    t = np.concatenate([[50.0, 80.0, 50.0, 20.0], age[4:]])
    rows = np.stack([np.ones(300), t], axis=1)
    fitted = np.linalg.lstsq(rows, z, rcond=None)[0]
    assert np.allclose(model.coefficients, fitted, atol=1e-4)
    rest = z - rows @ fitted
    assert np.allclose(model.residual, rest.T @ rest / 300, atol=1e-4)
    inside = np.array([20.0, 50.0, 80.0])
    curve = np.stack([np.ones(3), inside], axis=1) @ fitted
    assert np.allclose(model.predict([0.0, 50.0, 1e9]), points(curve), atol=1e-3)
    assert np.allclose(model.residuals(points(curve), inside), 0.0, atol=1e-3)


@pytest.mark.parametrize("t_range", [[(0.0, 1.0), (-2.0, 2.0)], Ball(np.array([0.5, 0.0]), 2.5)])
def test_several_covariates_in_a_cube_or_a_ball(t_range):
    rng = np.random.default_rng(3)
    t = np.stack([rng.uniform(0.0, 1.0, 900), rng.uniform(-2.0, 2.0, 900)], axis=1)
    slopes = np.array([[0.1, 0.0, 0.0], [0.3, -0.1, 0.0], [0.0, 0.1, 0.1]])
    X = points(np.concatenate([np.ones((900, 1)), t], axis=1) @ slopes)
    model = release(X, t, budget=Budget(1e9, 1e-3), t_range=t_range).value
    assert np.allclose(model.coefficients, slopes, atol=1e-4)
    assert np.allclose(model.predict(t[:9]), X[:9], atol=1e-3)
    assert np.all(model.band(t[:2]) < 0.01)
    with pytest.raises(InvalidArgument, match="`t`"):
        model.predict([1.0, 2.0])


def test_it_finds_the_curve_and_a_ball_that_holds_it():
    X, age = study(6000)
    found = release(X, age, AdaptiveBall())
    ends = np.array([20.0, 80.0])
    truth = np.stack([np.ones(2), ends], axis=1) @ SLOPES
    assert np.all(found.value.residuals(points(truth), ends) < 0.06)
    assert 2.9 < found.guarantee.epsilon(1e-6) <= 3.0 * (1 + 1e-9)
    assert found.facts.ball.radius == found.value.ball.radius > 0.3
    again = pickle.loads(pickle.dumps(found.value))
    assert np.array_equal(again.predict(ends), found.value.predict(ends))


@pytest.mark.parametrize("where", ["public ball", "found ball"])
def test_bands_hold_what_they_say(where):
    """New records, and the curve itself, at five ages, over releases with noise of their own."""
    ages = np.linspace(20.0, 80.0, 5)
    truth = points(np.stack([np.ones(5), ages], axis=1) @ SLOPES)
    records, curves = [], []
    for seed in range(5):
        X, age = study(1000, seed)
        model = release(X, age, BALL if where == "public ball" else AdaptiveBall(), rng=seed).value
        new, of = study(300, 100 + seed)
        records.append(np.mean(model.residuals(new, of) <= model.band(of, 0.9)))
        curves.append(np.mean(model.residuals(truth, ages) <= model.band(ages, 0.9, of="curve")))
    assert 0.88 < np.mean(records) < 0.97
    assert np.mean(curves) > 0.8


# ------------------------------------------------------------------------------------- guarantees
CUBE = [(0.0, 1.0), (-2.0, 2.0)]
RANGES = {
    "one": (AGES, [20.0, 80.0, -1e300, np.nan, 1e300]),
    "cube": (CUBE, [[0.0, -2.0], [1.0, 2.0], [1.0, -2.0], [np.inf, 1e300], [0.5, np.nan]]),
    "ball": (Ball(np.zeros(2), 2.0), [[2.0, 0.0], [-9.0, 9.0], [0.0, np.nan], [1e308, 1e308]]),
}


@pytest.mark.parametrize("kind", RANGES)
def test_one_record_moves_the_moments_of_a_curve_by_at_most_their_sensitivity(kind, monkeypatch):
    """With its covariates; and the best pair of a search attains it."""
    plant(monkeypatch, "noise of shares", Silent)
    t_range, covariates = RANGES[kind]
    rng = np.random.default_rng(0)
    far = [*np.eye(3), *-np.eye(3), np.zeros(3), *rng.normal(size=(2, 3))]
    rest, n = points([[0.3, 0.0, 0.1], [0.0, 0.2, 0.0]]), 3
    found = []
    for y in far:
        X = np.concatenate([points([5.0 * y / max(np.linalg.norm(y), 1.0)]), rest])
        for t in covariates:
            made = release(X, [t, covariates[0], covariates[1]], t_range=t_range)
            found.append(made.details["answers"][0])
    worst = max(float(np.linalg.norm(a - b)) for a in found for b in found)
    assert worst <= made.sensitivity
    assert made.sensitivity == pytest.approx(2.0 * math.sqrt(2.0) / n, rel=1e-6)
    assert worst >= 0.99 * made.sensitivity


def test_one_person_moves_the_moments_of_a_curve_by_no_more_than_one_record(monkeypatch):
    plant(monkeypatch, "noise of shares", Silent)
    rest, found = points([[0.3, 0.0, 0.1], [0.0, 0.2, 0.0]]), []
    for end in ([5.0, 0.0, 0.0], [-5.0, 0.0, 0.0], [0.0, 5.0, 0.0]):
        for t in (-1e9, np.nan, 1e9):
            for count in (1, 60):
                X = np.concatenate([rest, points([end] * count)])
                groups = [0, 1, *[2] * count]
                made = release(X, [40.0, 70.0, *[t] * count], groups=groups)
                found.append(made.details["answers"][0])
    worst = max(float(np.linalg.norm(a - b)) for a in found for b in found)
    assert 0.99 * made.sensitivity <= worst <= made.sensitivity
    assert made.guarantee.unit == "person"
    assert made.details["people"] == 3


@pytest.mark.parametrize("where", ["public ball", "found ball"])
def test_shares_of_a_curve_are_the_budget_and_its_moments_have_their_noise(where, monkeypatch):
    notes = noted(monkeypatch)
    X, age = study(300)
    drawn, left = [], 1.0
    for seed in range(25):
        notes.begin()
        made = release(X, age, BALL if where == "public ball" else AdaptiveBall(), rng=seed)
        assert notes.add_up()
        left = made.details["share_of_regression"]
        drawn.append(notes.noise[-1])
    scale = 2.0 * math.sqrt(2.0) / 300 * riemdp.gaussian_noise_multiplier(BUDGET) / math.sqrt(left)
    assert np.shape(drawn)[1] == 5 * 6 // 2
    assert gaussian_p_value(np.array(drawn) / scale, 1.0) > ALPHA
    assert gaussian_p_value(0.8 * np.array(drawn) / scale, 1.0) < ALPHA


def test_a_pure_budget_spends_its_epsilon_and_no_delta():
    X, age = study(400)
    made = release(X, age, budget=Budget(2.0))
    assert made.guarantee.epsilon(0.0) == 2.0
    assert np.all(np.isfinite(made.value.band([30.0, 70.0])))


def test_covariates_decide_about_no_error_and_no_warning():
    X, age = study(60)
    for bad in (np.nan, np.inf, 1e308, 5e-324):
        other = age.copy()
        other[0] = bad
        release(X, other)
    release(X, [*age[:-1], "old"])
    release(X, [*age[:-1], None])


def test_the_size_of_a_range_is_public_and_checked():
    X, age = study(60)
    for wrong in (None, 5.0, (), (1.0,), (80.0, 20.0), [(0.0, 1.0), (1.0, 1.0)], (0.0, math.nan)):
        with pytest.raises(InvalidArgument, match="t_range"):
            release(X, age, t_range=wrong)
    wide = riemdp.Euclidean(2048)
    with pytest.raises(InvalidArgument, match="at most 2048"):
        private_geodesic_regression(
            wide, np.zeros((3, 2048)), np.zeros(3), Ball(np.zeros(2048), 1.0), BUDGET, t_range=AGES
        )


# ------------------------------------------------------------------------------- the plan
@pytest.mark.parametrize("t_range", [AGES, [(0.0, 1.0), (2.0, 3.0)]])
def test_a_plan_foretells_the_band(t_range):
    """Of records on a constant curve, whose covariates fill their range."""
    rng, n = np.random.default_rng(0), 2000
    low, high = np.array(t_range).T
    t, X = rng.uniform(low, high, (n, *np.shape(low))), np.tile(np.eye(2), (n, 1, 1))
    row = riemdp.plan_geodesic_regression(SPACE, BALL, n, BUDGET, t_range=t_range)[0]
    model = release(X, t, t_range=t_range).value
    told = model.band(np.stack([(low + high) / 2, high]), of="curve")
    assert told == pytest.approx([row.middle, row.end], rel=0.1)
    assert row.scattered > row.end > row.middle


def test_a_plan_of_a_search_knows_what_it_leaves():
    rows = riemdp.plan_geodesic_regression(
        SPACE, AdaptiveBall(), 3000, [BUDGET, Budget(1.0)], t_range=AGES
    )
    for row in rows:
        assert row.need > 1
        assert row.share < 1.0
    found = release(*study(3000), AdaptiveBall())
    assert found.details["share_of_regression"] == pytest.approx(rows[0].share)
    with pytest.raises(InvalidArgument, match="t_range"):
        riemdp.plan_geodesic_regression(SPACE, BALL, 10, BUDGET, t_range=5.0)
