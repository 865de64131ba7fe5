"""A run in several calls, each from the released value of the one before, planned as one."""

from __future__ import annotations

import numpy as np
import pytest

from riemdp import (
    DPRGD,
    DPRSGD,
    DPRSVRG,
    Budget,
    InvalidArgument,
    Ledger,
    NoiseSource,
    private_minimize,
    problems,
)
from riemdp.optimizers import plan_optimizer

N, DIM, DELTA = 300, 4, 1e-5
PROBLEM = problems.principal_eigenvector(DIM)
X = np.random.default_rng(0).normal(size=(N, DIM)) * [2.0, 1.0, 1.0, 1.0]
X /= np.linalg.norm(X, axis=1, keepdims=True)
START = np.ones(DIM) / 2.0
BUDGET = Budget(2.0, DELTA)


def falling(step):
    """A learning rate that is a function of the step."""
    return 0.3 / (1.0 + step)


SETTINGS = [
    DPRGD(12, 0.3),
    DPRGD(12),
    DPRGD(12, falling),
    DPRSGD(12, 30, 0.3),
    DPRSGD(12, 30, 0.3, sampling="poisson"),
    DPRSGD(12, 30, 0.3, sampling="poisson", adjacency="replace-one"),
    DPRSGD(30, 30, 0.3, sampling="allocation"),
    DPRSVRG(3, 5, 0.1, batch_size=30),
    DPRSVRG(2, 5, 0.1, batch_size=30, restarts=3),
    DPRSVRG(3, 5, 0.1, batch_size=30, variant="as-published"),
]


def chained(plan, source, ledger=None):
    """The results of all calls of a plan."""
    results, at = [], START
    for part in plan.parts:
        how = {"noise_std": plan.sigma, "rng": source, "ledger": ledger}
        results.append(private_minimize(PROBLEM, X, at, part, **how))
        at = results[-1].value
    return results


@pytest.mark.parametrize("optimizer", SETTINGS, ids=range(len(SETTINGS)))
def test_the_parts_cost_together_what_the_whole_run_costs_and_no_more_than_the_budget(optimizer):
    plan = plan_optimizer(PROBLEM, N, optimizer, BUDGET, parts=3)
    results = chained(plan, 1)
    total = results[0].guarantee.compose(*(result.guarantee for result in results[1:]))
    whole = private_minimize(PROBLEM, X, START, optimizer, noise_std=plan.sigma, rng=1)
    assert total.epsilon(DELTA) <= BUDGET.epsilon
    assert total.epsilon(DELTA) == pytest.approx(whole.guarantee.epsilon(DELTA), rel=1e-9)
    assert total.epsilon(DELTA) == pytest.approx(plan.guarantee().epsilon(DELTA), rel=1e-9)
    assert total.epsilon(DELTA) >= 0.99 * BUDGET.epsilon
    assert sum(result.steps for result in results) == whole.steps == plan.steps


@pytest.mark.parametrize("optimizer", SETTINGS, ids=range(len(SETTINGS)))
def test_the_parts_end_where_the_whole_run_ends(optimizer):
    """Without noise, on batches of one source: the same steps at the same rates."""
    plan = plan_optimizer(PROBLEM, N, optimizer, None, noise_std=0.0, parts=3)
    whole = private_minimize(PROBLEM, X, START, optimizer, noise_std=0.0, rng=NoiseSource(5))
    parts = chained(plan, NoiseSource(5))
    if optimizer in SETTINGS[:3]:
        np.testing.assert_allclose(parts[-1].value, whole.value, atol=1e-12)
    # on other batches: as near to the principal direction, up to the batches' own noise
    assert abs(parts[-1].value @ whole.value) > 0.99


def test_a_ledger_takes_what_the_plan_says_and_not_one_part_more():
    plan = plan_optimizer(PROBLEM, N, DPRGD(12, 0.3), BUDGET, parts=3)
    ledger = Ledger(BUDGET)
    results = chained(plan, 1, ledger)
    assert len({tuple(result.value) for result in results}) == 3
    assert ledger.spent.epsilon(DELTA) == pytest.approx(BUDGET.epsilon, rel=1e-9)
    assert not ledger.fits(results[0].guarantee)


@pytest.mark.parametrize(
    ("optimizer", "parts", "message"),
    [
        (DPRGD(10, 0.3), 3, "`parts` = 3.*divides the 10 steps"),
        (DPRSGD(30, 300, 0.3, sampling="allocation"), 2, "`parts` = 2.*divides the 3 epochs"),
        (DPRSVRG(2, 5, 0.1), 3, "`parts` = 3.*divides the 2 epochs"),
        (DPRGD(10, 0.3, output="geodesic-average"), 2, "`parts` = 2.*output='last'"),
        (DPRGD(10, 0.3, output="uniform"), 2, "`parts` = 2.*output='last'"),
        (DPRGD(10, 0.3, clip_norm="adaptive"), 2, "`parts` = 2: the clip norm"),
        (DPRGD(10, 0.3), 0, "`parts` = 0"),
        (DPRGD(10, 0.3), 1.5, "`parts` = 1.5"),
    ],
    ids=str,
)
def test_what_cannot_be_cut_is_refused(optimizer, parts, message):
    with pytest.raises(InvalidArgument, match=message):
        plan_optimizer(PROBLEM, 10 * N, optimizer, BUDGET, parts=parts)
