"""The same where every warning is an error, NumPy raises for every overflow, and JAX looks for NaN:
an environment that the caller chose lets no record decide either.
"""

from __future__ import annotations

import pytest

from .entries import RUNNING
from .outcomes import expected, extremes, malformed, not_points, outcome_of, valid
from .test_records import TOGETHER, check, one_record


@pytest.mark.parametrize("entry", RUNNING, ids=lambda e: e.id)
def test_no_record_decides_where_warnings_and_overflows_are_errors(entry):
    wanted = expected(entry, strict=True)
    record = one_record(entry)
    records = extremes(record) + not_points(record)[:6]
    compare(entry, wanted, valid(entry), records)
    if entry.lists:
        compare(entry, wanted, valid(entry, listed=True), malformed(record)[::2])


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
