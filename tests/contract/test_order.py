"""Spend, then show: when a charge is written to the ledger's file, no other file holds anything."""

from __future__ import annotations

import os

import pytest

from .entries import RUNNING
from .outcomes import a_place, valid

COMMANDS = [entry for entry in RUNNING if entry.name.startswith("riemdp.cli")]
GIVEN = ("records.npy", "people.npy")


@pytest.mark.parametrize("entry", COMMANDS, ids=lambda e: e.id)
def test_nothing_is_on_disk_before_the_ledger_is(entry, monkeypatch):
    held = []
    fsync = os.fsync

    with a_place(entry) as given:
        ledger = given.folder / "ledger.json"
        before = ledger.read_bytes()

        def watched(handle):
            """When the line of a charge goes to the disk."""
            if os.path.samestat(os.fstat(handle), ledger.stat()) and ledger.read_bytes() != before:
                files = [f for f in given.folder.rglob("*") if f.is_file()]
                own = ("ledger.", ".ledger.")  # the file, its lock, and what becomes the file
                others = [f for f in files if not f.name.startswith(own) and f.name not in GIVEN]
                held.append([f.name for f in others if f.stat().st_size])
            return fsync(handle)

        monkeypatch.setattr(os, "fsync", watched)
        entry.call(valid(entry), given)
        assert (given.folder / "released.json").stat().st_size
    assert held  # the first time: the charge; later ones may say that the value was placed
    assert not held[0], held
