"""What a run takes for itself when the user gives nothing: from public numbers only, and better
than the plain choice.
"""

from __future__ import annotations

import jax.numpy as jnp
import pytest

from riemdp import DPRGD, Budget, InvalidArgument, Problem, private_minimize
from riemdp.optimizers import plan_optimizer
from tests.optimizers.test_run import BUDGET, START, M, P, X


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
