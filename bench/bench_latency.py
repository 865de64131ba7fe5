"""Small calls, as a user makes them, beside the same work written by hand in NumPy.

By hand means: clamp, mean and noise, in the formulas of the papers, with no check of an argument,
no accounting, no count of clamped records and NumPy's generator. What remains of the ratio is the
price of the rest. These calls are warm: the first of a process compiles. How long that takes is in
rows of its own, beside the two seconds that it may take.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import optimize, special, stats

import riemdp
from riemdp import Ball, Budget
from riemdp.estimators import PrivateMDM
from riemdp.optimizers import DPRGD, private_minimize
from riemdp.privacy import gaussian

from ._by_hand import (
    affine_mean,
    descent,
    flat_mean,
    hyperbolic_mean,
    sphere_mean,
    variance,
    wrapped,
)
from ._timing import Paired, Row, compared, comparison, load, write_table

FIRST = """
import time, warnings
began = time.perf_counter()
import numpy as np
import riemdp
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
def matrices():
    g = 0.2 * rng.normal(size=(200, 5, 5))
    return np.eye(5) + 0.3 * (g @ g.swapaxes(1, 2))
def points():
    x = rng.normal(size=(50, 2)) * 0.3
    return np.column_stack([np.sqrt(1 + np.sum(x**2, 1)), x])
def directions():
    x = np.eye(3)[2] + 0.2 * rng.normal(size=(50, 3))
    return x / np.linalg.norm(x, axis=1)[:, None]
space, x, center = CASE
ball, budget, imported = riemdp.Ball(center, 0.5), riemdp.Budget(1.0, 1e-6), time.perf_counter()
riemdp.private_frechet_mean(space, x, ball, budget)
print(imported - began, time.perf_counter() - imported)
"""
CASES = {
    "50 points of the hyperbolic plane": "riemdp.Lorentz(3), points(), np.eye(3)[0]",
    "50 points of the sphere": "riemdp.Sphere(3), directions(), np.eye(3)[2]",
    "200 SPD(5), affine-invariant": "riemdp.SPDAffineInvariant(5), matrices(), np.eye(5)",
    "200 SPD(5), log-Euclidean": "riemdp.SPDLogEuclidean(5), matrices(), np.eye(5)",
}
SECONDS, PROCESSES = 2.0, 5

GAUSSIAN, PURE = Budget(1.0, 1e-6), Budget(1.0)
TARGET, ON_MATRICES = 7.0, 1.5  # times NumPy; of a mean of matrices, where LAPACK has the work
REPEATS = 200
rng = np.random.default_rng(0)


def epsilon_of(mu: float, delta: float) -> float:
    def gap(epsilon: float) -> float:
        low = math.exp(epsilon + float(special.log_ndtr(-epsilon / mu - mu / 2)))
        return float(stats.norm.cdf(-epsilon / mu + mu / 2)) - low - delta

    return float(optimize.brentq(gap, 0.0, 50.0))


# ------------------------------------------------------------------ the rows
def pairs() -> Iterator[tuple[str, Callable[[], Any], Callable[[], Any]]]:
    plane = riemdp.Lorentz(3)
    v = plane.from_coordinates(plane.origin, 0.3 * rng.normal(size=(50, 2)))
    points = np.asarray(plane.exp(plane.origin, v))
    g = 0.2 * rng.normal(size=(200, 5, 5))
    x = np.eye(5) + 0.3 * (g @ g.swapaxes(1, 2))
    flat, affine = riemdp.SPDLogEuclidean(5), riemdp.SPDAffineInvariant(5)
    ball, disk = Ball(np.eye(5), 1.0), Ball(plane.origin, 1.0)
    mean = riemdp.private_frechet_mean
    yield (
        "private mean, 50 points of the hyperbolic plane",
        lambda: mean(plane, points, disk, PURE),
        lambda: hyperbolic_mean(points, 1.0, 0.04),
    )
    yield (
        "private mean, 200 SPD(5), affine-invariant",
        lambda: mean(affine, x, ball, GAUSSIAN),
        lambda: affine_mean(x, 1.0, 0.03),
    )
    yield (
        "private mean, 200 SPD(5), log-Euclidean",
        lambda: mean(flat, x, ball, GAUSSIAN),
        lambda: flat_mean(x, 1.0, 0.03),
    )
    north = np.array([0.0, 0.0, 1.0])
    cap = north + 0.2 * rng.normal(size=(50, 3))
    cap /= np.linalg.norm(cap, axis=1)[:, None]
    sphere, cap_ball = riemdp.Sphere(3), Ball(north, 0.5)
    yield (
        "private mean, 50 points of the sphere",
        lambda: mean(sphere, cap, cap_ball, PURE),
        lambda: sphere_mean(cap, north, 0.5, 0.02),
    )
    yield (
        "private variance, 200 SPD(5), affine-invariant",
        lambda: riemdp.private_frechet_variance(affine, x, ball, GAUSSIAN),
        lambda: variance(x, 1.0, 0.03),
    )
    mechanism = riemdp.WrappedGaussian(plane, plane.origin, sensitivity=0.04, budget=GAUSSIAN)
    yield (
        "one release by WrappedGaussian, a point of the hyperbolic plane",
        lambda: mechanism.release(points[0]),
        lambda: wrapped(points[0], 0.2),
    )
    problem, steps = riemdp.problems.frechet_mean(affine), DPRGD(steps=5, clip_norm=2.0)
    yield (
        "private_minimize, 5 full gradients of 200 SPD(5), affine-invariant",
        lambda: private_minimize(problem, x, np.eye(5), steps, GAUSSIAN).value,
        lambda: descent(x, 1.0, 0.1),
    )
    labels = np.arange(200) % 2
    model = PrivateMDM(ball=ball, budget=GAUSSIAN, metric="logeuclid", classes=(0, 1))
    yield (
        "PrivateMDM.fit, 2 classes of 100 SPD(5), log-Euclidean",
        lambda: model.fit(x, labels),
        lambda: [flat_mean(x[labels == c], 1.0, 0.05) for c in (0, 1)],
    )
    yield (
        "epsilon of a Gaussian guarantee",
        lambda: gaussian(1.3).epsilon(1e-6),
        lambda: epsilon_of(1 / 1.3, 1e-6),
    )
    release = mean(flat, x, ball, GAUSSIAN)
    yield (
        "epsilon of the guarantee of a release",
        lambda: release.guarantee.epsilon(1e-6),
        lambda: epsilon_of(0.2, 1e-6),
    )


def rows() -> list[Row]:
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for work, ours, theirs in pairs():
            target = ON_MATRICES if "mean, 200 SPD(5), affine" in work else TARGET
            given = {"repeats": REPEATS, "target": target}
            found.append(compared(work, "NumPy by hand", ours, theirs, **given))
    return found


def first_calls() -> list[Row]:
    """How long the first mean takes in processes of their own."""
    found = []
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as folder:  # what Python compiles is kept, as for a user
        environment["PYTHONPYCACHEPREFIX"] = folder
        for case, code in CASES.items():
            command = [sys.executable, "-c", FIRST.replace("CASE", code)]
            times = []
            for _ in range(1 + PROCESSES):
                answer = subprocess.run(
                    command, env=environment, check=True, capture_output=True, text=True
                )
                times.append([float(word) for word in answer.stdout.split()])
            imports, calls = np.array(times[1:]).T
            low, high = np.quantile(calls, [0.25, 0.75]) / SECONDS
            took = float(np.median(calls))
            timing = Paired(took, SECONDS, took / SECONDS, low, high, PROCESSES, load())
            work = f"first mean of a process, {case} (imports before it {np.median(imports):.1f} s)"
            found.append(comparison(work, "what it may take", timing, target=1.0, unit="s"))
            print(found[-1], flush=True)
    return found


def main() -> None:
    notes = (
        "By hand: no argument is checked, nothing is accounted for, no clamped record is counted,"
        " and the noise is that of NumPy's generator.",
    )
    print(
        write_table(
            "latency", "Small calls beside the same work in NumPy", [*rows(), *first_calls()], notes
        )
    )


if __name__ == "__main__":
    main()
