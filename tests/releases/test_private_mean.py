"""`private_frechet_mean` and its plan: enforced domain, ledger, choice by formula, errors at equal certified privacy."""

from __future__ import annotations

import math

import jax
import numpy as np
import pytest

import riemdp as R
from riemdp.releases import MeanNotConverged
from riemdp.statistics import frechet_mean_sensitivity
from tests.statistical import ALPHA, gaussian_p_value

BUDGET = R.Budget(1.0, 1e-5)
N = 40  # one number of records, so that spaces compile once
OUTPUT = ("wrapped-gaussian", "wrapped-laplace", "riemannian-laplace", "k-norm-gradient")
SPACES = {
    "SPDLogEuclidean(2)": (R.SPDLogEuclidean(2), 1.0),
    "SPDAffineInvariant(2)": (R.SPDAffineInvariant(2), 0.8),
    "Lorentz(3)": (R.Lorentz(3), 1.0),
    "Sphere(3)": (R.Sphere(3), 0.5),
    "SPDBuresWasserstein(2)": (R.SPDBuresWasserstein(2), 0.2),
    "Grassmann(4,2)": (R.Grassmann(4, 2), 0.3),
}


def records(manifold, radius, n, seed=0):
    v = manifold.tangent_normal(jax.random.key(seed), manifold.origin, radius / (2 * math.sqrt(manifold.dim)), (n,))
    return manifold.exp(manifold.origin, v)


SLOW_TO_COMPILE = {"SPDBuresWasserstein(2)", "Grassmann(4,2)"}


@pytest.mark.parametrize("name", [pytest.param(s, marks=pytest.mark.slow) if s in SLOW_TO_COMPILE else s for s in SPACES])
def test_every_output_mechanism_releases_a_point_near_the_mean_within_the_budget(name):
    manifold, radius = SPACES[name]
    ball, x = R.Ball(manifold.origin, radius), records(manifold, radius, N)
    truth = R.frechet_mean(manifold, ball.clamp(manifold, x)).value
    for mechanism in OUTPUT:
        ledger = R.Ledger(BUDGET)
        release = R.private_frechet_mean(manifold, x, ball, BUDGET, mechanism=mechanism, rng=3, ledger=ledger)
        assert release.mechanism == mechanism
        assert bool(manifold.belongs(release.value, 1e-6))
        assert ledger.spent == release.guarantee
        assert release.guarantee.epsilon(BUDGET.delta) <= BUDGET.epsilon
        if mechanism != "wrapped-gaussian":
            assert release.guarantee == R.pure(1.0)
        assert float(manifold.dist(truth, release.value)) <= release.error_quantile(1 - 1e-7)
        assert release.details["n"] == N


def test_noise_about_the_mean_has_the_scale_of_the_sensitivity():
    """End to end: the spread of releases about the true mean is that of 2 r / n, not of the sum, of r / n, or of the data."""
    manifold, n = R.SPDLogEuclidean(2), N
    ball, x = R.Ball(np.eye(2), 1.0), records(manifold, 1.0, n)
    truth = R.frechet_mean(manifold, x).value
    out = np.stack(
        [R.private_frechet_mean(manifold, x, ball, BUDGET, mechanism="wrapped-gaussian", rng=i).value for i in range(250)]
    )
    noise = np.asarray(manifold.to_coordinates(np.eye(2), manifold.log(np.eye(2), out)))
    noise = noise - np.asarray(manifold.to_coordinates(np.eye(2), manifold.log(np.eye(2), truth)))
    sigma = R.gaussian_noise_multiplier(BUDGET) * 2.0 / n
    assert gaussian_p_value(noise, sigma) > ALPHA
    assert gaussian_p_value(0.8 * noise, sigma) < ALPHA
    assert gaussian_p_value(noise, sigma / 2) < ALPHA  # planted: sensitivity r / n


@pytest.mark.parametrize("name", ["SPDLogEuclidean(2)", "Lorentz(3)", "Sphere(3)"])
def test_a_wild_record_moves_the_release_no_more_than_one_on_the_edge(name):
    """Same noise, one record far away against the same record on the edge of the ball: the same release."""
    manifold, radius = SPACES[name]
    ball, x = R.Ball(manifold.origin, radius), np.array(records(manifold, radius, N))
    v = np.asarray(manifold.tangent_normal(jax.random.key(5), manifold.origin))
    unit = v / float(manifold.norm(manifold.origin, v))
    far = {"Sphere(3)": 3.0, "Lorentz(3)": 15.0, "SPDAffineInvariant(2)": 20.0, "SPDLogEuclidean(2)": 20.0}[name]
    wild, edge = x.copy(), x.copy()
    wild[0], edge[0] = manifold.exp(manifold.origin, far * unit), manifold.exp(manifold.origin, radius * unit)
    for mechanism in OUTPUT:
        a, b = (R.private_frechet_mean(manifold, y, ball, BUDGET, mechanism=mechanism, rng=7).value for y in (wild, edge))
        assert float(manifold.dist(a, b)) < 1e-5
    unclamped = R.frechet_mean(manifold, wild).value
    assert float(manifold.dist(unclamped, R.frechet_mean(manifold, edge).value)) > frechet_mean_sensitivity(manifold, ball, N) / 5


def test_a_record_at_distance_a_million_on_flat_space():
    manifold, ball = R.Euclidean(3), R.Ball(np.zeros(3), 1.0)
    x = np.random.default_rng(0).normal(size=(N, 3)) * 0.2
    wild, edge = x.copy(), x.copy()
    wild[0], edge[0] = [1e6, 0, 0], [1, 0, 0]
    a, b = (R.private_frechet_mean(manifold, y, ball, BUDGET, mechanism="wrapped-gaussian", rng=7).value for y in (wild, edge))
    np.testing.assert_allclose(a, b, atol=1e-9)


def test_records_that_are_not_points_count_as_the_centre_and_are_never_shown():
    manifold, ball = R.SPDAffineInvariant(2), R.Ball(np.eye(2), 0.8)
    x = np.array(records(manifold, 0.8, N))
    broken, centred = x.copy(), x.copy()
    broken[0], broken[1], broken[2] = np.nan, -np.eye(2), [[1.0, 5.0], [0.0, 1.0]]
    centred[:3] = np.eye(2)
    a, b = (
        R.private_frechet_mean(manifold, y, ball, BUDGET, mechanism="riemannian-laplace", rng=1).value for y in (broken, centred)
    )
    np.testing.assert_allclose(a, b, atol=1e-8)


def test_one_record_is_legal_and_gets_the_noise_it_needs():
    manifold = R.SPDLogEuclidean(2)
    for mechanism in OUTPUT:
        release = R.private_frechet_mean(manifold, np.eye(2)[None], R.Ball(np.eye(2), 0.5), BUDGET, mechanism=mechanism, rng=1)
        assert release.sensitivity == pytest.approx(1.0, rel=1e-6)


def test_public_weights_change_mean_and_sensitivity():
    manifold, ball = R.Euclidean(2), R.Ball(np.zeros(2), 1.0)
    x = np.array([[0.5, 0.0], [0.0, 0.5], [-0.5, 0.0]])
    w = np.array([1.0, 2.0, 5.0])
    release = R.private_frechet_mean(manifold, x, ball, R.Budget(1e6, 1e-5), mechanism="wrapped-gaussian", weights=w, rng=1)
    assert release.sensitivity == pytest.approx(2 * 5 / 8, rel=1e-6)
    np.testing.assert_allclose(release.value, w @ x / 8, atol=0.05)
    with pytest.raises(R.InvalidArgument, match="weights"):
        R.private_frechet_mean(manifold, x, ball, BUDGET, weights=[1, 2])
    with pytest.raises(R.InvalidArgument, match="weights"):
        R.private_frechet_mean(manifold, x, ball, BUDGET, weights=w, mechanism="dp-rgd")


def test_extrinsic_baselines_run_and_say_what_they_are():
    manifold, radius = SPACES["SPDLogEuclidean(2)"]
    ball, x = R.Ball(np.eye(2), radius), records(manifold, radius, N)
    release = R.private_frechet_mean(manifold, x, ball, BUDGET, mechanism="extrinsic-gaussian", rng=1)
    assert release.details["baseline"] == "ambient noise"
    assert release.expected_error is None
    np.testing.assert_allclose(release.value, np.mean(np.asarray(x), axis=0), atol=6 * release.scale)
    with pytest.raises(R.InvalidArgument, match="no formula"):
        release.error_quantile(0.5)


def test_dp_rgd_through_the_same_door():
    manifold, radius = SPACES["SPDLogEuclidean(2)"]
    ball, x = R.Ball(np.eye(2), radius), records(manifold, radius, N)
    ledger = R.Ledger(BUDGET)
    release = R.private_frechet_mean(manifold, x, ball, BUDGET, mechanism="dp-rgd", rng=1, ledger=ledger)
    assert release.mechanism == "dp-rgd"
    assert ledger.spent == release.guarantee
    assert release.guarantee.epsilon(1e-5) <= 1.0
    assert float(manifold.dist(R.frechet_mean(manifold, x).value, release.value)) < 3.0


# -------------------------------------------------------------------- auto and the plan
def test_auto_is_the_row_of_the_plan_and_never_looks_at_the_data():
    manifold, radius = SPACES["SPDLogEuclidean(2)"]
    ball = R.Ball(np.eye(2), radius)
    for budget in (BUDGET, R.Budget(0.5), R.Budget(5.0, 0.01)):
        plan = R.plan_private_mean(manifold, ball, N, budget)
        chosen = {R.private_frechet_mean(manifold, records(manifold, s, N, i), ball, budget, rng=1).mechanism
                  for i, s in enumerate((0.01, 1.0, 3.0))}  # fmt: skip
        assert chosen == {plan.best().mechanism}
        release = R.private_frechet_mean(manifold, records(manifold, 1.0, N), ball, budget, rng=1)
        assert release.details["plan"] == str(plan)
        assert "<- auto" in str(plan)
        finite = [r for r in plan if r.eligible]
        assert plan.best().expected_error == min(r.expected_error for r in finite)
        if budget.delta == 0:
            assert "gaussian" not in plan.best().mechanism


def test_gaussian_wins_in_many_dimensions_and_laplace_in_few():
    few = R.plan_private_mean(R.SPDLogEuclidean(2), R.Ball(np.eye(2), 1.0), 1000, BUDGET)
    many = R.plan_private_mean(R.SPDLogEuclidean(30), R.Ball(np.eye(30), 1.0), 10_000, BUDGET)
    assert "laplace" in few.best().mechanism
    assert many.best().mechanism == "wrapped-gaussian"


def test_plan_figures_are_those_of_the_release():
    for name in ("SPDLogEuclidean(2)", "Lorentz(3)"):
        manifold, radius = SPACES[name]
        ball = R.Ball(manifold.origin, radius)
        for row in R.plan_private_mean(manifold, ball, N, BUDGET):
            if row.expected_error is None:
                continue
            release = R.private_frechet_mean(manifold, records(manifold, radius, N), ball, BUDGET, mechanism=row.mechanism, rng=1)
            assert release.expected_error == pytest.approx(row.expected_error)
            assert release.scale == pytest.approx(row.scale)
            assert row.error_quantile(0.9) == pytest.approx(release.error_quantile(0.9))


def test_plan_prints_what_is_missing_and_takes_lists_of_budgets():
    plan = R.plan_private_mean(R.Stiefel(4, 2), R.Ball(R.Stiefel(4, 2).origin, 0.2), 100, [BUDGET, 0.5])
    assert "no closed form for `log`" in str(plan)
    with pytest.raises(R.InvalidArgument, match="no mechanism"):
        plan.best(BUDGET)
    with pytest.raises(R.InvalidArgument, match="budget"):
        plan.best()
    two = R.plan_private_mean(R.Euclidean(2), R.Ball(np.zeros(2), 1.0), 100, [R.Budget(0.1), R.Budget(1.0)])
    assert two.best(R.Budget(0.1)).expected_error > two.best(R.Budget(1.0)).expected_error


# -------------------------------------------------------------------- sad paths: nothing is spent
def test_failures_spend_nothing():
    manifold, ball = R.SPDLogEuclidean(2), R.Ball(np.eye(2), 1.0)
    x = records(manifold, 1.0, N)
    ledger = R.Ledger(R.Budget(3.0, 1e-4))
    calls = [
        ({"mechanism": "wrapped-gaussian", "budget": R.Budget(1.0)}, "delta > 0"),
        ({"mechanism": "dp-rgd", "budget": R.Budget(1.0)}, "delta > 0"),
        ({"mechanism": "laplace"}, "mechanism"),
        ({"X": np.zeros((0, 2, 2))}, "X"),
        ({"X": np.eye(2)}, "X"),
        ({"X": np.zeros((3, 3, 3))}, "X"),
        ({"X": np.array([["a"] * 2] * 2)}, "X"),
        ({"ball": None}, "ball"),
        ({"ball": 1.0}, "ball"),
        ({"ball": R.Ball(-np.eye(2), 1.0)}, "center"),
        ({"tolerance": 0.0}, "tolerance"),
        ({"optimizer": R.DPRGD(steps=3)}, "optimizer"),
        ({"calibration": "none"}, "calibration"),
        ({"budget": 1.0}, "budget"),
    ]
    for changed, match in calls:
        arguments = {"X": x, "ball": ball, "budget": BUDGET} | changed
        with pytest.raises(R.InvalidArgument, match=match):
            R.private_frechet_mean(
                manifold, arguments.pop("X"), arguments.pop("ball"), arguments.pop("budget"), ledger=ledger, **arguments
            )
    assert ledger.spent.epsilon(0.0) == 0.0
    with pytest.raises(R.BudgetExceeded):
        R.private_frechet_mean(manifold, x, ball, R.Budget(4.0), ledger=ledger)
    assert ledger.spent.epsilon(0.0) == 0.0


def test_a_mean_that_does_not_converge_is_not_released(monkeypatch):
    from riemdp import statistics

    def stuck(manifold, X, **kwargs):
        return statistics.MeanResult(value=np.eye(2), residual=1.0, iterations=200, converged=False)

    monkeypatch.setattr(statistics, "frechet_mean", stuck)
    manifold = R.SPDLogEuclidean(2)
    with R.Ledger(R.Budget(3.0, 1e-4)) as ledger, pytest.raises(MeanNotConverged):
        R.private_frechet_mean(manifold, records(manifold, 1.0, N), R.Ball(np.eye(2), 1.0), BUDGET)
    assert ledger.spent.epsilon(0.0) == 0.0


def test_budget_errors_come_from_the_ambient_ledger_and_products_work():
    manifold = R.Product(R.Sphere(3), R.SPDLogEuclidean(2))
    ball = R.Ball(manifold.origin, 0.3)
    x = records(manifold, 0.3, N)
    with R.Ledger(BUDGET) as ledger:
        release = R.private_frechet_mean(manifold, x, ball, BUDGET, mechanism="wrapped-gaussian", rng=1)
        assert isinstance(release.value, tuple)
        with pytest.raises(R.BudgetExceeded):
            R.private_frechet_mean(manifold, x, ball, BUDGET, mechanism="wrapped-gaussian", rng=1)
    assert ledger.spent == release.guarantee


def test_plan_draws_its_table():
    import matplotlib.pyplot as plt

    plan = R.plan_private_mean(R.Euclidean(2), R.Ball(np.zeros(2), 1.0), 100, [R.Budget(0.1, 1e-5), R.Budget(1.0, 1e-5)])
    axes = plan.plot()
    try:
        drawn = {line.get_label(): line.get_ydata() for line in axes.get_lines()}
        wrapped = [row.expected_error for row in plan if row.mechanism == "wrapped-gaussian"]
        assert any(np.allclose(y, wrapped) for y in drawn.values() if len(y) == 2)
    finally:
        plt.close("all")
