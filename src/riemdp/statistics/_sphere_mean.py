"""Frechet mean on a sphere: Newton's method with matrix-vector products only, no array of
logarithms.

At p the records have cosines c_i = <p, x_i> and logarithms a_i (x_i - c_i p), a = theta / sin
theta, so the mean logarithm is X^T (w a) without its part along p. The Hessian of F is 1 along each
logarithm and b = theta cot theta = a c across it: H v = (sum w b) v + X^T (r <x_i, v>) without its
part along p, r = w (1 - b) / sin(theta)^2.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

# smallest b used: beyond a right angle the true one is negative, this keeps a descent direction
FLATTEST = 0.05


def sphere_mean(
    X: Any, w: Any, start: Any, tol: float, max_passes: int
) -> tuple[np.ndarray, float, int, float]:
    """(mean, residual, passes, largest distance) of unit vectors X (n, d) with weights w (n,)
    summing to 1.
    """
    X, w, p = np.asarray(X), np.asarray(w), np.asarray(start)
    best: tuple[float, np.ndarray, np.ndarray, float] | None = None
    for passes in range(1, max_passes + 1):
        cosines = np.clip(X @ p, -1.0, 1.0)
        stretch = _angle_over_sine(cosines)
        gradient = _across(p, (w * stretch) @ X)
        residual = float(np.linalg.norm(gradient))
        spread = float(np.arccos(np.min(np.where(w > 0, cosines, 1.0))))
        if residual <= tol:
            return p, residual, passes, spread
        if best is None or residual < best[0]:
            best = (residual, p, gradient, spread)
            p = _move(p, _newton_step(X, w, p, cosines, stretch, gradient, tol))
        # overshot: go back and take the gradient step, which always descends as no Hessian exceeds
        # 1
        else:
            residual, p, gradient, spread = best
            best = (2.0 * residual, p, gradient, spread)
            p = _move(p, gradient)
    assert best is not None
    cosines = np.clip(X @ best[1], -1.0, 1.0)
    residual = float(np.linalg.norm(_across(best[1], (w * _angle_over_sine(cosines)) @ X)))
    return best[1], residual, max_passes, best[3]


def _newton_step(
    X: np.ndarray,
    w: np.ndarray,
    p: np.ndarray,
    cosines: np.ndarray,
    stretch: np.ndarray,
    gradient: np.ndarray,
    tol: float,
) -> np.ndarray:
    across = np.maximum(stretch * cosines, FLATTEST)
    sine2 = np.maximum(1.0 - cosines**2, 1e-300)
    # (1 - theta cot theta) / sin^2 -> 1/3 at theta = 0, where the quotient is 0/0
    ratio = np.where(sine2 > 1e-6, (1.0 - across) / sine2, 1.0 / 3.0)
    isotropic = float(w @ across)
    size = float(np.linalg.norm(gradient))
    target = max(min(1e-2, 0.1 * size) * size, 0.1 * tol)
    step, left = np.zeros_like(p), gradient.copy()
    direction, square = left.copy(), size**2
    for _ in range(30):
        if math.sqrt(square) <= target:
            break
        image = isotropic * direction + _across(p, (w * ratio * (X @ direction)) @ X)
        alpha = square / float(direction @ image)
        step += alpha * direction
        left -= alpha * image
        previous, square = square, float(left @ left)
        direction = left + (square / previous) * direction
    return _across(p, step)


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
