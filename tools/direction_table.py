"""Measure private mean directions: three tables of docs/evidence/regions.md.

The table of real records is measured where the folder `RIEMDP_WHEELS` holds the unpacked wheels
pycircstat2 and scikit-kinematics; elsewhere it stays as it is.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import riemdp as R
from papers.tables import DOCS, options, table, write_between

SPHERE, LINES, DELTA = R.Sphere(3), R.Grassmann(3, 1), 1e-6
KAPPAS, SIZES, EPSILONS = (1.0, 2.0, 10.0, 100.0), (100, 300, 3000), (0.5, 1.0, 4.0)
NORTH = np.array([0.0, 0.0, 1.0])
RADIUS, ASIDE = 0.7, 0.4  # of the public ball, and how far its centre is from the true direction


@functools.cache
def tabulated(kappa: float, power: int) -> tuple[np.ndarray, np.ndarray]:
    """The coordinate along the axis, and the mass below it: on the sphere its density is exp(kappa
    t^power).
    """
    grid = np.linspace(-1.0, 1.0, 200_001)
    return grid, np.cumsum(np.exp(kappa * (grid**power - 1.0)))


def drawn(kappa: float, n: int, power: int, rng: np.random.Generator) -> np.ndarray:
    """Unit vectors about the north pole, of von Mises and Fisher (power 1) or Watson (power 2)."""
    grid, total = tabulated(kappa, power)
    t = np.interp(rng.random(n) * total[-1], total, grid)
    turn, across = rng.random(n) * 2.0 * math.pi, np.sqrt(1.0 - t**2)
    return np.stack([across * np.cos(turn), across * np.sin(turn), t], axis=1)


def off(release: R.Release, truth: np.ndarray) -> float:
    """Degrees between a released direction and another one."""
    return math.degrees(float(release.facts.manifold.dist(release.value, truth)))


# ------------------------------------------------------------------ coverage
def coverage(runs: int) -> Iterator[list[str]]:
    for space, power, name in ((SPHERE, 1, "directions"), (LINES, 2, "axes")):
        for kappa in KAPPAS:
            for n in (50, 300, 3000):
                cells = [covered(space, power, kappa, n, epsilon, runs) for epsilon in (0.5, 4.0)]
                yield [name, f"{kappa:g}", str(n), *cells]


def covered(
    space: R.AbstractManifold, power: int, kappa: float, n: int, epsilon: float, runs: int
) -> str:
    """How often the 95 % cone holds the population's direction, and its median width."""
    rng, held, cones = np.random.default_rng(n + power), [], []
    truth = NORTH.reshape(space.shape)
    for run in range(runs):
        X = drawn(kappa, n, power, rng).reshape(n, *space.shape)
        release = R.private_mean_direction(space, X, R.Budget(epsilon, DELTA), rng=run)
        cone = release.facts.cone
        held.append(off(release, truth) <= math.degrees(cone))
        cones.append(math.degrees(cone))
    whole = np.mean(np.array(cones) >= 90.0)
    said = f"{np.median(cones):.3g}" if whole < 0.5 else "none"
    return f"{100 * np.mean(held):.0f} % ({said})"


# ------------------------------------------------------------------ beside a Frechet mean
def compared(runs: int) -> Iterator[list[str]]:
    center = SPHERE.exp(NORTH, ASIDE * np.array([1.0, 0.0, 0.0]))
    ball = R.Ball(center, RADIUS)
    ways: tuple[Callable[..., R.Release], ...] = (
        lambda X, b, i: R.private_mean_direction(SPHERE, X, b, rng=i),
        lambda X, b, i: R.private_frechet_mean(SPHERE, X, ball, b, rng=i),
        lambda X, b, i: R.private_frechet_mean(SPHERE, X, budget=b, rng=i),
    )
    for kappa in KAPPAS:
        for n in SIZES:
            for epsilon in EPSILONS:
                rng, budget = np.random.default_rng(n), R.Budget(epsilon, DELTA)
                data = [drawn(kappa, n, 1, rng) for _ in range(runs)]
                bare = [SPHERE.dist(SPHERE.project(X.mean(axis=0)), NORTH) for X in data]
                cells = [f"{math.degrees(float(np.median(bare))):.2g}"]
                for way in ways:
                    try:
                        found = [off(way(X, budget, i), NORTH) for i, X in enumerate(data)]
                    except R.InvalidArgument:
                        cells.append("too few")
                    else:
                        cells.append(f"{np.median(found):.2g}")
                yield [f"{kappa:g}", str(n), f"{epsilon:g}", *cells]


# ------------------------------------------------------------------ real records
def of_angles(angles: np.ndarray) -> np.ndarray:
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def real(folder: Path, runs: int) -> Iterator[list[str]]:
    circular = folder / "pycircstat2" / "data"
    table = np.loadtxt(circular / "fisher" / "B13.csv", delimiter=",", skiprows=1)
    mounds = of_angles(np.radians(table[:, 1]))[:, :, None]
    wind = np.genfromtxt(circular / "pewsey" / "wind.csv", delimiter=",", skip_header=1)[:, 1]
    file = folder / "tests" / "data" / "data_xio" / "00033_Quaternion.csv"
    quaternions = np.loadtxt(file, delimiter=",", skiprows=1)[:, 1:]
    quaternions /= np.linalg.norm(quaternions, axis=1, keepdims=True)
    circle, halves = R.Sphere(2), R.Grassmann(2, 1)
    data = [
        ("wind, Col de la Roa", circle, of_angles(wind)),
        ("termite mounds, 14 sites together", halves, mounds),
        *(
            (f"termite mounds, site {site}", halves, mounds[table[:, 2] == site])
            for site in (1, 7, 14)
        ),
        ("orientations of a sensor", R.Grassmann(4, 1), quaternions[:, :, None]),
    ]
    for name, space, X in data:
        exact = R.private_mean_direction(space, X, R.Budget(1e9, 0.5), rng=0)
        for epsilon in (1.0, 4.0):
            found = [
                R.private_mean_direction(space, X, R.Budget(epsilon, DELTA), rng=i)
                for i in range(runs)
            ]
            far = np.median([off(release, exact.value) for release in found])
            kappa = np.median([release.facts.concentration for release in found])
            cone = math.degrees(np.median([release.facts.cone for release in found]))
            said = f"{cone:.2g}" if cone < 90.0 else "none"
            both = f"{kappa:.3g}, {exact.facts.concentration:.3g}"
            yield [name, str(len(X)), f"{epsilon:g}", f"{far:.2g}", both, said]


def main() -> None:
    page, runs = DOCS / "evidence" / "regions.md", options(__doc__, runs=100).runs
    head = "records | kappa | n | epsilon 0.5 | epsilon 4"
    write_between(page, "coverage", table(head, coverage(runs)))
    head = (
        "kappa | n | epsilon | no privacy | `private_mean_direction` | Fréchet mean, public ball"
        " | Fréchet mean, ball found"
    )
    write_between(page, "compared", table(head, compared(min(runs, 40))))
    if folder := os.environ.get("RIEMDP_WHEELS"):
        head = (
            "records | n | epsilon | off the records' own direction, degrees"
            " | kappa, without privacy | cone, degrees"
        )
        write_between(page, "real", table(head, real(Path(folder), min(runs, 20))))


if __name__ == "__main__":
    main()
