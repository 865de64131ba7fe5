"""The frame of a public centre: an isometry, in which rounding is smaller than its public bound."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import riemdp as R
from riemdp.statistics import FrechetMean, TangentMean
from tests.seam import Doors, Means

CENTRES = {
    "line": (R.Euclidean(1), np.array([1.7e9])),
    "matrices": (R.Euclidean(2, 2), np.full((2, 2), 3.0)),
    "affine": (R.SPDAffineInvariant(3), np.diag([1.0, 1e-3, 20.0])),
    "log": (R.SPDLogEuclidean(3), np.diag([1.0, 1e-3, 20.0])),
    "lorentz": (R.Lorentz(3), np.array([np.cosh(3.0), np.sinh(3.0), 0.0])),
    "poincare": (R.PoincareBall(2), np.array([0.9, 0.1])),
    "product": (
        R.Product(R.SPDLogEuclidean(2), R.Sphere(3)),
        (np.diag([2.0, 0.5]), np.array([0.0, 1.0, 0.0])),
    ),
}


def around(space, centre, radius, n, seed=0):
    v = space.tangent_normal(seed, centre, radius / np.sqrt(space.dim), (n,))
    return space.exp(centre, v)


@pytest.mark.parametrize("name", CENTRES)
def test_a_frame_keeps_distances_and_comes_back(name):
    space, centre = CENTRES[name]
    domain = R.Ball(centre, 0.7).on(space)
    frame, x = domain.frame, around(space, centre, 0.3, 6)
    assert not frame.is_identity
    local, _ = frame.clamp_flagged(x)
    there = frame.local.manifold.dist(frame.local.center, local)
    inside = np.asarray(space.dist(centre, x)) <= 0.7
    assert np.allclose(there, np.minimum(space.dist(centre, x), 0.7), atol=1e-6)
    for i in np.flatnonzero(inside):
        back = frame.back(jax.tree.map(lambda leaf, i=i: leaf[i], local))
        one = jax.tree.map(lambda leaf, i=i: leaf[i], x)
        assert float(space.dist(one, back)) < 1e-6
    for name_ in ("radius", "curvature", "convexity_limit"):
        assert getattr(frame.local, name_) == getattr(domain, name_)


def test_what_float64_cannot_hold_is_drawn_towards_the_centre():
    space = R.SPDAffineInvariant(2)
    frame = R.Ball(np.diag([1.0, 1e-12]), 1.0).on(space).frame
    back = frame.back(np.asarray(np.diag([np.exp(20.0), np.exp(-20.0)])))
    assert bool(space.belongs(back, 1e-6))


@pytest.mark.parametrize(
    ("space", "centre", "radius", "n"),
    [
        (R.SPDAffineInvariant(3), np.eye(3), 28.0, 10),
        (R.SPDAffineInvariant(3), np.diag([1.0, 1e-13, 1.0]), 0.01, 1000),
        (R.Lorentz(4), R.Lorentz(4).origin, 30.0, 10),
        (R.Euclidean(1), np.array([1e17]), 1.0, 10),
        (R.SPDAffineInvariant(3), np.eye(3), 15.0, 10**6),
        (R.Euclidean(2), np.zeros(2), 1.0, 10**12),
    ],
    ids=str,
)
def test_what_rounding_would_spoil_is_refused_from_public_numbers(space, centre, radius, n):
    with pytest.raises(R.InvalidArgument, match=r"ball\.radius"):
        FrechetMean(R.Ball(centre, radius).on(space), n)
    with pytest.raises(R.InvalidArgument, match=r"ball\.radius"):
        R.plan_private_mean(space, R.Ball(centre, radius), n, R.Budget(1.0, 1e-6)).best()


@pytest.mark.parametrize("radius", [1.0, 6.0, 12.0])
def test_residuals_stay_below_the_resolution_that_is_claimed(radius):
    """The public tolerance is reached by far records, by clusters and by halves, so that no data
    set is released from a point that is farther off than the sensitivity allows.
    """
    rng = np.random.default_rng(0)
    for space in (R.SPDAffineInvariant(2), R.Lorentz(3)):
        origin, d = space.origin, space.dim
        query = FrechetMean(R.Ball(origin, radius).on(space), 8)
        one = rng.normal(size=d)
        for u in (
            rng.normal(size=(8, d)),
            one + 1e-3 * rng.normal(size=(8, d)),
            one * np.where(np.arange(8) % 2, 1, -1)[:, None] + 1e-3 * rng.normal(size=(8, d)),
        ):
            v = radius * u / np.linalg.norm(u, axis=1, keepdims=True)
            data = query.prepare(space.exp(origin, space.from_coordinates(origin, np.asarray(v))))
            assert query.tolerance is not None
            found = Means.mean_in(
                query.frame.local, Means.look_at(space, data.points, None), query.tolerance
            )
            assert found.residual <= query.tolerance


def test_sums_in_blocks():
    n = 2 * Doors.BLOCK + 17
    x = np.random.default_rng(0).normal(size=(n, 3))
    w = np.random.default_rng(1).uniform(size=n)
    np.testing.assert_allclose(Doors.mean_of(x, w, lambda part: part), w @ x, rtol=1e-12)
    assert Doors.pairwise_sum(np.arange(7.0)) == 21
    assert (
        Doors.summation_error(10)
        < Doors.summation_error(Doors.BLOCK)
        < Doors.summation_error(Doors.BLOCK + 1)
    )
    assert Doors.summation_error(10**9) < 2e-12


def test_a_tangent_mean_needs_no_limit_of_curvature():
    sphere = R.Sphere(3)
    query = TangentMean(R.Domain(sphere, sphere.origin, 3.0), 4)
    x = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [np.nan, 0.0, 0.0], [0.0, -1.0, 0.0]])
    value = query.value(query.prepare(x))
    np.testing.assert_allclose(value, [0.0, 0.0, np.pi / 8], atol=1e-12)
    assert query.sensitivity == pytest.approx(2 * 3.0 / 4)
    far = TangentMean(R.Domain(sphere, sphere.origin, 0.5), 1)
    assert float(sphere.norm(sphere.origin, far.value(far.prepare(x[:1])))) == pytest.approx(0.5)


@pytest.mark.parametrize("size", [1e-12, 1e-6, 0.05, 0.5, 2.0])
def test_the_frame_of_the_identity_is_that_of_any_center(size):
    """Records are carried from the identity with all digits."""
    space, k = R.SPDLogEuclidean(4), 4
    y = np.random.default_rng(1).normal(size=(20, space.dim))
    y *= size / np.linalg.norm(y, axis=1)[:, None]
    X = np.asarray(space.exp(np.eye(k), space.from_coordinates(np.eye(k), y)))
    frame = R.Ball(np.eye(k), 5.0).on(space).frame
    carried = np.asarray(frame.clamp_flagged(X)[0])
    np.testing.assert_allclose(carried, y, rtol=0.0, atol=1e-14 * max(1.0, size) * size + 2e-16)
    for one, back in zip(carried, X, strict=True):
        np.testing.assert_allclose(frame.back(one), back, rtol=0.0, atol=1e-14 * max(1.0, size))
    bad = -X[:1]
    assert not np.any(np.asarray(frame.clamp_flagged(bad)[0]))


@pytest.mark.parametrize("small", [1.2e-4, 1e-13, 4.4e-18])
def test_the_frame_of_the_identity_keeps_small_eigenvalues(small):
    """They are lost where eigenvalues are taken less 1, and with them the record."""
    space = R.SPDLogEuclidean(2)
    frame = R.Ball(np.eye(2), 41.0).on(space).frame
    carried, outside = frame.clamp_flagged(np.diag([small, 1.0])[None])
    assert not np.any(outside)
    np.testing.assert_allclose(carried[0], [np.log(small), 0.0, 0.0], rtol=1e-14, atol=1e-14)
