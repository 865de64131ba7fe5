"""Bures-Wasserstein SPD matrices: both transports, the domain of exp, and curvature."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from riemdp import ConvergenceWarning, InvalidArgument
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


def test_parallel_transport_solves_its_equation():
    v, u = (
        M.parallel_transport(P, Q, V, tolerance=1e-11),
        M.parallel_transport(P, Q, U, tolerance=1e-11),
    )
    assert float(M.inner(Q, u, v)) == pytest.approx(float(M.inner(P, U, V)), rel=1e-9)
    np.testing.assert_allclose(
        M.parallel_transport(P, Q, M.log(P, Q)), -M.log(Q, P), atol=1e-9
    )  # velocity of the geodesic
    np.testing.assert_allclose(
        M.parallel_transport(Q, P, v, tolerance=1e-11), V, atol=1e-8
    )  # and back
    # A pole ladder (geodesic reflections, third order in the rung) knows nothing of the equation.
    rungs, h = 32, 1e-3
    points = [M.exp(P, t * M.log(P, Q)) for t in np.linspace(0, 1, 2 * rungs + 1)]
    w = V
    for i in range(rungs):
        start, middle, end = points[2 * i : 2 * i + 3]

        def reflected(x, start=start, middle=middle, end=end):
            tip = M.exp(start, x)
            opposite = M.exp(middle, -M.log(middle, tip))
            return -M.log(end, opposite)

        w = (reflected(h * w) - reflected(-h * w)) / (2 * h)
    np.testing.assert_allclose(w, v, atol=2e-3 * np.max(np.abs(v)))
    assert (
        float(M.norm(Q, M.transport(P, Q, V) - v)) > 0.05
    )  # the cheap isometry is something else ...
    a, b = np.diag([1.0, 2.0, 3.0, 4.0]), np.diag([2.0, 0.5, 1.0, 3.0])
    # ... unless the points commute.
    np.testing.assert_allclose(
        M.transport(a, b, V), M.parallel_transport(a, b, V, tolerance=1e-12), atol=1e-11
    )


def test_parallel_transport_says_when_it_did_not_converge():
    with pytest.warns(ConvergenceWarning, match="16 steps"):
        M.parallel_transport(P, Q, V, tolerance=1e-15, max_steps=16)
    with pytest.raises(InvalidArgument, match="`tolerance` = 0"):
        M.parallel_transport(P, Q, V, tolerance=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        M.parallel_transport(P, P, V)


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
    bound = float(M.curvature_upper_bound(p))
    assert bound == pytest.approx(3 / 1.4, rel=1e-14)
    assert found.min() > -1e-3
    assert found.max() < bound
    # Planes within the block of the two smallest eigenvalues: coordinates 0, 1 (diagonal) and 4
    # (entry 12).
    angle = np.linspace(0, np.pi, 40, endpoint=False)
    x, y = np.zeros((2, 40, M.dim))
    x[:, 0], x[:, 1], y[:, 4] = np.cos(angle), np.sin(angle), 1.0
    assert oracle.sectional_curvature(M, p, x, y).max() == pytest.approx(bound, rel=5e-3)


def test_curvature_bound_in_a_ball_holds_at_its_points_and_is_refused_beyond():
    bound = M.curvature_upper_bound_in_ball(np.eye(4), 0.15)
    assert bound == pytest.approx(3 / (2 * 0.7**2), rel=1e-14)
    z = np.random.default_rng(3).standard_normal((200, M.dim))
    far = M.exp(
        np.eye(4), M.from_coordinates(np.eye(4), 0.3 * z / np.linalg.norm(z, axis=1, keepdims=True))
    )
    assert np.max(M.curvature_upper_bound(far)) <= bound
    for radius in (0.5, 0.3):
        with pytest.raises(InvalidArgument, match=r"`radius`.*give a smaller"):
            M.curvature_upper_bound_in_ball(np.eye(4), radius)
    with pytest.raises(InvalidArgument, match="`center`"):
        M.curvature_upper_bound_in_ball(-np.eye(4), 0.1)
    assert float(M.injectivity_radius(np.diag([0.25, 1.0, 1.0, 2.0]))) == pytest.approx(
        0.5, rel=1e-14
    )
    assert M.curvature_bounds == (0.0, np.inf)
