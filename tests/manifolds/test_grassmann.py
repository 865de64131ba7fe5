"""Grassmann: subspaces are told apart and frames are not, derivatives are finite at ties, angles
are right up to pi/2.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from scipy import linalg

from riemdp.manifolds import Grassmann, check

M = Grassmann(6, 2)
WIDE = Grassmann(5, 3)  # r > m - r: one principal angle is always 0
COUNT = 40


def points(m: Grassmann, seed: int = 0, spread: float = 0.6):
    """Base points, tangent vectors whose largest principal angle is below pi/2, and the points they
    lead to.
    """
    p = m.random_point(seed, (COUNT,))
    v = m.tangent_normal(seed + 1, p, 1.0)
    v = spread * v / np.linalg.norm(v, axis=(-2, -1), ord=2)[:, None, None]
    return p, v, m.exp(p, v)


def rotations(r: int, seed: int = 5) -> np.ndarray:
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((COUNT, r, r)))[0]


@pytest.mark.parametrize("m", [M, WIDE], ids=str)
def test_operations_agree_with_scipy_and_the_textbook(m):
    p, v, q = points(m)
    u = m.tangent_normal(9, p)
    moved, distance, log = m.transport(p, q, u), m.dist(p, q), m.log(p, q)
    for i in range(0, COUNT, 8):
        a, s, bt = np.linalg.svd(v[i], full_matrices=False)
        end = p[i] @ bt.T @ np.diag(np.cos(s)) @ bt + a @ np.diag(np.sin(s)) @ bt
        np.testing.assert_allclose(q[i], end, atol=1e-13)
        np.testing.assert_allclose(
            distance[i], np.linalg.norm(linalg.subspace_angles(p[i], q[i])), rtol=1e-13
        )
        np.testing.assert_allclose(log[i], v[i], atol=1e-13)
        along = (
            (-p[i] @ bt.T @ np.diag(np.sin(s)) + a @ np.diag(np.cos(s))) @ a.T @ u[i]
            + u[i]
            - a @ a.T @ u[i]
        )
        np.testing.assert_allclose(moved[i], along, atol=1e-13)


def test_the_representative_does_not_matter():
    p, _, q = points(M)
    o, o2 = rotations(M.r), rotations(M.r, 6)
    np.testing.assert_allclose(M.dist(p @ o, q @ o2), M.dist(p, q), rtol=1e-13)
    np.testing.assert_allclose(M.log(p @ o, q @ o2), M.log(p, q) @ o, atol=1e-13)
    u = M.tangent_normal(2, p)
    np.testing.assert_allclose(
        M.transport(p @ o, q @ o2, u @ o), M.transport(p, q, u) @ o2, atol=1e-13
    )
    np.testing.assert_allclose(M.exp(p @ o, u @ o), M.exp(p, u) @ o, atol=1e-13)


def test_one_subspace_in_two_frames_is_at_distance_exactly_zero():
    p, v, _ = points(M)
    for q in (p, p @ rotations(M.r)):
        assert np.all(np.asarray(M.dist(p, q)) == 0.0)
        assert np.all(np.asarray(M.log(p, q)) == 0.0)
    slightly_off = p * (
        1.0 + 1e-9
    )  # a frame in single precision, say: still at distance 0 from itself
    assert np.all(np.asarray(M.dist(slightly_off, slightly_off)) == 0.0)
    near = M.exp(p, 1e-12 * v) @ rotations(M.r)
    np.testing.assert_allclose(
        M.dist(p, near), 1e-12 * M.norm(p, v), rtol=2e-3
    )  # frames carry 1e-16: not one bit more


ANGLES = [
    (np.pi / 2 - 1e-6, 0.3),
    (np.pi / 2 - 1e-12, 1e-9),
    (np.pi / 2, 0.2),
    (1.0, 1.0),
    (1.0, 1e-12),
    (0.0, 0.0),
    (1e-5, 1e-5),
]


def with_angles(angles):
    """A frame p, orthonormal directions, and the frame at the given principal angles from p."""
    basis = np.linalg.qr(np.random.default_rng(1).standard_normal((6, 4)))[0]
    p, a = basis[:, :2], basis[:, 2:]
    turn = linalg.expm(np.array([[0.0, 0.7], [-0.7, 0.0]]))
    p = p @ turn
    q = (p @ np.diag(np.cos(angles)) + a @ np.diag(np.sin(angles))) @ turn
    return p, a, q


@pytest.mark.parametrize("angles", ANGLES, ids=str)
def test_distance_and_gradient_at_ties_and_at_the_cut_locus(angles):
    p, a, q = with_angles(angles)
    assert float(M.dist(p, q)) == pytest.approx(np.linalg.norm(angles), rel=1e-14, abs=1e-15)
    gradient = _gradient(p, q)
    assert np.all(np.isfinite(gradient))
    np.testing.assert_allclose(M.to_tangent(p, gradient), -2.0 * M.log(p, q), atol=1e-12)
    log = np.array(M.log(p, q))
    assert float(M.dist(M.exp(p, log), q)) < 1e-9
    log[:, 0] *= (
        np.sign(log[:, 0] @ a[:, 0]) if angles[0] == np.pi / 2 else 1.0
    )  # two geodesics are shortest there
    np.testing.assert_allclose(log, a @ np.diag(angles), atol=1e-9)
    slopes = _log_derivative(p, q)
    assert all(np.all(np.isfinite(x)) for x in slopes)


@jax.jit
def _gradient(p, q):
    return jax.grad(M._squared_dist)(p, q)


@jax.jit
def _log_derivative(p, q):
    return jax.jacfwd(M._log, (0, 1))(p, q)


@jax.jit
def _slope_of_exp(p, v, d):
    return jax.jvp(lambda x: M._exp(p, x), (v,), (d,))[1]


@jax.jit
def _slope_of_log(p, q, e):
    return jax.jvp(lambda x: M._log(p, x), (q,), (e,))[1]


@pytest.mark.parametrize("angles", [(0.0, 0.0), (0.6, 0.6), (1.2, 1e-9)], ids=str)
def test_derivatives_of_exp_and_log_agree_with_differences(angles):
    p, a, q = with_angles(angles)
    v = a @ np.diag(angles)
    z = np.random.default_rng(3).standard_normal((2, 6, 2))
    d, e = M.to_tangent(p, z[0]), M.to_tangent(q, z[1])
    h = 1e-5
    expected = (M.exp(p, v + h * d) - M.exp(p, v - h * d)) / (2 * h)
    np.testing.assert_allclose(_slope_of_exp(p, v, d), expected, atol=1e-8)
    expected = (M.log(p, M.exp(q, h * e)) - M.log(p, M.exp(q, -h * e))) / (2 * h)
    np.testing.assert_allclose(_slope_of_log(p, q, e), expected, atol=1e-8)


def test_second_derivative_of_squared_distance_at_the_point_itself_is_twice_the_metric():
    p, _, q = with_angles((0.6, 0.6))

    @jax.jit
    def hessian(p, q):
        return jax.hessian(lambda c: M._squared_dist(M._exp(p, M._from_coordinates(p, c)), q))(
            jnp.zeros(M.dim)
        )

    np.testing.assert_allclose(hessian(p, p), 2.0 * np.eye(M.dim), atol=1e-12)
    # In the planes of curvature 0 and K: 2 and 2 t cot t with t = sqrt(K) d, and for equal angles K
    # = 2 along (1, 1).
    values = np.linalg.eigvalsh(hessian(p, q))
    assert np.all(np.isfinite(values))
    assert values[-1] == pytest.approx(2.0, abs=1e-9)
    assert values[0] == pytest.approx(2.0 * 1.2 / np.tan(1.2), abs=1e-9)


def test_accuracy_against_60_digits():
    p, _, q = with_angles((np.pi / 2 - 1e-7, 1e-3))
    with mpmath.workdps(60):
        c = mpmath.matrix(p.tolist()).T * mpmath.matrix(q.tolist())
        pp, qq = (mpmath.matrix(x.tolist()).T * mpmath.matrix(x.tolist()) for x in (p, q))
        # Gram matrices make it exact for the spans of frames that are orthonormal to 1e-16 only.
        cosines = mpmath.eig(pp**-1 * c * qq**-1 * c.T)[0]
        expected = mpmath.sqrt(sum(mpmath.acos(mpmath.sqrt(mpmath.re(x))) ** 2 for x in cosines))
    assert float(M.dist(p, q)) == pytest.approx(float(expected), rel=1e-15)


def test_large_velocities_stay_orthonormal_and_follow_the_geodesic():
    p, v, _ = points(M)
    far = M.exp(p, 200.0 * v)
    assert np.all(M.belongs(far, 1e-14))
    a, s, bt = np.linalg.svd(200.0 * np.asarray(v), full_matrices=False)
    b = np.swapaxes(bt, -1, -2)
    end = np.asarray(p) @ (b * np.cos(s)[:, None, :]) @ bt + (a * np.sin(s)[:, None, :]) @ bt
    np.testing.assert_allclose(far, end, atol=1e-11)
    # beyond the stated range: NaN, not a wrong point
    assert np.all(np.isnan(M.exp(p, 1e6 * v)))


def test_volume_density_is_the_jacobian_also_when_subspaces_are_large():
    report = check(WIDE, properties=["volume_density"], radius=1.2)
    assert report.ok, str(report)
    # Near the cut locus of lines it is (dim - 1) log sinc.
    lines = Grassmann(5, 1)
    v = lines.from_coordinates(lines.origin, np.array([1.5, 0.0, 0.0, 0.0]))
    assert float(lines.log_volume_density(lines.origin, v)) == pytest.approx(
        3 * np.log(np.sin(1.5) / 1.5), rel=1e-14
    )


def test_curvature_bounds_are_attained_and_not_exceeded():
    """Sectional curvature of horizontal X, Y at the origin: (|X^T Y - Y^T X|^2 + |X Y^T - Y X^T|^2)
    / 2 for orthonormal X, Y.
    """
    assert Grassmann(6, 2).curvature_bounds == (0.0, 2.0)
    assert Grassmann(5, 4).curvature_bounds == Grassmann(5, 1).curvature_bounds == (1.0, 1.0)

    def curvature(x, y):
        return 0.5 * (np.sum((x.T @ y - y.T @ x) ** 2) + np.sum((x @ y.T - y @ x.T) ** 2))

    rng = np.random.default_rng(0)
    seen = []
    for _ in range(300):
        x, y = rng.standard_normal((2, 4, 2))
        x /= np.linalg.norm(x)
        y -= np.sum(x * y) * x
        seen.append(curvature(x, y / np.linalg.norm(y)))
    assert min(seen) >= 0.0
    assert max(seen) <= 2.0
    x, y = np.zeros((2, 4, 2))
    x[0, 0] = x[1, 1] = y[0, 1] = np.sqrt(0.5)
    y[1, 0] = -np.sqrt(0.5)
    assert curvature(x, y) == pytest.approx(2.0)
