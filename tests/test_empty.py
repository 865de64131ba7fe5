"""No records at all: an error that names the argument, and nothing is spent."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import riemdp as R
from riemdp import problems

SPACE, BALL, BUDGET = R.SPDAffineInvariant(2), R.Ball(np.eye(2), 1.0), R.Budget(1.0, 1e-6)
NONE, ROWS = np.zeros((0, 2, 2)), np.zeros((0, 3))
EIGEN, START = problems.principal_eigenvector(3), np.ones(3) / np.sqrt(3.0)

CALLS: dict[str, Callable[[], object]] = {
    "mean": lambda: R.private_frechet_mean(SPACE, NONE, BALL, BUDGET),
    "mean, ball found": lambda: R.private_frechet_mean(SPACE, NONE, budget=BUDGET),
    "mean of people": lambda: R.private_frechet_mean(SPACE, NONE, BALL, BUDGET, groups=[]),
    "variance": lambda: R.private_frechet_variance(SPACE, NONE, BALL, BUDGET),
    "median": lambda: R.private_geometric_median(SPACE, NONE, budget=BUDGET),
    "ball": lambda: R.private_ball(SPACE, NONE, R.AdaptiveBall(), BUDGET),
    "mean without privacy": lambda: R.frechet_mean(SPACE, NONE),
    "mean of people without privacy": lambda: R.frechet_mean(SPACE, NONE, groups=[]),
    "minimise": lambda: R.private_minimize(EIGEN, ROWS, START, R.DPRGD(), BUDGET),
    "objective": lambda: EIGEN.objective(START, ROWS),
    "eigenvector": lambda: R.optimizers.private_principal_eigenvector(ROWS, BUDGET),
    "estimator": lambda: R.PrivateFrechetMean(manifold=SPACE, budget=BUDGET, ball=BALL).fit(NONE),
    "classifier": lambda: R.PrivateMDM(budget=BUDGET, ball=BALL).fit(NONE, np.zeros(0)),
    "geodesics": lambda: R.PrivatePGA(manifold=SPACE, budget=BUDGET, ball=BALL).fit(NONE),
    "tangent space": lambda: R.PrivateTangentSpace(budget=BUDGET, ball=BALL).fit(NONE),
}


@pytest.mark.parametrize("name", CALLS)
def test_no_records_are_refused_by_name(name: str):
    with R.Ledger(R.Budget(3.0, 1e-4)) as ledger:
        with pytest.raises(R.InvalidArgument, match=r"`(X|data)`"):
            CALLS[name]()
        assert ledger.charges == 0


def test_nothing_is_wrong_with_no_records():
    assert R.check_records(SPACE, NONE) == []
