"""What a printed result says about its budget."""

from __future__ import annotations

from typing import Any

import numpy as np

import riemdp as R
from riemdp import problems
from riemdp.report import privacy_report

Z = np.random.default_rng(0).normal(size=(400, 3))
START = np.ones(3) / np.sqrt(3.0)
PROBLEM = problems.principal_eigenvector(3)


def run(**options: Any) -> R.OptimizationResult:
    return R.private_minimize(PROBLEM, Z, START, R.DPRGD(3, 0.1, 1.0), rng=0, **options)


def test_a_printed_result_quotes_the_delta_and_the_budget_that_were_asked_for():
    budget = R.Budget(2.0, 3e-8)
    result = run(budget=budget)
    assert "3e-08)-differentially private" in str(result)
    assert "budget: (2, 3e-08)" in str(result)
    assert "1e-05" not in str(result)
    assert "3e-08" in str(result.details["planned_guarantee"])
    assert privacy_report(result).to_dict()["guarantee"]["budget"] == [2.0, 3e-8]
    assert "budget" not in str(run(noise_std=0.1))
