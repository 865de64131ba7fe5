"""What a run takes for itself when the user gives nothing: from public numbers only, and better
than the plain choice.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from riemdp import DPRGD, DPRSGD, Budget, InvalidArgument, Problem, private_minimize, problems
from riemdp.optimizers import plan_optimizer
from tests.optimizers.test_run import BUDGET, START, M, P, X
from tests.seam import replicate


def test_default_rates_fall_in_the_second_half_where_there_is_noise_to_average():
    p, budget = problems.principal_eigenvector(10), Budget(1.0, 1e-6)
    plan = plan_optimizer(p, 4000, DPRGD(), budget)
    half = plan.steps // 2
    np.testing.assert_allclose(plan.rates[:half], 0.5)
    np.testing.assert_allclose(plan.rates[half:], 0.5 / (1 + np.arange(plan.steps - half) / 5.0))
    for steady in (DPRGD(momentum=0.5), DPRGD(output="geodesic-average"), DPRGD(output="uniform")):
        other = plan_optimizer(p, 4000, steady, budget)
        assert set(other.rates) == {0.5}
        assert 2 * other.steps == plan.steps
    assert set(plan_optimizer(p, 4000, DPRGD(), None).rates) == {0.5}
    assert list(plan_optimizer(p, 4000, DPRGD(1), budget).rates) == [0.5]
    assert set(plan_optimizer(p, 4000, DPRGD(9, 0.25), budget).rates) == {0.25}


@pytest.mark.slow
def test_default_rates_have_less_risk_than_a_constant_one():
    x = np.random.default_rng(4).normal(size=(4000, 10)) * np.array([3, 1.5, *np.ones(8)])
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    p, budget, start = problems.principal_eigenvector(10), Budget(1.0, 1e-6), np.full(10, 10**-0.5)
    covariance = x.T @ x / 4000

    def risk(optimizer):
        w = np.asarray(replicate(p, x, start, optimizer, budget=budget, repetitions=30, rng=1)[0])
        return np.median(
            np.linalg.eigvalsh(covariance)[-1] - np.einsum("si,ij,sj->s", w, covariance, w)
        )

    half = plan_optimizer(p, 4000, DPRGD(), budget).steps // 2
    assert risk(DPRGD()) < 0.5 * risk(DPRGD(half, 0.5))


def test_defaults_come_from_public_numbers():
    r = private_minimize(P, X, START, DPRGD(), BUDGET, rng=1)
    other = private_minimize(P, 0.1 * X[::-1], START, DPRGD(), BUDGET, rng=1)
    assert (r.steps, r.sigma, r.details["clip_norm"]) == (
        other.steps,
        other.sigma,
        other.details["clip_norm"],
    )
    assert r.details["clip_norm"] == 1.0
    plan = plan_optimizer(P, 10, DPRGD(), Budget(0.01, 1e-6))
    assert plan.noise_to_signal > 1
    assert "will not give a useful result" in str(plan)
    free = Problem(M, lambda w, z: -(jnp.sum(w * z) ** 2))
    with pytest.raises(InvalidArgument, match="clip_norm"):
        private_minimize(free, X, START, DPRGD(3, 0.1), BUDGET)
    with pytest.raises(InvalidArgument, match="learning_rate"):
        private_minimize(free, X, START, DPRGD(3, None, 1.0), BUDGET)


def test_a_loss_of_ones_own_is_told_all_that_it_needs_at_once():
    """Before: the step size first, and the clip norm when that was given."""
    own = Problem(M, lambda w, z: -(jnp.dot(w, z) ** 2))
    for optimizer in (DPRGD(), DPRSGD(steps=3, batch_size=5)):
        with pytest.raises(InvalidArgument, match="`learning_rate` and `clip_norm`"):
            private_minimize(own, X, START, optimizer, BUDGET)
    for optimizer, lacking in (
        (DPRGD(learning_rate=0.1), "clip_norm"),
        (DPRGD(clip_norm=1.0), "learning_rate"),
    ):
        with pytest.raises(InvalidArgument, match=f"argument `{lacking}`"):
            private_minimize(own, X, START, optimizer, BUDGET)
    private_minimize(own, X, START, DPRGD(learning_rate=0.1, clip_norm=1.0), BUDGET, rng=1)
    with pytest.raises(InvalidArgument, match="argument `learning_rate`"):
        private_minimize(own, X, START, DPRGD(), None)  # nothing is clipped
