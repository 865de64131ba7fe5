"""Flat space: every formula against NumPy, and the shapes of batches."""

from __future__ import annotations

import numpy as np

from riemdp.manifolds import Euclidean

M = Euclidean(2, 3)


def test_formulas_are_those_of_numpy() -> None:
    rng = np.random.default_rng(0)
    p, q, u, v = rng.standard_normal((4, 5, 2, 3))
    np.testing.assert_array_equal(M.exp(p, v), p + v)
    np.testing.assert_array_equal(M.log(p, q), q - p)
    np.testing.assert_allclose(M.dist(p, q), np.linalg.norm(q - p, axis=(1, 2)), rtol=1e-15)
    np.testing.assert_allclose(M.inner(p, u, v), np.sum(u * v, axis=(1, 2)), rtol=1e-13)
    np.testing.assert_allclose(
        M.norm(p, 1e-12 * v), 1e-12 * np.linalg.norm(v, axis=(1, 2)), rtol=1e-15
    )
    np.testing.assert_array_equal(M.transport(p, q, v), v)
    np.testing.assert_array_equal(M.to_coordinates(p, v), v.reshape(5, 6))
    np.testing.assert_array_equal(M.from_coordinates(p, v.reshape(5, 6)), v)
    np.testing.assert_array_equal(M.log_volume_density(p, v), np.zeros(5))
