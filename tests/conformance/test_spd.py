"""The SPD spaces beside pyriemann, pymanopt and geomstats, with what is known to be wrong in them
pinned as a difference.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from riemdp.manifolds import SPDAffineInvariant, SPDBuresWasserstein, SPDLogEuclidean

pytestmark = pytest.mark.conformance

K, N = 4, 6
AFFINE, LOG_EUCLIDEAN, BURES = SPDAffineInvariant(K), SPDLogEuclidean(K), SPDBuresWasserstein(K)


def _points(seed):
    z = np.random.default_rng(seed).standard_normal((N, K, 3 * K))
    return z @ np.swapaxes(z, 1, 2) / (3 * K)


P, Q = _points(0)[0], _points(1)
V, U = (
    0.2 * (z + np.swapaxes(z, 1, 2)) for z in np.random.default_rng(2).standard_normal((2, N, K, K))
)


def _pyriemann():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        geometry = pytest.importorskip("pyriemann.geometry")
        import pyriemann.geometry.distance as distance
        import pyriemann.geometry.tangentspace as tangent
    assert geometry is not None
    return distance, tangent


@pytest.mark.parametrize(
    ("space", "name"),
    [(AFFINE, "riemann"), (LOG_EUCLIDEAN, "logeuclid"), (BURES, "wasserstein")],
    ids=["affine", "log", "bures"],
)
def test_pyriemann(space, name):
    distance, tangent = _pyriemann()
    np.testing.assert_allclose(
        space.dist(P, Q), np.ravel(getattr(distance, f"distance_{name}")(Q, P)), rtol=1e-7
    )
    # pyriemann's affine maps need Cm12/C12=True to be the exponential and logarithm at the base
    # point.
    extra = ({"Cm12": True}, {"C12": True}) if name == "riemann" else ({}, {})
    exp, log = getattr(tangent, f"exp_map_{name}"), getattr(tangent, f"log_map_{name}")
    np.testing.assert_allclose(space.exp(P, V), exp(V, P, **extra[0]), atol=1e-10)
    np.testing.assert_allclose(space.log(P, Q), log(Q, P, **extra[1]), atol=1e-10)
    if name == "riemann":
        np.testing.assert_allclose(
            space.transport(P, Q[0], V), tangent.transport_riemann(V, P, Q[0]), atol=1e-10
        )


def test_pymanopt():
    manifolds = pytest.importorskip("pymanopt.manifolds")
    peer = manifolds.SymmetricPositiveDefinite(K)
    for i in range(N):
        np.testing.assert_allclose(AFFINE.exp(P, V[i]), peer.exp(P, V[i]), atol=1e-10)
        np.testing.assert_allclose(AFFINE.log(P, Q[i]), peer.log(P, Q[i]), atol=1e-10)
        assert float(AFFINE.dist(P, Q[i])) == pytest.approx(float(peer.dist(P, Q[i])), rel=1e-10)
        assert float(AFFINE.inner(P, U[i], V[i])) == pytest.approx(
            float(peer.inner_product(P, U[i], V[i])), rel=1e-10
        )
        np.testing.assert_allclose(
            AFFINE.egrad_to_rgrad(P, V[i]),
            peer.euclidean_to_riemannian_gradient(P, V[i]),
            atol=1e-12,
        )
    # Its `transport` is the identity on arrays, which is neither parallel nor an isometry; ours is.
    moved = peer.transport(P, Q[0], V[0])
    assert abs(peer.norm(Q[0], moved) / peer.norm(P, V[0]) - 1) > 1e-3
    assert float(AFFINE.norm(Q[0], AFFINE.transport(P, Q[0], V[0]))) == pytest.approx(
        float(peer.norm(P, V[0])), rel=1e-12
    )


def test_geomstats():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spd = pytest.importorskip("geomstats.geometry.spd_matrices")
    metrics = {
        AFFINE: spd.SPDAffineMetric,
        LOG_EUCLIDEAN: spd.SPDLogEuclideanMetric,
        BURES: spd.SPDBuresWassersteinMetric,
    }
    for space, metric in metrics.items():
        domain = spd.SPDMatrices(K, equip=False)
        domain.equip_with_metric(metric)
        peer = domain.metric
        small = 0.3 * V
        np.testing.assert_allclose(
            space.inner(P, U, V), peer.inner_product(U, V, base_point=P), rtol=1e-8, atol=1e-10
        )
        np.testing.assert_allclose(space.exp(P, small), peer.exp(small, base_point=P), atol=1e-8)
        np.testing.assert_allclose(space.log(P, Q), peer.log(Q, base_point=P), atol=1e-8)
        np.testing.assert_allclose(space.squared_dist(P, Q), peer.squared_dist(P, Q), rtol=1e-7)
