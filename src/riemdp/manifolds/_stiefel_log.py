"""The logarithm of the Stiefel manifold by iteration: no closed form is known for 1 < r < m, so the
result carries a flag.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .. import _linalg as linalg
from .._namespace import namespace
from ._orthonormal import expm1, frobenius, skew
from ._spectral import transpose

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

    from .._namespace import Array
    from ._base import AbstractManifold

NUMBERS = 2**22  # in the matrices whose exponentials are found at a time
DAMPING, LEAST = 1e-3, 1e-14  # at the start, and at most as little as this


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


def log_numerical(
    manifold: AbstractManifold, p: Array, q: Array, tolerance: float, max_steps: int
) -> NumericalLog:
    """Levenberg-Marquardt on q - exp(p, v) in orthonormal coordinates of v, with exact derivatives
    of exp, on the host.

    A trial step counts only if it brings the end of the geodesic nearer to q, so the residual never
    grows; near the solution the damping vanishes and convergence is quadratic.
    """
    xp = namespace(p, q)
    p, q = np.asarray(p), np.asarray(q)
    batch = np.broadcast_shapes(p.shape[:-2], q.shape[:-2])
    ps = np.broadcast_to(p, batch + manifold.shape).reshape(-1, *manifold.shape)
    qs = np.broadcast_to(q, batch + manifold.shape).reshape(-1, *manifold.shape)
    value, residual, steps = _solved(manifold, ps, qs, tolerance, max_steps)
    value = value.reshape(batch + manifold.shape)
    residual, steps = residual.reshape(batch), steps.reshape(batch)
    converged = residual <= tolerance
    length = manifold._norm(np.broadcast_to(p, value.shape), value)
    found = (value, residual, converged, converged & (length < math.pi), steps)
    return NumericalLog(*map(xp.asarray, found))


def _solved(
    manifold: AbstractManifold, ps: Array, qs: Array, tolerance: float, max_steps: int
) -> tuple[Array, Array, Array]:
    """Of each pair by itself, some at a time: what a pair gives depends on no other."""
    rows = max(1, NUMBERS // (manifold.dim * (4 * ps.shape[-1]) ** 2))
    parts = [slice(i, i + rows) for i in range(0, max(1, len(ps)), rows)]
    found = [_improved(manifold, ps[part], qs[part], tolerance, max_steps) for part in parts]
    value, residual, steps = (np.concatenate(each) for each in zip(*found, strict=True))
    return value, residual, steps


def _improved(
    manifold: AbstractManifold, p: Array, q: Array, tolerance: float, max_steps: int
) -> tuple[Array, Array, Array]:
    d = manifold.dim
    basis: Any = manifold._from_coordinates(p[:, None], np.eye(d))
    c: Any = manifold._to_coordinates(p, manifold._to_tangent(p, q - p))
    gap = manifold._exp_coordinates(p, c) - q
    size, damping = np.sqrt(frobenius(gap, gap)), np.full(len(p), DAMPING)
    steps = np.zeros(len(p), dtype=np.int64)
    for step in range(max_steps):
        (open_,) = np.nonzero(size > tolerance)
        if not open_.size:
            break
        at, seen, frame, old = p[open_], q[open_], basis[open_], c[open_]
        v = manifold._from_coordinates(at, old)
        slopes = slopes_of_exp(at, v, frame).reshape(len(open_), d, -1)
        square = slopes @ transpose(slopes) + damping[open_, None, None] * np.eye(d)
        pulled = slopes @ gap[open_].reshape(len(open_), -1, 1)
        trial = old - linalg.solve(square, pulled)[..., 0]
        new = manifold._exp_coordinates(at, trial) - seen
        length = np.sqrt(frobenius(new, new))
        better = length < size[open_]
        c[open_] = np.where(better[:, None], trial, old)
        gap[open_] = np.where(better[:, None, None], new, gap[open_])
        size[open_] = np.where(better, length, size[open_])
        damping[open_] *= np.where(better, 0.1, 10.0)
        damping = np.maximum(damping, LEAST)
        steps[open_] = step + 1
    return manifold._from_coordinates(p, c), size, steps


def slopes_of_exp(p: Array, v: Array, h: Array) -> Array:
    """The derivatives of exp(p, .) at v (n, m, r) along tangent vectors h (n, d, m, r).

    The derivative of a matrix exponential is a block of a larger one: that of [[X, H], [0, X]].
    """
    r = p.shape[-1]
    p, v = p[:, None], v[:, None]
    a, da = skew(transpose(p) @ v), skew(transpose(p) @ h)
    dg = -(transpose(v) @ h + transpose(h) @ v)
    eye, zero = np.broadcast_to(np.eye(r), a.shape), np.zeros_like(da)
    x = _blocks(a, -(transpose(v) @ v), eye, a)
    dx = _blocks(da, dg, zero, da)
    y, dy = _exponential(x, dx)
    turn, d_turn = _exponential(-a, -da)
    end = p + p @ y[..., :r, :r] + v @ y[..., r:, :r]
    change = p @ dy[..., :r, :r] + v @ dy[..., r:, :r] + h @ y[..., r:, :r]
    return change + change @ turn + end @ d_turn


def _exponential(x: Array, dx: Array) -> tuple[Array, Array]:
    """expm(x) - I of x (n, 1, k, k), and its derivatives along dx (n, d, k, k)."""
    k = x.shape[-1]
    x = np.broadcast_to(x, dx.shape)
    both = expm1(_blocks(x, dx, np.zeros_like(dx), x))
    return both[..., :1, :k, :k], both[..., :k, k:]


def _blocks(a: Array, b: Array, c: Array, d: Array) -> Array:
    upper, lower = np.concatenate([a, b], axis=-1), np.concatenate([c, d], axis=-1)
    return np.concatenate([upper, lower], axis=-2)
