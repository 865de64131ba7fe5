"""Frechet mean on a sphere: Newton's method with matrix-vector products only, no array of
logarithms.

At p the records have cosines c_i = <p, x_i> and logarithms a_i (x_i - c_i p), a = theta / sin
theta, so the mean logarithm is X^T (w a) without its part along p. The Hessian of F is 1 along each
logarithm and b = theta cot theta = a c across it: H v = (sum w b) v + X^T (r <x_i, v>) without its
part along p, r = w (1 - b) / sin(theta)^2.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from ..domains._frame import BLOCK
from ._newton import Found, View, conjugate_gradients, damped_newton
from ._sums import pairwise

# smallest b used: beyond a right angle the true one is negative, this keeps a descent direction
FLATTEST = 0.05
LOOSE = 1e-6  # relative error up to which a record is taken to lie on a space
NUMBERS = 1 << 17  # of records that are looked at together: a megabyte


def sphere_mean(
    X: ArrayLike,
    w: ArrayLike,
    tol: float,
    max_passes: int,
    check: Callable[[], None] | None = None,
) -> Found[np.ndarray]:
    """The mean of unit vectors X (n, d) with weights w (n,) summing to 1.

    Args:
        X: The records.
        w: Their weights.
        tol: The iteration ends when the residual is at most this.
        max_passes: It ends after so many passes in any case.
        check: What refuses records that are no unit vectors; called where one seems to be none. To
            look at them by itself would take another pass. None: they have been looked at.
    """
    X, w = np.asarray(X), np.asarray(w)
    cuts, weighted = _cuts(X), w > 0.0
    every = bool(weighted.all())

    def look(p: np.ndarray) -> View[np.ndarray]:
        cosines, stretch = np.empty(len(w)), np.empty(len(w))

        def weigh(seen: np.ndarray, some: slice) -> np.ndarray:
            cosines[some] = np.maximum(np.minimum(seen, 1.0), -1.0)
            stretch[some] = _angle_over_sine(cosines[some])
            return w[some] * stretch[some]

        gradient = _across(p, _combined(X, cuts, p, weigh))
        size = _length(gradient)
        spread = math.acos(float((cosines if every else cosines[weighted]).min()))

        def newton() -> tuple[np.ndarray, float]:
            across = np.maximum(stretch * cosines, FLATTEST)
            sine2 = np.maximum(1.0 - cosines**2, 1e-300)
            # (1 - theta cot theta) / sin^2 -> 1/3 at theta = 0, where the quotient is 0/0
            ratio = w * np.where(sine2 > 1e-6, (1.0 - across) / sine2, 1.0 / 3.0)
            isotropic = float(w @ across)

            def hessian(v: np.ndarray) -> np.ndarray:
                along = _combined(X, cuts, v, lambda seen, some: ratio[some] * seen)
                return isotropic * v + along - (p @ along) * p

            target = max(min(1e-2, 0.1 * size) * size, 0.1 * tol)
            step, _ = conjugate_gradients(hessian, gradient, target, most=30)
            return _across(p, step), math.inf

        # No Hessian exceeds 1, so the gradient step always descends.
        return View(size, spread, gradient, newton)

    return damped_newton(look, _move, _start(X, cuts, w, check), tol, max_passes)


def _start(
    X: np.ndarray, cuts: list[slice], w: np.ndarray, check: Callable[[], None] | None
) -> np.ndarray:
    """The direction of the arithmetic mean, unless that is the centre; else the heaviest record."""
    sums: list[np.ndarray] = []
    fine = True
    with np.errstate(all="ignore"):
        for some in cuts:
            sums.append(w[some] @ X[some])
            fine = fine and (check is None or bool(np.all(is_unit(X[some]))))
    if check is not None and not fine:
        check()
    mean = pairwise(sums)
    length = _length(mean)
    return mean / length if length >= 1e-8 else X[int(np.argmax(w))]


def is_unit(X: np.ndarray) -> np.ndarray:
    """Whether each row has length 1, up to the error up to which a record lies on the sphere."""
    return np.abs(np.sqrt(np.einsum("ij,ij->i", X, X)) - 1.0) <= LOOSE


def _cuts(X: np.ndarray) -> list[slice]:
    """A few records at a time, so that they are read from memory once. The number is fixed and at
    most `BLOCK`, so that the rounding error has a public bound.
    """
    rows = min(BLOCK, max(16, NUMBERS // X.shape[1]))
    return [slice(i, i + rows) for i in range(0, len(X), rows)]


def _combined(
    X: np.ndarray,
    cuts: list[slice],
    v: np.ndarray,
    weigh: Callable[[np.ndarray, slice], np.ndarray],
) -> np.ndarray:
    """weigh(X v) X, read from memory once."""
    if len(cuts) == 1:
        return weigh(X @ v, cuts[0]) @ X
    return pairwise([weigh(X[some] @ v, some) @ X[some] for some in cuts])


def _angle_over_sine(cosines: np.ndarray) -> np.ndarray:
    """theta / sin theta from cos theta. Near 0 the sine is rounded; so is theta, found from it, and
    the quotient is right.
    """
    sine = np.sqrt(np.maximum((1.0 - cosines) * (1.0 + cosines), 1e-30))
    return np.arctan2(sine, cosines) / sine


def _across(p: np.ndarray, v: np.ndarray) -> np.ndarray:
    v = v - (p @ v) * p
    return v - (p @ v) * p  # twice: the part along p is large, and its rounding error would stay


def _move(p: np.ndarray, v: np.ndarray) -> np.ndarray:
    length = _length(v)
    moved = math.cos(length) * p + (math.sin(length) / length if length > 0 else 1.0) * v
    return moved / _length(moved)


def _length(v: np.ndarray) -> float:
    return math.sqrt(v @ v)
