"""Affine-invariant SPD matrices: derivatives where eigenvalues repeat, curvature, bad input."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from riemdp import InvalidArgument
from riemdp.manifolds import SPDAffineInvariant, SPDBuresWasserstein, SPDLogEuclidean, spd

from . import spd_oracles as oracle

M = SPDAffineInvariant(4)
RNG = np.random.default_rng(0)
P, Q = oracle.spd_matrix(RNG, 4), oracle.spd_matrix(RNG, 4)


@pytest.mark.parametrize(("space", "metric"), [(M, 1.0), (SPDBuresWasserstein(4), 0.25)], ids=str)
def test_derivatives_are_finite_at_equal_points_and_repeated_eigenvalues(space, metric):
    eye = jnp.eye(4)
    functions = [
        lambda p: space.squared_dist(p, eye),
        lambda p: space.dist(p, eye),
        lambda p: jnp.sum(space.log(p, 2.0 * eye) * P),
        lambda p: jnp.sum(space.exp(p, 0.1 * eye) * P),
        lambda p: jnp.sum(space.transport(p, 2.0 * eye, P) * Q),
        lambda p: space.log_volume_density(p, 0.1 * eye),
        lambda p: space.norm(p, 0.0 * eye),
    ]
    for gradient in jax.jit(lambda p: [jax.grad(f)(p) for f in functions])(eye):
        assert np.isfinite(gradient).all()
    hessian = jax.jit(jax.hessian(lambda p: space.squared_dist(p, eye)))(eye)
    # At p = q = I the Hessian of the squared distance is twice the metric.
    np.testing.assert_allclose(np.einsum("ijkl,kl->ij", hessian, P), 2 * metric * P, atol=1e-13)


def test_curvature_is_between_minus_one_half_and_zero_and_both_are_attained():
    rng = np.random.default_rng(1)
    basis = np.linalg.qr(rng.standard_normal((40, M.dim, 2)))[0]
    random = oracle.sectional_curvature(M, P, basis[..., 0], basis[..., 1])
    assert random.min() > -0.5 - 1e-4
    assert random.max() < 1e-4
    x, y, z = np.zeros((3, M.dim))
    x[0], x[1], y[4], z[0], z[1] = (
        0.5**0.5,
        -(0.5**0.5),
        1.0,
        0.5**0.5,
        0.5**0.5,
    )  # (E11 - E22)/sqrt2, E12, (E11 + E22)/sqrt2
    found = oracle.sectional_curvature(M, P, np.stack([x, x]), np.stack([y, z]))
    np.testing.assert_allclose(found, [-0.5, 0.0], atol=1e-4)
    assert M.curvature_bounds == (-0.5, 0.0)
    assert SPDAffineInvariant(1).curvature_bounds == (0.0, 0.0)


@pytest.mark.parametrize(
    "space", [M, SPDLogEuclidean(4), SPDBuresWasserstein(4)], ids=lambda m: type(m).__name__
)
def test_points_vectors_and_bad_input(space):
    bad = np.stack(
        [
            P,
            P + 1e-3 * np.triu(np.ones((4, 4)), 1),
            P - np.eye(4),
            np.full((4, 4), np.nan),
            P + np.inf,
            0 * P,
        ]
    )
    np.testing.assert_array_equal(space.belongs(bad), [True] + [False] * 5)
    np.testing.assert_array_equal(space.is_tangent(P, bad), [True, False, True, False, False, True])
    projected = space.project(bad[:3])
    assert np.all(space.belongs(projected))
    np.testing.assert_array_equal(projected[0], P)
    np.testing.assert_array_equal(space.project(projected), projected)
    huge = -50.0 * np.asarray(projected[1])
    assert bool(space.belongs(space.retract(P, huge)))
    # A slight asymmetry of the input is removed, not amplified.
    skew = 1e-14 * np.triu(np.ones((4, 4)), 1)
    np.testing.assert_allclose(space.log(P + skew, Q - skew), space.log(P, Q), atol=1e-11)
    np.testing.assert_array_equal(space.exp(P + skew, Q), np.swapaxes(space.exp(P + skew, Q), 0, 1))
    with pytest.raises(InvalidArgument, match="`q` has shape"):
        space.dist(P, Q[:3, :3])
    with pytest.raises(InvalidArgument, match=r"`k` = 0"):
        type(space)(0)


def test_factory_names_and_unknown_metric():
    assert spd(3) == spd(3, "riemann") == SPDAffineInvariant(3)
    assert spd(3, "log-euclidean") == spd(3, "logeuclid") == SPDLogEuclidean(3)
    assert spd(3, "bures-wasserstein") == spd(3, "wasserstein") == SPDBuresWasserstein(3)
    with pytest.raises(InvalidArgument, match=r"`metric` = 'log-cholesky'.*'affine-invariant'"):
        spd(3, "log-cholesky")
    with pytest.raises(InvalidArgument, match=r"`k` = 2.5"):
        spd(2.5)  # type: ignore[arg-type]
