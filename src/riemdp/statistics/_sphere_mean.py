"""Frechet mean on a sphere: Newton's method with matrix-vector products only, no array of
logarithms.

At p the records have cosines c_i = <p, x_i> and logarithms a_i (x_i - c_i p), a = theta / sin
theta, so the mean logarithm is X^T (w a) without its part along p. The Hessian of F is 1 along each
logarithm and b = theta cot theta = a c across it: H v = (sum w b) v + X^T (r <x_i, v>) without its
part along p, r = w (1 - b) / sin(theta)^2.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from ..domains._frame import BLOCK
from ._newton import Found, View, conjugate_gradients, damped_newton
from ._sums import pairwise

# smallest b used: beyond a right angle the true one is negative, this keeps a descent direction
FLATTEST = 0.05


def sphere_mean(
    X: ArrayLike, w: ArrayLike, start: ArrayLike, tol: float, max_passes: int
) -> Found[np.ndarray]:
    """The mean of unit vectors X (n, d) with weights w (n,) summing to 1."""
    X, w = np.asarray(X), np.asarray(w)

    def look(p: np.ndarray) -> View[np.ndarray]:
        cosines = np.clip(X @ p, -1.0, 1.0)
        stretch = _angle_over_sine(cosines)
        gradient = _across(p, _combined(w * stretch, X))
        size = float(np.linalg.norm(gradient))
        spread = float(np.arccos(np.min(np.where(w > 0, cosines, 1.0))))

        def newton() -> tuple[np.ndarray, float]:
            across = np.maximum(stretch * cosines, FLATTEST)
            sine2 = np.maximum(1.0 - cosines**2, 1e-300)
            # (1 - theta cot theta) / sin^2 -> 1/3 at theta = 0, where the quotient is 0/0
            ratio = np.where(sine2 > 1e-6, (1.0 - across) / sine2, 1.0 / 3.0)
            isotropic = float(w @ across)

            def hessian(v: np.ndarray) -> np.ndarray:
                return isotropic * v + _across(p, _combined(w * ratio * (X @ v), X))

            target = max(min(1e-2, 0.1 * size) * size, 0.1 * tol)
            step, _ = conjugate_gradients(hessian, gradient, target, most=30)
            return _across(p, step), math.inf

        # No Hessian exceeds 1, so the gradient step always descends.
        return View(size, spread, gradient, newton)

    return damped_newton(look, _move, np.asarray(start), tol, max_passes)


def _combined(w: np.ndarray, X: np.ndarray) -> np.ndarray:
    """w @ X, in blocks of a fixed size, so that the rounding error has a public bound."""
    if len(w) <= BLOCK:
        return w @ X
    cuts = range(0, len(w), BLOCK)
    return pairwise([w[i : i + BLOCK] @ X[i : i + BLOCK] for i in cuts])


def _angle_over_sine(cosines: np.ndarray) -> np.ndarray:
    """theta / sin theta from cos theta; at t = 1 - cos near 0 by its series, which has no
    cancellation.
    """
    t = 1.0 - cosines
    near = t < 1e-4
    safe = np.where(near, 0.5, cosines)
    sine = np.sqrt(np.maximum((1.0 - safe) * (1.0 + safe), 1e-30))
    return np.where(
        near, 1.0 + t * (1.0 / 3.0 + t * (2.0 / 15.0 + t * 2.0 / 35.0)), np.arccos(safe) / sine
    )


def _across(p: np.ndarray, v: np.ndarray) -> np.ndarray:
    v = v - (p @ v) * p
    return v - (p @ v) * p  # twice: the part along p is large, and its rounding error would stay


def _move(p: np.ndarray, v: np.ndarray) -> np.ndarray:
    length = float(np.linalg.norm(v))
    moved = math.cos(length) * p + (math.sin(length) / length if length > 0 else 1.0) * v
    return moved / np.linalg.norm(moved)
