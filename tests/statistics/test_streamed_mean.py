"""Means of records that are read in parts reach the public tolerance, whatever the records are."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import riemdp
from riemdp import Ball
from riemdp.statistics import FrechetMean
from tests.seam import plant

SPHERE, HYPERBOLIC, ROTATIONS = riemdp.Sphere(4), riemdp.Lorentz(4), riemdp.SpecialOrthogonal(3)
PLANES, BURES = riemdp.Grassmann(5, 2), riemdp.SPDBuresWasserstein(3)
PAIR = riemdp.Product(riemdp.Sphere(4), riemdp.SPDAffineInvariant(2))
MIXED = riemdp.Product(BURES, riemdp.Euclidean(2), riemdp.SPDLogEuclidean(2))
SPACES = [
    riemdp.Sphere(2),
    SPHERE,
    HYPERBOLIC,
    riemdp.PoincareBall(3),
    riemdp.SPDAffineInvariant(3),
    PLANES,
    ROTATIONS,
    BURES,
    PAIR,
    MIXED,
]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    plant(monkeypatch, "rows of a part", 64)


def widest(space) -> float:
    """A radius near the largest one, and one that is wide where there is none."""
    limit = float(Ball(space.origin, 1e-3).on(space).convexity_limit)
    return 0.99 * min(limit, 3.0)


def placed(space, y: np.ndarray):
    """The points at these coordinates of the tangent space at the origin."""
    origin = space.origin
    return space.exp(origin, space.from_coordinates(origin, y))


def directions(space, n: int, seed: int = 0) -> np.ndarray:
    u = np.random.default_rng(seed).normal(size=(n, space.dim))
    return u / np.linalg.norm(u, axis=1, keepdims=True)


def mapped(folder, X):
    def one(x: np.ndarray) -> np.ndarray:
        path = folder / f"{len(list(folder.iterdir()))}.npy"
        np.save(path, x)
        return np.load(path, mmap_mode="r")

    return jax.tree.map(one, X)


def residual(space, point, X, w=None) -> float:
    mean = jax.tree.map(lambda v: np.average(np.asarray(v), axis=0, weights=w), space.log(point, X))
    return float(space.norm(point, mean))


def matrices(k: int, n: int, size: float = 0.6) -> np.ndarray:
    g = np.random.default_rng(k).normal(size=(n, k, k)) * size / np.sqrt(k)
    values, q = np.linalg.eigh(g + g.swapaxes(1, 2))
    X = (q * np.exp(values)[:, None, :]) @ q.swapaxes(1, 2)
    return 0.5 * (X + X.swapaxes(1, 2))


def hostile(space, kind: str, n: int, radius: float):
    u, one = directions(space, n), np.tile(directions(space, 1, 5), (n, 1))
    place = np.arange(n)[:, None]
    y = {
        "all at the centre": np.zeros_like(u),
        "all on the edge": radius * u,
        "all the same, on the edge": radius * one,
        "two opposite points": np.where(place % 3 == 0, radius * one, -radius * one),
        "one at the start, others far": np.where(place == 0, 0.0, radius * one),
        "far outside": 1.5 * radius * u,
        "tiny": 1e-12 * radius * u,
        "one apart": np.where(place == n - 1, -radius * one, radius * one),
        "half on the other side": np.where(place % 2, radius * one, -radius * u),
    }[kind]
    return placed(space, y)


HOSTILE = [
    "all at the centre",
    "all on the edge",
    "all the same, on the edge",
    "two opposite points",
    "one at the start, others far",
    "far outside",
    "tiny",
    "one apart",
    "half on the other side",
]


# ------------------------------------------------------------------------------- the mean
@pytest.mark.parametrize("space", SPACES, ids=str)
def test_the_public_tolerance_is_reached_whatever_the_records(tmp_path, space) -> None:
    """In a ball near the largest: the residual is measured here, beside what was read in parts."""
    n, radius = 200, widest(space)
    query = FrechetMean(Ball(space.origin, radius).on(space), n)
    there = query.frame.local.manifold
    assert query.tolerance is not None
    for kind in HOSTILE:
        X = hostile(space, kind, n, radius)
        found = query.value(query.prepare(mapped(tmp_path, X)))
        points = query.prepare(X).points
        assert residual(there, found, points) <= query.tolerance + 1e-13, kind


@pytest.mark.parametrize("space", [SPHERE, ROTATIONS, HYPERBOLIC], ids=str)
@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_records_have_the_same_mean(tmp_path, space, kind) -> None:
    """A third of them twice as heavy, some without weight, some no points at all."""
    n, radius = 200, widest(space)
    X = hostile(space, kind, n, radius).copy()
    X[7], X[8] = np.nan, 1e300
    w = np.where(np.arange(n) % 3 == 0, 2.0, 1.0)
    w[1::5] = 0.0
    query = FrechetMean(Ball(space.origin, radius).on(space), n, weights=w / w.sum())
    seen = [query.value(query.prepare(x)) for x in (mapped(tmp_path, X), X)]
    assert all(np.isfinite(np.asarray(x)).all() for x in seen)
    assert float(space.dist(*seen)) <= 1e-9


@pytest.mark.parametrize("seed", range(4))
def test_records_whose_first_parts_mislead(tmp_path, seed) -> None:
    """Records on the edge of a large ball, those of the first parts on the other side."""
    k, n, radius = 2, 1500, 7.0
    space, rng = riemdp.SPDAffineInvariant(k), np.random.default_rng(seed)
    y = np.empty((n, 3))
    for chosen in (np.arange(n), np.arange(n // 8)):
        u = rng.normal(size=(2, 3))
        u *= 0.999 * radius / np.linalg.norm(u, axis=1, keepdims=True)
        y[chosen] = u[(rng.random(len(chosen)) < rng.uniform(0.3, 0.7)).astype(int)]
    X = np.asarray(space.exp(np.eye(k), space.from_coordinates(np.eye(k), y)))
    query = FrechetMean(Ball(np.eye(k), radius).on(space), n)
    found, there = (query.value(query.prepare(x)) for x in (mapped(tmp_path, X), X))
    assert query.tolerance is not None
    assert float(space.dist(found, there)) <= 2 * query.tolerance


def test_records_in_two_wide_clusters_have_the_same_mean(tmp_path) -> None:
    """Of condition 1e8, on two axes."""
    k, n = 7, 200
    X = np.tile(np.eye(k), (n, 1, 1))
    X[:, 0, 0], X[:, 1, 1] = 1e4, 1e-4
    X[::2] = X[::2].swapaxes(1, 2)[:, ::-1, ::-1]
    space = riemdp.SPDAffineInvariant(k)
    query = FrechetMean(Ball(np.eye(k), 14.0).on(space), n)
    found, there = (query.value(query.prepare(x)) for x in (mapped(tmp_path, X), X))
    assert query.tolerance is not None
    assert float(space.dist(found, there)) <= 2 * query.tolerance
    assert residual(space, found, X) <= query.tolerance + 1e-12
