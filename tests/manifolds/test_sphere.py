"""The unit sphere: nearly antipodal points, frames, and second derivatives."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from riemdp.manifolds import Sphere

from .oracles import ORACLES, scaled, worst_errors

SPHERE = Sphere(4)
ULP = 2.0**-52


@pytest.mark.parametrize("gap", [1e-3, 1e-6, 1e-8])
def test_near_the_cut_locus(gap: float) -> None:
    errors = worst_errors(SPHERE, ORACLES["sphere"], scaled(SPHERE, np.pi - gap))
    conditioned = {name: errors.pop(name) for name in ("transport", "log_volume_density")}
    assert max(errors.values()) < 10 * ULP, errors
    assert max(conditioned.values()) < 10 * ULP / gap, (
        conditioned
    )  # the data are only known to 1 ulp


def test_at_the_cut_locus_everything_is_finite() -> None:
    p = np.concatenate([np.eye(4), -np.eye(4)])
    v = SPHERE.log(p, -p)
    np.testing.assert_allclose(SPHERE.norm(p, v), np.pi, rtol=1e-15)
    assert np.all(SPHERE.is_tangent(p, v))
    assert np.all(SPHERE.dist(p, -p) == np.pi)
    u = SPHERE.tangent_normal(0, p)
    np.testing.assert_allclose(
        SPHERE.norm(-p, SPHERE.transport(p, -p, u)), SPHERE.norm(p, u), rtol=1e-15
    )

    def total(a: jax.Array, b: jax.Array) -> jax.Array:
        return jnp.sum(SPHERE._dist(a, b) + SPHERE._squared_dist(a, b)) + jnp.sum(SPHERE._log(a, b))

    for gradient in jax.jit(jax.grad(total, argnums=(0, 1)))(p, -p):
        assert np.all(np.isfinite(gradient))


def test_frames_are_exact_where_the_pole_would_be_singular() -> None:
    p = SPHERE.project(
        np.array(
            [
                [1.0, 0, 0, 0],
                [-1.0, 0, 0, 0],
                [-1.0, 1e-9, 0, 0],
                [0.0, 1, 0, 0],
                [-1e-300, 0, 1, 0],
            ]
        )
    )
    frame = SPHERE.from_coordinates(p[:, None], np.eye(3))
    gram = np.einsum("nik,njk->nij", frame, frame)
    np.testing.assert_allclose(gram, np.broadcast_to(np.eye(3), gram.shape), atol=4 * ULP)
    np.testing.assert_allclose(np.einsum("nik,nk->ni", frame, p), 0.0, atol=4 * ULP)


def test_long_walks_stay_on_the_sphere() -> None:
    p, v = SPHERE.random_point(0, (5,)), None
    v = 37.0 * SPHERE.tangent_normal(1, p)
    for _ in range(200):
        q = SPHERE.exp(p, v)
        p, v = q, SPHERE.to_tangent(q, v)
    np.testing.assert_allclose(np.linalg.norm(p, axis=-1), 1.0, atol=2 * ULP)


def test_project_keeps_huge_tiny_and_zero_vectors_finite() -> None:
    x = np.array([[1e200, 1e200, 0, 0], [1e-200, 0, 0, 0], [0.0, 0, 0, 0], [3.0, 4, 0, 0]])
    expected = [[0.5**0.5, 0.5**0.5, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0], [0.6, 0.8, 0, 0]]
    np.testing.assert_allclose(SPHERE.project(x), expected, rtol=1e-15)
    assert not bool(SPHERE.belongs(np.array([1.0, 1e-3, 0, 0])))
    assert bool(SPHERE.belongs(np.array([1.0, 1e-3, 0, 0]), atol=1e-5))


def test_second_derivatives_at_equal_points() -> None:
    """Half the Hessian of d^2(., q) at q is the projection on the tangent space."""
    p = SPHERE.random_point(3)
    hessian = jax.jit(jax.hessian(lambda x: 0.5 * SPHERE._squared_dist(x, p)))(p)
    tangent = np.eye(4) - np.outer(p, p)
    np.testing.assert_allclose(tangent @ hessian @ tangent, tangent, atol=1e-14)


def test_transport_to_the_opposite_point_is_along_the_logarithm() -> None:
    """At cb83de5 it left vectors as they were: along no geodesic, and not that of `log`."""
    space = Sphere(4)
    rng = np.random.default_rng(5)
    p = rng.normal(size=(6, 4))
    p /= np.linalg.norm(p, axis=1, keepdims=True)
    p = np.concatenate([p, np.eye(4), -np.eye(4)])
    v = np.asarray(space.to_tangent(p, rng.normal(size=p.shape)))
    u = np.asarray(space.log(p, -p))
    carried = np.asarray(space.transport(p, -p, v))
    for step in (0.25, 0.5):  # short of the opposite point, along the same geodesic
        half = np.asarray(space.exp(p, step * u))
        there = np.asarray(space.transport(half, -p, space.transport(p, half, v)))
        np.testing.assert_allclose(carried, there, atol=1e-12)
    end = np.asarray(space.transport(p, -p, u))  # the velocity there, which is that of a circle
    np.testing.assert_allclose(end, -u, atol=1e-12)
