"""Sphere, hyperboloid and Poincare ball against pymanopt and geomstats (the `conformance`
dependency group).

Where a peer is known to differ on purpose or to be wrong, the test says so instead of following it.
"""

from __future__ import annotations

import os
import warnings

import jax
import numpy as np
import pytest

from riemdp.manifolds import Lorentz, PoincareBall, Sphere

pytestmark = pytest.mark.conformance
os.environ.setdefault("GEOMSTATS_BACKEND", "numpy")

SPACES = [Sphere(4), Lorentz(4), PoincareBall(3)]
IDS = ["sphere", "lorentz", "poincare"]
# of peers whose formulas lose a few digits (arccos and arccosh distances) at distances of order 1
TOLERANCE = 1e-12


@pytest.fixture(scope="module", params=SPACES, ids=IDS)
def drawn(request: pytest.FixtureRequest):
    """Points, other points, and two tangent vectors at each of the first, of norms up to 1.5."""
    space, rng = request.param, np.random.default_rng(11)
    p = space.random_point(jax.random.key(11), (5,))
    c = rng.standard_normal((3, 5, space.dim))
    c *= rng.uniform(0.15, 1.5, (3, 5, 1)) / np.linalg.norm(c, axis=-1, keepdims=True)
    u, v, w = (space.from_coordinates(p, y) for y in c)
    return space, *(np.asarray(x) for x in (p, space.exp(p, v), u, w))


def _geomstats(m):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        hyperbolic = pytest.importorskip("geomstats.geometry.hyperboloid")
        from geomstats.geometry.hypersphere import Hypersphere
        from geomstats.geometry.poincare_ball import PoincareBall as Ball

    return {
        "Sphere": lambda: Hypersphere(3),
        "Lorentz": lambda: hyperbolic.Hyperboloid(3),
        "PoincareBall": lambda: Ball(3),
    }[type(m).__name__]().metric


def test_geomstats_exp_log_dist_inner(drawn) -> None:
    m, p, q, u, v = drawn
    peer = _geomstats(m)
    np.testing.assert_allclose(
        m.exp(p, v), peer.exp(v, base_point=p), atol=TOLERANCE, rtol=TOLERANCE
    )
    np.testing.assert_allclose(
        m.log(p, q), peer.log(q, base_point=p), atol=TOLERANCE, rtol=TOLERANCE
    )
    np.testing.assert_allclose(m.dist(p, q), peer.dist(p, q), rtol=TOLERANCE)
    np.testing.assert_allclose(
        m.inner(p, u, v), peer.inner_product(u, v, base_point=p), rtol=TOLERANCE, atol=TOLERANCE
    )


def test_geomstats_parallel_transport(drawn) -> None:
    m, p, q, u, _ = drawn
    if isinstance(m, PoincareBall):
        pytest.skip("geomstats offers a pole ladder there, not a formula; `check` runs one")
    moved = _geomstats(m).parallel_transport(u, base_point=p, direction=m.log(p, q))
    np.testing.assert_allclose(m.transport(p, q, u), moved, atol=1e-11, rtol=1e-11)


def test_pymanopt_exp_log_dist(drawn) -> None:
    m, p, q, u, v = drawn
    manifolds = pytest.importorskip("pymanopt.manifolds")
    if isinstance(m, Lorentz):
        pytest.skip("pymanopt has no hyperboloid")
    peer = manifolds.Sphere(4) if isinstance(m, Sphere) else manifolds.PoincareBall(3)
    found = [np.asarray(x) for x in (m.exp(p, v), m.log(p, q), m.dist(p, q), m.inner(p, u, v))]
    for i in range(len(p)):
        np.testing.assert_allclose(found[0][i], peer.exp(p[i], v[i]), atol=TOLERANCE)
        np.testing.assert_allclose(found[1][i], peer.log(p[i], q[i]), atol=TOLERANCE)
        np.testing.assert_allclose(found[2][i], peer.dist(p[i], q[i]), rtol=TOLERANCE)
        np.testing.assert_allclose(
            found[3][i], peer.inner_product(p[i], u[i], v[i]), atol=TOLERANCE
        )


def test_pymanopt_gradient_conversion(drawn) -> None:
    m, p, _, u, _ = drawn
    manifolds = pytest.importorskip("pymanopt.manifolds")
    if isinstance(m, Lorentz):
        pytest.skip("pymanopt has no hyperboloid")
    peer = manifolds.Sphere(4) if isinstance(m, Sphere) else manifolds.PoincareBall(3)
    g = np.asarray(jax.random.normal(jax.random.key(0), u.shape))
    found = np.asarray(m.egrad_to_rgrad(p, g))
    for i in range(len(p)):
        np.testing.assert_allclose(
            found[i], peer.euclidean_to_riemannian_gradient(p[i], g[i]), atol=TOLERANCE
        )
