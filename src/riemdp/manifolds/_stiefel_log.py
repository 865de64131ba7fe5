"""The logarithm of the Stiefel manifold by iteration: no closed form is known for 1 < r < m, so the
result carries a flag.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ._base import AbstractManifold


class NumericalLog(NamedTuple):
    """What `Stiefel.log_numerical` found, one entry for each pair of the batch.

    Attributes:
        value: The tangent vector v at p, shape (*batch, m, r). It is that of the last iterate where
            the iteration did not converge.
        residual: Frobenius norm of q - exp(p, v), computed, not estimated.
        converged: Whether residual <= tolerance: v is then the velocity of *a* geodesic from p to
            q.
        shortest: Whether it converged and |v| < pi, the injectivity radius: v is then the one
            logarithm, and |v| is the distance.
        steps: Iterations taken, rejected trial steps included.
    """

    value: Float[Array, "*batch m r"]
    residual: Float[Array, "*batch"]
    converged: Bool[Array, "*batch"]
    shortest: Bool[Array, "*batch"]
    steps: Int[Array, "*batch"]


@functools.partial(jax.jit, static_argnums=0)
def log_numerical(
    manifold: AbstractManifold, p: Array, q: Array, tolerance: float, max_steps: int
) -> NumericalLog:
    """Levenberg-Marquardt on q - exp(p, v) in orthonormal coordinates of v, with exact derivatives
    of exp.

    A trial step counts only if it brings the end of the geodesic nearer to q, so the residual never
    grows; near the solution the damping vanishes and convergence is quadratic.
    """
    batch = jnp.broadcast_shapes(p.shape[:-2], q.shape[:-2])
    ps = jnp.broadcast_to(p, batch + manifold.shape).reshape(-1, *manifold.shape)
    qs = jnp.broadcast_to(q, batch + manifold.shape).reshape(-1, *manifold.shape)
    value, residual, steps = jax.vmap(lambda a, b: _solve(manifold, a, b, tolerance, max_steps))(
        ps, qs
    )
    value = value.reshape(batch + manifold.shape)
    residual, steps = residual.reshape(batch), steps.reshape(batch)
    converged = residual <= tolerance
    length = manifold._norm(jnp.broadcast_to(p, value.shape), value)
    return NumericalLog(value, residual, converged, converged & (length < jnp.pi), steps)


def _solve(
    manifold: AbstractManifold, p: Array, q: Array, tolerance: float, max_steps: int
) -> tuple[Array, Array, Array]:
    def gap(c: Array) -> Array:
        return (manifold._exp_coordinates(p, c) - q).ravel()

    def size(e: Array) -> Array:
        return jnp.sqrt(jnp.sum(e * e))

    def unfinished(state: tuple[Array, ...]) -> Array:
        _, e, _, step = state
        return (size(e) > tolerance) & (step < max_steps)

    def improve(state: tuple[Array, ...]) -> tuple[Array, ...]:
        c, e, damping, step = state
        jacobian = jax.jacfwd(gap)(c)
        normal = jacobian.T @ jacobian + damping * jnp.eye(manifold.dim)
        trial = c - jnp.linalg.solve(normal, jacobian.T @ e)
        e_trial = gap(trial)
        better = size(e_trial) < size(e)
        damping = jnp.where(better, 0.1 * damping, 10.0 * damping)
        return (
            jnp.where(better, trial, c),
            jnp.where(better, e_trial, e),
            jnp.maximum(damping, 1e-14),
            step + 1,
        )

    start = manifold._to_coordinates(p, manifold._to_tangent(p, q - p))
    state = (start, gap(start), jnp.asarray(1e-3), jnp.asarray(0))
    c, e, _, steps = jax.lax.while_loop(unfinished, improve, state)
    return manifold._from_coordinates(p, c), size(e), steps
