"""Data without a record: an error that names the argument, and nothing is spent; or a release,
where the number of records is private.
"""

from __future__ import annotations

import warnings

import pytest

from riemdp import InvalidArgument

from .entries import RUNNING
from .entry import REFUSED
from .outcomes import SEED, a_place, charged, expected, outcome_of

WITH_RECORDS = [entry for entry in RUNNING if not entry.value]


@pytest.mark.parametrize("entry", WITH_RECORDS, ids=lambda e: e.id)
def test_data_without_a_record(entry):
    data = entry.emptied(entry.make(SEED))
    if entry.empty != REFUSED:
        found, wanted = outcome_of(entry, data), expected(entry)
        assert (found.ended, found.charged, found.warned) == ("returns", *_told(wanted))
        return
    with a_place(entry) as given, warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=DeprecationWarning)  # of other packages
        with pytest.raises((InvalidArgument, _refused())) as refused:
            entry.call(data, given)
        assert charged(given.ledger).startswith("[0,")
    names = (
        f"`{entry.records}`",
        "`X`",
        "`data`",
        "`datasets`",
        "`sites`",
        "`records`",
        "records.npy",
    )
    assert any(name in str(refused.value) for name in names), refused.value


def _told(wanted):
    return wanted.charged, wanted.warned


def _refused():
    from riemdp.federated import Refused

    return Refused


@pytest.mark.parametrize("entry", [e for e in WITH_RECORDS if e.lists], ids=lambda e: e.id)
def test_an_empty_list_of_records(entry):
    """The same for a list, which has no shape."""
    data = entry.emptied(entry.make(SEED))
    data = entry.with_records(data, [])
    if entry.empty != REFUSED:
        assert outcome_of(entry, data).charged == expected(entry).charged
        return
    with a_place(entry) as given:
        with pytest.raises((InvalidArgument, _refused())):
            entry.call(data, given)
        assert charged(given.ledger).startswith("[0,")
