"""Cost of one release at k = 30 and of 1e5 exact Laplace draws, beside hand-written NumPy. The
papers' Metropolis chain is timed by their figure, utpala2023le-figure-4a.

    python -m bench.bench_mechanisms

Goals in absolute time, on two quiet cores: a release within a millisecond, 1e5 draws in about a
second. Ours draws from ChaCha20 with a fresh key, checks the value, keeps the ledger and says what
was released; the NumPy of each row does the arithmetic alone, with PCG64.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import riemdp as R
from riemdp.mechanisms import RiemannianLaplace, TangentGaussian, WrappedGaussian

from ._timing import Row, compared, write_table

K, DRAWS = 30, 100_000
BUDGET = R.Budget(1.0, 1e-5)
rng = np.random.default_rng(0)


def function(s: np.ndarray, f: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    w, q = np.linalg.eigh(s)
    return (q * f(w)[..., None, :]) @ np.swapaxes(q, -1, -2)


def symmetric(count: int, k: int) -> np.ndarray:
    z = rng.standard_normal((count, k, k))
    return (z + np.swapaxes(z, 1, 2)) / 2


def directions(count: int, k: int) -> np.ndarray:
    s = symmetric(count, k)
    return s / np.sqrt(np.sum(s * s, axis=(1, 2)))[:, None, None]


# -------------------------------------------------------------------- by hand, one release
def log_euclidean_gaussian(x: np.ndarray, s: float) -> np.ndarray:
    return function(function(x, np.log) + s * symmetric(1, K)[0], np.exp)


def log_euclidean_laplace(x: np.ndarray, s: float) -> np.ndarray:
    return function(
        function(x, np.log) + rng.gamma(K * (K + 1) / 2, s) * directions(1, K)[0], np.exp
    )


def affine_gaussian(x: np.ndarray, s: float) -> np.ndarray:
    """At base I, like the wrapped mechanism."""
    return log_euclidean_gaussian(x, s)


def affine_laplace(x: np.ndarray, s: float) -> np.ndarray:
    """Without acceptance: the flat law, pushed out from x."""
    lower = np.linalg.cholesky(x)
    return lower @ function(rng.gamma(K * (K + 1) / 2, s) * directions(1, K)[0], np.exp) @ lower.T


def tangent_gaussian(x: np.ndarray, s: float) -> np.ndarray:
    root = function(x, np.sqrt)
    return x + s * root @ symmetric(1, K)[0] @ root


# -------------------------------------------------------------------- by hand, many draws
def many_log_euclidean(s: float, count: int) -> np.ndarray:
    return function(
        rng.gamma(K * (K + 1) / 2, s, count)[:, None, None] * directions(count, K), np.exp
    )


def many_hyperbolic(s: float, count: int, d: int = 20) -> np.ndarray:
    r = -0.5 * np.log(rng.beta((1 / s - d + 1) / 2, d, count))
    u = rng.standard_normal((count, d))
    u /= np.sqrt(np.sum(u * u, axis=1))[:, None]
    return np.concatenate([np.cosh(r)[:, None], np.sinh(r)[:, None] * u], axis=1)


def many_sphere(s: float, count: int, d: int = 50) -> np.ndarray:
    kept: list[np.ndarray] = []
    while sum(map(len, kept)) < count:
        r = rng.gamma(d, s, count)
        inside = r < np.pi
        kept.append(
            r[
                inside
                & (
                    np.log(rng.random(count))
                    < (d - 1) * np.log(np.sinc(np.where(inside, r, 0.0) / np.pi))
                )
            ]
        )
    r = np.concatenate(kept)[:count]
    u = rng.standard_normal((count, d))
    u /= np.sqrt(np.sum(u * u, axis=1))[:, None]
    return np.concatenate([np.cos(r)[:, None], np.sin(r)[:, None] * u], axis=1)


def many_decompositions(s: float, count: int) -> Any:
    return np.linalg.eigh(s * symmetric(count, 3))


def releases() -> list[Row]:
    rows = []
    for manifold in (R.SPDLogEuclidean(K), R.SPDAffineInvariant(K)):
        affine = isinstance(manifold, R.SPDAffineInvariant)
        value = manifold.exp(
            manifold.origin,
            0.05 * manifold.log(manifold.origin, manifold.random_point(jax.random.key(1))),
        )
        x, name = np.asarray(value), "affine-invariant" if affine else "log-Euclidean"
        wrapped = WrappedGaussian(manifold, manifold.origin, sensitivity=1e-4, budget=BUDGET)
        laplace = RiemannianLaplace(manifold, sensitivity=1e-4, epsilon=1.0)
        tangent = TangentGaussian(manifold, value, sensitivity=1e-4, budget=BUDGET)
        vector = manifold.log(value, manifold.origin)
        for mechanism, argument, theirs in (
            (wrapped, value, affine_gaussian if affine else log_euclidean_gaussian),
            (laplace, value, affine_laplace if affine else log_euclidean_laplace),
            (tangent, vector, tangent_gaussian),
        ):
            scale = laplace.scale if mechanism is laplace else wrapped.sigma
            rows.append(
                compared(
                    f"one release, {type(mechanism).__name__}, SPD({K}) {name}",
                    "NumPy by hand",
                    lambda m=mechanism, v=argument: jax.block_until_ready(m.release(v).value),
                    lambda f=theirs, s=scale, x=x: f(x, s),
                    repeats=400,
                    budget=2.0,
                )
            )
    return rows


def many() -> list[Row]:
    rows = []
    for manifold, s, beside, theirs, count in (
        (R.SPDLogEuclidean(K), 0.002, "NumPy by hand", many_log_euclidean, 2_000),
        (R.Lorentz(21), 0.02, "NumPy by hand", many_hyperbolic, DRAWS),
        (R.Sphere(51), 0.02, "NumPy by hand", many_sphere, DRAWS),
        # nothing as simple to compare with: one eigendecomposition a draw is the floor
        (R.SPDAffineInvariant(3), 0.1, "one eigh a draw", many_decompositions, DRAWS),
    ):

        def ours(m: Any = manifold, s: float = s) -> None:
            jax.block_until_ready(R.riemannian_laplace(None, m, m.origin, s, (DRAWS,)))

        work = f"1e5 Laplace draws, {manifold!r}, sigma {s:g}"
        by_hand = functools.partial(theirs, s, count)
        given = {"repeats": 3, "unit": "s", "theirs_count": count / DRAWS}
        rows.append(compared(work, beside, ours, by_hand, **given))
    return rows


def main() -> None:
    notes = [
        "Log-Euclidean by hand: 2000 draws timed, scaled to 1e5.",
        (
            "Goals on two quiet cores: 1 ms a release; about 1 s for 1e5 draws on SPD(30)"
            " log-Euclidean, H^20 and S^50."
        ),
    ]
    title = "One release at k = 30, and 1e5 exact draws of the Riemannian Laplace law"
    print(write_table("mechanisms", title, releases() + many(), notes).read_text())


if __name__ == "__main__":
    main()
