"""Optimisers on records that are read in parts: to the last bit the values of records in memory,
the same charges, and nothing about a record or a batch in an error.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import riemdp
from riemdp import Ball, Budget, InvalidArgument, Ledger, private_minimize
from riemdp.optimizers import DPRGD, DPRSGD, DPRSVRG, AbstractOptimizer
from tests.domains.test_stream import Damaged, mapped
from tests.seam import Doors, plant, replicate

SPACE = riemdp.Euclidean(2)
BALL = Ball(np.zeros(2), 1.0)
PROBLEM = riemdp.problems.frechet_mean(SPACE, ball=BALL)
BUDGET = Budget(2.0, 1e-6)
N = 500

POISSON = DPRSGD(steps=9, batch_size=40, sampling="poisson", learning_rate=0.1)
FIXED = DPRSGD(steps=9, batch_size=40, learning_rate=0.1)
ALLOCATION = DPRSGD(steps=10, batch_size=100, sampling="allocation", learning_rate=0.1)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    """Parts so small that they end in the middle of a batch, and the last one is not full."""
    plant(monkeypatch, "rows of a part", 64)
    plant(monkeypatch, "rows read at once", 16)


@functools.cache
def records() -> np.ndarray:
    X = np.random.default_rng(0).normal(size=(N, 2))
    X[3], X[70], X[-1] = np.nan, np.inf, 1e200
    X[N - 40 :] += 2.0  # a last part that counts for more than noise
    return X


def run(X: Any, optimizer: AbstractOptimizer, **more: Any) -> riemdp.OptimizationResult:
    options: dict[str, Any] = {"rng": 3, "noise_std": 0.05, **more}
    return private_minimize(PROBLEM, X, np.zeros(2), optimizer, **options)


def assert_same(X: Any, optimizer: AbstractOptimizer, **more: Any) -> None:
    if optimizer.clip_norm == "adaptive":
        more |= {"noise_std": None, "budget": BUDGET}
    there, here = run(X, optimizer, **more), run(records(), optimizer, **more)
    assert np.array_equal(np.asarray(there.value), np.asarray(here.value))
    assert there.guarantee == here.guarantee
    assert (there.steps, there.gradient_calls) == (here.steps, here.gradient_calls)
    planned = "planned_guarantee"
    assert {**there.details, planned: 0} == {**here.details, planned: 0}
    assert there.details["numerics"] == here.details["numerics"]


# ------------------------------------------------------------------------------- the same value
@pytest.mark.parametrize(
    "optimizer",
    [
        DPRGD(steps=5),
        pytest.param(
            DPRGD(steps=5, sensitivity="domain", output="geodesic-average"),
            marks=pytest.mark.slow,
        ),
        DPRGD(steps=9, clip_norm="adaptive"),
        DPRGD(steps=5, output="uniform"),
    ],
    ids=["plain", "average", "adaptive", "uniform"],
)
def test_steps_on_all_records(tmp_path, optimizer) -> None:
    assert_same(mapped(tmp_path, records()), optimizer)


@pytest.mark.parametrize(
    "optimizer", [DPRGD(steps=2), DPRSGD(steps=2, batch_size=400)], ids=["all", "batches"]
)
def test_records_are_moved_into_the_ball(tmp_path, optimizer) -> None:
    """On a sphere, where shorter gradients are not those of nearer records."""
    space = riemdp.Sphere(3)
    X = np.array(space.random_point(1, (N,)))
    X[5], X[80] = np.nan, -1.0
    problem = riemdp.problems.frechet_mean(space, ball=Ball(space.origin, 0.5))
    steps = dataclasses.replace(optimizer, sensitivity="domain")
    whole, found = (
        private_minimize(problem, x, space.origin, steps, noise_std=0.05, rng=1)
        for x in (X, mapped(tmp_path, X))
    )
    # The compiler may round a record of a part in another way: at most one unit of the grid each.
    assert np.max(np.abs(whole.value - found.value)) < 1e-12


@pytest.mark.parametrize("optimizer", [FIXED, POISSON, ALLOCATION], ids=lambda o: o.sampling)
@pytest.mark.parametrize("steps", [1 << 20, 2, 0], ids=["one-block", "two-steps", "parts"])
def test_steps_on_batches(tmp_path, monkeypatch, optimizer, steps) -> None:
    """Read for many steps together, for few, and each batch part by part."""
    width = 2 * {"poisson": 107, "allocation": 196}.get(optimizer.sampling, 40)
    plant(monkeypatch, "entries of batches in a file", steps * width if steps else 1)
    assert_same(mapped(tmp_path, records()), optimizer)


def test_batches_with_no_record_at_all(tmp_path, monkeypatch) -> None:
    plant(monkeypatch, "entries of batches in a file", 1)
    rare = DPRSGD(steps=6, batch_size=1, sampling="poisson", learning_rate=0.1)
    assert_same(mapped(tmp_path, records()), rare)


class Pieces(Damaged):
    """As HDF5 with pieces of 100 rows."""

    def __init__(self, X: np.ndarray, reads: float = math.inf):
        super().__init__(X, reads)
        self.chunks = (100, *X.shape[1:])


Pieces.__module__ = "h5py.fake"


@pytest.mark.parametrize("optimizer", [DPRGD(steps=3), FIXED, POISSON], ids=["all", "b", "p"])
def test_an_array_of_pieces_is_never_taken_into_memory(optimizer) -> None:
    assert_same(Pieces(records()), optimizer)


_PEAK = """
import resource, sys
import numpy as np
import riemdp
from riemdp.optimizers import DPRGD, DPRSGD

space = riemdp.Euclidean(50)
problem = riemdp.problems.frechet_mean(space, ball=riemdp.Ball(np.zeros(50), 1.0))
optimizers = DPRGD(steps=2), DPRSGD(steps=20, batch_size=2000), DPRSGD(steps=2, batch_size=60_000)
for path in sys.argv[1:]:
    X = np.load(path, mmap_mode="r")
    for optimizer in optimizers:
        riemdp.private_minimize(problem, X, np.zeros(50), optimizer, noise_std=0.01, rng=0)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_records(tmp_path) -> None:
    """From 70 000 records to a file of 400 MB: both are read in parts of the same size."""
    rng, paths = np.random.default_rng(0), []
    for n in (70_000, 1_000_000):
        paths.append(str(tmp_path / f"{n}.npy"))
        with open(paths[-1], "wb") as file:
            header = {"descr": "<f8", "fortran_order": False, "shape": (n, 50)}
            np.lib.format.write_array_header_1_0(file, header)
            for _ in range(n // 10_000):
                file.write(rng.normal(size=(10_000, 50)).tobytes())
    said = subprocess.run(
        [sys.executable, "-c", _PEAK, *paths], capture_output=True, text=True, check=True
    )
    few, many = map(int, said.stdout.split())
    assert many < few + 60, (few, many)


# ------------------------------------------------------------------------- damage, interrupts
@pytest.mark.parametrize("optimizer", [DPRGD(steps=5), FIXED], ids=["all", "batches"])
@pytest.mark.parametrize("entries", [1 << 21, 1], ids=["together", "parts"])
def test_damage_in_the_middle_of_a_run(monkeypatch, optimizer, entries) -> None:
    """The charge stands, and nothing of a record is shown."""
    plant(monkeypatch, "entries of batches in a file", entries)
    ledger = Ledger(Budget(9.0, 1e-5))
    reads = 12 if optimizer is not FIXED else 0 if entries > 1 else 6
    which = "some of its 500 rows" if optimizer is FIXED else r"rows \d+ to \d+ of 500"
    with pytest.raises(InvalidArgument, match=f"`data`: {which} cannot be read") as caught:
        run(Pieces(records(), reads), optimizer, rng=None, ledger=ledger, noise_std=0.5)
    assert "checksum" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    assert ledger.spent.epsilon(1e-6) == pytest.approx(
        run(records(), optimizer, noise_std=0.5).guarantee.epsilon(1e-6)
    )


@pytest.mark.parametrize("width", [2, 5000], ids=["stretches", "single rows"])
def test_an_error_names_no_member_of_a_batch(monkeypatch, tmp_path, width) -> None:
    """It is the same whichever members there are: a wide record is read alone, and a stretch begins
    where the one before it has no member.
    """
    plant(monkeypatch, "rows read at once", 1 << 11)
    X = np.zeros((7000, 2)) if width == 2 else np.zeros((9, width))
    source = Doors.source_of(mapped(tmp_path, X))
    assert isinstance(source, Doors.Map)
    os.truncate(tmp_path / "x.npy", 200)
    said = set()
    for places in map(np.array, ([3], [len(X) // 2], [0, len(X) - 1], [1, 2, 3])):
        for read in (source.at, lambda some: Doors.Chosen(source, some).fetched(0, len(some))):
            with pytest.raises(InvalidArgument, match="cannot be read") as caught:
                read(places)
            said.add(str(caught.value))
    (only,) = said
    assert f"some of its {len(X)} rows cannot be read (EOFError)" in only


@pytest.mark.parametrize("optimizer", [DPRGD(steps=5), FIXED], ids=["all", "batches"])
def test_an_interrupt_returns_the_last_point(tmp_path, monkeypatch, optimizer) -> None:
    plant(monkeypatch, "entries of batches in a file", 80)  # one step of 40 records
    X, calls, read = mapped(tmp_path, records()), [], Doors.Map.read

    def interrupted(self: Doors.Map, start: int, stop: int) -> Any:
        calls.append(start)
        if len(calls) == 30:
            raise KeyboardInterrupt
        return read(self, start, stop)

    plant(monkeypatch, "a file's read", interrupted)
    found = run(X, optimizer, rng=None)
    assert found.status == "interrupted"
    assert 0 < found.steps < optimizer.steps
    assert np.isfinite(np.asarray(found.value)).all()


# ----------------------------------------------------------------------------------- refusals
@pytest.mark.parametrize("more", [{"groups": np.arange(N) // 2}, {"repetitions": 2}], ids=str)
def test_people_and_many_runs_take_their_records_into_memory(tmp_path, monkeypatch, more) -> None:
    """The values are those of an array; a large file is refused and nothing is drawn."""
    options: dict[str, Any] = {"noise_std": 0.05, "rng": 1, **more}
    take: Any = private_minimize
    if "repetitions" in more:
        take = functools.partial(replicate)
    there = mapped(tmp_path, records())
    whole, found = (
        take(PROBLEM, X, np.zeros(2), DPRGD(steps=2), **options) for X in (records(), there)
    )
    values = [x[0] if isinstance(x, tuple) else x.value for x in (whole, found)]
    assert np.array_equal(np.asarray(values[0]), np.asarray(values[1]))
    plant(monkeypatch, "bytes taken whole", 1000)
    with pytest.raises(InvalidArgument, match=r"`data`.*into memory.*numpy\.asarray\(data\)"):
        take(PROBLEM, there, np.zeros(2), DPRGD(steps=2), **options)


def test_a_variance_reduced_batch_that_does_not_fit_is_refused(tmp_path, monkeypatch) -> None:
    plant(monkeypatch, "entries of batches in a file", 60)
    ledger = Ledger(BUDGET)
    optimizer = DPRSVRG(epochs=2, inner_steps=4, batch_size=40)
    with pytest.raises(InvalidArgument, match=r"`batch_size` = 40.*at most 30"):
        run(mapped(tmp_path, records()), optimizer, ledger=ledger)
    assert ledger.spent.epsilon(1e-6) == 0.0
