"""How often a Frechet mean reads its records, and its time in units of one pass, space by space.

    python -m bench.bench_passes [--n 100000]

A pass is what a tangent mean takes: every record clamped, one logarithm each. Records lie in 19
twentieths of their ball, and their mean aside of its centre.
"""

from __future__ import annotations

import argparse
import functools
import tempfile
from pathlib import Path
from typing import Any

import jax
import numpy as np
from tests.seam import Doors

import riemdp
from riemdp import Ball
from riemdp.statistics import FrechetMean, TangentMean

from ._timing import Row, comparison, paired, write_table

SPACES = (
    riemdp.SPDAffineInvariant(3),
    riemdp.SPDAffineInvariant(5),
    riemdp.SPDAffineInvariant(11),
    riemdp.SPDAffineInvariant(20),
    riemdp.SPDBuresWasserstein(3),
    riemdp.SPDBuresWasserstein(8),
    riemdp.SPDLogEuclidean(5),
    riemdp.Sphere(4),
    riemdp.Sphere(100),
    riemdp.Lorentz(4),
    riemdp.Lorentz(21),
    riemdp.Grassmann(5, 2),
    riemdp.Grassmann(30, 2),
    riemdp.Stiefel(3, 3),
    riemdp.Stiefel(4, 4),
    riemdp.Product(riemdp.Sphere(4), riemdp.SPDAffineInvariant(3)),
    riemdp.Product(riemdp.Grassmann(5, 2), riemdp.SPDBuresWasserstein(3)),
)


def named(space: riemdp.AbstractManifold) -> str:
    if isinstance(space, riemdp.Product):
        return " x ".join(map(named, space.manifolds))
    sizes = ", ".join(str(v) for v in vars(space).values() if isinstance(v, int))
    lengths = "" if sizes else ", ".join(map(str, space.shape))
    return f"{type(space).__name__}({sizes or lengths})"


def records(space: riemdp.AbstractManifold, n: int, radius: float) -> Any:
    rng = np.random.default_rng(0)
    u = rng.standard_normal((n, space.dim))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    y = radius * (0.65 * rng.uniform(size=(n, 1)) * u + 0.3 * np.eye(1, space.dim))
    origin = space.origin
    place = jax.jit(lambda part: space.exp(origin, space.from_coordinates(origin, part)))
    parts = [place(y[i : i + 10_000]) for i in range(0, n, 10_000)]
    return jax.tree.map(lambda *p: np.concatenate([np.asarray(x) for x in p]), *parts)


def mapped(folder: Path, X: Any) -> Any:
    def one(x: np.ndarray) -> np.ndarray:
        path = folder / f"{len(list(folder.iterdir()))}.npy"
        np.save(path, x)
        return np.load(path, mmap_mode="r")

    return jax.tree.map(one, X)


def value(query: FrechetMean | TangentMean, X: Any) -> None:
    jax.block_until_ready(jax.tree.map(np.asarray, query.value(query.prepare(X))))


def passes(query: FrechetMean, X: Any) -> int:
    """How often records in a file are read whole."""
    ends: list[int] = []
    with Doors.watched(lambda read, n: ends.append(read) if read == query.n else None):
        value(query, X)
    return len(ends)


def rows_of(space: riemdp.AbstractManifold, n: int) -> list[Row]:
    radius = 0.5 * min(float(Ball(space.origin, 1e-3).on(space).convexity_limit), 2.0)
    domain = Ball(space.origin, radius).on(space)
    X = records(space, n, radius)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        file = mapped(Path(folder), X)
        mean, floor = FrechetMean(domain, n), TangentMean(domain, n)
        read = passes(mean, file)
        timing = paired(
            functools.partial(value, mean, file), functools.partial(value, floor, file), repeats=7
        )
        work = f"mean of {n:,} records of {named(space)} in a file: {read} passes"
        rows.append(comparison(work, "one pass", timing, unit="s"))
    if not isinstance(space, riemdp.Product):
        found = riemdp.frechet_mean(space, X).iterations
        mean, floor = FrechetMean(domain, n), TangentMean(domain, n)
        timing = paired(
            functools.partial(value, mean, X), functools.partial(value, floor, X), repeats=7
        )
        work = f"mean of {n:,} records of {named(space)} in memory: {found} passes"
        rows.append(comparison(work, "one pass", timing, unit="s"))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=100_000)
    n = parser.parse_args().n
    rows: list[Row] = []
    for space in SPACES:
        found = rows_of(space, n)
        print(*(f"{row['work']}: {row['ratio']:.2f}" for row in found), sep="\n", flush=True)
        rows += found
    notes = (
        "A sample before the first is a part of one.",
        "One pass: the tangent mean of the same records, clamped likewise. In memory a clamp is a"
        " part of both.",
    )
    print(write_table("passes", "How often a mean looks at its records", rows, notes))


if __name__ == "__main__":
    main()
