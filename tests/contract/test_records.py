"""No record decides whether a call returns, which error or warning it gives, or what it charges;
and no record moves what is noised by more than the sensitivity.
"""

from __future__ import annotations

import numpy as np
import pytest

from .entries import RUNNING
from .entry import REFUSED
from .outcomes import expected, extremes, far, malformed, not_points, outcome_of, valid

SLACK = 1 + 1e-6
TOGETHER = 6  # as many records at once: less than what a count of records outside warns of


def ids(entry):
    return entry.id


def check(entry, found, wanted, what):
    """The same outcome; or, where invalid records are refused, a refusal that costs nothing."""
    if entry.invalid == REFUSED and found.ended != "returns":
        assert found.ended in ("InvalidArgument", "NothingCharged"), (what, found.ended, found.said)
        assert found.charged.startswith("[0,"), f"{what}: refused, and charged {found.charged}"
        return
    assert found.ended == "returns", f"{what}: {found.ended}: {found.said}"
    assert found.charged == wanted.charged, f"{what}: charged {found.charged}"
    assert found.warned == wanted.warned, f"{what}: warned {found.warned}"
    assert found.finite, f"{what}: a released number is not finite"


def check_moved(entry, found, wanted, what):
    """One record moved what was noised by at most the sensitivity."""
    if entry.moved is None or found.ended != "returns":
        return
    here, bound = entry.moved(found.result)
    there, _ = entry.moved(wanted.result)
    apart = float(np.linalg.norm(np.ravel(np.asarray(here) - np.asarray(there))))
    assert apart <= bound * SLACK, f"{what}: moved {apart:g}, and the sensitivity is {bound:g}"


def sweep(entry, records, *, listed=False):
    """Replace one record (all of one person) by each of these, and compare. Where a seed does not
    show what was noised, several records are replaced at once, and on a difference one by one.
    """
    data, wanted = valid(entry, listed=listed), expected(entry, listed=listed)
    together = TOGETHER if entry.moved is None and not entry.value else 1
    for start in range(0, len(records), together):
        some = records[start : start + together]
        if together > 1:
            found = outcome_of(entry, entry.put(data, [record for _, record in some]))
            try:
                check(entry, found, wanted, "several: " + ", ".join(name for name, _ in some))
                continue
            except AssertionError:
                for name, record in some:
                    check(entry, outcome_of(entry, entry.put(data, [record])), wanted, name)
                raise
        for name, record in some:
            found = outcome_of(entry, entry.put(data, [record], whole=True))
            check(entry, found, wanted, name)
            check_moved(entry, found, wanted, name)


def one_record(entry):
    data = valid(entry)
    return data[entry.records] if entry.value else entry.first(data)[0]


@pytest.mark.parametrize("entry", [e for e in RUNNING if e.anywhere], ids=ids)
def test_far_records(entry):
    sweep(entry, far(one_record(entry)))


@pytest.mark.parametrize("entry", RUNNING, ids=ids)
def test_extreme_records(entry):
    sweep(entry, extremes(one_record(entry)))


@pytest.mark.parametrize("entry", RUNNING, ids=ids)
def test_records_that_are_no_points(entry):
    sweep(entry, not_points(one_record(entry)))


@pytest.mark.parametrize("entry", [e for e in RUNNING if e.lists or e.value], ids=ids)
def test_malformed_records(entry):
    """Each counts as NaN does, to the bit, whatever it is; several at once."""
    records = malformed(one_record(entry))
    if entry.moved is None or entry.value:
        sweep(entry, records, listed=entry.lists)
        return
    data, wanted = valid(entry, listed=True), expected(entry, listed=True)
    nothing = np.full(np.shape(one_record(entry)), np.nan)
    for start in range(0, len(records), TOGETHER):
        names, bad = zip(*records[start : start + TOGETHER], strict=True)
        what = "several: " + ", ".join(names)
        found = outcome_of(entry, entry.put(data, bad))
        check(entry, found, wanted, what)
        if found.ended == "returns":
            as_nan = outcome_of(entry, entry.put(data, [nothing] * len(bad)))
            here, there = (entry.moved(each.result)[0] for each in (found, as_nan))
            assert np.array_equal(here, there), what


@pytest.mark.parametrize("entry", [e for e in RUNNING if not e.value], ids=ids)
def test_numbers_under_a_mask_are_not_used(entry):
    """A masked array: what stands under the mask is no record, and changes no bit."""
    if not entry.lists:
        pytest.skip("arrays of files have no mask")
    data = valid(entry)
    results = []
    for hidden in (0.5, 1e3):
        records = np.ma.masked_array(np.array(entry.first(data)))
        records[0] = hidden
        records[0] = np.ma.masked
        found = outcome_of(entry, entry.with_records(data, records))
        check(entry, found, expected(entry), f"{hidden} under a mask")
        results.append(found)
    if entry.moved is not None and results[0].ended == "returns":
        one, other = (np.asarray(entry.moved(f.result)[0]) for f in results)
        assert np.array_equal(one, other)
