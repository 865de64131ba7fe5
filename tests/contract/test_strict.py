"""The same where every warning is an error, NumPy raises for every overflow, and JAX looks for NaN:
an environment that the caller chose lets no record decide either.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import riemdp

from .entries import RUNNING
from .outcomes import (
    a_place,
    charged,
    expected,
    extremes,
    malformed,
    not_points,
    outcome_of,
    valid,
)
from .test_records import TOGETHER, check, one_record


@pytest.mark.parametrize("entry", RUNNING, ids=lambda e: e.id)
def test_no_record_decides_where_warnings_and_overflows_are_errors(entry):
    wanted = expected(entry, strict=True)
    record = one_record(entry)
    records = extremes(record) + not_points(record)[:6]
    compare(entry, wanted, valid(entry), records)
    if entry.lists:
        compare(entry, wanted, valid(entry, listed=True), malformed(record)[::2])


# The calibrations of these take seconds at such a budget; they are charged like the others.
LARGE = [entry for entry in RUNNING if "Poisson" not in entry.id]


@pytest.mark.parametrize("entry", LARGE, ids=lambda e: e.id)
def test_a_warning_that_is_an_error_comes_before_the_charge_or_not_at_all(entry):
    """What is public is said before anything is spent; what is paid for is never lost."""
    found = outcome_of(entry, valid(entry), strict=True, cautions=True)
    with a_place(entry) as untouched:
        assert found.ended == "returns" or found.charged == charged(untouched.ledger), found.said


def compare(entry, wanted, data, records):
    """Several records at once, and on a difference one by one."""
    together = 1 if entry.value else TOGETHER
    for start in range(0, len(records), together):
        some = records[start : start + together]
        found = outcome_of(entry, entry.put(data, [record for _, record in some]), strict=True)
        try:
            check(entry, found, wanted, ", ".join(name for name, _ in some))
        except AssertionError:
            for name, record in some:
                alone = outcome_of(entry, entry.put(data, [record]), strict=True)
                check(entry, alone, wanted, name)
            raise


def test_what_is_said_of_a_paid_release_does_not_take_its_place():
    """Also where warnings are errors: the release says it itself."""
    space, ledger = riemdp.Sphere(3), riemdp.Ledger(riemdp.Budget(1.0, 1e-6))
    ball, budget = riemdp.Ball(space.origin, 0.5), riemdp.Budget(0.01, 1e-7)
    records = np.tile(space.origin, (5, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        release = riemdp.private_frechet_mean(space, records, ball, budget, ledger=ledger)
    assert "is as good an answer" in str(release)
    assert ledger.charges == 1
