"""The clamp that takes one decomposition of a matrix, beside the maps of the space."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import riemdp
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


def test_a_ball_that_float64_does_not_hold_is_measured():
    space = riemdp.SPDAffineInvariant(3)
    assert bool(holds_ball(space, jnp.eye(3), 1.0, 1e-6))
    assert not bool(holds_ball(space, jnp.eye(3), 16.0, 16e-6))
    assert not bool(holds_ball(space, jnp.diag(jnp.array([1e14, 1.0, 1.0])), 1.0, 1e-6))
    assert not bool(holds_ball(riemdp.Sphere(3), riemdp.Sphere(3).origin, 0.1, 1.0))


def test_what_has_no_logarithm_is_infinitely_far_or_not_a_number():
    space = riemdp.SPDAffineInvariant(2)
    distance, at = radially(space, jnp.eye(2), jnp.array([np.eye(2), -np.eye(2)]))
    assert float(distance[0]) == 0.0
    assert not np.isfinite(float(distance[1]))
    np.testing.assert_array_equal(at(jnp.zeros(2))[0], np.eye(2))
