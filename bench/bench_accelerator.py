"""The same calls on an accelerator and on the CPU beside it, in microseconds a record: seconds a
million.

    python -m bench.bench_accelerator [--n 1000000] [--share 10] [--k 11] [--only clamp] [--pairs 3]

Where JAX sees no device besides the CPU this says so and writes nothing. `--device cpu` takes the
CPU for the device, which tries the code and measures nothing: the table is printed only. The CPU
gets one record in `--share`.

Decompositions are those of the library, checked as they are on such a machine (on both sides), in
parts of the size that the clamp takes. Records lie on the device where a row says so; else they
are NumPy arrays or a file, and the way to the device is part of the time. `mean by gradient steps`
is the solver of spaces without a better one; the others of `a private mean` are found by Newton's
method, on the CPU in NumPy.
"""

from __future__ import annotations

import argparse
import functools
import math
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.extend.backend
import jax.numpy as jnp
import numpy as np

import riemdp
from riemdp import DPRGD, Ball, Budget, SPDAffineInvariant, private_minimize, problems
from riemdp import _decompositions as decompositions
from riemdp.domains._clamp import clamp, in_parts
from riemdp.manifolds import _spectral as sp

from ._timing import Row, compared, markdown, write_table

RADIUS, SPREAD = 1.5, 1.0  # of the ball; mean distance of the records from its centre
SOME = 1 << 19  # numbers that are made at a time
BUDGET = Budget(1.0, 1e-6)


def records(n: int, k: int) -> np.ndarray:
    """Matrices about the identity, of which some lie outside the ball."""
    rng = np.random.default_rng(0)
    x = np.empty((n, k, k))
    step = max(1, SOME // k**2)
    for start in range(0, n, step):
        g = rng.normal(size=(min(step, n - start), k, k))
        v = (SPREAD / k) * (g + g.swapaxes(1, 2)) / math.sqrt(2)
        root = np.eye(k) + v / 2 + v @ v / 8
        x[start : start + step] = root @ root.swapaxes(1, 2)
    return x


@functools.partial(jax.jit, static_argnums=0)
def spectra(space: SPDAffineInvariant, x: Any) -> Any:
    return in_parts(space, sp.spectrum, x)


def works(
    space: SPDAffineInvariant, x: np.ndarray, device: Any, file: Path
) -> dict[str, Callable[[], Any]]:
    """What is timed, on one device, of records that are written to this file as well."""
    np.save(file, x)
    stored = np.load(file, mmap_mode="r")
    ball, center = Ball(np.eye(space.k), RADIUS), jax.device_put(np.eye(space.k), device)
    there = jax.device_put(x, device)
    problem, step = problems.frechet_mean(space), DPRGD(1, 0.5, 1.0)
    mean = functools.partial(riemdp.private_frechet_mean, mechanism="wrapped-gaussian")
    calls: dict[str, Callable[[], Any]] = {
        "eigendecompositions, records on the device": lambda: spectra(space, there),
        "clamp, records on the device": lambda: clamp(space, center, RADIUS, there),
        "a private mean": lambda: mean(space, x, ball, BUDGET).value,
        "a private mean of a file": lambda: mean(space, stored, ball, BUDGET).value,
        "a step of DP-RGD": lambda: private_minimize(problem, x, space.origin, step, BUDGET).value,
    }

    def on_device(call: Callable[[], Any]) -> Callable[[], Any]:
        def run() -> None:
            with jax.default_device(device):
                jax.block_until_ready(jax.tree.leaves(call()))

        return run

    return {name: on_device(call) for name, call in calls.items()}


def solver(space: SPDAffineInvariant, x: np.ndarray, device: Any) -> str:
    """What the solver of a device returns before anything is decomposed again."""

    def wrong(part: Any) -> Any:
        found = jnp.linalg.eigh(part, symmetrize_input=False)
        return decompositions.wrong(part, found.eigenvectors, found.eigenvalues)

    many = jax.jit(lambda y: in_parts(space, wrong, y))(jax.device_put(x, device))
    return (
        f"the eigensolver of the device returned {int(np.sum(many))} of {len(x)} decompositions "
        "that do not multiply out, which are made again"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=10**6, help="number of matrices")
    parser.add_argument("--share", type=int, default=10, help="one record in so many is the CPU's")
    parser.add_argument("--k", type=int, default=11, help="their size")
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--pairs", type=int, default=3, help="of calls, after one of each")
    parser.add_argument("--device", choices=("accelerator", "cpu"), default="accelerator")
    given = parser.parse_args()
    platforms = jax.extend.backend.backends()
    other = next((name for name in platforms if name != "cpu"), None)
    if other is None and given.device == "accelerator":
        print("JAX sees no device besides the CPU: nothing is measured")
        return
    cpu = jax.devices("cpu")[0]
    device = cpu if other is None or given.device == "cpu" else jax.devices(other)[0]
    space, x = SPDAffineInvariant(given.k), records(given.n, given.k)
    some = x[:: given.share]
    notes = [
        f"device: {device.device_kind}; CPU: {os.cpu_count()} cores; JAX {jax.__version__}",
        solver(space, x, device),
    ]
    print("\n".join(notes), flush=True)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        ours = works(space, x, device, Path(folder, "ours.npy"))
        theirs = works(space, some, cpu, Path(folder, "theirs.npy"))
        for name in ours:
            if given.only in name:
                row = compared(
                    f"{name}: {len(x)} SPD({given.k})",
                    f"the CPU of the same machine, {len(some)}",
                    ours[name],
                    theirs[name],
                    repeats=given.pairs,
                    unit="us",
                    ours_count=len(x),
                    theirs_count=len(some),
                )
                rows.append(row)
    if device is cpu:
        print("\n".join(markdown(rows)))
    else:
        print(write_table("accelerator", "An accelerator beside the CPU", rows, notes))


if __name__ == "__main__":
    main()
