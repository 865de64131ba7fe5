"""The mean of clipped tangent vectors as a mechanism: noise, sensitivity, charge, front door."""

from __future__ import annotations

import math

import jax
import numpy as np
import pytest

import riemdp
from riemdp import Ball, Budget
from riemdp.mechanisms import TangentMeanNoise

GAUSSIAN, PURE = Budget(1.0, 1e-6), Budget(1.0)
SPACES = [
    riemdp.Sphere(4),
    riemdp.SPDBuresWasserstein(2),
    riemdp.Grassmann(4, 2),
    riemdp.SPDAffineInvariant(2),
    riemdp.Euclidean(3),
]


def records(space, n=60, spread=0.4):
    v = space.tangent_normal(jax.random.key(2), space.origin, spread, (n,))
    return np.array(space.exp(space.origin, v))


@pytest.mark.parametrize("budget", [GAUSSIAN, PURE], ids=str)
@pytest.mark.parametrize("space", SPACES, ids=repr)
def test_errors_are_at_most_what_is_stated(space, budget):
    """And the guarantee, the charge and the point are right."""
    X, ball = records(space), Ball(space.origin, 0.5)
    mechanism = TangentMeanNoise(space, ball, n=60, budget=budget)
    query = riemdp.statistics.TangentMean(ball.on(space), 60)
    target = space.exp(space.origin, query.value(query.prepare(X)))
    errors = []
    ledger = riemdp.Ledger(Budget(1000.0, 1e-3))
    for seed in range(60):
        release = mechanism.release(X, seed, ledger=ledger)
        errors.append(float(space.dist(target, release.value)))
    assert bool(space.belongs(release.value, 1e-8))
    assert ledger.charges == 60
    assert release.guarantee.within(budget)
    assert release.error_law is not None
    square = np.square(errors)
    room = 4 * np.std(square) / math.sqrt(len(square))
    assert np.mean(square) - room <= release.error_law.mean_square
    assert max(errors) <= 2 * ball.radius * 1.2


@pytest.mark.parametrize("budget", [GAUSSIAN, PURE], ids=str)
def test_noise_is_that_of_the_sensitivity(budget):
    """In a plane nothing is shrunk, and nothing is clipped in a wide ball with many records."""
    n, r = 2000, 1.0
    space = riemdp.Euclidean(2)
    mechanism = TangentMeanNoise(space, Ball(np.zeros(2), r), n=n, budget=budget)
    multiplier = (
        riemdp.privacy.gaussian_noise_multiplier(budget) if budget.delta else 1 / budget.epsilon
    )
    assert mechanism.scale == pytest.approx(2 * r / n * multiplier, rel=1e-6)
    assert mechanism.scale >= 2 * r / n * multiplier
    X = np.zeros((n, 2))
    square = np.array(
        [float(np.sum(np.asarray(mechanism.release(X, i).value) ** 2)) for i in range(1200)]
    )
    expected = mechanism.scale**2 * (2 if budget.delta else 6)  # d, or d (d + 1)
    room = 5 * np.std(square) / math.sqrt(len(square))
    assert abs(np.mean(square) - expected) < room
    assert abs(0.64 * np.mean(square) - expected) > room  # noise times 0.8 is noticed


def test_the_radius_has_no_curvature_limit_and_records_raise_nothing():
    sphere = riemdp.Sphere(3)
    wide = Ball(sphere.origin, 2.0)
    X = records(sphere, spread=1.0)
    with pytest.raises(riemdp.InvalidArgument, match="radius"):
        riemdp.private_frechet_mean(sphere, X, wide, GAUSSIAN, mechanism="wrapped-gaussian")
    X[3], X[4], X[5] = np.nan, -np.asarray(sphere.origin), 1e300
    release = riemdp.private_frechet_mean(
        sphere, X, wide, GAUSSIAN, mechanism="tangent-mean", rng=1
    )
    assert release.mechanism == "tangent-mean"
    assert release.sensitivity == pytest.approx(2 * 2.0 / 60, rel=1e-9)
    assert release.details["radius"] == 2.0
    page = riemdp.report.privacy_report(release)
    assert "tangent vector" in page.clipping
    for option in (
        {"weights": np.ones(60)},
        {"tolerance": 1e-6},
        {"adjacency": "add-or-remove-one", "n_min": 50},
        {"calibration": "classical"},
        {"shrink": True},
    ):
        with pytest.raises(riemdp.InvalidArgument, match=next(iter(option))):
            riemdp.private_frechet_mean(
                sphere, X, wide, GAUSSIAN, mechanism="tangent-mean", **option
            )


def test_the_plan_has_its_row_and_auto_leaves_it_alone():
    sphere, ball = riemdp.Sphere(4), Ball(riemdp.Sphere(4).origin, 0.5)
    plan = riemdp.plan_private_mean(sphere, ball, 100, [GAUSSIAN, PURE])
    counting = [r for r in plan if r.mechanism == "tangent-mean"]
    alone = riemdp.plan_private_mean(sphere, ball, 100, [GAUSSIAN, PURE], count_outside=False)
    rows = [r for r in alone if r.mechanism == "tangent-mean"]
    for row, other in zip(rows, counting, strict=True):
        assert other.expected_error >= row.expected_error
        assert (other.expected_error > row.expected_error) == (other.count_share > 0)
    made = [TangentMeanNoise(sphere, ball, n=100, budget=b) for b in (GAUSSIAN, PURE)]
    for row, mechanism in zip(rows, made, strict=True):
        assert row.expected_error == mechanism.error_law.expected_error
        assert not row.eligible
    assert all(plan.best(b).mechanism != "tangent-mean" for b in (GAUSSIAN, PURE))
    assert "tangent-mean" in str(plan)
    weighted = riemdp.plan_private_mean(sphere, ball, 3, GAUSSIAN, weights=[1.0, 1.0, 2.0])
    row = next(r for r in weighted if r.mechanism == "tangent-mean")
    assert row.expected_error is None
    assert "weights" in row.note


@pytest.mark.slow
def test_it_beats_the_ambient_baseline_where_curvature_is_positive():
    """Sensitivity 2 r / n against 2 r / (n cos 2 r) of the Frechet mean, measured to that mean."""
    sphere, n = riemdp.Sphere(6), 100
    ball = Ball(sphere.origin, math.pi / 8)
    X = np.asarray(ball.clamp(sphere, records(sphere, n, 0.08)))
    truth = riemdp.frechet_mean(sphere, X).value

    def error(mechanism):
        released = [
            riemdp.private_frechet_mean(sphere, X, ball, GAUSSIAN, mechanism=mechanism, rng=i).value
            for i in range(40)
        ]
        return math.sqrt(np.mean([float(sphere.dist(truth, x)) ** 2 for x in released]))

    tangent = error("tangent-mean")
    assert tangent < error("extrinsic-gaussian")
    assert tangent < error("wrapped-gaussian")
