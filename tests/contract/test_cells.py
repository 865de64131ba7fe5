"""Rows and promises: hardly a cell of the table is empty, each with its reason, and none in charge,
refusal or sensitivity.
"""

from __future__ import annotations

from collections.abc import Callable

from .entries import RUNNING
from .entry import Entry
from .test_noise import ELSEWHERE
from .test_places import is_sampled

Reason = Callable[[Entry], str]  # why a cell is empty; nothing where it is not


def full(_: Entry) -> str:
    """All rows."""
    return ""


def of_records(entry: Entry) -> str:
    return "one value is no list of records" if entry.value else ""


def of_places(entry: Entry) -> str:
    return of_records(entry) or ("which places enter is drawn" if is_sampled(entry) else "")


def of_files(entry: Entry) -> str:
    return of_records(entry) or ("" if entry.lists else "it reads a file anyway")


def of_noise(entry: Entry) -> str:
    """A reason that names another row, on the same path, is no empty cell."""
    why = next((why for name, why in ELSEWHERE.items() if entry.id.startswith(name)), "")
    return why if "the discriminant's" in why or "the functions" in why else ""


PROMISES: dict[str, Reason] = {
    "charged once, and before the draw": full,
    "an interrupt costs all and shows nothing": full,
    "two threads are both charged": full,
    "a refusal spends, draws and writes nothing": full,
    "no record decides": full,
    "no record decides where warnings are errors": full,
    "data without a record": of_records,
    "sensitivity": full,
    "the distributions of the noise": full,
    "the scale of the noise": of_noise,
    "places": of_places,
    "beside what is no record": of_records,
    "a file and memory": of_files,
    "forms": full,
    "pickled": full,
    "worker processes": full,
}
NEVER = ("charged once, and before the draw", "a refusal spends", "sensitivity")


def test_at_most_one_cell_in_twenty_is_empty():
    empty = {
        (promise, entry.id): why
        for promise, reason in PROMISES.items()
        for entry in RUNNING
        if (why := reason(entry))
    }
    cells = len(PROMISES) * len(RUNNING)
    assert len(empty) <= cells / 20, f"{len(empty)} of {cells}: {sorted(set(empty.values()))}"
    assert not [cell for cell in empty if cell[0].startswith(NEVER)]
