"""Peak memory and time of a private mean of matrices that are read from a file.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python -m bench.bench_streamed [--only tensors]

Diffusion tensors are SPD(3), a million to a hundred million of them (7.2 GB of disk, about ten
minutes; the other releases of up to ten million another five); connectomes are SPD(100) to SPD(400)
(4 GB, ten minutes). Every row runs in a process of its own, which is the only way to know its peak
memory, on a file that another process has made. A size is measured once: the large ones take
minutes.

The floor is the time of one eigendecomposition of every matrix by LAPACK, as NumPy calls it, on one
core, measured on some of them.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from ._timing import ALONE, GROWTH, RESULTS, Row, growth_row, load, write_table

MEAN = "mean in a public ball"
KINDS: dict[str, tuple[tuple[str, int, int], ...]] = {
    "tensors": tuple((MEAN, 3, n) for n in (10**6, 10**7, 10**8)),
    "releases": tuple(
        (what, 3, n)
        for what in ("mean without a ball", "variance", "DP-RGD, 3 steps", "DP-RSGD, 1000 batches")
        for n in (10**6, 10**7)
    ),
    "connectomes": tuple(
        (MEAN, k, n)
        for k, n in ((100, 1000), (100, 10_000), (100, 50_000), (200, 1000), (400, 1000))
    ),
}
NUMBERS = 1 << 20  # of the file that are made at a time
SOME = 1 << 19  # numbers that the floor is measured on
RADIUS = 1.5


@dataclasses.dataclass(frozen=True)
class Measured:
    """Seconds and megabytes of one release, and the floor."""

    what: str
    k: int
    n: int
    memory: float
    used: float
    wall: float
    floor: float
    load: float


def make(path: Path, k: int, n: int) -> None:
    """A file of matrices at a distance of about .8 from the identity."""
    rows = np.lib.format.open_memmap(path, mode="w+", dtype=np.float64, shape=(n, k, k))
    rng = np.random.default_rng(0)
    step = max(1, NUMBERS // k**2)
    for start in range(0, n, step):
        g = rng.normal(size=(min(step, n - start), k, k))
        v = (0.8 / k) * (g + g.swapaxes(1, 2)) / math.sqrt(2)
        root = np.eye(k) + v / 2 + v @ v / 8
        rows[start : start + step] = root @ root
    rows.flush()


def release(what: str, records: np.ndarray) -> None:
    """One release of the records."""
    import riemdp
    from riemdp.optimizers import DPRGD, DPRSGD

    space = riemdp.SPDAffineInvariant(records.shape[1])
    ball, budget = riemdp.Ball(np.eye(space.k), RADIUS), riemdp.Budget(1.0, 1e-6)
    if what == MEAN:
        riemdp.private_frechet_mean(space, records, ball, budget, mechanism="wrapped-gaussian")
    elif what == "mean without a ball":
        riemdp.private_frechet_mean(space, records, budget=budget)
    elif what == "variance":
        riemdp.private_frechet_variance(space, records, ball, budget)
    else:
        steps = DPRGD(3, 0.5, 1.0) if what.startswith("DP-RGD") else DPRSGD(1000, 100, 0.1, 1.0)
        problem = riemdp.problems.frechet_mean(space)
        riemdp.private_minimize(problem, records, np.eye(space.k), steps, budget)


def measure(path: Path, what: str) -> Measured:
    """One release in this process, and LAPACK beside it."""
    records = np.load(path, mmap_mode="r")
    n, k = records.shape[:2]
    began, used = time.perf_counter(), time.process_time()
    release(what, records)
    used, wall = time.process_time() - used, time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    some = np.array(records[: max(1, SOME // k**2)])
    began = time.perf_counter()
    np.linalg.eigh(some)
    floor = n * (time.perf_counter() - began) / len(some)
    return Measured(what, k, n, peak, used, wall, floor, load())


def in_processes(folder: Path, what: str, k: int, n: int) -> Measured:
    """`make` and `measure`, each in a process of its own; the file is removed."""
    path = folder / f"{k}_{n}.npy"
    again = [sys.executable, "-W", "ignore", "-m", "bench.bench_streamed"]
    try:
        subprocess.run([*again, "--make", str(path), str(k), str(n)], check=True)
        done = subprocess.run(
            [*again, "--one", str(path), what], check=True, capture_output=True, text=True
        )
    finally:
        path.unlink(missing_ok=True)
    found = Measured(**json.loads(done.stdout.splitlines()[-1]))
    print(found, flush=True)
    return found


def line(one: Measured) -> Row:
    """A row of the table."""
    values = (
        one.what,
        f"SPD({one.k})",
        one.n,
        8e-6 * one.n * one.k**2,
        one.memory,
        one.used,
        one.wall,
        one.floor,
        one.used / one.floor,
        one.load,
    )
    return dict(zip(ALONE, values, strict=True))


def growths() -> list[Row]:
    """How processor time grows with n between the two largest sizes of a kind, of all tables that
    were written: there what compiling takes, the same at every size, is the smallest part.
    """
    rows: dict[tuple[str, str], list[dict[str, str]]] = {}
    for kind in KINDS:
        path = RESULTS / f"streamed_{kind}.csv"
        if path.exists():
            with open(path, newline="") as stream:
                for row in csv.DictReader(stream):
                    rows.setdefault((row["release"], row["matrices"]), []).append(row)
    found = []
    for (what, matrices), mine in sorted(rows.items()):
        mine = sorted(mine, key=lambda row: int(row["n"]))[-2:]
        if len(mine) == 2 and what == MEAN:
            work = f"{what}, {matrices} from a file, processor time"
            sizes = [int(row["n"]) for row in mine]
            times = [float(row["processor time (s)"]) for row in mine]
            expected = "1 (compiling apart)"
            found.append(
                growth_row(work, "records", sizes, times, expected, float(mine[-1]["load"]))
            )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=KINDS, default=None)
    parser.add_argument("--most", type=float, default=math.inf, help="the largest file, in MB")
    parser.add_argument("--folder", type=Path, default=None, help="where the files are made")
    parser.add_argument("--one", nargs=2, default=None, metavar=("FILE", "RELEASE"))
    parser.add_argument("--make", nargs=3, default=None, metavar=("FILE", "K", "N"))
    given = parser.parse_args()
    if given.make is not None:
        make(Path(given.make[0]), int(given.make[1]), int(given.make[2]))
        return
    if given.one is not None:
        print(json.dumps(dataclasses.asdict(measure(Path(given.one[0]), given.one[1]))))
        return
    for kind, sizes in KINDS.items():
        if given.only in (None, kind):
            wanted = [one for one in sizes if 8e-6 * one[2] * one[1] ** 2 <= given.most]
            with tempfile.TemporaryDirectory(dir=given.folder) as folder:
                measured = [in_processes(Path(folder), *one) for one in wanted]
            title = f"Private releases of matrices in a file: {kind}"
            print(write_table(f"streamed_{kind}", title, [line(one) for one in measured]))
    growth = growths()
    if growth:
        assert tuple(growth[0]) == GROWTH
        print(write_table("streamed_growth", "Growth of a mean of a file with its size", growth))


if __name__ == "__main__":
    main()
