"""Mapped files: read in every layout; one that was made shorter is an error and not the end of the
process; and the file is the one that is mapped, whatever its name leads to.
"""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from riemdp import InvalidArgument
from tests.seam import Doors, plant

source_of = Doors.source_of
RNG = np.random.default_rng(0)

LAYOUTS = {
    "whole": (np.arange, lambda M: M),
    "rows": (np.arange, lambda M: M[7:50]),
    "every third": (np.arange, lambda M: M[1::3]),
    "few": (np.arange, lambda M: M[::70]),
    "backwards": (np.arange, lambda M: M[::-1]),
    "backwards in all": (np.arange, lambda M: M[::-2, ::-1, ::-1]),
    "one column": (np.arange, lambda M: M[:, :, 1]),
    "transposed": (np.arange, lambda M: M.transpose(0, 2, 1)),
    "columns first": (np.arange, lambda M: M.transpose(2, 0, 1)),
    "one row": (np.arange, lambda M: M[3:4]),
    "another type": (lambda n: np.arange(n).astype(">i2"), lambda M: M[2:]),
    "reshaped": (np.arange, lambda M: M.reshape(-1, 2)),
    "repeated": (np.arange, lambda M: np.broadcast_to(M[3], (9, 4, 3), subok=True)),
}


@pytest.mark.parametrize("mode", ["r", "r+", "w+", "c"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_is_read_as_it_is(tmp_path, name, order, mode):
    numbers, part = LAYOUTS[name]
    X = np.asarray(numbers(200 * 4 * 3)).reshape(200, 4, 3)
    where = {"offset": 3 * 4096 + 40, "shape": X.shape, "order": order}  # not at a page's begin
    M = np.memmap(tmp_path / "x", dtype=X.dtype, mode="w+", **where)
    M[:] = X
    if mode != "w+":
        M = np.memmap(tmp_path / "x", dtype=X.dtype, mode=mode, **where)
    seen = part(M)
    source = source_of(seen)
    assert source is not None
    n = source.n
    for start, stop in ((0, n), (n // 3, n // 2), (n // 2, n // 2)):
        read = source.fetched(start, stop)
        np.testing.assert_array_equal(read, np.asarray(seen)[start:stop])
        assert read.dtype == X.dtype


def test_what_was_written_to_a_copy_of_the_map_is_what_is_read(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((50, 2)))
    M = np.load(tmp_path / "x.npy", mmap_mode="c")
    M[20:] = 1.0
    source = source_of(M)
    assert source is not None
    for _ in range(2):
        np.testing.assert_array_equal(source.fetched(10, 30), np.asarray(M)[10:30])


@pytest.mark.parametrize("how", ["replaced", "by a shorter one", "deleted", "renamed"])
def test_the_file_that_is_mapped_is_read(tmp_path, how):
    """Whatever takes its name, before the first read or between two."""
    path, other = tmp_path / "x.npy", tmp_path / "y.npy"
    X = RNG.normal(size=(60, 2))
    np.save(path, X)
    source = source_of(np.load(path, mmap_mode="r"))
    assert source is not None
    np.testing.assert_array_equal(source.fetched(0, 7), X[:7])
    np.save(other, np.ones((10 if how == "by a shorter one" else 60, 2)))
    if how == "deleted":
        path.unlink()
    elif how == "renamed":
        path.rename(tmp_path / "z.npy")
    else:
        other.replace(path)
    np.testing.assert_array_equal(source.fetched(0, 60), X)


@pytest.mark.parametrize("part", [lambda M: M, lambda M: M[::2], lambda M: M[:40]])
def test_a_shorter_file_is_an_error_whichever_rows_are_wanted(tmp_path, monkeypatch, part):
    plant(monkeypatch, "rows read at once", 2)  # a row is read alone
    path = tmp_path / "x.npy"
    np.save(path, np.zeros((60, 2)))
    seen = part(np.load(path, mmap_mode="r"))
    source = source_of(seen)
    assert source is not None
    os.truncate(path, 128 + 59 * 16)
    for places in ([0], [2], [19]):
        with pytest.raises(InvalidArgument, match="EOFError"):
            source.at(np.array(places))
    with pytest.raises(InvalidArgument, match="`data` maps a file that has become shorter"):
        source_of(seen, "data")


def test_what_is_taken_into_memory_is_read_once(tmp_path):
    np.save(tmp_path / "x.npy", np.ones((30, 2)))
    M = np.load(tmp_path / "x.npy", mmap_mode="r+")
    held = Doors.taken("X", M[::2])
    M[:] = 5.0
    np.testing.assert_array_equal(held, np.ones((15, 2)))
    assert Doors.taken("X", held) is held


# ------------------------------------------------------------------------------------------------
# in processes of their own, which end where a page is missing
USES = {
    "mean": "riemdp.private_frechet_mean(space, X, ball, budget)",
    "search": "riemdp.private_ball(space, X, riemdp.AdaptiveBall(ball), budget)",
    "components": "riemdp.estimators.PrivatePCA(1, budget=budget, row_norm=1.0).fit(X)",
}
PROGRAM = """
import os, sys
import numpy as np
import riemdp

space, ball, budget = riemdp.Euclidean(2), riemdp.Ball([0.0, 0.0], 1.0), riemdp.Budget(1.0, 1e-6)
USES = {
WORK
}
for case in sys.argv[2:]:
    order, part, use, when = case.split(", ")
    path = sys.argv[1] + "/" + case + ".npy"
    X = np.lib.format.open_memmap(
        path, mode="w+", dtype=float, shape=(40_000, 2), fortran_order=order == "F"
    )
    X[:] = 0.1
    del X
    X = np.load(path, mmap_mode="c" if part == "copy" else "r")
    if part == "slice":
        X = X[1::2]
    if when == "unlinked":
        os.link(path, path + ".2")
        os.unlink(path)
        path += ".2"
    ledger = riemdp.Ledger(riemdp.Budget(9.0, 1e-4))
    os.truncate(path, 100_000)
    with ledger:
        try:
            USES[use](X)
        except riemdp.InvalidArgument as error:
            assert "shorter" in str(error), error
            assert ledger.spent.epsilon(1e-6) == 0.0
            print(case, flush=True)
"""
CASES = [
    *[f"F, whole, {use}, named" for use in USES],
    "C, whole, mean, named",
    "C, slice, mean, named",
    "C, copy, mean, named",
    "F, slice, mean, unlinked",
]


def test_a_file_that_was_made_shorter_does_not_end_the_process(tmp_path):
    """Before: SIGBUS, where the layout was not that of C or a part was given."""
    work = "\n".join(f"    {use!r}: lambda X: {call}," for use, call in USES.items())
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("WORK", work), os.fspath(tmp_path), *CASES],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    refused = done.stdout.splitlines()
    assert (done.returncode, refused) == (0, CASES), done.stderr[-2000:]
