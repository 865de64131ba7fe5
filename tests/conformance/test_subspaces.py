"""Stiefel and Grassmann beside pymanopt and geomstats."""

from __future__ import annotations

import warnings

import jax
import numpy as np
import pytest

from riemdp.manifolds import Grassmann, SpecialOrthogonal, Stiefel

pytestmark = pytest.mark.conformance

M, R, N = 6, 2, 10
STIEFEL, GRASSMANN = Stiefel(M, R), Grassmann(M, R)


def _sample(manifold, length=1.2):
    keys = jax.random.split(jax.random.key(0), 3)
    p = manifold.random_point(keys[0], (N,))
    v, u = (manifold.tangent_normal(k, p) for k in keys[1:])
    v = length * v / manifold.norm(p, v)[:, None, None]
    return tuple(np.asarray(x) for x in (p, v, manifold.exp(p, v), u))


def _pymanopt(name):
    manifolds = pytest.importorskip(
        "pymanopt.manifolds", reason="pymanopt is not installed (group `conformance`)"
    )
    return getattr(manifolds, name)(M, R)


def _geomstats(module, name, **options):
    pytest.importorskip("geomstats", reason="geomstats is not installed (group `conformance`)")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = __import__(f"geomstats.geometry.{module}", fromlist=[name])
        except Exception as error:  # its NumPy bound may not fit ours
            pytest.skip(f"geomstats cannot be imported beside this NumPy: {error}")
    return getattr(found, name)(**options)


def test_stiefel_agrees_with_pymanopt():
    peer = _pymanopt("Stiefel")
    p, v, q, u = _sample(STIEFEL)
    for i in range(N):
        np.testing.assert_allclose(q[i], peer.exp(p[i], v[i]), atol=1e-12)
        np.testing.assert_allclose(
            STIEFEL.inner(p[i], u[i], v[i]), peer.inner_product(p[i], u[i], v[i]), atol=1e-12
        )
        x = np.random.default_rng(i).standard_normal((M, R))
        np.testing.assert_allclose(
            STIEFEL.to_tangent(p[i], x), peer.projection(p[i], x), atol=1e-13
        )
        np.testing.assert_allclose(
            STIEFEL.egrad_to_rgrad(p[i], x),
            peer.euclidean_to_riemannian_gradient(p[i], x),
            atol=1e-13,
        )
    assert peer.dim == STIEFEL.dim


def test_grassmann_agrees_with_pymanopt():
    peer = _pymanopt("Grassmann")
    p, v, q, _ = _sample(GRASSMANN)
    for i in range(N):
        theirs = peer.exp(p[i], v[i])
        np.testing.assert_allclose(q[i] @ q[i].T, theirs @ theirs.T, atol=1e-12)
        np.testing.assert_allclose(
            GRASSMANN.dist(p[i], q[i]), peer.dist(p[i], q[i]), atol=1e-7
        )  # theirs is an arccos
        np.testing.assert_allclose(GRASSMANN.log(p[i], q[i]), peer.log(p[i], q[i]), atol=1e-11)
    assert peer.dim == GRASSMANN.dim


def test_grassmann_agrees_with_geomstats_on_projectors():
    peer = _geomstats("grassmannian", "Grassmannian", n=M, p=R)
    p, v, q, u = _sample(GRASSMANN, length=0.8)
    moved = np.asarray(GRASSMANN.transport(p, q, u))
    for i in range(N):
        at, to = p[i] @ p[i].T, q[i] @ q[i].T
        lift, lifted_u = (x @ p[i].T + p[i] @ x.T for x in (v[i], u[i]))
        np.testing.assert_allclose(peer.metric.exp(lift, at), to, atol=1e-10)
        np.testing.assert_allclose(peer.metric.log(to, at), lift, atol=1e-8)
        carried = peer.metric.parallel_transport(lifted_u, at, direction=lift)
        np.testing.assert_allclose(carried, moved[i] @ q[i].T + q[i] @ moved[i].T, atol=1e-9)


def test_rotations_agree_with_pymanopt():
    """Whose tangent vectors are skew: p^T v of ours."""
    manifolds = pytest.importorskip("pymanopt.manifolds", reason="group `conformance`")
    space, peer = SpecialOrthogonal(4), manifolds.SpecialOrthogonalGroup(4)
    p, v, q, _ = _sample(space)
    for i in range(N):
        turn = p[i].T @ v[i]
        np.testing.assert_allclose(q[i], peer.exp(p[i], turn), atol=1e-12)
        np.testing.assert_allclose(p[i].T @ space.log(p[i], q[i]), turn, atol=1e-12)
        np.testing.assert_allclose(space.dist(p[i], q[i]), peer.dist(p[i], q[i]), atol=1e-12)
