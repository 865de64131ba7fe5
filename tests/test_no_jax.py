"""A release computes on the host: what does not run an optimiser imports no JAX, whose import and
compiler would be most of its time. One process runs several calls, and names the first that fails.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

_BEFORE = """
import sys, warnings
import numpy as np
import riemdp as R
from riemdp.cli import main
warnings.simplefilter("ignore")
budget, rng = R.Budget(2.0, 1e-5), np.random.default_rng(0)

def without(call, *arguments, allowed=(), **named):
    found = call(*arguments, **named)
    for module in {"jax", "jaxlib", "equinox", "scipy.stats", "sklearn", "matplotlib"} - {*allowed}:
        assert module not in sys.modules, (module, call, arguments[:1], named)
    return found

factors = 0.3 * rng.normal(size=(200, 3, 6))
spd = np.eye(3) + factors @ factors.swapaxes(1, 2)
flat = rng.normal(size=(200, 2))
sphere = R.Sphere(3)
unit = sphere.project(np.array([1.0, 0.0, 0.0]) + 0.2 * rng.normal(size=(200, 3)))
people = np.arange(200) // 2
"""
_PARTS = {
    "means": """
frames = np.linalg.qr(np.eye(5, 2) + 0.1 * rng.normal(size=(200, 5, 2)))[0]
lifted = np.concatenate([np.sqrt(1.0 + np.sum(flat**2, axis=1, keepdims=True)), flat], axis=1)
for space, X, radius in (
    (sphere, unit, 0.5),
    (R.Euclidean(2), flat, 2.0),
    (R.SPDAffineInvariant(3), spd, 1.0),
    (R.SPDLogEuclidean(3), spd, 1.0),
    (R.SPDBuresWasserstein(3), spd, 0.4),
    (R.Lorentz(3), lifted, 1.0),
    (R.PoincareBall(2), lifted[:, 1:] / (1.0 + lifted[:, :1]), 1.0),
    (R.Grassmann(5, 2), frames, 0.3),
    (R.SpecialOrthogonal(3), -np.linalg.qr(np.eye(3) + 0.1 * rng.normal(size=(200, 3, 3)))[0], 0.3),
    (R.KendallShapes(5), R.KendallShapes(5).project(frames), 0.3),
    (R.Product(sphere, R.Euclidean(2)), (unit, flat), 0.5),
):
    ball = R.Ball(space.origin, radius)
    without(R.private_frechet_mean, space, X, ball, budget)  # which plans, too
    without(R.private_frechet_mean, space, X, ball, budget, mechanism="tangent-mean")
ball = R.Ball(sphere.origin, 0.5)
without(R.private_frechet_mean, sphere, unit, ball, budget, groups=people)
for mechanism in ("wrapped-gaussian", "riemannian-laplace", "extrinsic-gaussian"):
    without(R.private_frechet_mean, sphere, unit, ball, budget, mechanism=mechanism)
without(R.frechet_mean, sphere, unit)
without(R.plan_mean_direction, sphere, 200, budget)
without(R.private_mean_direction, sphere, unit, budget)
without(R.private_k_means, sphere, unit, 2, ball, budget)
without(R.plan_k_means, sphere, ball, 200, budget, clusters=2)
without(R.private_mean_direction, R.Grassmann(3, 1), unit[:, :, None], budget, groups=people)
""",
    "balls, spreads and regions": """
space, ball = R.SPDAffineInvariant(3), R.Ball(np.eye(3), 1.0)
search = R.AdaptiveBall()
without(R.private_frechet_mean, space, spd, None, budget)
without(R.private_frechet_mean, space, spd, search, budget, groups=people)
without(R.private_ball, space, spd, search, budget)
without(R.private_frechet_variance, space, spd, ball, budget)
without(R.private_frechet_variance, space, spd, None, budget)
with without(R.Ledger, R.Budget(10.0, 1e-3)):
    a, b = (
        without(R.private_frechet_mean, space, X, ball, budget, mechanism="tangent-mean")
        for X in (spd[:100], spd[100:])
    )
without(a.confidence_region).contains(b.value)
without(R.two_sample_test, a, b)
without(str, a)
""",
    "estimators": """
labels = np.arange(200) % 2
spd[labels == 1] *= 3.0
space = R.SPDAffineInvariant(3)
allowed = ("sklearn", "scipy.stats")  # scikit-learn itself imports scipy.stats
without(R.PrivatePCA(1, budget=budget, row_norm=2.0).fit, flat, allowed=allowed)
for made in (
    R.PrivateMDM(budget=budget, ball=R.Ball(np.eye(3), 2.0)),
    R.PrivateMDM(budget=budget),
    R.PrivateTSClassifier(budget=budget, ball=R.Ball(np.eye(3), 2.0)),
    R.PrivateTSRegressor((0.0, 1.0), budget=budget),
):
    without(made.fit, spd, labels, allowed=allowed)
    without(made.predict, spd, allowed=allowed)
for made in (
    R.PrivateFrechetMean(manifold=space, budget=budget),
    R.PrivateTangentSpace(budget=budget),
):
    without(made.fit, spd, allowed=allowed)
""",
    "command": """
np.save("records.npy", spd)
np.savetxt("records.csv", flat, delimiter=",")
asked = ("--epsilon", "2", "--delta", "1e-5", "--json")

def run(*words):
    try:
        main(list(words))
    except SystemExit as stopped:
        assert not stopped.code, words

without(run, "mean", "records.npy", "--space", "spd", "--radius", "1", *asked)
without(run, "mean", "records.csv", "--space", "euclidean", "--radius", "3", *asked)
""",
}


@pytest.mark.parametrize("part", _PARTS)
def test_a_release_imports_no_jax(part, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", _BEFORE + _PARTS[part]],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
