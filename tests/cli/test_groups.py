"""`riemdp mean --groups FILE`: people instead of records."""

from __future__ import annotations

import json

import numpy as np
import pytest

from riemdp import Budget, Ledger, privacy
from tests import schemas
from tests.cli.conftest import MEAN

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
    riemdp("ledger create", book, "--epsilon 3 --delta 1e-5")
    run = riemdp("mean", scans, MEAN, "--groups", who, "--json --ledger", book)
    assert run.code == 0, run.err
    report = json.loads(run.out)["report"]
    assert (report["protects"], report["people"], report["records"]) == ("one person", 20, None)
    numbers = labels_in(scans.parent, [i // 3 for i in range(60)], "who.npy")
    shown = riemdp("mean", scans, MEAN, "--groups", numbers, "--ledger", book)
    assert shown.code == 0, shown.err
    assert "people" in shown.out
    assert "replace-one for all records of one person" in " ".join(shown.out.split())
    assert "60 " not in shown.out
    assert "one person" in riemdp("ledger show", book).out
    mixed = riemdp("mean", scans, MEAN, "--ledger", book)
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
    run = riemdp("mean", scans, MEAN, "--groups", who)
    assert run.code == 2
    assert said in " ".join(run.err.split())


def test_too_few_people_for_a_search_are_refused(riemdp, scans):
    who = labels_in(scans.parent, LABELS)
    run = riemdp("mean", scans, "--epsilon 1 --delta 1e-6 --groups", who)
    assert run.code == 2
    assert "n = 20" in " ".join(run.err.split())
    assert riemdp("mean", scans, MEAN, "--groups", scans.parent / "none.txt").code == 2


def test_components_of_people(riemdp, tmp_path):
    table = tmp_path / "rows.npy"
    np.save(table, np.random.default_rng(0).normal(size=(60, 3)) * [3.0, 1.0, 1.0])
    given = ("pca", table, "-k 1 --row-norm 3 --epsilon 5 --delta 1e-6")
    who = labels_in(tmp_path, LABELS)
    run = riemdp(*given, "--groups", who, "--json")
    assert run.code == 0, run.err
    report = json.loads(run.out)["report"]
    assert (report["protects"], report["people"], report["records"]) == ("one person", 20, None)
    assert riemdp(*given, "--groups", labels_in(tmp_path, LABELS[:-1])).code == 2


def test_the_json_of_a_ledger_is_that_of_its_schema(riemdp, scans):
    """Empty, with releases that were written or not, of records or of people, and after any kind of
    guarantee.
    """
    schema = schemas.schema("ledger-1.json")

    def shown(book):
        run = riemdp("ledger show", book, "--json")
        assert run.code == 0, run.err
        told = json.loads(run.out)
        assert schemas.faults(told, schema, "ledger") == []
        return told

    book = scans.parent / "book.json"
    riemdp("ledger create", book, "--epsilon 9 --delta 1e-4")
    assert shown(book)["entries"] == []
    riemdp("mean", scans, MEAN, "--ledger", book, "--out", scans.parent / "mean.npz")
    riemdp("mean", scans, MEAN, "--ledger", book)
    told = shown(book)
    assert len({entry["run"] for entry in told["entries"]}) == 2
    assert told["unit"] == "record"

    people = scans.parent / "people.json"
    riemdp("ledger create", people, "--epsilon 3 --delta 1e-5")
    riemdp("mean", scans, MEAN, "--groups", labels_in(scans.parent, LABELS), "--ledger", people)
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


@pytest.mark.parametrize("ending", ["csv", "json", "npz"])
def test_names_of_columns_reach_the_files(riemdp, tmp_path, ending):
    table, out = tmp_path / "table.csv", tmp_path / f"out.{ending}"
    rows = np.random.default_rng(0).normal(size=(60, 4))
    np.savetxt(table, rows, delimiter=",", header="a,b,c,d", comments="")
    options = "--epsilon 5 --delta 1e-6 --header"
    run = riemdp("mean", table, options, "--radius 5 --space euclidean --out", out)
    assert run.code == 0, run.err
    assert "a, b, c, d" in run.out
    read = {
        "csv": lambda: out.read_text().splitlines()[0].split(","),
        "json": lambda: json.loads(out.read_text())["names"],
        "npz": lambda: np.load(out)["names"].tolist(),
    }
    assert read[ending]() == ["a", "b", "c", "d"]
    machine = riemdp("pca", table, options, "-k 4 --row-norm 3 --json")
    assert json.loads(machine.out)["names"] == ["a", "b", "c", "d"]
    matrices = riemdp("mean", table, options, "--radius 5 --on-invalid center --json")
    assert "names" not in json.loads(matrices.out)  # those of entries are not those of a matrix
