r"""What an attacker can find: trade-off functions, and groups of records, from a privacy profile.

Write T(f) for a bound on the true-positive rate of every test with false-positive rate f. Each
point (epsilon, delta) of a profile gives the line delta + exp(epsilon) f, and T is the least of
them and of 1. For k records of one person the bound is T applied k times (Dong, Roth and Su 2022,
Theorem 2.14): along a chain of neighbouring data sets, what one step's test finds is the next
step's false alarm. Any choice of lines, one at each step, is a valid bound again, so a coarse grid
of lines errs upwards only.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Profile = Callable[[float], float]

_POINTS = 33
_REACH = 700.0


class TradeOff:
    """T for one record, as the least of finitely many lines.

    Args:
        delta: An upper bound on delta(epsilon), for epsilon >= 0, in both directions.
        top: An epsilon beyond which delta is hardly smaller.
    """

    def __init__(self, delta: Profile, top: float):
        x = min(max(top, 1e-9), _REACH) * np.linspace(0.0, 1.0, _POINTS) ** 1.5
        found = np.array([min(1.0, delta(float(e))) for e in x])
        # For epsilon < 0: delta(-e) = 1 - exp(-e) (1 - delta(e)), of the other direction.
        mirrored = -np.expm1(-x) + np.exp(-x) * found
        self._log_slope: Floats = np.concatenate([-x[:0:-1], x])
        self._at_zero: Floats = np.concatenate([mirrored[:0:-1], found])

    def rate(self, false_positives: float) -> float:
        """T at one false-positive rate."""
        lines = self._at_zero + np.exp(self._log_slope) * false_positives
        return min(1.0, float(np.min(lines)))

    def group_rate(self, false_positives: float, size: int) -> float:
        """T for `size` records."""
        for _ in range(size):
            false_positives = self.rate(false_positives)
        return false_positives

    def _chain(self, log_f: float, size: int) -> tuple[float, float]:
        """(log slope, value at 0) of the line through T at exp(log_f) that `size` steps make."""
        slope, at_zero, f = 0.0, 0.0, math.exp(log_f)
        for _ in range(size):
            lines = self._at_zero + np.exp(self._log_slope) * f
            best = int(np.argmin(lines))
            f = min(1.0, float(lines[best]))
            step = float(self._log_slope[best])
            slope += step
            at_zero = float(self._at_zero[best]) + math.exp(min(step, _REACH)) * at_zero
        return slope, at_zero

    def group_delta(self, epsilon: float, size: int) -> float:
        """delta(epsilon) for `size` records: the line of slope exp(epsilon), between two lines of
        the chain (delta is convex in exp(epsilon)).
        """
        steep, flat = -_REACH, 0.0  # log f of a line that is too steep, and of one that is not
        slope, at_zero = self._chain(flat, size)
        if slope > epsilon:
            return 1.0
        steeper = self._chain(steep, size)
        if steeper[0] <= epsilon:
            return min(1.0, steeper[1])
        for _ in range(60):
            middle = (steep + flat) / 2
            line = self._chain(middle, size)
            if line[0] > epsilon:
                steep, steeper = middle, line
            else:
                flat, (slope, at_zero) = middle, line
        share = math.expm1(epsilon - slope) / math.expm1(min(steeper[0] - slope, _REACH))
        return min(1.0, at_zero, at_zero + share * (steeper[1] - at_zero))

    def group_epsilon(self, delta: float, size: int) -> float:
        """The least epsilon >= 0 with group_delta(epsilon, size) <= delta."""
        low, high = 0.0, size * float(self._log_slope[-1])
        if self.group_delta(low, size) <= delta:
            return 0.0
        if self.group_delta(high, size) > delta:
            return math.inf
        for _ in range(48):
            middle = (low + high) / 2
            low, high = (low, middle) if self.group_delta(middle, size) <= delta else (middle, high)
        return high


def pure_rate(epsilon: float, false_positives: float) -> float:
    """T of an epsilon-private release, exactly."""
    up = math.exp(min(epsilon, _REACH)) * false_positives
    return min(1.0, up, -math.expm1(-epsilon) + math.exp(-epsilon) * false_positives)


@functools.lru_cache(maxsize=1024)
def geometric_sum(epsilon: float, count: int) -> float:
    """1 + e^epsilon + ... + e^((count - 1) epsilon)."""
    if epsilon == 0.0:
        return float(count)
    if count * epsilon > _REACH:
        return math.inf
    return math.expm1(count * epsilon) / math.expm1(epsilon)
