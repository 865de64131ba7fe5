"""The normal distribution: in plain floats for closed forms, by SciPy for arrays.

The commands that only state a guarantee or show a ledger need the normal distribution at a few
points, and importing SciPy for it took most of their time. The scalar functions are made of
`math.erfc`, which is right to a few units in the last place; `tests/privacy/test_normal.py`
compares them with 40 digits.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_ROOT_PI = math.sqrt(math.pi)
_ROOT_HALF = math.sqrt(0.5)
_SERIES_FROM = 10.0  # from here on 18 terms of the asymptotic series are exact to a float64
_STANDARD = NormalDist()


def cdf(x: float) -> float:
    """Phi(x), the probability that a standard normal is below x."""
    return 0.5 * math.erfc(-x * _ROOT_HALF)


def quantile(p: float) -> float:
    """The x with Phi(x) = p, for p in [0, 1]; infinite at the ends."""
    if p <= 0.0:
        return -math.inf
    return math.inf if p >= 1.0 else _STANDARD.inv_cdf(p)


def erfcx(x: float) -> float:
    """exp(x^2) erfc(x), without overflow for large x; infinite where it exceeds a float64."""
    if x >= _SERIES_FROM:
        step, term, total = -0.5 / (x * x), 1.0, 1.0
        for k in range(1, 18):
            term *= (2 * k - 1) * step
            total += term
        return total / (x * _ROOT_PI)
    if x < -26.6:
        return math.inf
    # x^2 as an exact square and a remainder: exp would magnify the rounding of x * x
    shifted = 134217729.0 * x
    high = shifted - (shifted - x)
    low = x - high
    return math.exp(high * high) * math.exp(low * (high + x)) * math.erfc(x)


def scaled_tails(x: Floats) -> Floats:
    """`erfcx` of every number of an array."""
    from scipy import special  # 0.3 s and more, for compositions alone

    return np.asarray(special.erfcx(x))


def ndtr(x: Any) -> Any:
    """`cdf` of every number of an array (of a single number: a NumPy scalar)."""
    from scipy import special

    return special.ndtr(x)


def between(lower: Floats, upper: Floats) -> Any:
    """Phi(upper) - Phi(lower) of every pair, without cancellation in the right tail."""
    flip = lower > 0
    return ndtr(np.where(flip, -lower, upper)) - ndtr(np.where(flip, -upper, lower))


def log_quantile(log_p: float) -> float:
    """The x with log Phi(x) = log_p, for log_p below 0."""
    from scipy import special

    return float(special.ndtri_exp(log_p))
