"""The table of bad inputs: what is said, the exit code; nothing left behind or spent, no traceback,
no value of a record.
"""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import spd_records

GOOD = (
    "--radius",
    2,
    "--epsilon",
    1,
    "--delta",
    1e-6,
    "--metric",
    "log-euclidean",
    "--mechanism",
    "wrapped-gaussian",
)


def write(path: Path, kind: str) -> Path:
    """Make one bad file of the named kind and return it."""
    X = spd_records()
    if kind == "missing":
        return path.with_name("no-such.npy")
    if kind == "one matrix":
        X = X[0]
    elif kind == "vectors":
        X = X[:, 0]
    elif kind == "not square":
        X = X[:, :, :2]
    elif kind == "nan":
        X[17, 1, 2] = np.nan
    elif kind == "infinite":
        X[3, 0, 0] = np.inf
    elif kind == "not symmetric":
        X[41, 0, 2] += 0.7654321
    elif kind == "not positive definite":
        X[5] = np.diag([1.0, 1.0, -0.1234567])
    elif kind == "empty":
        X = X[:0]
    elif kind == "complex":
        X = X + 1j
    elif kind == "words":
        X = np.full((4, 3, 3), "a")
    elif kind == "mixed sizes":
        X = np.empty(2, dtype=object)
        X[0], X[1] = np.eye(2), np.eye(3)
    if kind == "empty file":
        path.write_bytes(b"")
    elif kind == "damaged":
        path.write_bytes(b"\x93NUMPY\x01\x00garbage")
    elif kind == "unknown ending":
        path = path.with_suffix(".xls")
        path.write_bytes(b"x")
    elif kind == "ragged csv":
        path = path.with_suffix(".csv")
        path.write_text("1,0,0,1\n1,0,0\n")
    elif kind == "text in csv":
        path = path.with_suffix(".csv")
        path.write_text("a,b,c,d\n1,0,0,1\n1,0,oops,1\n")
    elif kind == "header only":
        path = path.with_suffix(".csv")
        path.write_text("a,b,c,d\n")
    elif kind == "not a square of a number":
        path = path.with_suffix(".csv")
        path.write_text("1,0,0\n1,0,0\n")
    elif kind == "several arrays":
        path = path.with_suffix(".npz")
        np.savez(path, one=X, two=X)
    elif kind == "folder without images":
        path = path.with_name("pictures")
        path.mkdir()
    elif kind == "huge":
        with path.open("wb") as stream:
            np.lib.format.write_array_header_1_0(
                stream, {"descr": "<f8", "fortran_order": False, "shape": (2**37, 3, 3)}
            )
            stream.truncate(2**37 * 72)  # sparse: nothing is on the disk
    else:
        np.save(path, X)
    return path


BAD = [
    ("missing", "there is no file"),
    ("one matrix", "one matrix, not a collection"),
    ("vectors", "not the square"),
    ("not square", "need shape (n, k, k)"),
    ("nan", "record 17 has NaN at position [1, 2]"),
    ("infinite", "record 3 has an infinite number at position [0, 0]"),
    ("not symmetric", "record 41 is not symmetric (entries [0, 2] and [2, 0] differ)"),
    ("not positive definite", "record 5 is not positive definite"),
    ("empty", "no records"),
    ("complex", "complex numbers"),
    ("words", "does not hold numbers"),
    ("mixed sizes", "records of different sizes"),
    ("empty file", "is an empty file"),
    ("damaged", "damaged or not a NumPy file"),
    ("unknown ending", "unknown ending '.xls'"),
    ("ragged csv", "line 2 of"),
    ("text in csv", "line 3, column 3"),
    ("header only", "a header and no records"),
    ("not a square of a number", "3 numbers, which is not the square"),
    ("several arrays", "--key one"),
    ("folder without images", "holds no images"),
    ("huge", "too large for this machine"),
]


@pytest.mark.parametrize(("kind", "said"), BAD, ids=[kind for kind, _ in BAD])
def test_bad_file(kind, said, riemdp, tmp_path):
    bad = write(tmp_path / "bad.npy", kind)
    book = tmp_path / "book.json"
    assert riemdp("ledger", "create", book, "--epsilon", 5, "--delta", 1e-5).code == 0
    before = book.read_bytes()
    names = sorted(p.name for p in tmp_path.iterdir())
    run = riemdp(
        "mean",
        bad,
        *GOOD,
        "--out",
        tmp_path / "m.npz",
        "--report",
        tmp_path / "r.html",
        "--ledger",
        book,
    )
    said_in_words = " ".join(run.err.split())
    assert run.code == 2
    assert said in said_in_words
    assert "what to do: " in said_in_words
    assert "Traceback" not in run.err
    assert run.out == ""
    assert "7654321" not in run.err
    assert "1234567" not in run.err
    assert book.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir() if p.suffix != ".lock") == names


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        ({"--epsilon": 0}, 2, "`epsilon`"),
        ({"--epsilon": "nan"}, 2, "`epsilon`"),
        ({"--delta": 1}, 2, "`delta`"),
        ({"--delta": 0}, 2, "delta > 0"),
        ({"--radius": -1}, 2, "`radius`"),
        ({"--metric": "euclid"}, 2, "--metric"),
        ({"--mechanism": "magic"}, 2, "`mechanism`"),
        ({"--center": "nowhere.npy"}, 2, "--center nowhere.npy"),
        ({"--center": "diag:-1"}, 2, "diag:A"),
        ({"--out": "m.xls"}, 2, "use one of .npy, .npz, .csv, .json"),
        ({"--report": "r.pdf"}, 2, "does not end in .html"),
        ({"--out": "r.json"}, 2, "the same file"),
        ({"--ledger": "no.json"}, 2, "riemdp ledger create"),
        ({"--ledger": "scans.npy"}, 2, "cannot be read"),
        ({"--out": "missing/m.npz"}, 4, "cannot be written"),
        ({"--report": "missing/r.html"}, 4, "cannot be written"),
    ],
    ids=str,
)
def test_bad_option(change, code, said, riemdp, scans, monkeypatch):
    monkeypatch.chdir(scans.parent)
    riemdp("ledger", "create", "book.json", "--epsilon", 5, "--delta", 1e-5)
    before = Path("book.json").read_bytes()
    good = dict(zip(GOOD[::2], GOOD[1::2], strict=True))
    options = {**good, "--out": "m.npz", "--report": "r.html", "--ledger": "book.json", **change}
    run = riemdp("mean", scans, *[part for pair in options.items() for part in pair])
    assert run.code == code, run.err
    assert said in " ".join(run.err.split())
    assert "Traceback" not in run.err
    assert Path("book.json").read_bytes() == before
    assert {p.name for p in Path().iterdir() if p.suffix != ".lock"} == {"scans.npy", "book.json"}


def test_spent_ledger(riemdp, scans):
    book, out = scans.with_name("book.json"), scans.with_name("m.npz")
    riemdp("ledger", "create", book, "--epsilon", 1.5, "--delta", 1e-5)
    assert riemdp("mean", scans, *GOOD, "--ledger", book, "--out", out).code == 0
    first, before = out.read_bytes(), book.read_bytes()
    for _ in range(3):
        run = riemdp("mean", scans, *GOOD, "--ledger", book, "--out", out)
        if run.code == 3:
            break
        first, before = out.read_bytes(), book.read_bytes()
    assert run.code == 3
    assert "would exceed" in run.err
    assert run.out == ""
    assert out.read_bytes() == first
    assert book.read_bytes() == before
    shown = json.loads(riemdp("ledger", "show", book, "--json").out)
    assert 0 < shown["spent_epsilon"] <= 1.5


def test_interrupted_run_spends_nothing(riemdp, scans, monkeypatch):
    """Ctrl-C while the mean is computed, and Ctrl-C after the noise was drawn but before anything
    was put in place.
    """
    book = scans.with_name("book.json")
    riemdp("ledger", "create", book, "--epsilon", 5, "--delta", 1e-5)
    before = book.read_bytes()
    names = {p.name for p in scans.parent.iterdir()}
    from riemdp import releases
    from riemdp.cli import _run

    def stop(*_, **__):
        os.kill(os.getpid(), signal.SIGINT)

    for target, name in ((releases, "private_frechet_mean"), (_run, "serialised")):
        with monkeypatch.context() as patch:
            patch.setattr(target, name, stop)
            run = riemdp("mean", scans, *GOOD, "--ledger", book, "--out", scans.with_name("m.npz"))
        assert run.code == 130, run.err
        assert "interrupted" in run.err
        assert run.out == ""
        assert book.read_bytes() == before
        assert {p.name for p in scans.parent.iterdir() if p.suffix != ".lock"} == names


def test_interrupt_between_charging_and_placing_waits(riemdp, scans, monkeypatch):
    """The moment after the charge is shielded: the files are put in place first, then the interrupt
    is obeyed.
    """
    from riemdp.cli._ledger_file import LedgerFile

    book, out = scans.with_name("book.json"), scans.with_name("m.npz")
    riemdp("ledger", "create", book, "--epsilon", 5, "--delta", 1e-5)
    real = LedgerFile.save

    def save_and_interrupt(self):
        real(self)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(LedgerFile, "save", save_and_interrupt)
    run = riemdp("mean", scans, *GOOD, "--ledger", book, "--out", out)
    assert run.code == 130
    assert out.exists()
    assert json.loads(riemdp("ledger", "show", book, "--json").out)["spent_epsilon"] > 0


def test_no_value_is_put_in_place_when_the_ledger_cannot_be_saved(riemdp, scans, monkeypatch):
    from riemdp.cli._ledger_file import LedgerFile

    def full(self):
        raise OSError(28, "No space left on device", str(self.path))

    book = scans.with_name("book.json")
    riemdp("ledger", "create", book, "--epsilon", 5, "--delta", 1e-5)
    monkeypatch.setattr(LedgerFile, "save", full)
    run = riemdp("mean", scans, *GOOD, "--ledger", book, "--out", scans.with_name("m.npz"))
    assert run.code == 4
    assert "No space left" in run.err
    assert run.out == ""
    assert not scans.with_name("m.npz").exists()


def test_fault_of_ours_is_not_hidden(riemdp, scans, monkeypatch):
    from riemdp import releases

    def broken(*_, **__):
        raise ZeroDivisionError

    monkeypatch.setattr(releases, "private_frechet_mean", broken)
    with pytest.raises(ZeroDivisionError):
        riemdp("mean", scans, *GOOD)
