"""Exact draws from a log-concave density on an interval, by rejection from a hull of tangents that
provably dominates it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..randomness import NoiseSource

Scalar = Callable[[float], float]
Vector = Callable[[np.ndarray], np.ndarray]

# The hull is raised by this much on the log scale, far more than the rounding of log f and of the
# tangents together, so that it dominates f in floating point as well as in exact arithmetic. It
# costs one try in 10^9.
_SLACK = 1e-9
_UNCOVERED = "internal error: the hull of a sampler does not dominate its density; please report it"
_DROPS = (0.15, 0.6, 1.5, 4.0)  # where tangents touch: log f this far below its largest value


class TangentHull:
    """Upper hull exp(min_j tangent_j) of a log-concave f on (low, high); `draw` gives exact samples
    of f / integral of f.

    `log_f` must be concave and differentiable between `low` and `high` (where it has kinks, `slope`
    may return any supergradient). Every tangent of a concave function lies above it, so the
    smallest of several does too, wherever they touch; a point of contact that is a little off costs
    tries, never exactness.
    """

    def __init__(self, log_f: Vector, slope: Scalar, low: float, high: float, guess: float = 1.0):
        self.log_f = log_f
        self._scalar = lambda x: float(log_f(np.array([x]))[0])
        mode = _mode(slope, low, high, guess)
        top = self._scalar(mode)
        at = {mode}
        for drop in _DROPS:
            for end in (low, high):
                touch = self._contact(mode, top - drop, end)
                if touch is not None:
                    at.add(touch)
        points = sorted(at)
        self._build(
            points, [self._scalar(x) for x in points], [slope(x) for x in points], low, high
        )
        self.evaluations = self.accepted = 0

    def _contact(self, mode: float, level: float, end: float) -> float | None:
        """A point between the mode and `end` where log f is about `level`; None if it does not fall
        so far before the end.
        """
        sign = 1.0 if end > mode else -1.0
        if end == mode:
            return None
        inside, step = mode, 1e-3 * max(abs(mode), 1e-8)
        for _ in range(400):
            outside = mode + sign * step
            if sign * (end - outside) <= 0:
                outside = 0.5 * (inside + end)
                if abs(end - outside) < 1e-9 * max(abs(end), 1e-300):
                    return None
                step = abs(outside - mode)
            if self._scalar(outside) < level:
                break
            inside, step = outside, 2 * step
        else:
            return None
        for _ in range(60):
            middle = 0.5 * (inside + outside)
            if self._scalar(middle) < level:
                outside = middle
            else:
                inside = middle
            if abs(outside - inside) < 1e-4 * abs(outside - mode):
                break
        return outside

    def _build(
        self, x: list[float], value: list[float], slope: list[float], low: float, high: float
    ) -> None:
        keep = [0]
        for j in range(
            1, len(x)
        ):  # drop contacts whose slopes rounding has made equal: they add nothing
            if slope[j] < slope[keep[-1]] - 1e-12 * (1 + abs(slope[keep[-1]])):
                keep.append(j)
        x, value, slope = ([a[j] for j in keep] for a in (x, value, slope))
        if math.isinf(high) and not slope[-1] < 0:
            raise ArithmeticError("the density does not decay at infinity; it cannot be sampled")
        cuts = [low]
        for j in range(len(x) - 1):
            cut = (value[j + 1] - value[j] + slope[j] * x[j] - slope[j + 1] * x[j + 1]) / (
                slope[j] - slope[j + 1]
            )
            cuts.append(min(max(cut, x[j]), x[j + 1]))
        cuts.append(high)
        self._left, self._right = np.array(cuts[:-1]), np.array(cuts[1:])
        self._x, self._value, self._slope = np.array(x), np.array(value) + _SLACK, np.array(slope)
        self._log_mass = self._log_masses()
        shifted = np.exp(self._log_mass - np.max(self._log_mass))
        self._cumulative = np.cumsum(shifted) / np.sum(shifted)

    def _log_masses(self) -> np.ndarray:
        """log of the integral of exp(tangent_j) over its piece."""
        at_left = self._value + self._slope * (self._left - self._x)
        at_right = np.where(
            np.isfinite(self._right),
            self._value
            + self._slope * (np.where(np.isfinite(self._right), self._right, 0.0) - self._x),
            -np.inf,
        )
        width = self._right - self._left
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            rise = np.abs(self._slope) * width
            flat = rise < 1e-12
            part = np.where(
                flat, width, -np.expm1(-rise) / np.where(flat, 1.0, np.abs(self._slope))
            )
            return np.maximum(at_left, at_right) + np.log(np.maximum(part, 1e-300))

    def draw(self, source: NoiseSource, count: int) -> np.ndarray:
        """`count` independent exact draws; `source` offers `uniforms(shape)`."""
        out, filled = np.empty(count), 0
        while filled < count:
            tries = max(16, int(1.08 * (count - filled)) + 8)
            u = source.uniforms((3, tries))
            x, hull = self._propose(u[0], u[1])
            log_f = self.log_f(x)
            if np.any(log_f > hull):
                raise ArithmeticError(_UNCOVERED)
            kept = x[np.log(u[2]) < log_f - hull]
            self.evaluations += tries
            self.accepted += kept.size
            kept = kept[: count - filled]
            out[filled : filled + kept.size] = kept
            filled += kept.size
        return out

    def _propose(self, u: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        piece = np.minimum(
            np.searchsorted(self._cumulative, u, side="right"), self._cumulative.size - 1
        )
        left, right, slope = self._left[piece], self._right[piece], self._slope[piece]
        # Start from the end where the tangent is highest: x = start -+ (exponential of rate
        # |slope|, cut at the width).
        rate, width = np.abs(slope), right - left
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            rise = rate * width
            flat = rise < 1e-12
            away = np.where(
                flat, v * width, -np.log1p(v * np.expm1(-rise)) / np.where(flat, 1.0, rate)
            )
        x = np.where(slope > 0, right - away, left + away)
        return x, self._value[piece] + slope * (x - self._x[piece])


def _mode(slope: Scalar, low: float, high: float, guess: float) -> float:
    """Where the slope changes sign (an end, if it does not)."""
    a = low
    b = high
    if math.isinf(b):
        b = max(guess, low + 1e-300)
        for _ in range(2000):
            if slope(b) <= 0:
                break
            a, b = b, 2 * b
        else:
            raise ArithmeticError("the density does not decay at infinity; it cannot be sampled")
    elif slope(b - 1e-12 * (b - a)) > 0:
        return b - 1e-12 * (b - a)
    for _ in range(200):
        c = 0.5 * (a + b)
        if c <= a or c >= b or abs(b - a) < 1e-10 * abs(c):
            break
        if slope(c) > 0:
            a = c
        else:
            b = c
    return 0.5 * (a + b)
