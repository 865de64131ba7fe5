"""The Frechet mean of records that are read in parts, on spaces of constant curvature K (spheres,
lines, hyperbolic spaces): Newton's method with the Hessian of all records, which a pass gives
beside the mean logarithm.

A record at distance t in the direction u, |u| = 1, has the logarithm t u and the Hessian u u^T + b
(I - u u^T), b = x cot x with x = sqrt(K) t, or x coth x with x = sqrt(-K) t. So the mean Hessian is
(mean b) I + mean (1 - b) u u^T: one matrix of second moments, and nothing is approximated.

The last step needs no pass after it where a bound of the residual says so. Take |K| = 1, a geodesic
of unit speed v, a = <u, v> and v_ = v - a u. Along it t' = -a and u' = -(b / t) v_, whence a' =
-(b / t) |v_|^2, v_' = (b / t) (|v_|^2 u + a v_), and the Hessian times v, a u + b v_, has the
derivative

    -A |v_|^2 u - (A + b') a v_,    A = (b / t) (1 - b) = b' + K t,    b' = db/dt,

which is at most max(|A|, |A + b'|) long, because |v_|^2 + a^2 = 1. With c = b - 1:

- K = -1: b'' = 2 c / sinh^2 t, and c = sum_k 2 t^2 / (t^2 + k^2 pi^2) lies between 0 and t^2 / 3,
  which is at most sinh^2 t / 3. So 0 <= b'' <= 2/3 and 0 <= b' <= 2 t / 3: A = b' - t lies between
  -t and -t / 3, and A + b' = 2 b' - t between -t and t / 3.
- K = 1: b'' = 2 c / sin^2 t has a power series with negative coefficients only, the first -2/3,
  because c has and 1 / sin^2 t has positive ones. So A + b' = 2 b' + t is -t / 3 and more such
  terms. It is concave, and -pi / 2 at t = pi / 2, whence it lies between -t and 0 up to there; and
  A, the mean of it and t, between 0 and t / 2.

So in all of a hyperbolic space, and up to a right angle on a sphere, the second derivative of a
record's gradient along a geodesic of unit speed is at most t (for any K |K| t). After a step S the
residual is at most |G - H S| + |K| (t + |S|) |S|^2 / 2, with t a bound of the distances before it:
the radius of the ball and the distance of its centre.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..domains._stream import Part, weighted_pairwise
from ..manifolds import AbstractManifold
from ..manifolds._base import Point
from ._look import MOST, AbstractLook, solved
from ._newton import View

_SERIES = 1e-4  # squares of x up to which three terms of a series give the Hessian


def suits(manifold: AbstractManifold) -> bool:
    """Whether `ConstantLook` is for this space."""
    lowest, highest = (float(k) for k in manifold.curvature_bounds)
    return lowest == highest != 0.0 and manifold.dim <= MOST


class ConstantLook(AbstractLook[AbstractManifold]):
    """Looks at points of the ball."""

    def __init__(self, manifold: AbstractManifold, center: Point, radius: float):
        self.manifold, self.center, self.radius = manifold, center, radius
        self._curvature = float(manifold.curvature_bounds[0])
        self._spread = math.inf

    def part(self, point: Point) -> Part:
        self._spread = self.radius + float(self.manifold.dist(self.center, point))
        return functools.partial(_sums, self.manifold, point)

    def view(self, means: Any) -> View[np.ndarray]:
        gradient, across, second = means
        curvature, spread = self._curvature, self._spread
        # of any record the ball may hold
        flattest, steepest = sorted((1.0, hessian_across(curvature, spread)))

        def newton() -> tuple[np.ndarray, float]:
            hessian = second + float(across) * np.eye(len(second))
            step = solved(hessian, gradient, flattest)
            left = float(np.linalg.norm(gradient - hessian @ step))
            return step, residual_after(step, left, curvature, spread)

        residual = float(np.linalg.norm(gradient))
        return View(residual, spread, gradient / steepest, newton)


def hessian_across(curvature: float, distance: float) -> float:
    """b of a record at this distance; minus infinity beyond a right angle, where it is negative."""
    x = math.sqrt(abs(curvature)) * distance
    if x < 1e-8:
        return 1.0
    if curvature < 0.0:
        return x / math.tanh(x)
    return x / math.tan(x) if x < 0.5 * math.pi else -math.inf


def residual_after(step: np.ndarray, left: float, curvature: float, spread: float) -> float:
    """Bound of the residual after a step that leaves `left` of Newton's equation, for records
    within `spread` of where it starts; infinite where none is known.
    """
    length = float(np.linalg.norm(step))
    farthest = spread + length
    if curvature > 0.0 and not math.sqrt(curvature) * farthest < 0.5 * math.pi:
        return math.inf
    return left + 0.5 * abs(curvature) * farthest * length**2


def _sums(
    manifold: AbstractManifold, point: Point, records: Point, _: Any, weights: Array
) -> tuple[Array, ...]:
    return _compiled_sums(manifold, point, records, weights)


@functools.partial(jax.jit, static_argnums=0)
def _compiled_sums(
    manifold: AbstractManifold, point: Point, records: Point, weights: Array
) -> tuple[Array, ...]:
    """Weighted sums of logarithms, in coordinates at `point`, of b, and of (1 - b) u u^T."""
    curvature = float(manifold.curvature_bounds[0])
    logs = manifold._log_coordinates(point, records)
    none = weights == 0.0  # what has no weight may be anything
    logs = jnp.where(none[:, None], 0.0, logs)
    squares = jnp.sum(logs**2, axis=1)
    x2 = abs(curvature) * squares
    small = x2 < _SERIES
    x = jnp.sqrt(jnp.where(small, 1.0, x2))
    b = x / (jnp.tan(x) if curvature > 0.0 else jnp.tanh(x))
    # (1 - b) / t^2, by its series where the quotient is rounded
    signed = curvature * squares
    near = curvature * (1.0 / 3.0 + signed * (1.0 / 45.0 + signed * (2.0 / 945.0)))
    ratio = jnp.where(small, near, (1.0 - b) / jnp.where(small, 1.0, squares))
    across = jnp.where(small, 1.0 - near * squares, b)
    gradient, total = weighted_pairwise((logs, across), weights)
    return gradient, total, logs.T @ ((weights * ratio)[:, None] * logs)
