"""Options of a plan, and what a private mean has no use for (see also `tests/contract`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import riemdp as R

SPACE = R.SPDAffineInvariant(2)
BALL = R.Ball(np.eye(2), 1.0)
BUDGET = R.Budget(0.9, 1e-6)
N = 400

# A value of each option that is not what happens without it.
OPTIONS: dict[str, dict[str, Any]] = {
    "weights": {"weights": np.r_[2.0 * np.ones(N // 2), np.ones(N // 2)]},
    "n_min": {"n": None, "n_min": N},
    "count_outside": {"count_outside": False},
}


def planned(ball: Any, n: int | None = N, **options: Any) -> str:
    return str(R.plan_private_mean(SPACE, ball, n, BUDGET, **options))


@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_changes_a_plan_or_is_refused(option: str):
    options = OPTIONS[option]
    with pytest.raises(R.InvalidArgument, match=f"`{option}`.*has no use.*leave it out"):
        planned(R.AdaptiveBall(), **options)
    assert planned(BALL, **options) != planned(BALL)


def test_a_number_of_records_is_public_or_protected_and_not_both():
    with pytest.raises(R.InvalidArgument, match=r"`n` = 400.*give None"):
        planned(BALL, n_min=N)
    with pytest.raises(R.InvalidArgument, match=r"`weights`.*private"):
        planned(BALL, None, n_min=N, weights=np.ones(N))


@pytest.mark.parametrize("name", ["dp-rgd", "dp-rsgd", "dp-rsvrg", "tangent-mean"])
def test_what_divides_by_the_number_of_records_does_not_protect_it(name: str):
    ledger, X = R.Ledger(R.Budget(9.0, 1e-3)), np.tile(np.eye(2), (N, 1, 1))
    with pytest.raises(R.InvalidArgument, match=r"`n_min`.*has no use"):
        R.private_frechet_mean(SPACE, X, BALL, BUDGET, mechanism=name, n_min=9, ledger=ledger)
    assert ledger.charges == 0
