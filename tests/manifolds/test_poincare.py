"""The Poincare ball against 60-digit arithmetic, near the centre and near the rim."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from riemdp import InvalidArgument
from riemdp.manifolds import PoincareBall

from ..statistical import ALPHA, gaussian_p_value
from .oracles import ORACLES, both_far, ordinary, scaled, worst_errors

BALL = PoincareBall(2)
ULP = 2.0**-52


@pytest.mark.parametrize("length", [1e-12, 1e-5, 1.0])
def test_every_operation_to_sixteen_digits(length: float) -> None:
    assert max(worst_errors(BALL, ORACLES["poincare"], scaled(BALL, length)).values()) < 50 * ULP


def test_ordinary_points() -> None:
    assert max(worst_errors(BALL, ORACLES["poincare"], ordinary(BALL, 3.0)).values()) < 50 * ULP


@pytest.mark.parametrize("distance", [5.0, 10.0, 16.0])
def test_far_points_lose_no_more_than_their_coordinates_do(distance: float) -> None:
    errors = worst_errors(BALL, ORACLES["poincare"], both_far(BALL, distance))
    assert max(errors.values()) < 10 * ULP * np.exp(distance), errors


def test_results_stay_inside_whatever_the_step() -> None:
    p = BALL.random_point(jax.random.key(0), (5,))
    v = BALL.tangent_normal(jax.random.key(1), p)
    for scale in (1.0, 50.0, 1e4, 1e150):
        q = BALL.exp(p, scale * v)
        assert bool(jnp.all(BALL.belongs(q)))
        assert bool(jnp.all(jnp.isfinite(BALL.dist(p, q))))
        assert all(
            bool(jnp.all(jnp.isfinite(g)))
            for g in jax.grad(lambda a, b: jnp.sum(BALL.exp(a, b)), (0, 1))(p, scale * v)
        )
    assert bool(
        jnp.all(BALL.belongs(BALL.project(np.array([[3.0, 4.0], [1e200, 0.0], [1.0, 0.0]]))))
    )
    assert not bool(jnp.any(BALL.belongs(np.array([[0.6, 0.8], [1.0, 0.0], [2.0, 0.0]]), atol=1.0)))


def test_transport_equals_the_gyration_for_long_vectors() -> None:
    """The Mobius form needs vectors inside the ball; the library's form is linear and takes any."""
    p, q = BALL.random_point(jax.random.key(0), (5,)), BALL.random_point(jax.random.key(1), (5,))
    u = BALL.tangent_normal(jax.random.key(2), p, 1.0)
    np.testing.assert_allclose(
        BALL.transport(p, q, 1e6 * u), 1e6 * BALL.transport(p, q, u), rtol=1e-12
    )
    np.testing.assert_allclose(
        BALL.norm(q, BALL.transport(p, q, 1e6 * u)), 1e6 * BALL.norm(p, u), rtol=1e-13
    )
    from_centre = BALL.transport(BALL.origin, q, u)
    np.testing.assert_allclose(
        from_centre, (1.0 - jnp.sum(q**2, -1, keepdims=True)) * u, rtol=1e-12, atol=1e-15
    )


def test_tangent_noise_is_gaussian_and_the_published_factors_are_not() -> None:
    p = jnp.array([0.5, -0.6])
    v = np.asarray(BALL.tangent_normal(jax.random.key(5), p, 0.7, (20_000,)))
    assert gaussian_p_value(np.asarray(BALL.to_coordinates(p, v)), 0.7) > ALPHA
    assert gaussian_p_value(np.asarray(BALL.to_coordinates(p, 0.8 * v)), 0.7) < ALPHA
    a = 0.7 * np.random.default_rng(0).standard_normal((20_000, 2))
    gap = 1.0 - float(jnp.sum(p**2))
    assert gaussian_p_value(np.asarray(BALL.to_coordinates(p, a * gap / 2.0)), 0.7) > ALPHA
    assert (
        gaussian_p_value(np.asarray(BALL.to_coordinates(p, a * gap / 4.0)), 0.7) < ALPHA
    )  # Utpala2023: a / 4
    assert (
        gaussian_p_value(np.asarray(BALL.to_coordinates(p, a * gap**0.5 / 2.0)), 0.7) < ALPHA
    )  # metric without the square


@pytest.mark.parametrize("n", [0, -1, 1.0])
def test_bad_dimension(n: object) -> None:
    with pytest.raises(InvalidArgument, match="`n`"):
        PoincareBall(n)  # pyright: ignore[reportArgumentType]
