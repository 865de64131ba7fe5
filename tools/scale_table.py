"""Peak memory and time of a private mean of SPD(3) matrices read from a file, against n.

    python tools/scale_table.py 100000 1000000 10000000

Each n runs in a process of its own, which makes the file, frees it and prints a row for
docs/scale.md. The file takes 72 bytes a record, in the folder of --folder.
"""

from __future__ import annotations

import argparse
import itertools
import math
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

BLOCK = 100_000


def make(path: Path, n: int) -> None:
    rows = np.lib.format.open_memmap(path, mode="w+", dtype=np.float64, shape=(n, 3, 3))
    rng = np.random.default_rng(0)
    for start in range(0, n, BLOCK):
        g = 0.3 * rng.normal(size=(min(BLOCK, n - start), 3, 3))
        rows[start : start + BLOCK] = np.eye(3) + g @ g.transpose(0, 2, 1)
    rows.flush()


def measure(path: Path, mechanism: str) -> tuple[float, float, float]:
    """Peak memory of this process in MB, processor seconds and seconds of one release."""
    import riemdp

    records = np.load(path, mmap_mode="r")
    space, ball = riemdp.SPDAffineInvariant(3), riemdp.Ball(np.eye(3), 1.5)
    began, used = time.perf_counter(), time.process_time()
    budget = riemdp.Budget(1.0, 1e-6)
    riemdp.private_frechet_mean(space, records, ball, budget, mechanism=mechanism, rng=0)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    return peak, time.process_time() - used, time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("n", type=int, nargs="*", default=[10**5, 10**6, 10**7])
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--mechanism", default="wrapped-gaussian")
    parser.add_argument("--one", type=Path, default=None, help="measure this file")
    parser.add_argument("--make", type=Path, default=None, help="make this file and stop")
    given = parser.parse_args()
    if given.make is not None:
        make(given.make, *given.n)
        return
    if given.one is not None:
        print(*measure(given.one, given.mechanism))
        return
    print("| n | size of the file | peak memory | processor time | time |")
    print("|---|---|---|---|---|")
    seen = []
    for n in given.n:
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            path = Path(folder) / "x.npy"
            subprocess.run([sys.executable, __file__, str(n), "--make", str(path)], check=True)
            done = subprocess.run(
                [sys.executable, __file__, "--one", str(path), "--mechanism", given.mechanism],
                check=True,
                capture_output=True,
                text=True,
            )
        peak, used, wall = map(float, done.stdout.split())
        seen.append((n, peak, used))
        print(
            f"| {n:,} | {72e-6 * n:,.0f} MB | {peak:,.0f} MB | {used:,.1f} s | {wall:,.1f} s |",
            flush=True,
        )
    for (n, peak, used), (m, more, longer) in itertools.pairwise(seen):
        growth = math.log(m / n)
        print(
            f"{n:,} to {m:,}: memory grows as n^{math.log(more / peak) / growth:.2f}, processor"
            f" time as n^{math.log(longer / used) / growth:.2f}"
        )


if __name__ == "__main__":
    main()
