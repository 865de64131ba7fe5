"""Measure private means and medians under gross outliers: a table of docs/evidence/means.md.

A share of the records is replaced by one far point. The error is the distance of the release from
the centre of the records that are right, in units of their root-mean-square distance from it.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

import riemdp as R
from papers.data import digit_covariances
from papers.tables import DOCS, options, table, write_between

SHARES = (0.0, 0.1, 0.2, 0.3, 0.4)
BUDGET = R.Budget(1.0, 1e-5)
WIDE = 15.0  # the radius of a public ball of somebody who knows little


def covariances() -> tuple[R.AbstractManifold, np.ndarray]:
    return R.SPDAffineInvariant(5), digit_covariances().matrices


def directions() -> tuple[R.AbstractManifold, np.ndarray]:
    sphere = R.Sphere(5)
    v = sphere.tangent_normal(jax.random.key(1), sphere.origin, 0.25, (2000,))
    return sphere, np.asarray(sphere.exp(sphere.origin, v))


def hyperbolic() -> tuple[R.AbstractManifold, np.ndarray]:
    space = R.Lorentz(4)
    center = space.exp(space.origin, space.from_coordinates(space.origin, 3.0 * jnp.eye(3)[0]))
    v = space.tangent_normal(jax.random.key(2), center, 0.5, (2000,))
    return space, np.asarray(space.exp(center, v))


DATA = {"digits, SPD(5)": covariances, "sphere, d = 4": directions, "hyperbolic, d = 3": hyperbolic}
METHODS = (
    "mean, no noise",
    "private mean, wide ball",
    "private mean, ball found",
    "private median",
)


def spoiled(space: R.AbstractManifold, X: np.ndarray, share: float) -> np.ndarray:
    """A share of the records, replaced by one point far away."""
    rng = np.random.default_rng(7)
    u = jnp.asarray(np.eye(space.dim)[1])
    center = R.frechet_mean(space, X).value
    distance = 2.8 if isinstance(space, R.Sphere) else 15.0
    far = np.asarray(space.exp(center, space.from_coordinates(center, distance * u)))
    chosen = rng.choice(len(X), int(share * len(X)), replace=False)
    bad = X.copy()
    bad[chosen] = far
    return bad


def released(method: str, space: R.AbstractManifold, X: np.ndarray, seed: int):
    if method == "mean, no noise":
        return R.frechet_mean(space, X, tol=1e-6).value
    if method == "private median":
        return R.private_geometric_median(space, X, budget=BUDGET, rng=seed).value
    if method == "private mean, ball found":
        return R.private_frechet_mean(space, X, None, BUDGET, rng=seed).value
    radius = 3.1 if isinstance(space, R.Sphere) else WIDE
    ball = R.Ball(space.origin, radius)
    return R.private_frechet_mean(space, X, ball, BUDGET, mechanism="tangent-mean", rng=seed).value


def row(name: str, method: str, runs: int) -> list[str]:
    space, X = DATA[name]()
    center = R.frechet_mean(space, X).value
    rms = float(np.sqrt(np.mean(np.asarray(space.squared_dist(center, X)))))
    cells = []
    for share in SHARES:
        bad = spoiled(space, X, share)
        seeds = range(1 if method == "mean, no noise" else runs)
        errors = [float(space.dist(center, released(method, space, bad, i))) for i in seeds]
        cells.append(f"{np.median(errors) / rms:.2g} ({np.max(errors) / rms:.2g})")
    return [name, str(len(X)), method, *cells]


def main() -> None:
    runs = options(__doc__, runs=5).runs
    head = " | ".join(["data", "n", "method", *(f"{100 * s:.0f} %" for s in SHARES)])
    rows = (row(name, method, runs) for name in DATA for method in METHODS)
    write_between(DOCS / "evidence" / "means.md", "outliers", table(head, rows))


if __name__ == "__main__":
    main()
