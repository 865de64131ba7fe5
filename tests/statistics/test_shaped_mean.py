"""One record moves a shaped tangent mean by at most 2 R / n, and an attack comes near it, whatever
the space, the metric and the shape are (docs/proofs/mean-sensitivity.md).
"""

from __future__ import annotations

import numpy as np
import pytest

import riemdp
from riemdp.statistics import Shape, ShapedMean

N, RADIUS = 200, 0.8
SPACES = {
    "affine-invariant": riemdp.SPDAffineInvariant(3),
    "log-Euclidean": riemdp.SPDLogEuclidean(3),
    "Bures-Wasserstein": riemdp.SPDBuresWasserstein(3),
    "sphere": riemdp.Sphere(5),
    "Grassmann": riemdp.Grassmann(4, 2),
    "hyperbolic": riemdp.Lorentz(4),
}


def shape_on(space, rank, rng):
    """A random frame at a point with a shape of condition 100."""
    center = space.origin
    basis = np.linalg.qr(rng.normal(size=(space.dim, space.dim)))[0][:, :rank]
    return Shape(space, center, basis, 0.5 * np.geomspace(1.0, 0.1, rank))


def records_along(shape, z):
    """Records whose shaped coordinates are these."""
    space, y = shape.manifold, (z * shape.roots) @ shape.basis.T
    return space.exp(shape.center, space.from_coordinates(shape.center, y))


def moved(query, one, other):
    """How far the mean moves where the first record is replaced, the rest being at the centre."""
    rest = np.broadcast_to(query.shape.center, (N - 1, *query.shape.manifold.shape))
    first, second = (np.concatenate([record[None], rest]) for record in (one, other))
    means = [query.coordinates(query.prepare(X)) for X in (first, second)]
    return float(np.linalg.norm(means[0] - means[1]))


def worst(query, rng):
    """The pair of records that moves the mean most, of a search that sees terms alone."""
    shape, rank = query.shape, len(query.shape.roots)
    z = rng.normal(size=(N, rank)) * np.geomspace(0.1, 1.5, N)[:, None]
    for step in (0.3, 0.1, 0.03, 0.01):
        X = np.asarray(records_along(shape, z))
        terms = query.prepare(X).points
        away = np.linalg.norm(terms[:, None] - terms[None], axis=2)
        i, j = np.unravel_index(np.argmax(away), away.shape)
        pair, best = (X[i], X[j]), (z[i], z[j])
        half = N // 2
        z = np.repeat(np.stack(best), half, axis=0) + step * rng.normal(size=(N, rank))
        z[0], z[half] = best
    return pair


@pytest.mark.parametrize("rank", [1, 2, None], ids=["rank 1", "rank 2", "full rank"])
@pytest.mark.parametrize("name", SPACES)
def test_an_attack_reaches_the_sensitivity_of_a_shaped_mean_and_never_more(name, rank):
    space, rng = SPACES[name], np.random.default_rng(5)
    shape = shape_on(space, rank or space.dim, rng)
    query = ShapedMean.of(shape, RADIUS, N)
    assert query.sensitivity == pytest.approx(2 * RADIUS / N)
    share = moved(query, *worst(query, rng)) / query.sensitivity
    assert 0.99 <= share <= 1.0


def test_what_has_no_shaped_logarithm_counts_as_nothing():
    space = riemdp.SPDAffineInvariant(3)
    shape = shape_on(space, 6, np.random.default_rng(0))
    broken = [np.full((3, 3), np.nan), -np.eye(3), np.full((3, 3), np.inf), np.zeros((3, 3))]
    fine = np.asarray(records_along(shape, np.full((1, 6), 0.1)))[0]
    prepared = ShapedMean.of(shape, RADIUS, 5).prepare([*broken, fine])
    np.testing.assert_array_equal(prepared.points[:4], 0.0)
    assert np.all(prepared.points[4] != 0.0)
    np.testing.assert_array_equal(prepared.outside, [True] * 4 + [False])
    tiny = shape._replace(roots=np.full(6, 1e-320))  # and so z is not finite
    prepared = ShapedMean.of(tiny, RADIUS, 1).prepare([fine])
    np.testing.assert_array_equal(prepared.points, 0.0)


def test_a_shape_of_low_rank_leaves_the_rest_at_the_centre():
    space = riemdp.Euclidean(6)
    shape = shape_on(space, 2, np.random.default_rng(1))
    query = ShapedMean.of(shape, 50.0, N)
    X = np.random.default_rng(2).normal(size=(N, 6)) * 0.1
    v = np.asarray(query.value(query.prepare(X)))
    np.testing.assert_allclose(shape.basis @ (shape.basis.T @ v), v, atol=1e-15)
    np.testing.assert_allclose(shape.basis.T @ v, shape.basis.T @ X.mean(axis=0), atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_the_bias_of_a_tangent_mean_is_bounded(seed):
    """Curvature of affine-invariant matrices is from -1/2 to 0."""
    space, rng = riemdp.SPDAffineInvariant(3), np.random.default_rng(seed)
    X = space.exp(space.origin, space.from_coordinates(space.origin, rng.normal(size=(40, 6))))
    center = space.exp(space.origin, space.from_coordinates(space.origin, rng.normal(size=6)))
    mean = riemdp.frechet_mean(space, X).value
    rho = float(max(np.max(space.dist(center, X)), np.max(space.dist(mean, X)))) / np.sqrt(2)
    T = np.mean(np.asarray(space.log(center, X)), axis=0)
    bias = float(space.norm(center, T - np.asarray(space.log(center, mean))))
    assert 0.0 < bias <= (rho / np.tanh(rho) - 1) * float(space.dist(center, mean))
