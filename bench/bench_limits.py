"""How far federated runs go: seconds to plan, and processor seconds a round of a run in process.

    python -m bench.bench_limits [most sites with shared noise]

Prints the tables of docs/evidence/performance.md. Processor time, because the machine may have
other work; what a round takes between machines is in `bench_federated`.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import riemdp
from riemdp import DPRGD, DPRSGD, Budget, PriRFed
from riemdp.federated import plan_federated, run_in_process

from ._timing import seconds

SPACE, BUDGET = riemdp.SPDAffineInvariant(11), Budget(1.0, 1e-6)
PROBLEM = riemdp.problems.frechet_mean(SPACE)
ONE = DPRGD(steps=1, learning_rate=0.2, clip_norm=1.0)
BATCHES = DPRSGD(steps=5, batch_size=60, learning_rate=0.2, clip_norm=1.0)


def rounds(sites: int, noise: str) -> float:
    """Of one round in which all sites answer: that of four rounds less that of one, over three."""
    sizes = [20 + i % 7 for i in range(sites)]
    data = [np.asarray(SPACE.random_point(i, (n,))) for i, n in enumerate(sizes)]

    def run(count: int) -> Any:
        prirfed = PriRFed(PROBLEM, ONE, rounds=count, agents_per_round=sites, noise=noise)
        return run_in_process(prirfed, data, SPACE.origin, BUDGET, rng=0)

    run(1)  # compiles
    return (seconds(lambda: run(4)) - seconds(lambda: run(1))) / 3


def plan(sites: int, local: Any, noise: str) -> float:
    """Of a plan for as many distinct sizes, 100 rounds."""
    asked = sites if noise == "shared" else max(1, sites // 10)
    prirfed = PriRFed(PROBLEM, local, rounds=100, agents_per_round=asked, noise=noise)
    return seconds(lambda: plan_federated(prirfed, range(500, 500 + sites), BUDGET))


def main(most: int = 100) -> None:
    """Both tables."""
    print("| sites | local noise: s a round | shared noise: s a round |\n|---|---|---|")
    for sites in (3, 30, 100, 1000):
        shared = f"{rounds(sites, 'shared'):.3g}" if sites <= most else "not run"
        print(f"| {sites} | {rounds(sites, 'local'):.3g} | {shared} |", flush=True)
    print("\n| distinct sizes | DPRGD | DPRGD, shared noise | DPRSGD |\n|---|---|---|---|")
    for sites in (30, 100, 1000):
        full, shared = plan(sites, ONE, "local"), plan(sites, ONE, "shared")
        some = plan(sites, BATCHES, "local")
        print(f"| {sites} | {full:.3g} | {shared:.3g} | {some:.3g} |", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
