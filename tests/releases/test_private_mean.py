"""`private_frechet_mean` and its plan: enforced domain, ledger, choice by formula, errors at equal
certified privacy.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

import riemdp as R
from riemdp.statistics import FrechetMean
from tests.seam import Means, original, plant

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
    v = manifold.tangent_normal(seed, manifold.origin, radius / (2 * math.sqrt(manifold.dim)), (n,))
    return manifold.exp(manifold.origin, v)


def test_public_weights_change_mean_and_sensitivity():
    manifold, ball = R.Euclidean(2), R.Ball(np.zeros(2), 1.0)
    x = np.array([[0.5, 0.0], [0.0, 0.5], [-0.5, 0.0]])
    w = np.array([1.0, 2.0, 5.0])
    for mechanism in (*OUTPUT, "extrinsic-gaussian", "extrinsic-laplace", "auto"):
        release = R.private_frechet_mean(
            manifold, x, ball, R.Budget(1e6, 1e-5), mechanism=mechanism, weights=w, rng=1
        )
        assert release.sensitivity == pytest.approx(2 * 5 / 8, rel=1e-6)
        np.testing.assert_allclose(release.value, w @ x / 8, atol=0.01)
        assert np.linalg.norm(np.asarray(release.value) - x.mean(axis=0)) > 0.1
    with pytest.raises(R.InvalidArgument, match="weights"):
        R.private_frechet_mean(manifold, x, ball, BUDGET, weights=[1, 2])
    with pytest.raises(R.InvalidArgument, match="weights"):
        R.private_frechet_mean(manifold, x, ball, BUDGET, weights=w, mechanism="dp-rgd")


def test_the_public_tolerance_is_added_whatever_residual_was_realised(monkeypatch):
    """SPDLogEuclidean: h = 1, so 2 tolerance more; the sphere: 2 tolerance / h. The solver is asked
    for it, and what it reports changes nothing that is stated.
    """

    tolerances = []
    solver = original("solver of a mean")

    def watched(manifold, look, start, tol, most):
        tolerances.append(tol)
        found = solver(manifold, look, start, tol, most)
        return dataclasses.replace(found, residual=tol * tolerances.count(tol) / 10)

    plant(monkeypatch, "solver of a mean", watched)
    flat, sphere = R.SPDLogEuclidean(2), R.Sphere(3)
    h = 0.6 / math.tan(0.6)
    for manifold, radius, plain, added in (
        (flat, 0.5, 1 / N, 0.02),
        (sphere, 0.3, 0.6 / (N * math.cos(0.6)), 0.02 / h),
    ):
        ball, x = R.Ball(manifold.origin, radius), records(manifold, radius, N)
        query = FrechetMean(ball.on(manifold), N, tolerance=0.01)
        local = ball.on(manifold).frame.local
        there = R.Ball(local.center, radius)
        mechanism = R.WrappedLaplace(
            local.manifold, local.center, sensitivity=query.sensitivity, epsilon=BUDGET, ball=there
        )
        made = [mechanism.release(query.value(query.prepare(x)), i) for i in range(2)]
        assert tolerances[-1] == 0.01
        assert made[0].sensitivity == pytest.approx(plain + added, rel=1e-9)
        assert made[0].scale == made[1].scale
        # planted: a scale without the tolerance is much smaller
        assert made[0].scale > 1.5 * plain / BUDGET.epsilon


# -------------------------------------------------------------------- auto and the plan
def test_auto_is_the_row_of_the_plan_and_never_looks_at_the_data():
    manifold, radius = SPACES["SPDLogEuclidean(2)"]
    ball = R.Ball(np.eye(2), radius)
    for budget in (BUDGET, R.Budget(0.5), R.Budget(5.0, 0.01)):
        plan = R.plan_private_mean(manifold, ball, N, budget)
        chosen = {
            R.private_frechet_mean(
                manifold, records(manifold, s, N, i), ball, budget, rng=1
            ).mechanism
            for i, s in enumerate((0.01, 1.0, 3.0))
        }
        chosen.add(
            R.private_frechet_mean(
                manifold, np.full((N, 2, 2), np.nan), ball, budget, rng=1
            ).mechanism
        )
        assert chosen == {plan.best().mechanism}
        release = R.private_frechet_mean(manifold, records(manifold, 1.0, N), ball, budget, rng=1)
        assert release.details["plan"] == str(plan)
        assert "<- auto" in str(plan)
        finite = [r for r in plan if r.eligible]
        assert plan.best().compared == min(r.compared for r in finite)
        if budget.delta == 0:
            assert "gaussian" not in plan.best().mechanism


def test_plan_figures_are_those_of_the_release():
    for name in ("SPDLogEuclidean(2)", "Sphere(3)"):
        manifold, radius = SPACES[name]
        ball = R.Ball(manifold.origin, radius)
        for row in R.plan_private_mean(manifold, ball, N, BUDGET):
            if row.expected_error is None:
                continue
            release = R.private_frechet_mean(
                manifold, records(manifold, radius, N), ball, BUDGET, mechanism=row.mechanism, rng=1
            )
            assert release.expected_error == pytest.approx(row.expected_error)
            assert release.scale == pytest.approx(row.scale)
            assert row.error_distribution.quantile(0.9) == pytest.approx(
                release.error_distribution.quantile(0.9)
            )


def test_plan_says_each_reason_once_and_takes_lists_of_budgets():
    plan = R.plan_private_mean(
        R.Stiefel(4, 2), R.Ball(R.Stiefel(4, 2).origin, 0.2), 100, [BUDGET, 0.5]
    )
    with pytest.raises(R.InvalidArgument, match="no mechanism") as caught:
        plan.best(BUDGET)
    for text in (str(plan), str(caught.value)):
        assert text.count("no exact Riemannian Laplace sampler is known") == 1  # for both budgets
    assert "[1]" in str(plan)
    assert max(map(len, str(plan).splitlines())) <= 150
    with pytest.raises(R.InvalidArgument, match="budget"):
        plan.best()
    with pytest.raises(R.InvalidArgument, match="not in the plan"):
        plan.best(R.Budget(7.0))
    bures = R.SPDBuresWasserstein(2)
    too_large = R.plan_private_mean(bures, R.Ball(np.eye(2), 0.6), 100, [BUDGET, 0.5])
    assert (
        str(too_large).count("must be below 0.441209") == 1
    )  # the limit itself, not what the curvature at 0.6 would ask for
    with pytest.raises(R.InvalidArgument, match=r"k-norm-gradient: argument `ball\.radius` = 0\.6"):
        too_large.best(BUDGET)
    assert (
        R.plan_private_mean(bures, R.Ball(np.eye(2), 0.441), 100, BUDGET).best().expected_error > 0
    )
    two = R.plan_private_mean(
        R.Euclidean(2), R.Ball(np.zeros(2), 1.0), 100, [R.Budget(0.1), R.Budget(1.0)]
    )
    assert two.best(R.Budget(0.1)).expected_error > two.best(R.Budget(1.0)).expected_error


# -------------------------------------------------------------------- sad paths: nothing is spent


@pytest.mark.parametrize("residual", [0.0, 1.0, np.nan])
@pytest.mark.parametrize("value", [[1.0, 0, 0], [-1.0, 0, 0], [np.nan, 0, 0], [0.0, 1.0, 0.0]])
def test_a_mean_that_was_not_found_is_no_event(monkeypatch, value, residual):
    """Not converged, another stationary point outside the ball, or not finite, whatever the solver
    says of it: a release from a point of the ball with the same public numbers. That an error is
    raised would tell data sets apart with certainty.
    """
    from riemdp import statistics

    manifold = R.Sphere(3)
    ball = R.Ball([1.0, 0, 0], 0.5)
    data = np.tile([1.0, 0, 0], (N, 1))
    honest = R.private_frechet_mean(manifold, data, ball, BUDGET, mechanism="wrapped-laplace")

    def stuck(*_):
        return Means.Found(np.array(value), residual, passes=60)

    plant(monkeypatch, "solver of a mean", stuck)
    query = statistics.FrechetMean(ball.on(manifold), N)
    assert float(manifold.dist(ball.center, query.value(query.prepare(data)))) <= 0.5 * (1 + 1e-9)
    with R.Ledger(R.Budget(3.0, 1e-4)) as ledger:
        made = R.private_frechet_mean(manifold, data, ball, BUDGET, mechanism="wrapped-laplace")
    assert ledger.charges == 1
    assert (made.scale, made.guarantee) == (honest.scale, honest.guarantee)
    assert made.sensitivity == honest.sensitivity


@pytest.mark.parametrize(
    ("n", "far", "radius"), [(2, 20.0, 25.0), (2, 16.0, 28.0), (3, 19.0, 18.0)]
)
@pytest.mark.parametrize("mechanism", ["riemannian-laplace", "k-norm-gradient"])
def test_a_mean_about_a_far_centre_is_released_where_it_was_drawn(n, far, radius, mechanism):
    """Before: at -12.7 for a mean at 8.5, outside the ball, about a centre at 20."""
    space, rng = R.Lorentz(n), np.random.default_rng(n)
    center = np.r_[np.cosh(far), np.sinh(far), np.zeros(n - 2)]
    t = far - radius * rng.uniform(0.7, 0.99, size=200)
    x = np.column_stack([np.cosh(t), np.sinh(t), np.zeros((200, n - 2))])
    release = R.private_frechet_mean(
        space, x, R.Ball(center, radius), R.Budget(5.0), mechanism=mechanism, rng=1
    )
    truth = np.r_[np.cosh(np.mean(t)), np.sinh(np.mean(t)), np.zeros(n - 2)]
    assert float(space.dist(truth, release.value)) <= release.error_distribution.quantile(1 - 1e-7)
    assert release.error_distribution.quantile(1 - 1e-7) < radius / 3
    assert float(space.dist(center, release.value)) < radius + release.error_distribution.quantile(
        1 - 1e-7
    )
