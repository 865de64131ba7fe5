"""Newton's method with conjugate gradients for means: one damped loop for every space."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Generic, TypeVar

import numpy as np

P = TypeVar("P")  # a point, or a factor of one
V = TypeVar("V")  # a tangent vector


@dataclasses.dataclass
class View(Generic[V]):
    """One pass over the data, seen from a point.

    Args:
        residual: Length of the mean logarithm there.
        spread: Largest distance of a record that has weight.
        descent: A step that certainly descends.
        newton: The Newton step, and a bound of the residual after it (infinite where none is
            known).
    """

    residual: float
    spread: float
    descent: V
    newton: Callable[[], tuple[V, float]]


@dataclasses.dataclass
class Found(Generic[P]):
    """Where an iteration ended: the point, its residual (or a bound of it), passes over the data
    and the largest distance of a record.
    """

    value: P
    residual: float
    passes: int
    spread: float


def damped_newton(
    look: Callable[[P], View[V]],
    move: Callable[[P, V], P],
    start: P,
    tol: float,
    max_passes: int,
) -> Found[P]:
    """Newton steps while they lower the residual; after one that does not, a step that certainly
    descends from the best point so far.

    Args:
        look: One pass over the data.
        move: The point that a step leads to.
        start: Where to begin.
        tol: The iteration ends when the residual, or a bound of it, is at most this.
        max_passes: The iteration ends after so many passes, with the best point that was found.

    Returns:
        The last point, or the one of the smallest residual where the tolerance was not reached.
    """
    point = start
    lowest: Found[P] | None = None  # the smallest residual that was seen
    allowed, origin, descent = math.inf, start, None
    for passes in range(1, max_passes + 1):
        view = look(point)
        if lowest is None or view.residual < lowest.residual:
            lowest = Found(point, view.residual, passes, view.spread)
        if view.residual <= tol:
            return Found(point, view.residual, passes, view.spread)
        if descent is None or view.residual < allowed:
            allowed, origin, descent = view.residual, point, view.descent
            step, bound = view.newton()
            point = move(point, step)
            if bound <= tol:
                return Found(point, bound, passes, view.spread)
        else:
            # Newton overshot: back to the best point; twice as much is allowed next time.
            allowed *= 2.0
            point = move(origin, descent)
        del view  # what it kept of the records for its step, before the next pass keeps as much
    assert lowest is not None
    return dataclasses.replace(lowest, passes=max_passes)


def conjugate_gradients(
    product: Callable[[np.ndarray], np.ndarray], right: np.ndarray, target: float, most: int
) -> tuple[np.ndarray, float]:
    """(s, |right - H s|), the second at most `target` unless `most` products did not suffice, for
    positive definite H given by its products.
    """
    step, left = np.zeros_like(right), right.copy()
    direction, square = left.copy(), float(np.vdot(left, left))
    for _ in range(most):
        if math.sqrt(square) <= target:
            break
        image = product(direction)
        alpha = square / float(np.vdot(direction, image))
        step += alpha * direction
        left -= alpha * image
        previous, square = square, float(np.vdot(left, left))
        direction = left + (square / previous) * direction
    return step, math.sqrt(square)
