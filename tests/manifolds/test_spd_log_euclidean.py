"""Log-Euclidean SPD matrices are vectors in other coordinates."""

from __future__ import annotations

import numpy as np
import pytest

from riemdp.manifolds import SPDLogEuclidean

from . import spd_oracles as oracle

M = SPDLogEuclidean(4)
RNG = np.random.default_rng(0)
P, Q = oracle.spd_matrix(RNG, 4), oracle.spd_matrix(RNG, 4)


def test_it_is_flat_and_globally_isometric_to_vectors():
    # Coordinates at the identity of log(I, .) are a global isometry: distances become Euclidean.
    eye = np.eye(4)
    a, b = (np.asarray(M.to_coordinates(eye, M.log(eye, x))) for x in (P, Q))
    assert np.linalg.norm(a - b) == pytest.approx(float(M.dist(P, Q)), rel=1e-13)
    assert float(M.log_volume_density(P, Q)) == 0.0
    assert oracle.numeric_log_volume(M, P, 0.3 * Q) == pytest.approx(0.0, abs=1e-8)
    third = 2 * np.eye(4) + 0.1 * P
    v = oracle.symmetric(np.random.default_rng(4), 4)
    roundabout = M.transport(third, Q, M.transport(P, third, v))
    np.testing.assert_allclose(roundabout, M.transport(P, Q, v), atol=1e-12)  # path independent
