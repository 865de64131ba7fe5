"""Log-Euclidean SPD matrices against SciPy, 60-digit arithmetic, finite differences and planted
faults.
"""

from __future__ import annotations

import numpy as np
import pytest

from riemdp.manifolds import SPDLogEuclidean

from ..statistical import ALPHA, gaussian_p_value
from . import spd_oracles as oracle

M = SPDLogEuclidean(4)
RNG = np.random.default_rng(0)
P, Q = oracle.spd_matrix(RNG, 4), oracle.spd_matrix(RNG, 4)


def test_operations_agree_with_scipy():
    oracle.compare_with_scipy(M, oracle.LogEuclidean)


@pytest.mark.parametrize(("condition", "bound"), [(10.0, 1e-12), (1e8, 1e-7)])
def test_accuracy_against_60_digits(condition, bound):
    errors = oracle.relative_errors(M, "log-euclidean", condition)
    assert max(errors.values()) < bound, errors


def test_subtracting_logarithms_would_fail_for_close_points():
    """The planted twin of the accuracy test: plain log q - log p at a distance of 1e-12."""
    rng = np.random.default_rng(6)
    a = oracle.spd_matrix(rng, 4, 10.0)
    x = np.asarray(M.exp(a, 1e-12 * a))

    def logm(w):
        values, q = np.linalg.eigh(w)
        return (q * np.log(values)) @ q.T

    exact = oracle.exact_dist("log-euclidean", a, x)
    assert abs(np.linalg.norm(logm(x) - logm(a)) / exact - 1) > 1e-5
    assert abs(float(M.dist(a, x)) / exact - 1) < 1e-12


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


def test_tangent_normal_is_isotropic_and_published_faults_are_rejected():
    n = 20_000
    coordinates = np.asarray(M.to_coordinates(P, M.tangent_normal(0, P, 0.7, (n,))))
    assert gaussian_p_value(coordinates, 0.7) > ALPHA
    assert gaussian_p_value(0.8 * coordinates, 0.7) < ALPHA
    # By hand: D exp at log P multiplies entries in the eigenbasis by (a - b)/(log a - log b).
    # Utpala2023 prints the reciprocal.
    z = np.random.default_rng(2).standard_normal((n, 4, 4))
    s = (z + np.swapaxes(z, 1, 2)) / 2
    values, q = np.linalg.eigh(P)
    gap = values[:, None] - values[None] + np.eye(4)
    kernel = np.where(
        np.eye(4) > 0, values, gap / (np.log(values)[:, None] - np.log(values)[None] + np.eye(4))
    )
    right, published = (
        np.asarray(M.to_coordinates(P, q @ (k * s) @ q.T)) for k in (kernel, 1 / kernel)
    )
    assert gaussian_p_value(right, 1.0) > ALPHA
    assert gaussian_p_value(published, 1.0) < ALPHA
    # The same oracle draw fed through the library must be the library's own vector.
    c = np.concatenate(
        [np.diagonal(s, axis1=1, axis2=2), 2**0.5 * s[:, *np.triu_indices(4, 1)]], axis=1
    )
    ours = M.tangent_from_normals(P, c)
    assert gaussian_p_value(np.asarray(M.to_coordinates(P, ours)), 1.0) > ALPHA
