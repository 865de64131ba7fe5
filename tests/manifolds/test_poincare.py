"""The Poincare ball: steps of any length, and transport of long vectors."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from riemdp.manifolds import PoincareBall

BALL = PoincareBall(2)


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
