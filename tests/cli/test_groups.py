"""`riemdp mean --groups FILE`: people instead of records."""

from __future__ import annotations

import json

import numpy as np
import pytest

GOOD = ("--radius", 2, "--epsilon", 1, "--delta", 1e-6, "--metric", "log-euclidean")
LABELS = [f"p{i // 3}" for i in range(60)]


def labels_in(folder, labels, name="who.txt"):
    path = folder / name
    if name.endswith(".npy"):
        np.save(path, np.array(labels))
    else:
        path.write_text("\n".join(map(str, labels)) + "\n")
    return path


def test_people_are_protected_and_their_records_are_not_counted(riemdp, scans):
    who = labels_in(scans.parent, ["person", *LABELS])  # with a name above the column
    book = scans.parent / "book.json"
    riemdp("ledger", "create", book, "--epsilon", 3, "--delta", 1e-5)
    run = riemdp("mean", scans, *GOOD, "--groups", who, "--json", "--ledger", book)
    assert run.code == 0, run.err
    report = json.loads(run.out)["report"]
    assert (report["protects"], report["people"], report["records"]) == ("one person", 20, None)
    numbers = labels_in(scans.parent, [i // 3 for i in range(60)], "who.npy")
    shown = riemdp("mean", scans, *GOOD, "--groups", numbers, "--ledger", book)
    assert shown.code == 0, shown.err
    assert "people" in shown.out
    assert "60" not in shown.out.split("mechanism")[0]
    assert "one person" in riemdp("ledger", "show", book).out
    mixed = riemdp("mean", scans, *GOOD, "--ledger", book)
    assert mixed.code != 0
    assert "one person" in " ".join(mixed.err.split())


@pytest.mark.parametrize(
    ("labels", "name", "said"),
    [
        (LABELS[:-2], "who.txt", "another length"),
        (["p", "nan", *LABELS[2:]], "who.csv", "missing"),
        (["a,b"] * 60, "who.csv", "several columns"),
        (np.ones((60, 2)), "who.npy", "axes"),
        (LABELS, "who.xyz", "ending"),
    ],
)
def test_a_file_of_labels_that_cannot_be_used_is_refused(riemdp, scans, labels, name, said):
    who = labels_in(scans.parent, labels, name)
    run = riemdp("mean", scans, *GOOD, "--groups", who)
    assert run.code == 2
    assert said in " ".join(run.err.split())


@pytest.mark.parametrize(
    "option",
    [("--show-clamped",), ("--max-records-per-person", 3), ("--mechanism", "dp-rgd")],
)
def test_what_does_not_go_with_people_is_refused(riemdp, scans, option):
    who = labels_in(scans.parent, LABELS)
    run = riemdp("mean", scans, *GOOD, "--groups", who, *option)
    assert run.code == 2
    assert "--groups" in run.err


def test_too_few_people_for_a_search_are_told_as_people(riemdp, scans):
    who = labels_in(scans.parent, LABELS)
    run = riemdp("mean", scans, "--epsilon", 1, "--delta", 1e-6, "--groups", who)
    assert run.code == 2
    assert "20 people are too few" in " ".join(run.err.split())
    assert riemdp("mean", scans, *GOOD, "--groups", scans.parent / "none.txt").code == 2
