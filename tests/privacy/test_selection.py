"""What the best of a random number of runs costs, against the exact divergence of an example."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy.special import ndtr

from riemdp import Budget, BudgetExceeded, InvalidArgument, Ledger
from riemdp.privacy import Guarantee, gaussian, gaussian_noise_multiplier, participation, pure
from tests.seam import Accounts

selected, budget_of_run = Accounts.selected, Accounts.budget_of_run
X = np.linspace(-9.0, 9.0, 8001)
DELTA = 1e-5


def density(shift: float, runs: int, side: int) -> np.ndarray:
    """Of the largest (smallest) of a Poisson number of normal numbers about `shift`."""
    one = np.exp(-((X - shift) ** 2) / 2) / math.sqrt(2 * math.pi)
    return runs * one * np.exp(-runs * (1.0 - ndtr(side * (X - shift))))


def exact_delta(epsilon: float, mu: float, runs: int) -> float:
    """Between neighbours that move each run by mu; that there is no run is equally likely."""
    found = []
    for side in (1, -1):
        p, q = density(0.0, runs, side), density(mu, runs, side)
        for one, other in ((p, q), (q, p)):
            more = np.maximum(one - math.exp(epsilon) * other, 0.0)
            found.append(float(np.sum(more) * (X[1] - X[0])))
    return max(found)


@pytest.mark.parametrize("runs", [1, 3, 10, 1000, 10_000])
@pytest.mark.parametrize("mu", [0.1, 0.3, 1.0])
def test_the_best_of_gaussian_runs_costs_no_more_than_is_said(mu: float, runs: int) -> None:
    """With the delta of the budget in the place of that of one run, the figure for mu = 0.1 and
    1000 runs would be epsilon 0.53 at 1e-5, where the exact delta is 0.026.
    """
    whole = selected(gaussian(1.0 / mu), runs)
    top = whole.epsilon(DELTA)
    for epsilon in np.linspace(0.05, 1.0, 8) * min(top, 40.0):
        assert exact_delta(float(epsilon), mu, runs) <= whole.delta(float(epsilon))
    assert whole.delta(top) <= DELTA * (1 + 1e-6)


def test_the_figures_of_one_run_and_ten() -> None:
    one = gaussian(6.0)
    assert one.epsilon(DELTA) < selected(one, 1).epsilon(DELTA) < selected(one, 10).epsilon(DELTA)
    assert selected(one, 10).epsilon(DELTA) == pytest.approx(1.237, abs=1e-3)
    assert selected(pure(0.2), 10).epsilon(0.0) == pytest.approx(0.6, rel=1e-12)
    assert selected(pure(0.2), 10).parts == selected(pure(0.2), 99).parts


@pytest.mark.parametrize("budget", [Budget(1.0, 1e-5), Budget(8.0, 1e-6), Budget(0.1, 1e-9)])
@pytest.mark.parametrize("runs", [1, 10])
def test_what_one_run_may_spend_keeps_within_the_budget(budget: Budget, runs: int) -> None:
    one = budget_of_run(budget, runs)
    whole = selected(gaussian(gaussian_noise_multiplier(one)), runs)
    assert whole.within(budget)
    assert whole.epsilon(budget.delta) > 0.99 * budget.epsilon


def test_what_one_pure_run_may_spend() -> None:
    for epsilon in (0.1, 1.0, 1.1, 3.0, 7.7):
        budget = Budget(epsilon)
        whole = selected(pure(budget_of_run(budget, 10).epsilon), 10)
        assert whole.within(budget)
        assert whole.epsilon(0.0) == pytest.approx(epsilon, rel=1e-12)


def test_a_budget_that_leaves_a_run_nothing_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="fewer runs"):
        budget_of_run(Budget(0.01, 0.3), 1000)


def test_it_composes_with_everything_and_costs_at_least_each_part() -> None:
    whole, other = selected(gaussian(6.0), 10), gaussian(8.0)
    twice = whole.compose(whole)
    assert twice == whole.repeat(2)
    assert whole.epsilon(DELTA) < twice.epsilon(DELTA) < 2.0 * whole.epsilon(DELTA / 2)
    both = whole.compose(other, pure(0.1))
    assert both.epsilon(DELTA) > max(whole.epsilon(DELTA), other.epsilon(DELTA))
    assert both.delta(1.0) >= max(whole.delta(1.0), other.delta(1.0))
    assert whole.epsilon(0.0) == math.inf
    assert whole.delta(math.inf) == 0.0
    assert 1.0 >= whole.group(2).delta(2.0) >= whole.delta(2.0)
    assert participation(whole, agents=4, sampled=1, rounds=1).epsilon(DELTA) >= 0.5
    assert not twice.within(Budget(whole.epsilon(DELTA), DELTA))


def test_it_is_kept_in_a_ledger_and_in_words() -> None:
    whole = selected(gaussian(6.0), 10)
    assert Guarantee.from_dict(json.loads(json.dumps(whole.to_dict()))) == whole
    assert "the best of a secret number of runs, Poisson with mean 10" in str(whole)
    with Ledger(Budget(2.0, DELTA)) as ledger:
        ledger.spend(whole)
        ledger.spend(gaussian(8.0))
        with pytest.raises(BudgetExceeded):
            ledger.spend(whole.repeat(3))
    assert ledger.charges == 2
