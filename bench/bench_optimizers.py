"""Private optimisation beside hand-written NumPy loops, on the same work in the same run.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python -m bench.bench_optimizers

The NumPy loops do what one would write: clip, average, add PCG64 noise, exponential map. Ours draws
its noise from ChaCha20 and does the accounting as well. Targets (ratio of time): SPD(11), b = 1:
0.25; sphere S^783, b = 1: 0.5; b = 100: 0.8.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from riemdp import DPRGD, DPRSGD, SPDAffineInvariant, Sphere, private_minimize, problems

from ._timing import Row, compared, write_table

K, N, DIM = 11, 10_000, 784


def numpy_spd(
    x: np.ndarray, steps: int, b: int, rate: float, clip: float, sigma: float, seed: int = 0
) -> np.ndarray:
    """DP-RSGD for the affine-invariant Frechet mean with W^1/2 by eigh, as the formulas read."""
    rng = np.random.default_rng(seed)
    n, k = x.shape[0], x.shape[-1]
    w = np.eye(k)
    for _ in range(steps):
        values, vectors = np.linalg.eigh(w)
        root, inverse = (
            (vectors * np.sqrt(values)) @ vectors.T,
            (vectors / np.sqrt(values)) @ vectors.T,
        )
        index = rng.integers(n, size=1) if b == 1 else rng.choice(n, b, replace=False)
        e, u = np.linalg.eigh(inverse @ x[index] @ inverse)
        logs = -2.0 * np.log(e)
        factor = np.minimum(1.0, clip / np.sqrt((logs**2).sum(-1)))
        mean = ((u * (logs * factor[:, None])[:, None, :]) @ np.swapaxes(u, 1, 2)).mean(0)
        z = rng.standard_normal((k, k))
        e, u = np.linalg.eigh(-rate * (mean + sigma * (z + z.T) / 2))
        w = root @ ((u * np.exp(e)) @ u.T) @ root
    return w


def numpy_sphere(
    x: np.ndarray, steps: int, b: int, rate: float, clip: float, sigma: float, seed: int = 0
) -> np.ndarray:
    """DP-RSGD for the principal eigenvector."""
    rng = np.random.default_rng(seed)
    n, d = x.shape
    w = np.zeros(d)
    w[0] = 1.0
    for _ in range(steps):
        z = x[rng.integers(n, size=1) if b == 1 else rng.choice(n, b, replace=False)]
        a = z @ w
        g = -2.0 * a[:, None] * (z - a[:, None] * w)
        factor = np.minimum(1.0, clip / np.maximum(np.sqrt((g * g).sum(1)), 1e-300))
        e = rng.standard_normal(d)
        v = -rate * ((g * factor[:, None]).mean(0) + sigma * (e - (w @ e) * w))
        length = np.sqrt(v @ v)
        w = np.cos(length) * w + np.sin(length) * v / length
        w /= np.sqrt(w @ w)
    return w


Work = Callable[[], Any]


def row(
    name: str,
    target: float | None,
    steps: int,
    ours: Work,
    theirs: Work,
    their_steps: int,
    beside: str = "NumPy by hand",
) -> Row:
    """One line: microseconds a step of both, and the ratio."""
    counts = {"ours_count": steps, "theirs_count": their_steps}
    return compared(name, beside, ours, theirs, target=target, unit="us", **counts)


def main() -> None:
    spd, sphere = SPDAffineInvariant(K), Sphere(DIM)
    x = spd.random_point(jax.random.key(0), (N,))
    z = sphere.random_point(jax.random.key(1), (N,))
    xn, zn = np.asarray(x), np.asarray(z)
    mean, eigen = problems.frechet_mean(spd), problems.principal_eigenvector(DIM)
    start = jnp.zeros(DIM).at[0].set(1.0)

    def sgd(problem: Any, data: Any, initial: Any, steps: int, b: int) -> Callable[[], Any]:
        return lambda: (
            private_minimize(
                problem, data, initial, DPRSGD(steps, b, 0.01, 1.0), None, noise_std=0.05
            ).value
        )

    rows = []
    for b, steps, theirs, target in ((1, 10_000, 2_000, 0.25), (100, 300, 150, 0.8)):
        rows.append(
            row(
                f"DP-RSGD step, SPD({K}) affine-invariant, b = {b}",
                target,
                steps,
                sgd(mean, x, jnp.eye(K), steps, b),
                lambda s=theirs, b=b: numpy_spd(xn, s, b, 0.01, 1.0, 0.05),
                theirs,
            )
        )
    for b, steps, theirs, target in ((1, 10_000, 4_000, 0.5), (100, 1_000, 400, 0.8)):
        rows.append(
            row(
                f"DP-RSGD step, sphere S^{DIM - 1}, b = {b}",
                target,
                steps,
                sgd(eigen, z, start, steps, b),
                lambda s=theirs, b=b: numpy_sphere(zn, s, b, 0.01, 1.0, 0.05),
                theirs,
            )
        )

    full = DPRGD(9, 0.1, 1.0)
    floor = jax.jit(lambda a: jnp.linalg.eigh(a, symmetrize_input=False))
    rows.append(
        row(
            f"full gradient of {N} SPD({K}), nine in a call",
            1.1,
            9,
            lambda: private_minimize(mean, x, jnp.eye(K), full, None, noise_std=0.05).value,
            lambda: jax.block_until_ready(floor(x)),
            1,
            "LAPACK's eigh of the same alone (the floor)",
        )
    )
    tiny = DPRSGD(5, 10, 0.01, 1.0)
    rows.append(
        row(
            "DP-RSGD, whole call of 5 steps on 59 records (a federated agent), per step",
            None,
            5,
            lambda: private_minimize(eigen, z[:59], start, tiny, None, noise_std=0.05).value,
            lambda: numpy_sphere(zn[:59], 5, 10, 0.01, 1.0, 0.05),
            5,
        )
    )
    path = write_table(
        "optimizers",
        "Private optimisation beside hand-written NumPy",
        rows,
        ["Noise: ours ChaCha20, NumPy's PCG64. jaxlib's eigh uses both cores for large batches."],
    )
    print(path.read_text())


if __name__ == "__main__":
    main()
