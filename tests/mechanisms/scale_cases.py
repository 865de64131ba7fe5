"""Releases of every kind, each with a seed, whose noise `test_scales` holds to what it was."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

import riemdp as R
from riemdp import Budget
from riemdp import mechanisms as M
from riemdp.privacy import Guarantee

GAUSS, PURE = Budget(1.5, 1e-6), Budget(2.0)
LINE, FLAT, WIDE = R.Euclidean(1), R.Euclidean(3), R.Euclidean(12)
SPHERE, SPD, HYPERBOLIC = R.Sphere(3), R.SPDAffineInvariant(2), R.Lorentz(3)
SMALL = R.Ball(np.eye(2), 1.5)
CAP = R.Ball(SPHERE.origin, 0.7)


@functools.cache
def matrices(n: int = 600, size: int = 2) -> np.ndarray:
    """Positive definite matrices about the identity."""
    space = R.SPDAffineInvariant(size)
    v = np.random.default_rng(7).normal(size=(n, space.dim)) * 0.4
    origin = space.origin
    return np.asarray(space.exp(origin, space.from_coordinates(origin, v)))


@functools.cache
def unit_vectors(n: int = 400) -> np.ndarray:
    """Points of the sphere about its origin."""
    v = np.random.default_rng(8).normal(size=(n, 2)) * 0.3
    return np.asarray(SPHERE.exp(SPHERE.origin, SPHERE.from_coordinates(SPHERE.origin, v)))


@functools.cache
def rows(n: int = 500) -> np.ndarray:
    """Rows of a table."""
    return np.random.default_rng(9).normal(size=(n, 3)) * np.array([1.0, 0.5, 0.2])


def people(n: int, each: int = 3) -> np.ndarray:
    """Whose records they are: so many each."""
    return np.arange(n) // each


def classes(n: int = 600) -> np.ndarray:
    """Three classes."""
    return np.arange(n) % 3


def _mechanisms() -> dict[str, Callable[[], Any]]:
    """Mechanisms that are made by hand."""
    made: dict[str, Callable[[], Any]] = {
        "tangent gaussian": lambda: M.TangentGaussian(
            SPHERE, SPHERE.origin, sensitivity=0.1, budget=GAUSS
        ).release(np.array([0.0, 0.2, 0.3]), 1),
        "tangent gaussian, classical": lambda: M.TangentGaussian(
            FLAT, np.zeros(3), sensitivity=2.0, budget=Budget(0.8, 1e-5), calibration="classical"
        ).release(np.ones(3), 1),
        "wrapped gaussian": lambda: M.WrappedGaussian(
            FLAT, np.zeros(3), sensitivity=0.3, budget=GAUSS
        ).release(np.ones(3), 1),
        "wrapped gaussian in a ball, shrunk": lambda: M.WrappedGaussian(
            SPHERE, SPHERE.origin, sensitivity=0.01, budget=GAUSS, ball=CAP, shrink=True
        ).release(SPHERE.origin, 1),
        "wrapped gaussian, add or remove": lambda: M.WrappedGaussian(
            SPD, np.eye(2), sensitivity=0.02, budget=GAUSS, adjacency="add-or-remove-one"
        ).release(2.0 * np.eye(2), 1),
        "extrinsic gaussian": lambda: M.ExtrinsicGaussian(
            SPD, sensitivity=0.1, budget=GAUSS
        ).release(2.0 * np.eye(2), 1),
        "k-norm gradient": lambda: M.KNormGradient(
            FLAT,
            objective_gradient=M.MeanGradient(FLAT, rows()),
            sensitivity=0.02,
            epsilon=PURE,
        ).release(rows().mean(axis=0), 1),
    }
    pure = {
        "wrapped laplace": M.WrappedLaplace(HYPERBOLIC, HYPERBOLIC.origin, **_of(0.01)),
        "wrapped laplace, float64": M.WrappedLaplace(WIDE, np.zeros(12), **_of(0.1)),
        "riemannian laplace": M.RiemannianLaplace(SPD, **_of(0.02)),
        "extrinsic laplace": M.ExtrinsicLaplace(FLAT, **_of(0.5)),
    }
    for name, mechanism in pure.items():
        made[name] = functools.partial(mechanism.release, mechanism.manifold.origin, 1)
    return made


def _of(sensitivity: float) -> dict[str, Any]:
    return {"sensitivity": sensitivity, "epsilon": PURE}


def _functions(budget: Budget, kind: str) -> dict[str, Callable[[], Any]]:
    """Public functions, with Gaussian or with pure noise."""
    mean = functools.partial(R.private_frechet_mean, rng=2)
    wrapped = "wrapped-gaussian" if budget.delta else "wrapped-laplace"
    X, Y = matrices(), unit_vectors()
    return {
        f"{kind} mean with a count": lambda: mean(SPD, X, SMALL, budget, mechanism=wrapped),
        f"{kind} mean alone": lambda: mean(
            SPD, X, SMALL, budget, mechanism=wrapped, count_outside=False
        ),
        f"{kind} mean of people": lambda: mean(
            SPD, X, SMALL, budget, mechanism=wrapped, groups=people(600)
        ),
        f"{kind} mean, add or remove": lambda: mean(
            SPD, X, SMALL, budget, mechanism=wrapped, n_min=500
        ),
        f"{kind} mean, extrinsic": lambda: mean(
            SPD, X, SMALL, budget, mechanism=wrapped.replace("wrapped", "extrinsic")
        ),
        f"{kind} tangent mean": lambda: mean(SPHERE, Y, CAP, budget, mechanism="tangent-mean"),
        f"{kind} mean, private ball": lambda: mean(SPD, X, None, budget),
        f"{kind} mean, private ball of people": lambda: mean(
            SPHERE, Y, None, budget, groups=people(400, 2)
        ),
        f"{kind} private ball": lambda: R.private_ball(SPHERE, Y, R.AdaptiveBall(), budget, rng=2),
        f"{kind} variance": lambda: R.private_frechet_variance(SPHERE, Y, CAP, budget, rng=2),
        f"{kind} variance, private ball": lambda: R.private_frechet_variance(
            SPD, X, None, budget, rng=2
        ),
    }


def _estimators(budget: Budget, kind: str) -> dict[str, Callable[[], Any]]:
    """Estimators, with Gaussian or with pure noise."""
    X, y = matrices(), classes()
    seed: dict[str, Any] = {"budget": budget, "random_state": 3}
    known: dict[str, Any] = {**seed, "labels": "private", "classes": [0, 1, 2]}
    return {
        f"{kind} class means": lambda: R.PrivateMDM(ball=SMALL, **seed).fit(X, y),
        f"{kind} class means, private labels": lambda: R.PrivateMDM(ball=SMALL, **known).fit(X, y),
        f"{kind} class means, found": lambda: R.PrivateMDM(**seed).fit(X, y),
        f"{kind} class means of people": lambda: R.PrivateMDM(ball=SMALL, **known).fit(
            X, y, groups=people(600)
        ),
        f"{kind} classifier": lambda: R.PrivateTSClassifier(ball=SMALL, **seed).fit(X, y),
        f"{kind} classifier, found, private labels": lambda: R.PrivateTSClassifier(**known).fit(
            X, y
        ),
        f"{kind} regression": lambda: R.PrivateTSRegressor((-1.0, 2.0), ball=SMALL, **seed).fit(
            X, y
        ),
        f"{kind} regression, found": lambda: R.PrivateTSRegressor((-1.0, 2.0), **seed).fit(X, y),
        f"{kind} domains": lambda: R.PrivateTLCenter("", ball=SMALL, **seed).fit(
            X, domains=np.where(y == 0, "a", "b")
        ),
        f"{kind} components": lambda: R.PrivatePCA(2, row_norm=2.0, **seed).fit(rows()),
        f"{kind} components, found": lambda: R.PrivatePCA(2, row_norm="private", **seed).fit(
            rows()
        ),
        f"{kind} geodesics": lambda: R.PrivatePGA(manifold=SPD, ball=SMALL, **seed).fit(X),
        f"{kind} geodesics, found, of people": lambda: R.PrivatePGA(manifold=SPD, **seed).fit(
            matrices(3000), groups=people(3000, 2)
        ),
    }


def _with_public_records() -> dict[str, Callable[[], Any]]:
    """What public records shape."""
    X, y, size = matrices(), classes(), 60
    prior = R.PublicPrior(SPD, X[:size], y[:size], people(size, 15))
    fit: dict[str, Any] = {"budget": GAUSS, "ball": prior, "random_state": 2}
    known: dict[str, Any] = {**fit, "labels": "private", "classes": [0, 1, 2]}
    mean = functools.partial(R.private_frechet_mean, SPD, ball=prior, rng=2)
    return {
        "prior mean, one stage": lambda: mean(X[:10], budget=GAUSS),
        "prior mean, two stages": lambda: mean(X, budget=GAUSS),
        "prior mean of people": lambda: mean(X, budget=GAUSS, groups=people(600)),
        "prior contrasts": lambda: R.PrivateTSClassifier(**fit).fit(X[9:], y[9:]),
        "prior contrasts, private labels": lambda: R.PrivateTSClassifier(**known).fit(X, y),
        "prior contrasts of people": lambda: R.PrivateTSClassifier(**known).fit(
            X, y, groups=people(600)
        ),
    }


def cases() -> dict[str, Callable[[], Any]]:
    """name -> a call that makes one release, or several."""
    found = _mechanisms() | _with_public_records()
    for budget, kind in ((GAUSS, "gaussian"), (PURE, "pure")):
        found |= _functions(budget, kind) | _estimators(budget, kind)
    return found


def noise_of(made: Any) -> dict[str, float]:
    """The noise of what a case made: scales, the noise of counts, and what all of it costs."""
    found: dict[str, float] = {}
    whole: Guarantee = made.guarantee_ if hasattr(made, "guarantee_") else made.guarantee
    found["epsilon"] = whole.epsilon(1e-6)
    found["for one user"] = float(whole.unit == "person")
    for i, release in enumerate(_releases(made)):
        found[f"scale {i}"] = float(release.scale)
        if release.sensitivity:
            found[f"multiplier {i}"] = float(release.scale) / float(release.sensitivity)
        for name in ("outside", "valid"):
            count = release.details.get(name)
            if count is not None:
                found[f"{name} {i}"] = float(count.deviation)
    return found


def _releases(made: Any) -> Iterable[M.Release]:
    if isinstance(made, M.Release):
        return [made]
    held = getattr(made, "releases_", None)
    if held is None:
        return [made.release_]
    return list(held.values()) if isinstance(held, dict) else list(held)
