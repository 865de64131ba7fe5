"""`riemdp mean --groups FILE`: people instead of records."""

from __future__ import annotations

import json

import numpy as np
import pytest

from riemdp import Budget, Ledger, privacy
from tests import schemas

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
    assert "replace-one for all records of one person" in " ".join(shown.out.split())
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
    [("--max-records-per-person", 3)],
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


def table(folder, labels, name="table.csv", separator=","):
    rows = np.array([[1.0 + 0.01 * i, 0.1, 0.1, 2.0] for i in range(len(labels))])
    lines = [separator.join(["a", "b", "patient", "c", "d"])]
    for label, (a, b, c, d) in zip(labels, rows, strict=True):
        lines.append(separator.join([f"{a}", f"{b}", str(label), f"{c}", f"{d}"]))
    path = folder / name
    path.write_text("\n".join(lines) + "\n")
    np.save(folder / "records.npy", rows.reshape(-1, 2, 2))
    return path


@pytest.mark.parametrize(("name", "separator"), [("t.csv", ","), ("t.csv", ";"), ("t.tsv", "\t")])
def test_a_column_of_labels_is_the_same_as_a_file_of_them(riemdp, tmp_path, name, separator):
    path = table(tmp_path, LABELS, name, separator)
    options = (*GOOD, "--json", "--seed", 1)
    column = riemdp("mean", path, *options, "--groups-column", "patient")
    assert column.code == 0, column.err
    who = labels_in(tmp_path, LABELS)
    file = riemdp("mean", tmp_path / "records.npy", *options, "--groups", who)
    one, other = json.loads(column.out), json.loads(file.out)
    assert one["mean"] == other["mean"]
    assert one["report"]["people"] == other["report"]["people"] == 20
    assert one["report"]["records"] is None


@pytest.mark.parametrize(
    ("labels", "options", "said"),
    [
        (LABELS, ("--groups-column", "person"), "does not name one column 'person'"),
        (["nan", *LABELS[1:]], ("--groups-column", "patient"), "--groups-column patient"),
        (LABELS, ("--groups-column", "patient", "--groups", "who.txt"), "give one of them"),
        (LABELS, (), "is not a number"),
    ],
)
def test_a_column_that_cannot_be_used_is_refused(riemdp, tmp_path, labels, options, said):
    run = riemdp("mean", table(tmp_path, labels), *GOOD, *options)
    assert run.code == 2
    assert said in " ".join(run.err.split())


def test_only_tables_have_columns_with_names(riemdp, scans):
    run = riemdp("mean", scans, *GOOD, "--groups-column", "patient")
    assert run.code == 2
    assert "has no columns with names" in " ".join(run.err.split())


def test_components_of_people(riemdp, tmp_path):
    table = tmp_path / "rows.npy"
    np.save(table, np.random.default_rng(0).normal(size=(60, 3)) * [3.0, 1.0, 1.0])
    given = ("pca", table, "-k", 1, "--row-norm", 3, "--epsilon", 5, "--delta", 1e-6)
    who = labels_in(tmp_path, LABELS)
    run = riemdp(*given, "--groups", who, "--json")
    assert run.code == 0, run.err
    report = json.loads(run.out)["report"]
    assert (report["protects"], report["people"], report["records"]) == ("one person", 20, None)
    assert riemdp(*given, "--groups", who, "--max-records-per-person", 3).code == 2
    assert riemdp(*given, "--groups", labels_in(tmp_path, LABELS[:-1])).code == 2


def test_components_of_people_named_by_a_column(riemdp, tmp_path):
    path = table(tmp_path, LABELS)
    options = ("-k", 1, "--row-norm", 3, "--epsilon", 5, "--delta", 1e-6, "--seed", 1, "--json")
    column = riemdp("pca", path, *options, "--groups-column", "patient")
    assert column.code == 0, column.err
    rows = tmp_path / "rows.npy"
    np.save(rows, np.load(tmp_path / "records.npy").reshape(len(LABELS), -1))
    file = riemdp("pca", rows, *options, "--groups", labels_in(tmp_path, LABELS))
    one, other = json.loads(column.out), json.loads(file.out)
    assert one["components"] == other["components"]
    assert one["report"]["people"] == 20
    both = riemdp("pca", path, *options, "--groups-column", "patient", "--groups", "who.txt")
    assert both.code == 2
    assert "give one of them" in " ".join(both.err.split())


def test_the_json_of_a_ledger_is_that_of_its_schema(riemdp, scans):
    """Empty, with releases that were written or not, of records or of people, and after any kind of
    guarantee.
    """
    schema = schemas.schema("ledger-1.json")

    def shown(book):
        run = riemdp("ledger", "show", book, "--json")
        assert run.code == 0, run.err
        told = json.loads(run.out)
        assert schemas.faults(told, schema, "ledger") == []
        return told

    book = scans.parent / "book.json"
    riemdp("ledger", "create", book, "--epsilon", 9, "--delta", 1e-4)
    assert shown(book)["entries"] == []
    riemdp("mean", scans, *GOOD, "--ledger", book, "--out", scans.parent / "mean.npz")
    riemdp("mean", scans, *GOOD, "--ledger", book)
    told = shown(book)
    assert len({entry["run"] for entry in told["entries"]}) == 2
    assert told["unit"] == "record"

    people = scans.parent / "people.json"
    riemdp("ledger", "create", people, "--epsilon", 3, "--delta", 1e-5)
    riemdp("mean", scans, *GOOD, "--groups", labels_in(scans.parent, LABELS), "--ledger", people)
    assert shown(people)["unit"] == "person"

    mixed = Ledger(Budget(50.0, 1e-3), mixed=True, path=scans.parent / "mixed.json")
    for guarantee in (
        privacy.pure(0.5),
        privacy.approximate(0.1, 1e-7),
        privacy.gaussian(20.0),
        privacy.subsampled_gaussian(5.0, population=1000, batch_size=10, steps=3),
        privacy.gaussian(50.0).assuming("the sites draw their noise"),
    ):
        mixed.spend(guarantee)
    told = shown(scans.parent / "mixed.json")
    assert len(told["entries"]) == 5
    entry = told["entries"][0]
    # planted: what is missing, unknown or of another type is found
    for change in ({"run": 3}, {"more": 1}, {"charges": 0}, {"epsilon": "large"}, {"delta": 2.0}):
        broken = told | {"entries": [entry | change]}
        assert schemas.faults(broken, schema, "ledger"), change
    assert schemas.faults(told | {"schema": "riemdp.ledger/2"}, schema, "ledger")
    assert schemas.faults({k: told[k] for k in told if k != "budget"}, schema, "ledger")


@pytest.mark.parametrize("ending", ["csv", "json", "npz", "npy"])
def test_names_of_columns_reach_the_files(riemdp, tmp_path, ending):
    path = table(tmp_path, LABELS)
    out = tmp_path / f"out.{ending}"
    options = ("--radius", 5, "--epsilon", 5, "--delta", 1e-6, "--seed", 1, "--space", "euclidean")
    run = riemdp("mean", path, *options, "--groups-column", "patient", "--out", out)
    assert run.code == 0, run.err
    assert "a, b, c, d" in run.out
    read = {
        "csv": lambda: out.read_text().splitlines()[0].split(","),
        "json": lambda: json.loads(out.read_text())["names"],
        "npz": lambda: np.load(out)["names"].tolist(),
        "npy": lambda: ["abcd"[i] for i in range(np.load(out).shape[0])],  # no place for names
    }
    assert read[ending]() == ["a", "b", "c", "d"]
    given = ("-k", 4, "--row-norm", 3, *options[2:8], "--groups-column", "patient", "--json")
    machine = riemdp("pca", path, *given)
    assert json.loads(machine.out)["names"] == ["a", "b", "c", "d"]


def test_names_of_entries_are_no_names_of_a_matrix(riemdp, tmp_path):
    path = table(tmp_path, LABELS)
    out = tmp_path / "out.json"
    run = riemdp("mean", path, *GOOD, "--groups-column", "patient", "--out", out, "--seed", 1)
    assert run.code == 0, run.err
    written = json.loads(out.read_text())
    assert "mean" in written
    assert "names" not in written
