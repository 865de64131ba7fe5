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

_QUIETLY = np.errstate(under="ignore")  # chances far out are 0
_POINTS = 41
_REACH = 700.0


class TradeOff:
    """What an attacker who decides between two neighbouring data sets from the releases can do at
    best: T, exactly where it is known in closed form, and else as the least of finitely many
    lines, which is an upper bound.

    Args:
        delta: An upper bound on delta(epsilon), for epsilon >= 0, in both directions.
        top: An epsilon beyond which delta is hardly smaller.
        exact: T itself, for false-positive rates from 0 to 1, where it is known.
        largest: The largest privacy loss that can occur: from there on delta is 0.
    """

    def __init__(
        self,
        delta: Profile,
        top: float,
        exact: Profile | None = None,
        largest: float = math.inf,
    ):
        self._delta, self._top, self._exact, self._largest = delta, top, exact, largest

    @functools.cached_property
    @_QUIETLY
    def supports(self) -> tuple[tuple[float, float], ...]:
        """Pairs (epsilon, delta) of the guarantee, epsilon from 0 on, one line each."""
        grid = min(max(self._top, 1e-9), _REACH) * np.linspace(0.0, 1.0, _POINTS) ** 1.5
        found = [(float(e), min(1.0, self._delta(float(e)))) for e in grid if e < self._largest]
        # exact, where rounding may have left a delta above 0
        return (*found, *([(self._largest, 0.0)] if self._largest <= _REACH else []))

    @functools.cached_property
    @_QUIETLY
    def _lines(self) -> tuple[Floats, Floats]:
        """log slope and value at 0 of every line."""
        x, found = np.array(self.supports).T
        # For epsilon < 0: delta(-e) = 1 - exp(-e) (1 - delta(e)), of the other direction.
        mirrored = -np.expm1(-x) + np.exp(-x) * found
        return np.concatenate([-x[:0:-1], x]), np.concatenate([mirrored[:0:-1], found])

    @_QUIETLY
    def rate(self, false_positives: float) -> float:
        """T at one false-positive rate: the largest rate of detection."""
        if self._exact is not None:
            return self._exact(false_positives)
        if false_positives == 0.0:
            return min(1.0, self._delta(math.inf))
        log_slope, at_zero = self._lines
        lines = at_zero + np.exp(log_slope) * false_positives
        return min(1.0, max(false_positives, float(np.min(lines))))

    def missed(self, false_positives: float | Floats) -> Floats:
        """1 - T, a lower bound on the missed detections, for each rate of an array."""
        rates = np.asarray(false_positives, dtype=np.float64)
        found = [1.0 - self.rate(float(rate)) for rate in rates.ravel()]
        return np.reshape(np.array(found), rates.shape)

    @property
    def advantage(self) -> float:
        """Upper bound on (detection rate - false alarm rate): the total variation distance, delta
        at epsilon 0.
        """
        return min(1.0, self._delta(0.0))

    @property
    def best_guess(self) -> float:
        """Largest probability that a guess between two equally likely neighbours is right, (1 +
        advantage) / 2.
        """
        return 0.5 * (1.0 + self.advantage)

    def loss_bound(self, delta: float) -> float:
        """An epsilon that the attacker's log odds cannot grow by, except with probability `delta`.

        From delta(e) = E[(1 - exp(e - L))+] >= (1 - exp(e - x)) P(L > x) for the privacy loss L:
        somewhat larger than the epsilon of an (epsilon, delta) statement, which by itself does not
        bound the loss with probability 1 - delta.
        """
        usable = [
            e - math.log1p(-d / delta) if d else e
            for e, d in self.supports
            if d == 0.0 or d < delta
        ]
        return min(usable, default=math.inf)

    def curve(self, points: int = 201) -> tuple[Floats, Floats]:
        """(false-positive rates, `missed`) for drawing, dense near 0 where private mechanisms
        differ.
        """
        rates = np.linspace(0.0, 1.0, points) ** 2
        return rates, self.missed(rates)

    def group_rate(self, false_positives: float, size: int) -> float:
        """T for `size` records."""
        for _ in range(size):
            false_positives = self.rate(false_positives)
        return false_positives

    @_QUIETLY
    def _chain(self, log_f: float, size: int) -> tuple[float, float]:
        """(log slope, value at 0) of the line through T at exp(log_f) that `size` steps make."""
        slope, at_zero, f = 0.0, 0.0, math.exp(log_f)
        log_slope, starts = self._lines
        for _ in range(size):
            lines = starts + np.exp(log_slope) * f
            best = int(np.argmin(lines))
            f = min(1.0, float(lines[best]))
            step = float(log_slope[best])
            slope += step
            at_zero = float(starts[best]) + math.exp(min(step, _REACH)) * at_zero
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
        low, high = 0.0, size * self.supports[-1][0]
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


def posterior(prior: float, epsilon: float) -> float:
    """Largest belief after an epsilon-private release for a belief `prior` before it (Bayes' rule
    with odds e^epsilon).
    """
    if not math.isfinite(epsilon) or epsilon > _REACH:
        return 1.0 if prior > 0.0 else 0.0
    grown = prior * math.exp(epsilon)
    return grown / (grown + 1.0 - prior)
