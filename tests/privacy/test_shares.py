"""One budget for several steps: the parts are together within the whole, and waste nothing."""

from __future__ import annotations

import numpy as np
import pytest

import riemdp
from riemdp import Budget, InvalidArgument, Ledger
from riemdp.privacy import gaussian, gaussian_noise_multiplier, pure, split_budget


@pytest.mark.parametrize("budget", [Budget(0.1, 1e-6), Budget(1.0, 1e-5), Budget(20.0, 1e-3)])
@pytest.mark.parametrize("shares", [[1.0], [0.5, 0.5], [0.01, 0.29, 0.7], [0.1] * 10])
def test_gaussian_steps_are_within_the_budget(budget, shares):
    parts = split_budget(budget, shares)
    multipliers = [gaussian_noise_multiplier(part) for part in parts]
    whole = gaussian(multipliers[0]).compose(*map(gaussian, multipliers[1:]))
    spent = whole.epsilon(budget.delta)
    assert spent <= budget.epsilon
    assert spent >= 0.999 * budget.epsilon
    squares = np.array(multipliers) ** -2.0
    assert np.allclose(squares / squares.sum(), np.array(shares) / sum(shares), rtol=1e-3)
    with Ledger(budget) as ledger:
        for multiplier in multipliers:
            ledger.spend(gaussian(multiplier))


def test_shares_of_epsilon_alone_would_waste():
    halves = split_budget(Budget(1.0, 1e-5), [0.5, 0.5])
    assert halves[0] == halves[1]
    assert halves[0].epsilon > 0.6  # more than half
    with Ledger(Budget(1.0, 1e-5)) as ledger:  # a planted fault: the same epsilon for pure steps
        ledger.spend(pure(halves[0].epsilon))
        with pytest.raises(riemdp.BudgetExceeded):
            ledger.spend(pure(halves[0].epsilon))


@pytest.mark.parametrize(
    "shares", [[], [0.6, 0.6], [0.0, 1.0], [-0.1, 0.5], [float("nan")], "ab", 0.5, [None], [1e-14]]
)
def test_bad_shares(shares):
    with pytest.raises(InvalidArgument, match="shares"):
        split_budget(Budget(0.1, 1e-3), shares)
