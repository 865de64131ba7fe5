"""The Poincare ball against 60-digit arithmetic, near the centre and near the rim."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from riemdp.manifolds import PoincareBall

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
    p = BALL.random_point(0, (5,))
    v = BALL.tangent_normal(1, p)
    gradients = jax.jit(jax.grad(lambda a, b: jnp.sum(BALL._exp(a, b)), (0, 1)))
    for scale in (1.0, 50.0, 1e4, 1e150):
        q = BALL.exp(p, scale * v)
        assert np.all(BALL.belongs(q))
        assert np.all(np.isfinite(BALL.dist(p, q)))
        assert all(np.all(np.isfinite(g)) for g in gradients(p, scale * v))
    assert np.all(BALL.belongs(BALL.project([[3.0, 4.0], [1e200, 0.0], [1.0, 0.0]])))
    assert not np.any(BALL.belongs([[0.6, 0.8], [1.0, 0.0], [2.0, 0.0]], atol=1.0))


def test_transport_equals_the_gyration_for_long_vectors() -> None:
    """The Mobius form needs vectors inside the ball; the library's form is linear and takes any."""
    p, q = BALL.random_point(0, (5,)), BALL.random_point(1, (5,))
    u = BALL.tangent_normal(2, p, 1.0)
    np.testing.assert_allclose(
        BALL.transport(p, q, 1e6 * u), 1e6 * BALL.transport(p, q, u), rtol=1e-12
    )
    np.testing.assert_allclose(
        BALL.norm(q, BALL.transport(p, q, 1e6 * u)), 1e6 * BALL.norm(p, u), rtol=1e-13
    )
    from_centre = BALL.transport(BALL.origin, q, u)
    np.testing.assert_allclose(
        from_centre, (1.0 - np.sum(q**2, -1, keepdims=True)) * u, rtol=1e-12, atol=1e-15
    )
