r"""The Gaussian mechanism in closed form, in microseconds.

A Gaussian release with noise multiplier z (sigma over the L2 sensitivity) is mu-GDP with mu = 1/z,
and its exact profile is

    delta(eps) = Phi(mu/2 - eps/mu) - exp(eps) Phi(-mu/2 - eps/mu).

With a = mu/2 - eps/mu, b = -mu/2 - eps/mu one has exp(eps) phi(b) = phi(a), so both terms are
phi(a) times a Mills ratio; that form keeps the relative precision in the far tail, where the
textbook form cancels. Source: Balle and Wang 2018, Theorem 8; Dong, Roth and Su 2022, Corollary
2.13.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

from .normal import cdf, erfcx

_ROOT_HALF_PI = math.sqrt(math.pi / 2)
_SQRT2 = math.sqrt(2.0)


def _mills(t: float) -> float:
    """(1 - Phi(t)) / phi(t)."""
    return _ROOT_HALF_PI * erfcx(t / _SQRT2)


def gaussian_delta(epsilon: float, mu: float) -> float:
    """delta(epsilon) of a mu-GDP Gaussian release, epsilon of either sign, mu >= 0."""
    if mu <= 0.0:
        return max(0.0, -math.expm1(epsilon)) if epsilon < 0 else 0.0
    if math.isinf(mu):
        return 1.0
    ratio = epsilon / mu
    if math.isinf(ratio):
        return 0.0
    a = mu / 2 - ratio
    if a > 0.0:
        return max(0.0, cdf(a) - _density(a) * _mills(mu / 2 + ratio))
    if mu < 1e-4:  # R(t - mu/2) - R(t + mu/2) = mu (1 - t R(t)) + O(mu^3), without the cancellation
        return max(
            0.0,
            _density(a)
            * mu
            * (1.0 - ratio * _mills(ratio))
            * (1.0 + mu * mu * (1.0 + ratio * ratio)),
        )
    return max(0.0, _density(a) * (_mills(-a) - _mills(mu / 2 + ratio)))


def _density(x: float) -> float:
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


_ABSURD = 1e14  # a separation in standard deviations


@functools.lru_cache(maxsize=65536)
def gaussian_epsilon(delta: float, mu: float) -> float:
    """The smallest epsilon >= 0 with delta(epsilon) <= delta, for a mu-GDP Gaussian release
    (rounded upwards).
    """
    if mu <= 0.0:
        return 0.0
    if delta <= 0.0 or math.isinf(mu):
        return math.inf
    if gaussian_delta(0.0, mu) <= delta:
        return 0.0
    # P(loss > e) bounds delta(e); the loss is N(mu^2/2, mu^2), and its tail is below exp(-t^2/2).
    high = mu * mu / 2 + mu * math.sqrt(2 * math.log(1 / delta)) + 1e-300
    if mu > _ABSURD:  # float64 does not tell the two apart; a part in 1e12 is 50 deviations or more
        return high * (1 + 1e-12)
    root = _solve(lambda e: _log(gaussian_delta(e, mu)) - math.log(delta), 0.0, high)
    step = max(root, 1e-300) * 1e-15
    while gaussian_delta(root, mu) > delta:
        root += step
        step *= 2
    return root


@functools.lru_cache(maxsize=65536)
def gaussian_mu(epsilon: float, delta: float) -> float:
    """The largest mu whose Gaussian release is (epsilon, delta)-differentially private (rounded
    downwards).
    """
    if delta <= 0.0:
        return 0.0
    level = math.log(1 / delta)
    # Below: the tail bound above solved for mu. Above: doubled until it fails.
    low = _SQRT2 * epsilon / (math.sqrt(level + epsilon) + math.sqrt(level))
    if low > _ABSURD:
        return low * (1 - 1e-12)
    while gaussian_delta(epsilon, low) > delta:
        low /= 2
    high = 2 * low
    while gaussian_delta(epsilon, high) <= delta:
        low, high = high, 2 * high
    root = math.exp(
        _solve(
            lambda t: _log(gaussian_delta(epsilon, math.exp(t))) - math.log(delta),
            math.log(low),
            math.log(high),
        )
    )
    # Allows for the rounding of a later sum of many 1/z^2, so that the last of the planned steps is
    # not refused.
    root *= 1 - 1e-12
    step = root * 1e-15
    while gaussian_delta(epsilon, root) > delta:
        root -= step
        step *= 2
    return root


def _log(x: float) -> float:
    return math.log(x) if x > 0.0 else -800.0


def _solve(f: Callable[[float], float], low: float, high: float) -> float:
    """The zero of a monotone function whose signs differ at two points, to 1e-14 of itself.

    False position with halved weights (the Illinois rule), and the middle whenever three steps have
    not halved the bracket. SciPy's solvers take 0.5 s to import.
    """
    at_low, at_high = f(low), f(high)
    if at_low == 0.0 or at_high == 0.0:
        return low if at_low == 0.0 else high
    if (at_low < 0.0) == (at_high < 0.0):
        raise ArithmeticError("there is no zero between the two points")
    width, since, last = high - low, 0, 0
    while high - low > 1e-14 * max(abs(low), abs(high)) + 1e-300:
        middle = (low * at_high - high * at_low) / (at_high - at_low)
        if since == 3 or not low < middle < high:
            middle = low + (high - low) / 2
        if not low < middle < high:
            break
        at_middle = f(middle)
        if at_middle == 0.0:
            return middle
        side = 1 if (at_middle < 0.0) == (at_high < 0.0) else -1
        if side > 0:
            high, at_high = middle, at_middle
            at_low *= 0.5 if last > 0 else 1.0
        else:
            low, at_low = middle, at_middle
            at_high *= 0.5 if last < 0 else 1.0
        last, since = side, since + 1
        if high - low <= width / 2:
            width, since = high - low, 0
    return low + (high - low) / 2
