"""The clamp that takes one decomposition of a matrix, beside the maps of the space."""

from __future__ import annotations

import numpy as np
import pytest

import riemdp
from tests.seam import Doors


@pytest.mark.parametrize("radius", [0.3, 3.0, 12.0])
def test_a_matrix_moves_along_its_geodesic(radius):
    rng = np.random.default_rng(3)
    space = riemdp.SPDAffineInvariant(4)
    center = np.diag([1.0, 2.0, 0.5, 4.0])
    v = space.from_coordinates(center, rng.normal(size=(200, 10)))
    length = np.asarray(space.norm(center, v))
    goal = rng.uniform(0.1 * radius, min(2.0 * radius, 16.0), 200)
    v = np.asarray(v) / length[:, None, None] * goal[:, None, None]
    x = space.exp(center, v)
    distance = np.asarray(space.dist(center, x))
    moved = riemdp.Ball(center, radius).clamp(space, x)
    share = np.minimum(1.0, Doors.INSIDE * radius / distance)
    expected = space.exp(center, share[:, None, None] * np.asarray(space.log(center, x)))
    condition = np.exp(np.sqrt(2.0) * np.max(goal)) * 8.0  # of a matrix, at most
    gap = np.asarray(space.dist(expected, moved))
    assert np.max(gap) < 1e-13 * condition
    assert np.max(space.dist(center, moved)) <= radius * 1.000001
    inside = distance < radius
    assert 50 < np.sum(inside) < 150
    np.testing.assert_array_equal(np.asarray(moved)[inside], np.asarray(x)[inside])


class Doubled(riemdp.SPDAffineInvariant):
    """Distances are twice as long."""

    def _inner(self, p, u, v):
        return 4.0 * super()._inner(p, u, v)

    def _norm(self, p, v):
        return 2.0 * super()._norm(p, v)

    def _dist(self, p, q):
        return 2.0 * super()._dist(p, q)


def test_a_subclass_is_clamped_in_its_own_metric():
    """It had its parent's distances: moved matrices lay at twice the radius."""
    space, radius = Doubled(3), 1.0
    y = np.random.default_rng(0).normal(size=(40, 6))
    x = np.asarray(space.exp(np.eye(3), space.from_coordinates(np.eye(3), y)))
    moved, outside = Doors.clamp_flagged(space, np.eye(3), radius, x)
    assert np.sum(outside) > 30
    distance = np.asarray(space.dist(np.eye(3), moved))
    assert np.max(distance) <= radius + Doors.slack(radius)
    assert np.min(distance[outside]) > 0.99 * radius  # and none of them became the centre
