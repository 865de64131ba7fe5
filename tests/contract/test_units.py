"""Guarantees for one person: how they compose, and that a ledger does not mix them with those for
one record.
"""

from __future__ import annotations

import pytest

from riemdp import Budget, Guarantee, InvalidArgument, Ledger, gaussian, none, pure

PERSON, RECORD = gaussian(8.0).for_people(), gaussian(8.0)


def test_a_guarantee_for_a_person_says_so_and_survives_its_json():
    assert "all records of one person" in str(PERSON)
    assert "person" in repr(PERSON)
    assert "person" not in str(RECORD) + repr(RECORD)
    for guarantee in (PERSON, RECORD, PERSON.repeat(3), PERSON.compose(PERSON)):
        assert Guarantee.from_dict(guarantee.to_dict()) == guarantee
    assert "unit" not in RECORD.to_dict()
    assert PERSON != RECORD
    assert PERSON.quoted_at(1e-7).unit == "person"
    with pytest.raises(InvalidArgument, match="unit"):
        Guarantee.from_dict({**RECORD.to_dict(), "unit": "household"})


def test_composition_does_not_mix_people_and_records():
    assert PERSON.compose(PERSON).unit == "person"
    assert PERSON.compose(PERSON).epsilon(1e-6) == RECORD.repeat(2).epsilon(1e-6)
    with pytest.raises(InvalidArgument, match="one person"):
        PERSON.compose(RECORD)
    assert PERSON.for_records().compose(RECORD) == RECORD.repeat(2)
    nothing = RECORD.repeat(0)
    assert nothing.compose(PERSON) == PERSON
    assert not PERSON.compose(none()).is_private


def test_a_ledger_refuses_to_mix_them_and_stays_as_it_was(tmp_path):
    path = tmp_path / "ledger.json"
    ledger = Ledger(Budget(2.0, 1e-5), path=path)
    ledger.spend(PERSON)
    with pytest.raises(InvalidArgument, match="one person"):
        ledger.spend(RECORD)
    with pytest.raises(InvalidArgument, match="one person"):
        ledger.fits(pure(0.1))
    again = Ledger.open(path)
    assert again.spent == PERSON
    assert again.entries[0].guarantee.unit == "person"
    again.spend(PERSON)
    assert (again.charges, again.spent) == (2, PERSON.repeat(2))


def test_a_run_planned_for_people_is_not_a_run_for_records():
    whole = PERSON.repeat(3)
    ledger = Ledger(Budget(2.0, 1e-5))
    ledger.spend(PERSON, of=whole)
    with pytest.raises(InvalidArgument, match="one person"):
        ledger.spend(RECORD, of=whole)
    assert ledger.spent == PERSON
