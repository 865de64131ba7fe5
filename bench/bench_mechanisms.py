"""Cost of one release and of many exact draws, with the papers' Metropolis chain beside them."""

from __future__ import annotations

import time

import jax
import numpy as np

import riemdp as R
from riemdp.mechanisms import RiemannianLaplace, WrappedGaussian, WrappedLaplace

BUDGET = R.Budget(1.0, 1e-5)


def best(call, repeats: int) -> float:
    call()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def metropolis(k: int, s: float, steps: int) -> np.ndarray:
    """The published sampler on SPD(k): symmetric random walk in the logarithm with the log-Euclidean density."""
    rng = np.random.default_rng(0)
    x = np.zeros((k, k))
    for _ in range(steps):
        z = rng.standard_normal((k, k))
        y = x + s * (z + z.T) / 2
        if np.log(rng.random()) < (np.linalg.norm(x) - np.linalg.norm(y)) / s:
            x = y
    w, q = np.linalg.eigh(x)
    return (q * np.exp(w)) @ q.T


def main() -> None:
    print("one release, warm, median of 200")
    for manifold in (R.SPDLogEuclidean(30), R.SPDAffineInvariant(30), R.Lorentz(21), R.Sphere(51)):
        ball = R.Ball(manifold.origin, 0.3)
        value = manifold.origin
        domain = None if manifold.is_hadamard else ball
        for mechanism in (
            WrappedGaussian(manifold, value, sensitivity=1e-4, budget=BUDGET, ball=domain),
            WrappedLaplace(manifold, value, sensitivity=1e-4, epsilon=1.0, ball=domain),
            RiemannianLaplace(manifold, sensitivity=1e-4, epsilon=1.0),
        ):
            seconds = best(lambda m=mechanism, v=value: jax.block_until_ready(m.release(v).value), 200)
            print(f"  {manifold!r:28} {type(mechanism).__name__:18} {1e3 * seconds:8.3f} ms")
    start = time.perf_counter()
    metropolis(30, 0.01, 5000)
    print(f"  SPD(30) Metropolis, 50 000 steps of burn-in: {10 * (time.perf_counter() - start):8.1f} s (from 5000)")
    print("1e5 exact draws of the Riemannian Laplace law")
    for manifold, s in (
        (R.SPDLogEuclidean(30), 0.002),
        (R.Lorentz(21), 0.02),
        (R.Sphere(51), 0.02),
        (R.SPDAffineInvariant(3), 0.1),
    ):
        seconds = best(lambda m=manifold, s=s: jax.block_until_ready(R.riemannian_laplace(1, m, m.origin, s, (100_000,))), 1)
        print(f"  {manifold!r:28} sigma {s:g}: {seconds:8.2f} s")


if __name__ == "__main__":
    main()
