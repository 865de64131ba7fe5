"""Frechet means beside peers: paired runs in one process, medians of the ratios.

Run: python bench/bench_frechet_mean.py [--csv FILE].

Every pair is (ours, theirs) on the same records one after the other, so that load on the machine hits both. Stated with each:
the residual reached, computed independently of either.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import time
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import jax
import numpy as np

import riemdp
from riemdp.datasets import covariance_descriptors
from riemdp.manifolds import SPDAffineInvariant, Sphere


def wishart(n: int, k: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    a, mix = rng.standard_normal((n, k, 2 * k)), rng.standard_normal((k, k))
    return mix @ (a @ a.swapaxes(1, 2) / (2 * k)) @ mix.T


def affine_residual(mean: np.ndarray, x: np.ndarray) -> float:
    inverse = np.linalg.inv(np.linalg.cholesky(mean))
    values, q = np.linalg.eigh(inverse @ x @ inverse.T)
    return float(np.linalg.norm(((q * np.log(values)[:, None, :]) @ q.swapaxes(1, 2)).mean(0)))


def sphere_records(n: int, d: int) -> np.ndarray:
    x = 0.03 * np.random.default_rng(0).standard_normal((n, d))
    x[:, 0] += 1.0
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def sphere_residual(mean: np.ndarray, x: np.ndarray) -> float:
    cosine = x @ mean
    angle = np.arccos(np.clip(cosine, -1, 1))
    return float(np.linalg.norm(((angle / np.sin(angle))[:, None] * (x - cosine[:, None] * mean)).mean(0)))


def plain_sphere_mean(x: np.ndarray, tol: float) -> np.ndarray:
    """The hand-written floor: fixed point iteration in NumPy."""
    p = x.mean(0) / np.linalg.norm(x.mean(0))
    for _ in range(200):
        cosine = x @ p
        angle = np.arccos(np.clip(cosine, -1, 1))
        scale = angle / np.sin(angle)
        g = (scale @ x - (scale @ cosine) * p) / len(x)
        size = np.linalg.norm(g)
        if size <= tol:
            break
        p = np.cos(size) * p + np.sin(size) * g / size
    return p


def paired(ours, theirs, repeats: int) -> tuple[float, float, float]:
    ours(), theirs()  # compile, touch the memory
    times = []
    for i in range(repeats):
        order = (ours, theirs) if i % 2 == 0 else (theirs, ours)
        took = {}
        for call in order:
            start = time.perf_counter()
            call()
            took[call] = time.perf_counter() - start
        times.append((took[ours], took[theirs]))
    a, b = np.array(times).T
    return float(np.median(a)), float(np.median(b)), float(np.median(a / b))


def rows(repeats: int, n: int):
    try:
        from pyriemann.geometry.mean import mean_riemann
    except ImportError:
        mean_riemann = None
    x, space = wishart(n, 11), SPDAffineInvariant(11)
    mine = lambda: np.asarray(riemdp.frechet_mean(space, x, tol=1e-9).value)  # noqa: E731
    if mean_riemann is not None:
        peer = lambda: mean_riemann(x, tol=1e-9, maxiter=200)  # noqa: E731
        yield (f"SPD(11) affine-invariant, n={n}", "pyriemann mean_riemann", *paired(mine, peer, repeats),
               affine_residual(mine(), x), affine_residual(peer(), x))  # fmt: skip
    sphere, y = Sphere(784), sphere_records(n, 784)
    mine_s = lambda: np.asarray(riemdp.frechet_mean(sphere, y, tol=1e-8).value)  # noqa: E731
    floor = lambda: plain_sphere_mean(y, 1e-8)  # noqa: E731
    yield (f"Sphere S^783, n={n}", "NumPy fixed point by hand", *paired(mine_s, floor, repeats),
           sphere_residual(mine_s(), y), sphere_residual(floor(), y))  # fmt: skip
    geomstats = _geomstats()
    if geomstats is not None:
        peer_g = lambda: geomstats(y)  # noqa: E731
        yield (f"Sphere S^783, n={n}", "geomstats tight", *paired(mine_s, peer_g, min(repeats, 3)),
               sphere_residual(mine_s(), y), sphere_residual(np.asarray(peer_g()), y))  # fmt: skip


def _geomstats():
    try:
        from geomstats.geometry.hypersphere import Hypersphere
        from geomstats.learning.frechet_mean import FrechetMean
    except Exception:  # not installed, or not with this NumPy
        return None

    def mean(y):
        estimator = FrechetMean(Hypersphere(dim=783))
        estimator.set(epsilon=1e-16, max_iter=200)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return estimator.fit(y).estimate_

    return mean


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--n", type=int, default=10_000)
    parser.add_argument("--csv")
    options = parser.parse_args()
    head = ("work", "beside", "ours s", "theirs s", "ratio (median of pairs)", "our residual", "their residual")
    table = [head]
    for row in rows(options.repeats, options.n):
        table.append(row)
        print(f"{row[0]:<36} {row[1]:<28} ours {row[2]:.3f} s  theirs {row[3]:.3f} s  ratio {row[4]:.2f}  "
              f"residuals {row[5]:.1e} {row[6]:.1e}", flush=True)  # fmt: skip
    images = np.random.default_rng(0).integers(0, 256, (7000, 28, 28)).astype(np.uint8)
    covariance_descriptors(images[:100])
    start = time.perf_counter()
    jax.block_until_ready(covariance_descriptors(images))
    rate = 7000 / (time.perf_counter() - start)
    print(f"covariance descriptors, 28x28 grey: {rate:,.0f} images/s; load {os.getloadavg()[0]:.1f}")
    if options.csv:
        with open(options.csv, "w", newline="") as out:
            csv.writer(out).writerows(table)


if __name__ == "__main__":
    sys.exit(main())
