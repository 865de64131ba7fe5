"""Bures-Wasserstein SPD matrices: the transport, the domain of exp, and curvature."""

from __future__ import annotations

import numpy as np
import pytest

from riemdp.manifolds import SPDBuresWasserstein

from . import spd_oracles as oracle

M = SPDBuresWasserstein(4)
RNG = np.random.default_rng(0)
P, Q = oracle.spd_matrix(RNG, 4), oracle.spd_matrix(RNG, 4)
V, U = oracle.symmetric(RNG, 4), oracle.symmetric(RNG, 4)


def test_metric_at_the_identity_is_a_quarter_of_the_trace():
    # Utpala2023 writes tr(L U) without the factor 1/2, which would give tr(U V)/2.
    assert float(M.inner(np.eye(4), U, V)) == pytest.approx(np.trace(U @ V) / 4, rel=1e-14)


def test_transport_is_an_isometry_without_sign_flips():
    """Continuity where eigenvalues of q cross: an eigenvector frame would jump, the spectral root
    does not.
    """
    angle = np.linspace(0.0, np.pi, 9)
    path = []
    for a in angle:
        turn = np.eye(4)
        turn[:2, :2] = [[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]]
        path.append(turn @ np.diag([1.0 + 1e-7, 1.0, 2.0, 3.0]) @ turn.T)
    moved = np.asarray(M.transport(P, np.stack(path), V))
    assert np.max(np.abs(moved - moved[0])) < 1e-6
    assert float(M.inner(Q, M.transport(P, Q, U), M.transport(P, Q, V))) == pytest.approx(
        float(M.inner(P, U, V)), rel=1e-12
    )
    assert not M.transport_is_parallel


def test_exponential_outside_its_domain():
    inside, outside, edge = 0.5 * P, -3.0 * P, -2.0 * P  # L = v/(2p): 1/4, -3/2, -1
    np.testing.assert_array_equal(
        M.in_exp_domain(P, np.stack([inside, outside, edge])), [True, False, False]
    )
    np.testing.assert_allclose(
        M.exp(P, outside), 0.25 * P, atol=1e-14
    )  # the formula, reflected through the boundary
    assert bool(M.belongs(M.exp(P, outside)))
    assert np.linalg.eigvalsh(np.asarray(M.exp(P, edge)))[-1] < 1e-15  # singular, as documented
    assert np.all(M.belongs(M.retract(P, np.stack([inside, outside, edge]))))


def test_curvature_lies_between_zero_and_the_bound_which_is_attained():
    """At diag(l) a plane within the block of the two smallest eigenvalues attains 3/(l_1 + l_2)
    (searched numerically).
    """
    p = np.diag([0.5, 0.9, 2.0, 3.0])
    rng = np.random.default_rng(1)
    basis = np.linalg.qr(rng.standard_normal((400, M.dim, 2)))[0]
    found = oracle.sectional_curvature(M, p, basis[..., 0], basis[..., 1])
    bound = M._curvature_in_ball(p, 0.0)
    assert bound == pytest.approx(3 / 1.4, rel=1e-14)
    assert found.min() > -1e-3
    assert found.max() < bound
    # Planes within the block of the two smallest eigenvalues: coordinates 0, 1 (diagonal) and 4
    # (entry 12).
    angle = np.linspace(0, np.pi, 40, endpoint=False)
    x, y = np.zeros((2, 40, M.dim))
    x[:, 0], x[:, 1], y[:, 4] = np.cos(angle), np.sin(angle), 1.0
    assert oracle.sectional_curvature(M, p, x, y).max() == pytest.approx(bound, rel=5e-3)


def test_curvature_bound_in_a_ball_holds_at_its_points():
    bound = M._curvature_in_ball(np.eye(4), 0.3)
    assert bound == pytest.approx(3 / (2**0.5 - 0.3) ** 2, rel=1e-14)
    z = np.random.default_rng(3).standard_normal((200, M.dim))
    far = M.exp(
        np.eye(4), M.from_coordinates(np.eye(4), 0.3 * z / np.linalg.norm(z, axis=1, keepdims=True))
    )
    assert max(M._curvature_in_ball(p, 0.0) for p in far) <= bound
    assert M._curvature_in_ball(np.eye(4), 1.5) == np.inf
    assert float(M.injectivity_radius(np.diag([0.25, 1.0, 1.0, 2.0]))) == pytest.approx(
        0.5, rel=1e-14
    )
    assert M.curvature_bounds == (0.0, np.inf)
