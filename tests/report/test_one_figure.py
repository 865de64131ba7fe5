"""One guarantee has one figure: wherever a report states what an attack detects, it is the same
number, it is right, and no part exceeds the whole.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import riemdp as R
from riemdp import privacy
from riemdp.report import privacy_report

BUDGET = R.Budget(1.0, 1e-5)


def attacker(*, others: int = 0) -> dict[str, object]:
    """What the report of a mean says, after so many other releases on the same ledger."""
    ledger = R.Ledger(R.Budget(9.0, 1e-3))
    for _ in range(others):
        privacy.charge(privacy.approximate(1e-3, 1e-9), ledger)
    release = R.private_frechet_mean(
        R.Euclidean(2),
        np.zeros((200, 2)),
        R.Ball(np.zeros(2), 1.0),
        BUDGET,
        mechanism="wrapped-gaussian",
        count_outside=False,
        rng=0,
        ledger=ledger,
    )
    return privacy_report(release, ledger=ledger).to_dict()["attacker"]


def test_a_release_alone_on_its_ledger_has_one_figure():
    told = attacker()
    mu = 1.0 / privacy.gaussian_noise_multiplier(BUDGET)
    whole = told["detection_rates_of_more"]["ledger"]
    for rate, key, name in (
        (0.01, "at_1_percent_false_alarms", "detection_rate_at_1_percent_false_alarms"),
        (0.001, "at_0.1_percent_false_alarms", "detection_rate_at_0.1_percent_false_alarms"),
    ):
        exact = stats.norm.sf(stats.norm.isf(rate) - mu)
        assert told[name] == whole[key] == pytest.approx(exact, rel=1e-9)


def test_everything_in_a_ledger_is_at_least_a_part_of_it():
    told = attacker(others=1)
    whole = told["detection_rates_of_more"]["ledger"]
    one = told["detection_rate_at_1_percent_false_alarms"]
    assert one < whole["at_1_percent_false_alarms"] <= 1.05 * one
