"""The clamp that takes one decomposition of a matrix, beside the maps of the space."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import riemdp
from riemdp.domains import _clamp, _radial
from riemdp.domains._clamp import INSIDE
from riemdp.domains._radial import holds_ball, radially


@pytest.mark.parametrize("radius", [0.3, 3.0, 12.0])
def test_a_matrix_moves_along_its_geodesic(radius):
    rng = np.random.default_rng(3)
    space = riemdp.SPDAffineInvariant(4)
    center = np.diag([1.0, 2.0, 0.5, 4.0])
    v = space.from_coordinates(center, rng.normal(size=(200, 10)))
    length = np.asarray(space.norm(center, v))
    v = np.asarray(v) / length[:, None, None] * rng.uniform(0.1, 2.0, 200)[:, None, None] * radius
    x = space.exp(center, v)
    distance = np.asarray(space.dist(center, x))
    moved = riemdp.Ball(center, radius).clamp(space, x)
    share = np.minimum(1.0, INSIDE * radius / distance)
    expected = space.exp(center, share[:, None, None] * np.asarray(space.log(center, x)))
    condition = np.exp(np.sqrt(2.0) * radius) * 8.0  # of a matrix of the ball, at most
    gap = np.asarray(space.dist(expected, moved))
    assert np.max(gap) < 1e-13 * condition
    assert np.max(space.dist(center, moved)) <= radius * 1.000001
    inside = distance < radius
    assert 50 < np.sum(inside) < 150
    np.testing.assert_array_equal(np.asarray(moved)[inside], np.asarray(x)[inside])


@pytest.fixture
def lapack(monkeypatch):
    """Whatever devices the machine has: on one with another, every ball is measured."""
    monkeypatch.setattr(_radial, "lapack_alone", lambda: True)


@pytest.mark.usefixtures("lapack")
def test_a_ball_that_float64_does_not_hold_is_measured():
    space = riemdp.SPDAffineInvariant(3)
    assert bool(holds_ball(space, jnp.eye(3), 1.0, 1e-6))
    assert not bool(holds_ball(space, jnp.eye(3), 16.0, 16e-6))
    assert not bool(holds_ball(space, jnp.diag(jnp.array([1e14, 1.0, 1.0])), 1.0, 1e-6))
    assert not bool(holds_ball(riemdp.Sphere(3), riemdp.Sphere(3).origin, 0.1, 1.0))


@pytest.mark.usefixtures("lapack")
@pytest.mark.parametrize(("center", "radius"), [(np.eye(3), 1.0), (np.diag([9.0, 1.0, 0.5]), 0.1)])
def test_a_ball_that_float64_holds_is_known_before_a_program_is_made(monkeypatch, center, radius):
    """The program that measures nothing gives the same points, to the bit."""
    space, rng = riemdp.SPDAffineInvariant(3), np.random.default_rng(3)
    y = rng.normal(size=(50, 6)) * radius / 2.0
    x = np.array(space.exp(center, space.from_coordinates(center, y)))
    x[0] = np.nan
    measured = _clamp._flagged(space, center, radius, x)
    monkeypatch.setattr(_clamp, "_flagged", None)  # whatever is not known
    monkeypatch.setattr(_clamp, "_one", None)
    found = _clamp.clamp_flagged(space, center, radius, x)
    assert 5 < np.sum(found[1]) < 50
    for one, other in zip(found, measured, strict=True):
        np.testing.assert_array_equal(one, other)
    for given, moved in zip(x[:5], found[0][:5], strict=True):
        one = _clamp.clamp_one(space, center, radius, given)
        np.testing.assert_allclose(one, moved, rtol=1e-12, atol=1e-14)


@pytest.mark.usefixtures("lapack")
@pytest.mark.parametrize(
    ("space", "center", "radius"),
    [
        (riemdp.SPDAffineInvariant(3), np.eye(3), 16.0),
        (riemdp.SPDAffineInvariant(3), np.diag([1e14, 1.0, 1.0]), 1.0),
        (riemdp.Sphere(3), np.eye(3)[2], 0.1),
    ],
    ids=str,
)
def test_every_other_ball_is_measured(monkeypatch, space, center, radius):
    monkeypatch.setattr(_clamp, "_flagged_of_held", None)
    monkeypatch.setattr(_clamp, "_one_of_held", None)
    _, outside = _clamp.clamp_flagged(space, center, radius, np.stack([center, center]))
    assert not np.any(outside)
    np.testing.assert_allclose(_clamp.clamp_one(space, center, radius, center), center)


@pytest.mark.usefixtures("lapack")
def test_a_centre_whose_smallest_eigenvalue_is_lost_is_measured():
    """A spread below zero passed for a small one: moved records of such balls were not measured,
    and up to 1.9 outside for a radius of .001.
    """
    space, rng, seen = riemdp.SPDAffineInvariant(3), np.random.default_rng(0), 0
    traced = jax.jit(lambda c, r: holds_ball(space, c, r, 1e-6 * r))
    for _ in range(300):
        q = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        center = (q * [1.0, 10.0 ** rng.uniform(-8, 0), 10.0 ** rng.uniform(-16.6, -15)]) @ q.T
        center = 0.5 * (center + center.T)
        seen += np.linalg.eigvalsh(center)[0] <= 0.0
        for radius in (1e-3, 0.1, 1.0):
            assert not holds_ball(space, center, radius, 1e-6 * radius)
            assert not bool(traced(center, radius))
    assert seen > 5


@pytest.mark.usefixtures("lapack")
def test_a_ball_that_is_traced_is_measured_or_not_as_one_that_is_known(monkeypatch):
    space = riemdp.SPDAffineInvariant(3)
    traced = jax.jit(lambda c, r: holds_ball(space, c, r, 1e-6 * r))
    for center in (np.eye(3), np.diag([1e14, 1.0, 1.0]), np.diag([30.0, 1.0, 0.1])):
        for radius in (1e-6, 1e-3, 1.0, 8.0, 13.0, 16.0):
            host = holds_ball(space, center, radius, 1e-6 * radius)
            assert bool(host) is bool(traced(center, radius))
    monkeypatch.setattr(_clamp, "_flagged_of_held", None)
    program = jax.jit(functools.partial(_clamp.clamp_flagged, space))
    assert not np.any(program(np.eye(3), 1.0, np.eye(3)[None])[1])


class Doubled(riemdp.SPDAffineInvariant):
    """Distances are twice as long."""

    def _inner(self, p, u, v):
        return 4.0 * super()._inner(p, u, v)

    def _norm(self, p, v):
        return 2.0 * super()._norm(p, v)

    def _dist(self, p, q):
        return 2.0 * super()._dist(p, q)


@pytest.mark.usefixtures("lapack")
def test_a_subclass_is_clamped_in_its_own_metric():
    """It had its parent's distances: moved matrices lay at twice the radius."""
    space, radius = Doubled(3), 1.0
    y = np.random.default_rng(0).normal(size=(40, 6))
    x = np.asarray(space.exp(np.eye(3), space.from_coordinates(np.eye(3), y)))
    moved, outside = _clamp.clamp_flagged(space, np.eye(3), radius, x)
    assert np.sum(outside) > 30
    assert np.max(space.dist(np.eye(3), moved)) <= radius + _clamp.slack(radius)
    assert not holds_ball(space, np.eye(3), radius, 1e-6)


def test_what_has_no_logarithm_is_infinitely_far_or_not_a_number():
    space = riemdp.SPDAffineInvariant(2)
    distance, at = radially(space, jnp.eye(2), jnp.array([np.eye(2), -np.eye(2)]))
    assert float(distance[0]) == 0.0
    assert not np.isfinite(float(distance[1]))
    np.testing.assert_array_equal(at(jnp.zeros(2))[0], np.eye(2))
