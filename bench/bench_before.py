"""Releases beside those of an earlier version, in turn, and beside pyRiemann and NumPy by hand.

    python -m bench.bench_before FOLDER [--python PYTHON] [--only WORD]

FOLDER holds the package `riemdp` of the earlier version (`git worktree add`, then its `src`). Each
call is made in a process of its own with one thread of linear algebra, so that one version sees
nothing of the other. Times are processor time, of all threads, which other work changes
less. Rows beside pyRiemann need it (dependency group `conformance`).
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import riemdp

from ._timing import Paired, Row, comparison, load, write_table
from .bench_latency import CASES, FIRST

HERE = Path(riemdp.__file__).parents[1]
SETTINGS = """
import sys, time, warnings
warnings.simplefilter("ignore")
import numpy as np
import riemdp
rng = np.random.default_rng(0)
BUDGET = riemdp.Budget(1.0, 1e-6)
def matrices(n, k):
    g = rng.normal(size=(n, k, 3 * k))
    return g @ g.swapaxes(1, 2) / (3 * k)
"""
TOTAL = "print(time.process_time())\n"
WARM = """
space, x, center = CASE
ball = riemdp.Ball(center, 0.5)
times = []
for _ in range(120):
    start = time.process_time()
    riemdp.private_frechet_mean(space, x, ball, BUDGET)
    times.append(time.process_time() - start)
print(float(np.median(times[20:])))
"""
MANY = """
x = matrices(10_000, 11)
space = riemdp.SPDAffineInvariant(11)
riemdp.frechet_mean(space, x[:100])
start = time.process_time()
riemdp.frechet_mean(space, x, tol=1e-8)
print(time.process_time() - start)
"""
PYRIEMANN = """
from pyriemann.utils.mean import mean_riemann
x = matrices(10_000, 11)
mean_riemann(x[:100])
start = time.process_time()
mean_riemann(x, tol=1e-8)
print(time.process_time() - start)
"""
FIRST_PYRIEMANN = """
import time
import numpy as np
from pyriemann.utils.mean import mean_riemann
rng = np.random.default_rng(0)
g = 0.2 * rng.normal(size=(200, 5, 5))
mean_riemann(np.eye(5) + 0.3 * (g @ g.swapaxes(1, 2)))
print(time.process_time())
"""
FILE = """
x = np.load(sys.argv[1], mmap_mode="r")
start = time.process_time()
ball = riemdp.Ball(np.eye(3), 1.0)
riemdp.private_frechet_mean(
    riemdp.SPDAffineInvariant(3), x, ball, BUDGET, mechanism="wrapped-gaussian"
)
took = time.process_time() - start
with open("/proc/self/status") as status:  # ru_maxrss has what the parent held when it started this
    peak = next(line for line in status if line.startswith("VmHWM"))
print(took, int(peak.split()[1]) / 1e3)
"""
STEPS = """
x = matrices(1000, 3)
space = riemdp.SPDAffineInvariant(3)
problem = riemdp.problems.frechet_mean(space)
method = riemdp.DPRSGD(steps=10_000, batch_size=20, clip_norm=1.0)
start = time.process_time()
riemdp.private_minimize(problem, x, np.eye(3), method, BUDGET)
print(time.process_time() - start)
"""


class Sides:
    """This version, the earlier one, and what both are given."""

    def __init__(self, before: Path, python: str, only: str) -> None:
        self.before, self.python, self.only = before, python, only

    def run(self, code: str, source: Path, *words: str) -> list[float]:
        """The numbers that a process prints which finds `riemdp` in this folder."""
        more = {"PYTHONPATH": str(source), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        done = subprocess.run(
            [self.python, "-c", code, *words],
            env={**environment, **more},
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise RuntimeError(done.stderr[-2000:])
        return [float(word) for word in done.stdout.split()]

    def row(
        self, work: str, beside: str, ours: str, theirs: str, target: float, pairs: int, unit: str
    ) -> Iterator[Row]:
        """Two pieces of code in turn: the same one is of the two versions, another is a peer's."""
        if self.only not in f"{work} {beside}":
            return
        source = self.before if ours == theirs else HERE
        took = [(self.run(ours, HERE)[0], self.run(theirs, source)[0]) for _ in range(pairs)]
        timing = summed_up(took)
        found = comparison(work, beside, timing, target=target, unit=unit)
        print(found, flush=True)
        yield found


def summed_up(took: list[tuple[float, float]]) -> Paired:
    """Medians and quartiles of pairs of numbers."""
    a, b = np.array(took).T
    low, ratio, high = np.quantile(a / b, [0.25, 0.5, 0.75])
    return Paired(
        float(np.median(a)), float(np.median(b)), float(ratio), low, high, len(took), load()
    )


def rows(sides: Sides) -> Iterator[Row]:
    peer = importlib.util.find_spec("pyriemann") is not None
    helpers = FIRST[FIRST.index("def matrices") : FIRST.index("space, x, center")]
    for case, code in list(CASES.items())[:3]:
        warm = SETTINGS + helpers + WARM.replace("CASE", code)
        yield from sides.row(f"warm private mean, {case}", "before", warm, warm, 1.0, 3, "ms")
    work, many = "mean of 10,000 SPD(11)", SETTINGS + MANY
    yield from sides.row(work, "before", many, many, 1.0, 2, "s")
    if peer:
        yield from sides.row(work, "pyRiemann", many, SETTINGS + PYRIEMANN, 0.85, 2, "s")
    steps = SETTINGS + STEPS
    yield from sides.row("10,000 steps of DP-RSGD", "before", steps, steps, 1.2, 2, "s")
    yield from of_file(sides)
    for case, code in list(CASES.items())[:3]:
        first = FIRST.replace("CASE", code).replace(
            "print(imported - began, time.process_time() - imported)", TOTAL
        )
        work = f"first mean of a process with its imports, {case}"
        yield from sides.row(work, "before", first, first, 1.0, 3, "s")
        if peer:
            work = f"{work}, beside mean_riemann"
            yield from sides.row(work, "pyRiemann", first, FIRST_PYRIEMANN, 0.3, 3, "s")


def of_file(sides: Sides) -> Iterator[Row]:
    """A million matrices in a file: time, and the peak memory of the process in MB as seconds."""
    if sides.only not in "a private mean of a file":
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.npy")
        g = np.random.default_rng(0).normal(size=(10**6, 3, 9))
        np.save(path, g @ g.swapaxes(1, 2) / 9)
        del g
        pairs = [
            (
                sides.run(SETTINGS + FILE, HERE, str(path)),
                sides.run(SETTINGS + FILE, sides.before, str(path)),
            )
            for _ in range(2)
        ]
    for place, (what, target) in enumerate([("time", 1.3), ("peak memory (MB)", 1.0)]):
        timing = summed_up([(ours[place], theirs[place]) for ours, theirs in pairs])
        work = f"a private mean of a file of 1,000,000 SPD(3), {what}"
        found = comparison(work, "before", timing, target=target, unit="s")
        found["unit"] = "MB" if place else "s"
        print(found, flush=True)
        yield found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path, nargs="?", help="folder of the earlier riemdp")
    parser.add_argument("--python", default=sys.executable, help="that has what both versions need")
    parser.add_argument("--only", default="", help="rows whose name contains this")
    given = parser.parse_args()
    if given.before is None:
        print("give the folder of an earlier version: nothing is measured")
        return
    found = list(rows(Sides(given.before.resolve(), given.python, given.only)))
    notes = (
        "Each number is of a process of its own; both sides in turn.",
        "Imports: Python's compiled modules are kept, as for a user.",
    )
    print(write_table("before", "Releases beside those of an earlier version", found, notes))


if __name__ == "__main__":
    main()
