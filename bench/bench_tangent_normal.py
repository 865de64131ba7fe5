"""Cost of 10 000 tangent Gaussians on each manifold beside hand-written NumPy, at one base point.

    python -m bench.bench_tangent_normal

Target: at most 1.5x NumPy, on every space and at small and large sizes alike. Both draw from the
same NumPy generator.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import riemdp

from ._timing import Row, compared, write_table

COUNT = 10_000
TARGET = 1.5  # times NumPy
SPD = (riemdp.SPDAffineInvariant, riemdp.SPDLogEuclidean, riemdp.SPDBuresWasserstein)


def _packed_symmetric(k: int, rng: np.random.Generator) -> Callable[[], np.ndarray]:
    """Isotropic symmetric Gaussian matrices from k (k + 1)/2 normals each, the cheapest way in
    NumPy too.
    """
    i, j = np.triu_indices(k, 1)
    position = np.diag(np.arange(k))
    position[i, j] = position[j, i] = k + np.arange(i.size)
    scale = np.where(np.eye(k) > 0, 1.0, 0.5**0.5)
    return lambda: np.take(rng.standard_normal((COUNT, k * (k + 1) // 2)), position, axis=1) * scale


def _numpy_draw(
    manifold: riemdp.AbstractManifold, p: np.ndarray, rng: np.random.Generator
) -> Callable[[], np.ndarray]:
    """What one would write by hand in NumPy for this space (the same distribution, per-point
    work done once).
    """
    n, kind = COUNT, type(manifold).__name__
    if kind == "Sphere":

        def draw() -> np.ndarray:
            z = rng.standard_normal((n, *p.shape))
            return z - (z @ p)[:, None] * p

    elif kind == "Lorentz":

        def draw() -> np.ndarray:
            a = rng.standard_normal((n, p.size - 1))
            inner = a @ p[1:]
            out = np.empty((n, p.size))
            out[:, 0] = inner
            out[:, 1:] = a + (inner / (1.0 + p[0]))[:, None] * p[1:]
            return out

    elif kind == "PoincareBall":
        scale = (1.0 - p @ p) / 2.0

        def draw() -> np.ndarray:
            return scale * rng.standard_normal((n, *p.shape))

    elif kind in ("Stiefel", "Grassmann"):

        def draw() -> np.ndarray:
            z = rng.standard_normal((n, *p.shape))
            inner = p.T @ z
            if kind == "Stiefel":
                inner = (inner + np.swapaxes(inner, 1, 2)) / 2
            return z - p @ inner

    elif kind == "SPDAffineInvariant":
        lower = np.linalg.cholesky(p)
        symmetric = _packed_symmetric(len(p), rng)

        def draw() -> np.ndarray:
            return lower @ symmetric() @ lower.T

    elif kind == "SPDLogEuclidean":
        values, q = np.linalg.eigh(p)
        logs = np.log(values)
        gap = np.where(np.eye(len(p)) > 0, 1.0, logs[:, None] - logs[None])
        kernel = np.where(np.eye(len(p)) > 0, values, (values[:, None] - values[None]) / gap)

        symmetric = _packed_symmetric(len(p), rng)

        def draw() -> np.ndarray:
            return q @ (kernel * symmetric()) @ q.T

    elif kind == "SPDBuresWasserstein":
        lower = np.linalg.cholesky(p)

        def draw() -> np.ndarray:
            half = rng.standard_normal((n, *p.shape)) @ lower.T
            return half + np.swapaxes(half, 1, 2)

    else:

        def draw() -> np.ndarray:
            return rng.standard_normal((n, *p.shape))

    return draw


def main() -> None:
    spaces = [
        *(riemdp.Euclidean(n) for n in (1, 2, 100)),
        *(riemdp.Sphere(n) for n in (2, 3, 100, 784)),
        *(riemdp.Lorentz(n) for n in (2, 3, 21, 100)),
        *(riemdp.PoincareBall(n) for n in (1, 2, 100)),
        *(kind(m, 5) for kind in (riemdp.Stiefel, riemdp.Grassmann) for m in (20, 40)),
        *(kind(k) for kind in SPD for k in (3, 8, 11, 20, 30)),
    ]
    rng = np.random.default_rng(0)
    rows: list[Row] = []
    for manifold in spaces:
        p = np.asarray(manifold.random_point(1))

        def ours(manifold=manifold, p=p):
            manifold.tangent_normal(rng, p, 1.0, (COUNT,))

        work, theirs = f"{COUNT} tangent Gaussians, {manifold!r}", _numpy_draw(manifold, p, rng)
        rows.append(compared(work, "NumPy by hand", ours, theirs, budget=3.0, target=TARGET))
    notes = ["Both draw NumPy's normals on one core."]
    title = "Tangent Gaussians, batch of 10 000 at one point, beside hand-written NumPy"
    print(write_table("tangent_normal", title, rows, notes))


if __name__ == "__main__":
    main()
