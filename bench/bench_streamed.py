"""Peak memory and time of a private mean of matrices that are read from a file.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python -m bench.bench_streamed [--only tensors]

Diffusion tensors are SPD(3), a million to a hundred million of them (7.2 GB of disk, about half an
hour); connectomes are SPD(100) to SPD(400). Every row runs in a process of its own, which is the
only way to know its peak memory, on a file that another process has made. A size is measured once:
the large ones take minutes.

The floor is the time of one eigendecomposition of every matrix by LAPACK, as SciPy calls it, on one
core, measured on a few of them.
"""

from __future__ import annotations

import argparse
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
import scipy.linalg

from ._timing import GROWTH, Row, growth_row, load, write_table

KINDS = {
    "tensors": ((3, 10**6), (3, 10**7), (3, 10**8)),
    "connectomes": ((100, 1000), (100, 10_000), (100, 50_000), (200, 1000), (400, 1000)),
}
NUMBERS = 1 << 20  # of the file that are made at a time
FEW = 16  # matrices that the floor is measured on
RADIUS = 1.5


@dataclasses.dataclass(frozen=True)
class Measured:
    """Seconds and megabytes of one release, and the floor."""

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


def measure(path: Path) -> Measured:
    """One release in this process, and LAPACK beside it."""
    import riemdp

    records = np.load(path, mmap_mode="r")
    n, k = records.shape[:2]
    space, ball = riemdp.SPDAffineInvariant(k), riemdp.Ball(np.eye(k), RADIUS)
    budget = riemdp.Budget(1.0, 1e-6)
    began, used = time.perf_counter(), time.process_time()
    riemdp.private_frechet_mean(space, records, ball, budget, mechanism="wrapped-gaussian")
    used, wall = time.process_time() - used, time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    few = np.array(records[:: max(1, n // FEW)][:FEW])
    began = time.perf_counter()
    for x in few:
        scipy.linalg.eigh(x, driver="evd")
    floor = n * (time.perf_counter() - began) / len(few)
    return Measured(k, n, peak, used, wall, floor, load())


def in_processes(folder: Path, k: int, n: int) -> Measured:
    """`make` and `measure`, each in a process of its own; the file is removed."""
    path = folder / f"{k}_{n}.npy"
    again = [sys.executable, "-W", "ignore", "-m", "bench.bench_streamed"]
    try:
        subprocess.run([*again, "--make", str(path), str(k), str(n)], check=True)
        done = subprocess.run(
            [*again, "--one", str(path)], check=True, capture_output=True, text=True
        )
    finally:
        path.unlink(missing_ok=True)
    found = Measured(**json.loads(done.stdout.splitlines()[-1]))
    print(found, flush=True)
    return found


def line(one: Measured) -> Row:
    """A row of the table."""
    return {
        "matrices": f"SPD({one.k})",
        "n": one.n,
        "file (MB)": 8e-6 * one.n * one.k**2,
        "peak memory (MB)": one.memory,
        "processor time (s)": one.used,
        "time (s)": one.wall,
        "one eigendecomposition each (s)": one.floor,
        "processor time beside it": one.used / one.floor,
        "load": one.load,
    }


def growths(measured: list[Measured]) -> list[Row]:
    """How processor time grows with n, where three sizes of one k were measured."""
    rows = []
    for k in sorted({one.k for one in measured}):
        mine = sorted((one for one in measured if one.k == k), key=lambda one: one.n)
        if len(mine) > 2:
            work = f"private Frechet mean, SPD({k}) from a file, processor time"
            sizes, times = [one.n for one in mine], [one.used for one in mine]
            rows.append(growth_row(work, "records", sizes, times, "1", mine[-1].load))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=KINDS, default=None)
    parser.add_argument("--most", type=float, default=math.inf, help="the largest file, in MB")
    parser.add_argument("--folder", type=Path, default=None, help="where the files are made")
    parser.add_argument("--one", type=Path, default=None, help="measure this file and stop")
    parser.add_argument("--make", nargs=3, default=None, metavar=("FILE", "K", "N"))
    given = parser.parse_args()
    if given.make is not None:
        make(Path(given.make[0]), int(given.make[1]), int(given.make[2]))
        return
    if given.one is not None:
        print(json.dumps(dataclasses.asdict(measure(given.one))))
        return
    growth: list[Row] = []
    for kind, sizes in KINDS.items():
        if given.only in (None, kind):
            wanted = [(k, n) for k, n in sizes if 8e-6 * n * k**2 <= given.most]
            with tempfile.TemporaryDirectory(dir=given.folder) as folder:
                measured = [in_processes(Path(folder), k, n) for k, n in wanted]
            title = f"A private mean of {kind} in a file"
            print(write_table(f"streamed_{kind}", title, [line(one) for one in measured]))
            growth += growths(measured)
    if growth:
        assert tuple(growth[0]) == GROWTH
        print(write_table("streamed_growth", "Growth of a mean of a file with its size", growth))


if __name__ == "__main__":
    main()
