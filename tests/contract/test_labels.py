"""One missing label: refused by the name of its argument, before anything is spent, where labels
are public; of no class, and no other outcome, where they are private.
"""

from __future__ import annotations

import numpy as np
import pytest

from riemdp import InvalidArgument

from .entries import RUNNING
from .outcomes import expected, outcome_of, valid
from .test_records import check

NAMES = ("y", "domains", "groups")
MISSING = {
    "None": None,
    "NaN": float("nan"),
    "text of a NaN": "nan",
    "no text": "",
    "NaT": np.datetime64("NaT"),
    "masked": np.ma.masked,
}
IN_FILES = ("NaN", "text of a NaN", "no text")  # what a file of labels can hold
CELLS = [
    (entry, name, kind)
    for entry in RUNNING
    for name in NAMES
    if name in valid(entry)
    for kind in (IN_FILES if entry.files else MISSING)
]


def without_one(labels, kind):
    """The labels (of the first site), one of them missing."""
    if isinstance(labels, list):
        return [without_one(labels[0], kind), *labels[1:]]
    if kind == "masked":
        return np.ma.masked_array(labels, mask=np.arange(len(labels)) == 1)
    if kind == "NaN":
        numbers = 1.0 * np.unique(labels, return_inverse=True)[1]
        numbers[1] = np.nan
        return numbers
    changed = [str(label) for label in labels] if isinstance(MISSING[kind], str) else list(labels)
    changed[1] = MISSING[kind]
    return np.array(changed) if isinstance(MISSING[kind], str) else changed


@pytest.mark.parametrize(
    ("entry", "name", "kind"), CELLS, ids=[f"{e.id} | {name}: {kind}" for e, name, kind in CELLS]
)
def test_a_missing_label(entry, name, kind):
    data = valid(entry)
    found = outcome_of(entry, {**data, name: without_one(data[name], kind)})
    if name == "y" and entry.private_labels:
        check(entry, found, expected(entry), kind)
        return
    assert found.ended in (InvalidArgument.__name__, "NothingCharged"), (found.ended, found.said)
    assert f"`{name}`" in found.said or f"--{name}" in found.said, found.said
    assert found.charged.startswith("[0,")


def test_both_kinds_of_labels_are_swept():
    of_y = {entry.private_labels for entry, name, _ in CELLS if name == "y"}
    assert of_y == {False, True}
    assert {name for _, name, _ in CELLS} == set(NAMES)
