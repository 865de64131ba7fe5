"""Iterations for the Frechet mean: Newton on hyperbolic spaces, safeguarded gradient steps where
nothing better is known.

F(p) = 1/2 sum w_i d(p, x_i)^2 has gradient -G(p), G = sum w_i log_p x_i; |G| is the residual
everywhere in this module.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._programs import compiled
from ..domains._clamp import choose
from ..manifolds import AbstractManifold
from ..manifolds._base import Point, Tangent
from ._newton import Found
from ._sums import weighted_sum


def newton_mean(
    manifold: AbstractManifold, X: Point, w: Array, tol: float, max_passes: int
) -> Found[Point]:
    """The mean on a space of constant curvature kappa < 0.

    There the Hessian of d(., x)^2 / 2 is 1 along log_p x and theta coth theta across it, theta =
    sqrt(-kappa) d, so Newton's equation is solved by conjugate gradients with two products with the
    matrix of logarithms a step.
    """
    value, facts = _newton_mean(manifold, X, w, tol, max_passes)
    residual, spread, passes = np.asarray(facts).tolist()
    return Found(value, residual, int(passes), spread)


class _State(NamedTuple):
    """Of Newton's method: where it looks next; the lowest residual seen, with its point and spread;
    the residual that is allowed, and where to go from the best point if it is exceeded.
    """

    passes: Array
    point: Point
    lowest: Array
    best: Point
    spread: Array
    allowed: Array
    descent: Point


@compiled(0)
def _newton_mean(
    manifold: AbstractManifold, X: Point, w: Array, tol: float | Array, max_passes: int | Array
) -> tuple[Point, Array]:
    """`damped_newton` with a step given as the point it leads to: one compiled program for all
    passes, because the call of one takes longer than a pass over a few records.
    """

    def unfinished(state: _State) -> Array:
        return (state.passes < max_passes) & ~(state.lowest <= tol)

    def look(state: _State) -> _State:
        descent, end, residual, spread = _newton_pass(manifold, state.point, X, w, tol)
        first = state.passes == 0
        lower = first | (residual < state.lowest)
        newton = first | (residual < state.allowed)
        # Where Newton overshot: back to the best point; twice as much is allowed next time.
        return _State(
            state.passes + 1,
            jnp.where(newton, end, state.descent),
            jnp.where(lower, residual, state.lowest),
            jnp.where(lower, state.point, state.best),
            jnp.where(lower, spread, state.spread),
            jnp.where(newton, residual, 2.0 * state.allowed),
            jnp.where(newton, descent, state.descent),
        )

    start, inf = mean_start(manifold, X, w), jnp.asarray(math.inf)
    zero = jnp.asarray(0)
    state = jax.lax.while_loop(
        unfinished, look, _State(zero, start, inf, start, jnp.asarray(0.0), inf, start)
    )
    return state.best, jnp.stack([state.lowest, state.spread, state.passes.astype(jnp.float64)])


@functools.partial(jax.jit, static_argnums=0)
def mean_start(manifold: AbstractManifold, X: Point, w: Array) -> Any:
    """A point to start from: the projected arithmetic mean where that means something, else the
    heaviest record.
    """
    heaviest = jax.tree.map(lambda x: x[jnp.argmax(w)], X)
    start = manifold._mean_start(w, X)
    return heaviest if start is None else choose(manifold._belongs(start, 1e-8), start, heaviest)


def gradient_mean(
    manifold: AbstractManifold, X: Point, w: Array, tol: float, max_passes: int
) -> Found[Point]:
    """The mean anywhere: p <- exp_p(a G(p)), a chosen by Barzilai and Borwein.

    With a = 1 this is the classical fixed point iteration (on Bures-Wasserstein space that of
    Alvarez-Esteban et al. 2016). The step is taken back to a smaller one whenever the residual
    grows.
    """
    p, length = mean_start(manifold, X, w), 1.0
    gradient, residual, spread = _pass(manifold, p, X, w)
    best = (float(residual), p, gradient, float(spread))
    longest, idle, passes = 1.0, 0, 1
    while passes < max_passes and best[0] > tol and idle < 30:
        p_new = manifold.exp(p, jax.tree.map(lambda g, a=length: a * g, gradient))
        gradient_new, residual, spread = _pass(manifold, p_new, X, w)
        passes += 1
        value = float(residual)
        if math.isfinite(value) and value < best[0]:
            idle = 0 if value < 0.9 * best[0] else idle + 1
            best = (value, p_new, gradient_new, float(spread))
        else:
            idle += 1
        if not math.isfinite(value) or value > 1.5 * best[0]:
            p, gradient = best[1], best[2]
            longest = length = 0.5 * min(length, longest)
            continue
        longest = min(1.2 * longest, 2.0)
        length = min(
            max(
                float(_next_length(manifold, p, p_new, gradient, gradient_new, length)),
                0.1 * longest,
            ),
            longest * 1.5,
        )
        p, gradient = p_new, gradient_new
    return Found(best[1], best[0], passes, best[3])


@functools.partial(jax.jit, static_argnums=0)
def _pass(manifold: AbstractManifold, p: Point, X: Point, w: Array) -> tuple[Any, Any, Any]:
    logs = manifold._log(p, X)
    gradient = weighted_sum(w, logs)
    distances = jnp.where(w > 0, manifold._norm(p, logs), 0.0)
    return gradient, manifold._norm(p, gradient), jnp.max(distances)


@functools.partial(jax.jit, static_argnums=0)
def _next_length(
    manifold: AbstractManifold,
    p: Point,
    q: Point,
    before: Tangent,
    after: Tangent,
    length: float | Array,
) -> Any:
    """Barzilai-Borwein length <s, y> / <y, y> with s = a G(p) and y = G(p) - G(q), both carried to
    q.
    """
    carried = manifold._transport(p, q, before)
    change = jax.tree.map(lambda a, b: a - b, carried, after)
    below = manifold._inner(q, change, change)
    ratio = length * manifold._inner(q, carried, change) / jnp.where(below > 0, below, 1.0)
    return jnp.where((below > 0) & jnp.isfinite(ratio), ratio, length)


def _newton_pass(
    manifold: AbstractManifold, p: Point, X: Point, w: Array, tol: float | Array
) -> tuple[Any, Any, Any, Any]:
    """The ends of a step that descends and of Newton's step, the residual at p, and the largest
    distance of a record that has weight.
    """
    kappa = manifold.curvature_bounds[1]
    logs = manifold._log(p, X)
    squares = manifold._inner(p, logs, logs)
    theta2 = abs(kappa) * squares
    small = theta2 < 1e-6
    theta = jnp.sqrt(jnp.where(small, 1.0, theta2))
    across = jnp.where(small, 1.0 + theta2 / 3.0, theta / jnp.tanh(theta))
    radial = w * (1.0 - across) / jnp.where(squares > 1e-300, squares, 1.0)
    isotropic = jnp.sum(w * across)
    gradient = weighted_sum(w, logs)
    size = manifold._norm(p, gradient)
    forcing = jnp.maximum(jnp.minimum(1e-2, 0.1 * size) * size, 0.1 * tol)

    def hessian(v: Tangent) -> Any:
        return isotropic * v + weighted_sum(radial * manifold._inner(p, logs, v), logs)

    def unfinished(state: tuple[Tangent, Tangent, Tangent, Array]) -> Any:
        _, r, _, count = state
        return (manifold._norm(p, r) > forcing) & (count < 30)

    def improve(state: tuple[Tangent, Tangent, Tangent, Array]) -> Any:
        s, r, d, count = state
        image = hessian(d)
        rr = manifold._inner(p, r, r)
        a = rr / manifold._inner(p, d, image)
        r_new = r - a * image
        return s + a * d, r_new, r_new + (manifold._inner(p, r_new, r_new) / rr) * d, count + 1

    step, *_ = jax.lax.while_loop(
        unfinished, improve, (jnp.zeros_like(gradient), gradient, gradient, 0)
    )
    spread = jnp.sqrt(jnp.max(jnp.where(w > 0, squares, 0.0)))
    descent = gradient / jnp.maximum(1.0, jnp.max(across))
    ends = (manifold._exp(p, v) for v in (descent, manifold._to_tangent(p, step)))
    return *ends, size, spread
