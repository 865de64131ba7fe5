"""Stiefel: exp against SciPy's matrix exponential, the transport that never flips; rotations: their
closed forms.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import linalg

import riemdp
from riemdp.manifolds import Grassmann, SpecialOrthogonal, Stiefel, _orthonormal, check

M = Stiefel(6, 2)
GROUP = SpecialOrthogonal(4)
COUNT = 40


def points(m: Stiefel, length: float, seed: int = 0):
    p = m.random_point(seed, (COUNT,))
    v = m.tangent_normal(seed + 1, p, 1.0)
    v = length * v / m.norm(p, v)[:, None, None]
    return p, v, m.exp(p, v)


def textbook_exp(w: np.ndarray, u: np.ndarray) -> np.ndarray:
    r = w.shape[1]
    a, s = w.T @ u, u.T @ u
    block = linalg.expm(np.block([[a, -s], [np.eye(r), a]]))
    return np.hstack([w, u]) @ block[:, :r] @ linalg.expm(-a)


# -----------------------------------------------------------------------------
# general r
@pytest.mark.parametrize("length", [1e-12, 1e-3, 1.0, 10.0])
def test_exp_agrees_with_the_textbook_formula_by_scipy(length):
    p, v, q = points(M, length)
    for i in range(0, COUNT, 5):
        expected = textbook_exp(p[i], v[i])
        np.testing.assert_allclose(q[i], expected, atol=1e-13)
        if length < 1e-2:
            np.testing.assert_allclose(
                q[i] - p[i], v[i] - 0.5 * p[i] @ v[i].T @ v[i], atol=1e-15 + length**3
            )
    assert np.max(np.abs(np.swapaxes(q, -1, -2) @ q - np.eye(2))) < 1e-14


def test_exp_for_long_and_for_endless_velocities():
    p, v, _ = points(M, 1.0)
    far = M.exp(p, 500.0 * v)
    assert np.all(M.belongs(far, 1e-13))
    np.testing.assert_allclose(far[0], textbook_exp(p[0], 500.0 * v[0]), atol=1e-10)
    # beyond the stated range: NaN, not a wrong point
    assert np.all(np.isnan(M.exp(p, 1e9 * v)))


def test_geodesics_solve_their_equation():
    """The acceleration in R^(m x r) is normal: W'' = -W (W'^T W'), by second differences."""
    p, v, _ = points(M, 1.0)
    h = 1e-3
    a = (M.exp(p, (0.7 + h) * v) - 2.0 * M.exp(p, 0.7 * v) + M.exp(p, (0.7 - h) * v)) / h**2
    w = M.exp(p, 0.7 * v)
    d = (M.exp(p, (0.7 + h) * v) - M.exp(p, (0.7 - h) * v)) / (2 * h)
    np.testing.assert_allclose(a, -w @ (np.swapaxes(d, -1, -2) @ d), atol=1e-5)


def test_transport_is_an_isometry_that_never_flips_along_a_loop():
    """Along a closed path in small steps q moves and comes back: the transported vector returns to
    itself exactly.
    """
    p, v, _ = points(M, 0.9)
    u, w, side = (M.tangent_normal(k, p) for k in (4, 5, 6))
    side = 0.8 * side / M.norm(p, side)[:, None, None]
    steps = np.linspace(0.0, 2.0 * np.pi, 61)
    path = np.stack([np.asarray(M.exp(p, np.cos(t) * v + np.sin(t) * side)) for t in steps])
    moved = np.asarray(M.transport(p, path, u))
    np.testing.assert_allclose(moved[0], moved[-1], atol=1e-12)
    turn = np.max(
        np.linalg.norm(moved[1:] - moved[:-1], axis=(-2, -1))
        / np.linalg.norm(moved[1:], axis=(-2, -1))
    )
    assert turn < 0.5  # a flipped column would be a jump of order 1; a step of the path is 0.1 long
    products = M.inner(path, moved, M.transport(p, path, w))
    np.testing.assert_allclose(products, np.tile(M.inner(p, u, w), (61, 1)), rtol=1e-12, atol=1e-12)
    assert np.all(M.is_tangent(path, moved, 1e-12))
    np.testing.assert_allclose(M.transport(p, p, u), u, atol=1e-13)


def test_transport_on_horizontal_vectors_is_that_of_the_subspaces():
    g = Grassmann(6, 2)
    p, _, q = points(M, 0.8)
    u = g.tangent_normal(3, p)
    np.testing.assert_allclose(
        g.transport(p, q, u), g.to_tangent(q, M.transport(p, q, u)), atol=1e-12
    )


@functools.partial(jax.jit, static_argnums=0)
def _slope_at_zero(f, p, v):
    return jax.jvp(functools.partial(f, p), (jnp.zeros_like(v),), (v,))[1]


def test_retract_and_its_derivative_are_finite_where_singular_values_coincide():
    p, v, _ = points(M, 1.0)
    y = np.asarray(M.retract(p, v))
    for i in range(0, COUNT, 10):
        np.testing.assert_allclose(y[i], linalg.polar(np.asarray(p[i] + v[i]))[0], atol=1e-13)
    for f in (M._retract, M._exp):
        slope = _slope_at_zero(f, p, v)
        np.testing.assert_allclose(slope, v, atol=1e-14)
    projected = jax.jit(jax.jacfwd(M._project))(2.0 * np.eye(6, 2))
    assert np.all(np.isfinite(projected))


def test_curvature_stays_within_its_bounds():
    """Gauss equation K = <II(X, X), II(Y, Y)> - |II(X, Y)|^2 of the embedding, on random
    orthonormal pairs.
    """
    low, high = M.curvature_bounds
    w = np.asarray(M.origin)
    x, y = (np.array(M.tangent_normal(k, w, shape=(2000,))) for k in (1, 2))
    x /= np.linalg.norm(x, axis=(-2, -1), keepdims=True)
    y -= np.sum(x * y, axis=(-2, -1), keepdims=True) * x
    y /= np.linalg.norm(y, axis=(-2, -1), keepdims=True)

    def shape(u, v):  # second fundamental form: -W sym(U^T V)
        s = np.swapaxes(u, -1, -2) @ v
        return 0.5 * (s + np.swapaxes(s, -1, -2))

    k = np.sum(shape(x, x) * shape(y, y), axis=(-2, -1)) - np.sum(shape(x, y) ** 2, axis=(-2, -1))
    assert low <= k.min() < 0.0 < k.max() <= high


# -------------------------------------------------------------------------------------------------
# rotations
@pytest.mark.parametrize("length", [1e-9, 1.0, 4.0])
def test_square_frames_are_the_rotations(length):
    p, v, q = points(GROUP, length)
    for i in range(0, COUNT, 8):
        a = p[i].T @ v[i]
        np.testing.assert_allclose(q[i], p[i] @ linalg.expm(a), atol=1e-13)
        np.testing.assert_allclose(
            GROUP.log(p[i], q[i]),
            p[i] @ linalg.logm(p[i].T @ q[i]).real,
            atol=1e-12,
        )
    np.testing.assert_allclose(GROUP.log(p, q), v, atol=1e-14 if length < 1 else 1e-12)
    np.testing.assert_allclose(GROUP.dist(p, q), length, rtol=1e-6 if length < 1 else 1e-13)
    half = GROUP.exp(p, 0.5 * v)
    u = GROUP.tangent_normal(8, p)
    # Parallel transport of a bi-invariant metric: p B -> half-way translations on both sides.
    root = np.swapaxes(p, -1, -2) @ half
    np.testing.assert_allclose(
        GROUP.transport(p, q, u), half @ (np.swapaxes(p, -1, -2) @ u) @ root, atol=1e-12
    )


@jax.jit
def _derivatives_on_the_group(p, q):
    return jax.grad(GROUP._squared_dist)(p, q), jax.jacfwd(GROUP._log, 1)(p, q)


def test_the_group_near_its_cut_locus_and_at_repeated_angles():
    p = np.eye(4)
    for angles in [
        (np.pi - 1e-7, 0.3),
        (np.pi - 1e-10, 0.3),
        (np.pi - 1e-13, 2.6),
        (np.pi - 0.4, 0.3),
        (1.1, 1.1),
        (np.pi - 1e-9, np.pi - 1e-9),
        (np.pi - 1e-9, np.pi - 0.2),
        (np.pi, 0.0),
        (np.pi, 0.3),
        (np.pi, np.pi),
        (0.0, 0.0),
    ]:
        a = linalg.block_diag(*[np.array([[0.0, -t], [t, 0.0]]) for t in angles])
        q = linalg.block_diag(
            *[np.array([[np.cos(t), -np.sin(t)], [np.sin(t), np.cos(t)]]) for t in angles]
        )
        assert float(GROUP.dist(p, q)) == pytest.approx(np.linalg.norm(a), rel=1e-15)
        log = np.asarray(GROUP.log(p, q))
        assert np.linalg.norm(log) == pytest.approx(np.linalg.norm(a), rel=2e-15)
        np.testing.assert_allclose(GROUP.exp(p, log), q, atol=1e-13)
        if max(angles) < np.pi - 1e-11:
            np.testing.assert_allclose(log, a, atol=1e-14 + 1e-15 / (np.pi - max(angles)))
        if max(angles) < 3.0:
            gradient, slopes = _derivatives_on_the_group(p, q)
            np.testing.assert_allclose(GROUP.to_tangent(p, gradient), -2.0 * a, atol=1e-13)
            assert np.all(np.isfinite(slopes))


@pytest.mark.parametrize("k", [2, 3, 4, 5, 6])
def test_logarithms_near_half_turns_are_as_long_as_the_distance_and_end_where_they_should(k):
    """One plane turns by nearly half a turn, the others by less: as near to it as float64 tells."""
    rng, space = np.random.default_rng(k), SpecialOrthogonal(k)
    for short in [0.0, 1e-16, 1e-14, 1e-12, 1e-10, 1e-8, 1e-6, 1e-3, 0.1, 0.5]:
        angles = np.append(np.pi * (1.0 - short), rng.uniform(0.0, 2.0, size=k // 2 - 1))
        for _ in range(10):
            frame, p = (np.linalg.qr(rng.normal(size=(k, k)))[0] for _ in range(2))
            blocks = [[[np.cos(t), -np.sin(t)], [np.sin(t), np.cos(t)]] for t in angles]
            turn = linalg.block_diag(*blocks, *[1.0] * (k % 2))
            q = p @ frame @ turn @ frame.T
            log = np.asarray(space.log(p, q))
            assert np.linalg.norm(log) == pytest.approx(np.linalg.norm(angles) * 2**0.5, abs=2e-14)
            np.testing.assert_allclose(space.exp(p, log), q, atol=2e-14)
            assert bool(space.is_tangent(p, log))


@pytest.mark.parametrize("flipped", [False, True])
def test_the_length_near_half_turns_does_not_hang_on_the_direction(monkeypatch, flipped):
    """A sine of 1e-15 is lost beside one of .5, and its singular vectors may be any: the direction
    there is lost, the length is not.
    """
    rng, right = np.random.default_rng(0), _orthonormal.linalg.svd

    def wrong(a, *rest):
        u, s, vt = right(a, *rest)
        return u, s, vt.at[..., 3, :].multiply(-1.0)

    if flipped:
        monkeypatch.setattr(_orthonormal.linalg, "svd", wrong)
    near = jax.jit(lambda *parts: _orthonormal.log_near_half_turns(*parts))
    for short in [0.0, 1e-16, 1e-15, 1e-14, 1e-12]:
        angles = np.array([2.6, np.pi * (1.0 - short)])
        blocks = [[[np.cos(t), -np.sin(t)], [np.sin(t), np.cos(t)]] for t in angles]
        for _ in range(5):
            frame = np.linalg.qr(rng.normal(size=(4, 4)))[0]
            q = frame @ linalg.block_diag(*blocks) @ frame.T
            parts = (jnp.asarray(0.5 * (q + q.T)), jnp.asarray(0.5 * (q - q.T)))
            length = np.linalg.norm(np.asarray(near(*parts)))
            assert length == pytest.approx(np.linalg.norm(angles) * 2**0.5, rel=0.01)


NEAR = [0.0, 1e-16, 1e-13, 1e-9, 1e-7, 1e-3]
LIMITS = [np.arccos(-0.9), np.arccos(-0.5), np.arccos(-0.3)]


@pytest.mark.parametrize("k", [4, 5, 6, 7, 12])
def test_a_logarithm_is_as_long_as_the_distance_whatever_the_other_planes_turn_by(k):
    """The two cosines of a plane may lie on two sides of a limit, by rounding."""
    rng, space, X, lengths = np.random.default_rng(k), SpecialOrthogonal(k), [], []
    others = [t + off for t in LIMITS for off in (-1e-6, 0.0, 1e-6)]
    for short in [*NEAR, 1.0 - (LIMITS[0] + 1e-6) / np.pi]:
        for other in [*others, *(np.pi * (1.0 - s) for s in NEAR)]:
            rest = rng.choice([*others, 0.3, 2.6], size=k // 2 - 2)
            angles = np.array([np.pi * (1.0 - short), other, *rest])
            blocks = [[[np.cos(t), -np.sin(t)], [np.sin(t), np.cos(t)]] for t in angles]
            turn = linalg.block_diag(*blocks, *[1.0] * (k % 2))
            for _ in range(8):
                frame = np.linalg.qr(rng.normal(size=(k, k)))[0]
                X.append(frame @ turn @ frame.T)
                lengths.append(np.linalg.norm(angles) * 2**0.5)
    found = np.linalg.norm(np.asarray(space.log(np.eye(k), np.stack(X))), axis=(1, 2))
    np.testing.assert_allclose(found, lengths, rtol=1e-6)


def test_random_rotations_reflect_nothing():
    assert np.all(np.linalg.det(GROUP.random_point(0, (COUNT,))) > 0.0)


# -----------------------------------------------------------------------------
# sad paths


def test_bad_arrays():
    p, v, _ = points(M, 1.0)
    bad = np.array(p[0])
    bad[1, 1] = np.inf
    assert not bool(M.belongs(bad))
    assert not bool(M.belongs(1.01 * p[0]))
    assert not bool(M.is_tangent(p[0], p[0]))
    assert bool(M.is_tangent(p[0], v[0]))


@pytest.mark.slow
@pytest.mark.parametrize(
    "m",
    [
        SpecialOrthogonal(2),
        SpecialOrthogonal(4),
        SpecialOrthogonal(5),
        Stiefel(4, 1),
        Stiefel(4, 3),
    ],
    ids=str,
)
def test_every_property_holds_at_the_edges(m):
    report = check(m)
    assert report.ok, str(report)


def test_a_reflection_is_no_rotation_and_the_nearest_one_is_found() -> None:
    space, rng = SpecialOrthogonal(3), np.random.default_rng(0)
    assert space.belongs(np.eye(3))
    assert not space.belongs(-np.eye(3))
    x = rng.normal(size=(40, 3, 3))
    found = np.asarray(space.project(x))
    assert np.all(space.belongs(found))
    for given, nearest in zip(x, found, strict=True):
        u, _, vt = np.linalg.svd(given)
        sign = np.diag([1.0, 1.0, np.linalg.det(u @ vt)])
        np.testing.assert_allclose(nearest, u @ sign @ vt, atol=1e-10)
    bad = riemdp.check_records(space, [np.eye(3), -np.eye(3), np.ones((3, 3))])
    assert [record.index for record in bad] == [1, 2]
    assert "determinant -1" in bad[0].reason
    ball = riemdp.Ball(np.eye(3), 0.5)
    moved, outside = (
        np.asarray(x) for x in ball.on(space).frame.clamp_flagged(np.stack([-np.eye(3)]))
    )
    assert outside.tolist() == [True]
    np.testing.assert_array_equal(moved[0], np.eye(3))
    assert repr(space) == "SpecialOrthogonal(m=3)"
    assert space == SpecialOrthogonal(3)
    with pytest.raises(riemdp.InvalidArgument, match=r"SpecialOrthogonal\(3\)"):
        Stiefel(3, 3)
