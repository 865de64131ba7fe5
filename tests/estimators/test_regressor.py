"""PrivateTSRegressor: what it releases, what one record or person can do, what it says."""

from __future__ import annotations

import math
import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

import riemdp
from riemdp import (
    AdaptiveBall,
    Ball,
    Budget,
    BudgetExceeded,
    InvalidArgument,
    Ledger,
    PrivateTSRegressor,
    RiemdpWarning,
    plan_private_regressor,
)
from riemdp.randomness import noise_source
from tests.purses import Silent, noted
from tests.seam import Sums, plant
from tests.statistical import ALPHA, gaussian_p_value

BUDGET = Budget(3.0, 1e-5)
SPACE = riemdp.SPDLogEuclidean(2)
BALL = Ball(np.eye(2), 1.0)
RANGE = (20.0, 80.0)
R_SQUARED = 1.5  # of the rows (c z, s, t / sqrt(2))


def points(y):
    """Matrices with these coordinates of the logarithm at the identity."""
    return np.asarray(SPACE.exp(np.eye(2), SPACE.from_coordinates(np.eye(2), np.asarray(y))))


def study(n=600, seed=0, unit=1.0):
    """Matrices and ages: a line in their logarithms, and noise."""
    rng = np.random.default_rng(seed)
    y = rng.normal(size=(n, 3)) * [0.4, 0.2, 0.2]
    age = 50.0 + y @ [25.0, -30.0, 10.0] + rng.normal(size=n) * 4.0
    return unit * points(y), age


def regressor(**options):
    given = {"metric": "logeuclid", "budget": BUDGET, "random_state": 1, "target_range": RANGE}
    return PrivateTSRegressor(**given | options)


# ------------------------------------------------------------------------------- what is released
@pytest.mark.parametrize("metric", ["riemann", "logeuclid"])
def test_it_finds_the_line_in_any_unit(metric):
    for unit in (1.0, 1e-12):
        X, age = study(2000, unit=unit)
        fitted = regressor(metric=metric).fit(X, age)
        assert fitted.score(X, age) > 0.75
        assert 2.97 < fitted.guarantee_.epsilon(1e-5) <= 3.0 * (1 + 1e-9)
        assert fitted.coef_.shape == (3,)
        assert bool(fitted.manifold_.belongs(fitted.reference_, 1e-8 * unit))


def test_without_noise_it_is_a_ridge_regression():
    """Coefficients, intercept and residual, written down here with NumPy alone."""
    X, age = study()
    age[:3] = np.nan, 1e300, -np.inf
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = regressor(
            budget=Budget(1e9, 1e-3), ball=BALL, alpha=0.01, on_invalid="center"
        ).fit(X, age)
    y = np.asarray(SPACE.to_coordinates(np.eye(2), SPACE.log(np.eye(2), X)))
    z = y / np.maximum(1.0, np.linalg.norm(y, axis=1))[:, None]
    t = (np.clip(np.concatenate([[50.0, 80.0, 50.0], age[3:]]), *RANGE) - 50.0) / 30.0
    centred = z - z.mean(axis=0)
    w = np.linalg.solve(centred.T @ centred / 600 + 0.01 * np.eye(3), centred.T @ t / 600)
    at = t.mean() - z.mean(axis=0) @ w
    assert np.allclose(fitted.coef_, 30.0 * w, atol=1e-4)
    assert fitted.intercept_ == pytest.approx(50.0 + 30.0 * at, abs=1e-4)
    assert fitted.residual_std_ == pytest.approx(30.0 * np.std(t - z @ w), rel=1e-4)
    expected = np.clip(50.0 + 30.0 * (at + z @ w), *RANGE)
    assert np.allclose(fitted.predict(X), expected, atol=1e-3)


# ------------------------------------------------------------------------------------- guarantees
def mechanism_of(n, where=BALL, budget=BUDGET, kind=Sums.RegressionNoise, space=SPACE, **options):
    targets = Sums.TargetRange(RANGE)
    return kind(space, where, n=n, budget=budget, targets=targets, **options)


def moments(mechanism, X, y, members=None):
    """The released matrix, in the coordinates in which its noise is isotropic."""
    return mechanism.release((X, y, members), 1).details["answers"][0]


def worst_pairs():
    """Coordinates and targets of two records: corners, and a grid in the plane of two vectors."""
    for one in (RANGE[1], -1e308, np.inf, 1e-310):
        for other in (RANGE[0], 1e9):
            for angle in np.linspace(0.0, np.pi, 5):
                far = 1e3 * np.array([[1.0, 0.0, 0.0], [math.cos(angle), math.sin(angle), 0.0]])
                yield far, (one, other)


def test_one_record_moves_the_moments_by_at_most_their_sensitivity(monkeypatch):
    """With its target; and the best pair of a search attains it."""
    plant(monkeypatch, "noise of shares", Silent)
    mechanism = mechanism_of(3)
    c, s = Sums.weights(3)
    rest, ages = [[0.3, 0.0, 0.1], [0.0, 0.2, 0.0]], [40.0, 70.0]
    # from the proof: opposite targets, <z, z'> = (1/2 - s^2) / c^2
    turn = math.acos((0.5 - s**2) / c**2)
    best = np.array([[1.0, 0.0, 0.0], [math.cos(turn), math.sin(turn), 0.0]]) * 5.0
    worst = 0.0
    for y, targets in [(best, RANGE), *worst_pairs()]:
        one, other = (
            moments(mechanism, points(np.vstack([v, *rest])), [t, *ages])
            for v, t in zip(y, targets, strict=True)
        )
        worst = max(worst, float(np.linalg.norm(one - other)))
    assert worst <= mechanism.moments.sensitivity
    assert worst == pytest.approx(math.sqrt(2.0) * R_SQUARED / 3, rel=1e-9)
    assert mechanism.moments.sensitivity == pytest.approx(worst, rel=1e-6)


def test_one_person_moves_the_moments_by_no_more_than_one_record(monkeypatch):
    plant(monkeypatch, "noise of shares", Silent)
    mechanism = mechanism_of(3, people=True)
    rng = np.random.default_rng(1)
    rest, found = points([[0.3, 0.0, 0.1], [0.0, 0.2, 0.0]]), []
    ends = np.array([[5.0, 0.0, 0.0], [-5.0, 0.0, 0.0], [0.0, 5.0, 0.0]])
    kinds = [(points(e[None]), [t]) for e in ends for t in (-1e9, np.nan, 1e9)]
    kinds += [(points(np.tile(ends[0], (500, 1))), [t] * 500) for t in (-1e9, 1e9)]
    kinds += [(points(rng.normal(size=(500, 3)) * 3.0), rng.normal(size=500) * 1e3)]
    for own, targets in kinds:
        members = Sums.Membership([0, 1, *[2] * len(own)], 2 + len(own))
        X = np.concatenate([rest, own])
        found.append(moments(mechanism, X, [40.0, 70.0, *targets], members))
    worst = max(float(np.linalg.norm(a - b)) for a in found for b in found)
    assert 0.9 * mechanism.moments.sensitivity < worst <= mechanism.moments.sensitivity


class Cheap(Sums.RegressionNoise):
    """A planted fault: the moments are taken to change by half of what they do."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        rows = self.moments
        self.moments = rows.within(rows.row_norm / math.sqrt(2.0))


def noise_of_moments(where, monkeypatch, kind=Sums.RegressionNoise, people=False):
    """Noise over the sigma that the sensitivity and the share that is left ask for; and sees that
    all shares add up to 1.
    """
    notes = noted(monkeypatch)
    X, age = study(300)
    members = Sums.Membership(np.arange(300) // 3, 300) if people else None
    n = members.n if members else 300
    mechanism, source, drawn = mechanism_of(n, where, kind=kind, people=people), noise_source(2), []
    left = 1.0
    for _ in range(40):
        notes.begin()
        release = mechanism.release((X, age, members), source)
        assert notes.add_up()
        left = release.details["share_of_regression"]
        drawn.append(notes.noise[-1])  # after that of the centre
    sensitivity = math.sqrt(2.0) * R_SQUARED / n
    multiplier = riemdp.gaussian_noise_multiplier(BUDGET)
    return np.array(drawn) / (sensitivity * multiplier / math.sqrt(left))


WHERE = {"found": AdaptiveBall(), "given": BALL}


@pytest.mark.parametrize("people", [False, True])
@pytest.mark.parametrize("where", WHERE)
def test_shares_are_the_budget_and_the_moments_have_their_noise(where, people, monkeypatch):
    noise = noise_of_moments(WHERE[where], monkeypatch, people=people)
    assert noise.shape[1] == 5 * 6 // 2
    assert gaussian_p_value(noise, 1.0) > ALPHA
    assert gaussian_p_value(0.8 * noise, 1.0) < ALPHA


def test_too_little_noise_of_moments_is_detected(monkeypatch):
    assert gaussian_p_value(noise_of_moments(BALL, monkeypatch, Cheap), 1.0) < ALPHA


def test_a_row_is_clipped_whatever_stands_in_it(monkeypatch):
    """The guarantee does not rest on targets that were moved into their range."""
    plant(monkeypatch, "noise of shares", Silent)
    mechanism, found = mechanism_of(2), []
    for t in (-1e6, 0.0, 1e6):

        class Unclipped(Sums.TargetRange):
            def scaled(self, y, t=t):
                return np.array([t, 0.0])

        mechanism.targets = Unclipped(RANGE)
        found.append(moments(mechanism, points(np.zeros((2, 3))), [50.0, 50.0]))
    assert np.linalg.norm(found[0] - found[2]) <= mechanism.moments.sensitivity
    assert np.linalg.norm(found[0] - found[1]) <= mechanism.moments.sensitivity


# -------------------------------------------------------------------------------- what can go wrong
def test_one_charge_and_refusals_that_spend_nothing():
    X, age = study()
    with Ledger(BUDGET) as ledger:
        few, ages = study(30)
        for bad in (few, np.full_like(few, np.nan)):
            with pytest.raises(InvalidArgument, match=r"`ball`.*too few.*Nothing was spent"):
                regressor(budget=Budget(0.3, 1e-5), on_invalid="center").fit(bad, ages)
        holes = age.copy()
        holes[7] = np.nan
        with pytest.raises(InvalidArgument, match=r"`y`.*1 target.*on_invalid"):
            regressor().fit(X, holes)
        with pytest.raises(InvalidArgument, match=r"2080 tangent coordinates.*63 x 63"):
            regressor(ball=Ball(np.eye(64), 1.0)).fit(np.tile(np.eye(64), (2, 1, 1)), [30.0, 40.0])
        assert ledger.charges == 0
        fitted = regressor().fit(X, age)
        assert (ledger.charges, ledger.spent) == (1, fitted.guarantee_)
        with pytest.raises(BudgetExceeded):
            regressor().fit(X, age)


HOSTILE = (None, "old", "1e400", 10**400, 3 + 4j, [1, 2], b"\xff", np.nan, -np.inf, 1.7e308, 1e-310)


@pytest.mark.parametrize("ball", [None, BALL])
def test_no_record_and_no_target_decides_whether_an_error_or_a_warning_comes(ball):
    X, age = study(300)
    model = regressor(on_invalid="center", ball=ball)

    def fit(records, targets):
        """What is said, and the fit."""
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            fitted = clone(model).fit(records, targets)
        assert np.all(np.isfinite([*fitted.coef_, fitted.intercept_, fitted.residual_std_]))
        return {str(w.message) for w in said}, fitted

    fit(X, age)  # says once that there is no ledger
    usual, expected = fit(X, age)
    for value in HOSTILE:
        targets = list(age)
        targets[7] = value
        in_objects = np.empty(300, dtype=object)
        in_objects[:] = targets
        for given in (targets, in_objects):
            said, fitted = fit(X, given)
            assert (said, fitted.plan_) == (usual, expected.plan_)
    for targets in (np.full(300, np.nan), np.where(np.arange(300) % 2, 1e308, -1e308)):
        assert fit(X, targets)[0] == usual
        assert fit(np.full_like(X, np.nan), targets)[1].coef_.shape == (3,)


def test_a_target_counts_as_the_end_of_its_range_and_as_the_middle():
    X, age = study(300)
    model, pairs = regressor(ball=BALL, on_invalid="center"), ((1e308, 80.0), (np.nan, 50.0))
    for given, counted in pairs:
        one, other = age.copy(), age.copy()
        one[7], other[7] = given, counted
        fits = [clone(model).fit(X, targets) for targets in (one, other)]
        assert np.array_equal(fits[0].coef_, fits[1].coef_)


# ------------------------------------------------------------------------- what it says of itself
def test_the_residual_is_that_of_the_records_on_average():
    """Half of the apparent error is the noise's: what is stated has it taken out."""
    dim, rng, stated, apparent, true = 6, np.random.default_rng(3), [], [], []
    z = rng.normal(size=(2000, dim)) * 0.3
    z /= np.maximum(1.0, np.linalg.norm(z, axis=1))[:, None]
    t = np.clip(z @ rng.normal(size=dim) + 0.3 * rng.normal(size=2000), -1.0, 1.0)
    c, s = Sums.weights(dim)
    rows = np.column_stack([c * z, np.full(2000, s), t / math.sqrt(2.0)])
    exact, sigma = Sums.second_moment(rows), 0.006
    for _ in range(60):
        noisy = exact + sigma * rng.normal(size=exact.shape)
        line = Sums.ridge(noisy, dim, sigma, None)
        stated.append(line.variance)
        plain = Sums.ridge(noisy, dim, 1e-12, sigma * math.sqrt(dim / 2.0) / c**2)
        apparent.append(plain.variance)
        true.append(np.mean((t - z @ line.coefficients - line.intercept) ** 2))
    assert np.mean(stated) == pytest.approx(np.mean(true), rel=0.1)
    assert np.mean(apparent) < 0.8 * np.mean(true)
    drowned = Sums.ridge(exact + 3.0 * rng.normal(size=exact.shape), dim, 3.0, None)
    assert drowned.variance == 4.0  # the whole range: nothing is known


def test_the_plan_of_a_regression_is_what_a_fit_does():
    X, age = study()
    fitted = regressor().fit(X, age)
    plan = fitted.plan_
    assert plan == plan_private_regressor(SPACE, 600, BUDGET)[0]
    assert plan.share == pytest.approx(fitted.release_.details["share_of_regression"], abs=1e-12)
    level = 3 * math.sqrt(1.5) * fitted.release_.scale / Sums.weights(3)[0] ** 2
    assert plan.noise == pytest.approx(level, rel=1e-3)
    assert plan_private_regressor(SPACE, plan.enough, BUDGET)[0].verdict == "enough"
    assert plan_private_regressor(SPACE, plan.enough - 5, BUDGET)[0].noise > 0.1
    assert plan_private_regressor(SPACE, 5, BUDGET)[0].verdict == "too few"
    assert "weak" in str(plan_private_regressor(SPACE, 400, Budget(0.5, 1e-5)))
    with pytest.raises(InvalidArgument, match="manifold"):
        plan_private_regressor(3, 600, BUDGET)  # pyright: ignore[reportArgumentType]
    weak = regressor(budget=Budget(0.02, 1e-5), ball=BALL)
    with warnings.catch_warnings(), Ledger(BUDGET) as ledger:
        warnings.simplefilter("error", RiemdpWarning)
        with pytest.raises(RiemdpWarning, match="hardly be better"):
            weak.fit(X, age)
        assert ledger.charges == 0


def test_scikit_learn_checks_and_copies():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_estimator(PrivateTSRegressor(RANGE, budget=BUDGET))
    X, age = study(300)
    fitted = regressor(ball=BALL).fit(X, age, groups=np.arange(300) // 3)
    assert (fitted.guarantee_.unit, fitted.release_.facts.people) == ("person", 100)
    copy = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(copy.predict(X), fitted.predict(X))
    assert np.all((fitted.predict(X) >= RANGE[0]) & (fitted.predict(X) <= RANGE[1]))
