"""Frechet means beside peers: paired runs in one process, medians of the ratios.

    python -m bench.bench_frechet_mean [--n 10000]

Every pair is (ours, theirs) on the same records one after the other, so that load on the machine
hits both. Stated with each: the residual reached, computed independently of either.
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import jax
import numpy as np

import riemdp
from riemdp.datasets import covariance_descriptors
from riemdp.manifolds import SPDAffineInvariant, Sphere

from ._timing import Row, compared, write_table

Work = Callable[..., np.ndarray]


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
    return float(
        np.linalg.norm(((angle / np.sin(angle))[:, None] * (x - cosine[:, None] * mean)).mean(0))
    )


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


def compare(
    work: str,
    beside: str,
    ours: Work,
    theirs: Work,
    residual: Callable[[np.ndarray], float],
    **options: Any,
) -> Row:
    """Time both, and state in the row's name what residual each reached, computed independently of
    either.
    """
    reached = f"{work}; residual {residual(ours()):.1e} beside {residual(theirs()):.1e}"
    return compared(reached, beside, ours, theirs, budget=20.0, unit="s", **options)


def affine_rows(n: int) -> list[Row]:
    x, space = wishart(n, 11), SPDAffineInvariant(11)
    work, residual = (
        f"Frechet mean of {n} SPD(11), affine-invariant",
        functools.partial(affine_residual, x=x),
    )

    def ours() -> np.ndarray:
        return np.asarray(riemdp.frechet_mean(space, x, tol=1e-9).value)

    rows = []
    try:
        from pyriemann.geometry.mean import mean_riemann

        theirs = functools.partial(mean_riemann, x, tol=1e-9, maxiter=200)
        rows.append(compare(work, "pyriemann mean_riemann", ours, theirs, residual, target=0.85))
        work_of_ours = f"private mean of the same {n}, in a public ball"
        given = {"budget": 20.0, "unit": "s", "target": 0.85}
        peer = "pyriemann mean_riemann"
        rows.append(compared(work_of_ours, peer, private(space, x), theirs, **given))
    except ImportError:
        print("pyriemann is not installed: its row is left out")
    peer = geomstats_affine_mean()
    if peer is not None:
        rows.append(
            compare(work, "geomstats, tight tolerance", ours, lambda: peer(x), residual, target=1.0)
        )
    return rows


def private(space: SPDAffineInvariant, x: np.ndarray) -> Callable[[], object]:
    """A release of the mean of records of which one in a hundred or so lies outside the ball."""
    centre = np.asarray(riemdp.frechet_mean(space, x[:100]).value)
    ball, budget = riemdp.Ball(centre, 3.85), riemdp.Budget(1.0, 1e-6)
    return lambda: riemdp.private_frechet_mean(space, x, ball, budget, mechanism="wrapped-gaussian")


def sphere_rows(n: int) -> list[Row]:
    sphere, y = Sphere(784), sphere_records(n, 784)
    work, residual = f"Frechet mean of {n} on S^783", functools.partial(sphere_residual, x=y)

    def ours() -> np.ndarray:
        return np.asarray(riemdp.frechet_mean(sphere, y, tol=1e-8).value)

    rows = [
        compare(
            work,
            "NumPy fixed point by hand",
            ours,
            lambda: plain_sphere_mean(y, 1e-8),
            residual,
            target=2.0,
        )
    ]
    peer = geomstats_sphere_mean()
    if peer is not None:
        rows.append(
            compare(work, "geomstats, tight tolerance", ours, lambda: peer(y), residual, target=1.0)
        )
    return rows


def geomstats_affine_mean() -> Work | None:
    try:
        from geomstats.geometry.spd_matrices import SPDAffineMetric, SPDMatrices
    except Exception:  # not installed, or not with this NumPy
        return None
    space = SPDMatrices(11, equip=False)
    space.equip_with_metric(SPDAffineMetric)
    return _geomstats_mean(space)


def geomstats_sphere_mean() -> Work | None:
    try:
        from geomstats.geometry.hypersphere import Hypersphere
    except Exception:  # not installed, or not with this NumPy
        return None
    return _geomstats_mean(Hypersphere(dim=783))


def _geomstats_mean(space: Any) -> Work:
    from geomstats.learning.frechet_mean import FrechetMean

    def mean(x: np.ndarray) -> np.ndarray:
        estimator: Any = FrechetMean(space)
        estimator.set(epsilon=1e-16, max_iter=200)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return np.asarray(estimator.fit(x).estimate_)

    return mean


def covariances_by_hand(images: np.ndarray) -> np.ndarray:
    """Nine features a pixel (intensity, central differences) in NumPy, then their covariance: a
    floor, not the same values.
    """
    x = images.astype(float) / 255.0
    gy, gx = np.gradient(x, axis=(1, 2))
    gyy, gxx = np.gradient(gy, axis=1), np.gradient(gx, axis=2)
    row, column = (
        np.broadcast_to(np.arange(28.0)[:, None], x.shape),
        np.broadcast_to(np.arange(28.0), x.shape),
    )
    slope = np.sqrt(gx**2 + gy**2)
    features = [
        row,
        column,
        x,
        abs(gx),
        abs(gy),
        abs(gxx),
        abs(gyy),
        slope,
        np.arctan2(abs(gy), abs(gx)),
    ]
    z = np.stack(features, 1).reshape(len(x), 9, -1)
    z -= z.mean(-1, keepdims=True)
    return z @ z.swapaxes(1, 2) / z.shape[-1]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--n", type=int, default=10_000)
    n = parser.parse_args().n
    rows = affine_rows(n) + sphere_rows(n)
    images = np.random.default_rng(0).integers(0, 256, (2000, 28, 28)).astype(np.uint8)
    rows.append(
        compared(
            "covariance descriptors of 2000 grey images of 28 x 28",
            "NumPy by hand",
            lambda: jax.block_until_ready(covariance_descriptors(images)),
            lambda: covariances_by_hand(images),
            target=1.0,
        )
    )
    print(write_table("frechet_mean", "Frechet means and descriptors beside peers", rows))


if __name__ == "__main__":
    sys.exit(main())
