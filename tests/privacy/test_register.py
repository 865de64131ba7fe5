"""The register of a ledger's file: who released what, when, and into which file."""

from __future__ import annotations

import datetime
import json

import pytest

from riemdp import Budget, BudgetExceeded, Ledger, gaussian, pure, subsampled_gaussian
from riemdp.privacy import described


def test_a_file_keeps_one_entry_for_each_release(tmp_path) -> None:
    path = tmp_path / "book.json"
    ledger = Ledger(Budget(1.0, 1e-5), path=path)
    before = datetime.datetime.now(datetime.UTC).replace(microsecond=0, tzinfo=None)
    with described("mean of session 1"):
        ledger.spend(gaussian(10.0))
    ledger.note_file("mean.npy", "ab" * 32)
    Ledger.open(path).spend(gaussian(20.0))
    with pytest.raises(BudgetExceeded), described("too much"):
        ledger.spend(gaussian(0.5))
    first, second = Ledger.load(path).register
    assert (first.what, first.file, first.sha256) == ("mean of session 1", "mean.npy", "ab" * 32)
    assert (first.guarantee, second.guarantee) == (gaussian(10.0), gaussian(20.0))
    assert (second.what, second.file) == ("a release", "")
    when = datetime.datetime.strptime(first.when, "%Y-%m-%dT%H:%M:%SZ")
    assert before <= when <= before + datetime.timedelta(minutes=10)
    assert first.who
    assert first.id != second.id
    assert ledger.register == (first, second)  # it follows the file
    assert Ledger.load(path).charges == 2


def test_a_planned_run_is_one_entry_and_the_next_run_another(tmp_path) -> None:
    step = subsampled_gaussian(2.0, population=1000, batch_size=10)
    ledger = Ledger(Budget(2.0, 1e-6), path=tmp_path / "book.json")
    for _ in range(2):
        with ledger.plan(step.repeat(3)):
            for _ in range(3):
                ledger.spend(step)
    assert [entry.charges for entry in ledger.register] == [3, 3]
    assert ledger.register[0].guarantee == step.repeat(3)
    assert ledger.charges == 6


def test_two_holders_of_a_file_name_their_own_releases(tmp_path) -> None:
    path = tmp_path / "book.json"
    one, two = Ledger(Budget(1.0), path=path), Ledger(Budget(1.0), path=path)
    one.spend(pure(0.1))
    two.spend(pure(0.2))
    one.note_file("one.npy", "1" * 64)
    assert [e.file for e in Ledger.load(path).register] == ["one.npy", ""]


def test_ledgers_without_a_register_are_read_and_memory_keeps_none(tmp_path) -> None:
    memory = Ledger(Budget(1.0))
    memory.spend(pure(0.5))
    memory.note_file("x.npy", "0" * 64)
    assert memory.register == ()
    older = json.loads(memory.to_json()) | {"version": 2}
    del older["register"]
    path = tmp_path / "old.json"
    path.write_text(json.dumps(older))
    ledger = Ledger.open(path)
    ledger.spend(pure(0.25))
    assert (ledger.charges, len(ledger.register)) == (2, 1)


def test_a_damaged_register_is_refused(tmp_path) -> None:
    path = tmp_path / "book.json"
    Ledger(Budget(1.0), path=path).spend(pure(0.5))
    state = json.loads(path.read_text())
    entry = state["register"][0]
    for register in (None, [3], [entry | {"who": 3}], [entry | {"charges": 0}], [{}]):
        with pytest.raises(ValueError, match="ledger"):
            Ledger.from_json(json.dumps(state | {"register": register}))
