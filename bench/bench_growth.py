"""How time grows with the number of records, the dimension and the number of steps.

    python -m bench.bench_growth

A full batch is linear in the records and in the steps. Sizes are such that what a call costs in any
case does not count. Work on matrices is one eigendecomposition or a few of each: LAPACK's own time
does not grow as k^3 at these sizes, so its exponent, measured in the same run, is what is expected.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import riemdp
from riemdp import (
    DPRGD,
    DPRSGD,
    Ball,
    Budget,
    SPDAffineInvariant,
    SPDLogEuclidean,
    Sphere,
    private_minimize,
    problems,
)

from ._timing import growth, write_table

RECORDS = (100_000, 300_000, 1_000_000, 3_000_000)
MATRICES = (25, 50, 100, 200)


def frechet_mean(n: int) -> Callable[[], Any]:
    space = SPDAffineInvariant(3)
    x = _near_origin(space, n)
    return lambda: riemdp.frechet_mean(space, x, tol=1e-9).value


def private_mean(n: int) -> Callable[[], Any]:
    space = SPDLogEuclidean(3)
    x = _near_origin(space, n)
    ball = Ball(space.origin, 2.0)
    return lambda: riemdp.private_frechet_mean(space, x, ball=ball, budget=Budget(1.0, 1e-6)).value


def full_gradient(n: int) -> Callable[[], Any]:
    space = SPDAffineInvariant(3)
    x, problem, algorithm = _near_origin(space, n), problems.frechet_mean(space), DPRGD(5, 0.1, 1.0)
    return lambda: private_minimize(problem, x, space.origin, algorithm, None, noise_std=0.05).value


def minibatch(n: int) -> Callable[[], Any]:
    space = SPDAffineInvariant(3)
    x, problem, algorithm = (
        _near_origin(space, n),
        problems.frechet_mean(space),
        DPRSGD(1_000, 10, 0.1, 1.0),
    )
    return lambda: private_minimize(problem, x, space.origin, algorithm, None, noise_std=0.05).value


def steps(count: int) -> Callable[[], Any]:
    space = SPDAffineInvariant(11)
    x, problem, algorithm = (
        _near_origin(space, 1_000),
        problems.frechet_mean(space),
        DPRSGD(count, 1, 0.1, 1.0),
    )
    return lambda: private_minimize(problem, x, space.origin, algorithm, None, noise_std=0.05).value


def matrix_size(k: int) -> Callable[[], Any]:
    space = SPDAffineInvariant(k)
    x = _near_origin(space, 200)
    return lambda: riemdp.frechet_mean(space, x, tol=1e-9).value


def vector_size(d: int) -> Callable[[], Any]:
    space = Sphere(d)
    x = _near_origin(space, 2_000)
    return lambda: riemdp.frechet_mean(space, x, tol=1e-8).value


def tangent_normals(k: int) -> Callable[[], Any]:
    space = SPDAffineInvariant(k)
    key = jax.random.key(2)
    return lambda: space.tangent_normal(key, space.origin, 1.0, (200,)).block_until_ready()


def _near_origin(space: Any, n: int) -> jax.Array:
    key = jax.random.key(0)
    draw = jax.jit(
        lambda key: space.exp(
            space.origin, space.tangent_normal(key, space.origin, 0.3 / np.sqrt(space.dim), (n,))
        )
    )
    return jnp.asarray(draw(key)).block_until_ready()


def eigendecompositions(k: int) -> Callable[[], Any]:
    x = np.asarray(_near_origin(SPDAffineInvariant(k), 200))
    return lambda: np.linalg.eigh(x)


def main() -> None:
    rows = []

    def add(work: str, against: str, sizes: Any, call: Any, expected: str) -> float:
        rows.append(growth(work, against, sizes, call, expected))
        print(rows[-1], flush=True)
        return rows[-1]["exponent"]

    affine, flat = "SPD(3) affine-invariant", "SPD(3) log-Euclidean"
    add(f"Frechet mean, {affine}", "records", RECORDS, frechet_mean, "1")
    add(f"private Frechet mean, {flat}, auto", "records", RECORDS, private_mean, "1")
    add("DP-RGD, 5 full-batch steps, SPD(3)", "records", RECORDS, full_gradient, "1")
    add(
        "DP-RSGD, 1000 steps of batch 10, SPD(3)",
        "records",
        (1_000, 10_000, 100_000, 1_000_000),
        minibatch,
        "0 (checks of the records apart)",
    )
    add("DP-RSGD, batch 1, SPD(11)", "steps", (10_000, 100_000, 1_000_000), steps, "1")
    floor = add("LAPACK's eigh of 200 SPD(k)", "k", MATRICES, eigendecompositions, "")
    expected = f"{floor:.2f} (LAPACK's)"
    add("Frechet mean of 200 SPD(k), affine-invariant", "k", MATRICES, matrix_size, expected)
    add("200 tangent Gaussians, SPD(k) affine-invariant", "k", MATRICES, tangent_normals, "2 to 3")
    add("Frechet mean of 2000 on the sphere", "d", (800, 3_200, 12_800), vector_size, "1")
    print(write_table("growth", "Growth of time with size", rows))


if __name__ == "__main__":
    main()
