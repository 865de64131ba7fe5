"""Budgets at the ends of what a float64 holds, small deltas, and messages of a ledger that a user
can act on.
"""

from __future__ import annotations

import numpy as np
import pytest

import riemdp as R
from riemdp import privacy

BUDGET = R.Budget(1.0, 1e-6)


@pytest.mark.parametrize(
    ("epsilon", "delta", "name"),
    [
        (1e100, 1e-6, "epsilon"),
        (1e300, 0.0, "epsilon"),
        (5e-324, 0.0, "epsilon"),
        (1e-200, 1e-6, "epsilon"),
        (1.0, 5e-324, "delta"),
    ],
)
def test_numbers_that_say_nothing_are_refused_by_name(epsilon: float, delta: float, name: str):
    with pytest.raises(R.InvalidArgument, match=f"`{name}`"):
        R.Budget(epsilon, delta)


@pytest.mark.parametrize("sampling", ["without-replacement", "poisson"])
def test_epsilon_does_not_jump_where_delta_is_tiny(sampling: str):
    """From below the mass that a lattice counts as infinite on, it was that of all records."""
    run = R.subsampled_gaussian(
        4.0, population=100_000, batch_size=100, steps=3000, sampling=sampling
    )
    found = [run.epsilon(delta) for delta in (1e-20, 1e-22, 1e-24, 1e-30, 1e-60, 1e-200)]
    assert found == sorted(found)
    assert found[2] < 2.0 * found[1]
    # never below the truth: one step alone, in closed form
    one = R.subsampled_gaussian(4.0, population=100_000, batch_size=100, steps=1, sampling=sampling)
    for delta, epsilon in zip((1e-24, 1e-30, 1e-60), found[2:], strict=False):
        assert epsilon >= one.epsilon(delta)


def test_small_deltas_are_bounds_where_the_truth_is_known():
    """Full batches are the Gaussian mechanism, whose epsilon is exact."""
    from riemdp.privacy.accounting import bounds, fourier
    from riemdp.privacy.accounting.events import GaussianEvent, PureEvent

    parts = (GaussianEvent(0.09),)
    mixed = (GaussianEvent(0.09), PureEvent(1e-6))
    for delta in (1e-24, 1e-28, 1e-40, 1e-100):
        exact = bounds.epsilon(parts, delta)
        assert exact <= fourier.epsilon(mixed, delta) <= 1.1 * exact


# ---------------------------------------------------------------- messages of a ledger
def test_a_ledger_names_the_units_that_do_not_mix_and_no_argument_of_its_own():
    ledger = R.Ledger(R.Budget(3.0, 1e-5))
    ledger.spend(privacy.gaussian(5.0).for_people())
    with pytest.raises(R.InvalidArgument) as caught:
        ledger.spend(privacy.gaussian(5.0))
    said = str(caught.value)
    assert "others" not in said
    assert "protects one record" in said
    assert "`groups`" in said
    assert "Nothing was released or charged" in said
    assert ledger.charges == 1


def test_a_refused_pure_part_of_a_split_budget_names_the_remedy():
    """ "auto" in a public ball turns pure; four quarters then do not fit."""
    space, ball = R.Euclidean(2), R.Ball(np.zeros(2), 1.0)
    X = np.zeros((1000, 2))
    quarters = privacy.split_budget(BUDGET, [0.25] * 4)
    ledger = R.Ledger(BUDGET)
    R.private_frechet_mean(space, X, ball, quarters[0], ledger=ledger)
    R.private_frechet_mean(space, X, ball, quarters[1], ledger=ledger)
    with pytest.raises(R.BudgetExceeded, match=r'mechanism="wrapped-gaussian"'):
        R.private_frechet_mean(space, X, ball, quarters[2], ledger=ledger)
    ledger = R.Ledger(BUDGET)
    for part in quarters:
        R.private_frechet_mean(space, X, ball, part, ledger=ledger, mechanism="wrapped-gaussian")
    assert ledger.charges == 4
