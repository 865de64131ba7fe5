"""The dp-* mechanisms through `private_frechet_mean`: near the mean when the budget is large,
charged exactly, or not at all.
"""

from __future__ import annotations

import numpy as np
import pytest

import riemdp as R

N = 400
LARGE = R.Budget(50.0, 1e-5)
DP = {"dp-rgd": R.DPRGD, "dp-rsgd": R.DPRSGD, "dp-rsvrg": R.DPRSVRG}
# How near the mean, as a share of its distance from the centre, a run with public defaults and the
# large budget comes.
NEAR = {"dp-rgd": 0.1, "dp-rsgd": 0.7, "dp-rsvrg": 0.35}
SPACES = {
    "SPDLogEuclidean(2)": (R.SPDLogEuclidean(2), 1.0),
    "Sphere(3)": (R.Sphere(3), 0.5),
    "SPDBuresWasserstein(2)": (R.SPDBuresWasserstein(2), 0.3),
    "Lorentz(3)": (R.Lorentz(3), 1.0),
}
# One run in the default tests; the others differ in the space and the loop, which tests/optimizers
# covers.
CASES = [
    pytest.param(
        space,
        name,
        marks=() if (space, name) == ("SPDLogEuclidean(2)", "dp-rgd") else pytest.mark.slow,
    )
    for space in SPACES
    for name in DP
]


def off_centre(manifold, radius, n=N, seed=0):
    """Records around a point two thirds of the radius from the centre of the ball, all inside."""
    origin = manifold.origin
    z = 0.1 * radius * np.random.default_rng(seed).normal(size=(n, manifold.dim))
    z[:, 0] += 2 * radius / 3
    x = manifold.exp(origin, manifold.from_coordinates(origin, z))
    return np.asarray(R.Ball(origin, radius).clamp(manifold, x))


@pytest.mark.parametrize(("space", "name"), CASES)
def test_a_run_comes_near_the_mean_and_is_charged_exactly(space, name):
    manifold, radius = SPACES[space]
    ball, x = R.Ball(manifold.origin, radius), off_centre(manifold, radius)
    truth = R.frechet_mean(manifold, x).value
    away = float(manifold.dist(truth, ball.center))
    ledger = R.Ledger(LARGE)
    release = R.private_frechet_mean(manifold, x, ball, LARGE, mechanism=name, rng=1, ledger=ledger)
    assert release.mechanism == name
    assert bool(manifold.belongs(release.value, 1e-6))
    assert bool(ball.contains(manifold, release.value))
    assert (
        float(manifold.dist(truth, release.value)) < NEAR[name] * away
    )  # planted: the centre, a run of no step, is at `away`
    # charged: what the release states, no more, and that is within the budget and nearly all of it
    stated, spent = release.guarantee, ledger.spent
    assert spent.epsilon(LARGE.delta) == pytest.approx(stated.epsilon(LARGE.delta), rel=1e-12)
    assert (spent.adjacency, spent.unit) == (stated.adjacency, stated.unit)
    assert release.guarantee.adjacency == "replace-one"
    assert 0.95 * LARGE.epsilon < release.guarantee.epsilon(LARGE.delta) <= LARGE.epsilon
    assert release.details["n"] == N
    assert release.error_distribution is None


@pytest.mark.parametrize("name", DP)
def test_a_ball_without_a_convex_mean_is_refused(name):
    sphere, ledger = R.Sphere(3), R.Ledger(R.Budget(1.0, 1e-4))
    ball, x = R.Ball(sphere.origin, 0.9), np.tile(sphere.origin, (9, 1))
    with pytest.raises(R.InvalidArgument, match=r"0\.785398"):
        R.private_frechet_mean(sphere, x, ball, LARGE, mechanism=name, ledger=ledger)
    assert ledger.charges == 0
