"""epsilon(delta) and delta(epsilon) of a tuple of parts: closed forms first, privacy-loss distributions for the rest."""

from __future__ import annotations

import functools
import math
from decimal import Decimal

from ._analytic import gaussian_delta, gaussian_epsilon
from ._parts import ApproximatePart, GaussianPart, MixturePart, NoPrivacyPart, Part, PurePart, SampledGaussianPart


def pure_sum(parts: tuple[Part, ...]) -> float:
    """Basic composition of pure parts, added in decimal so that three releases of 0.1 cost exactly 0.3."""
    total = sum((Decimal(repr(p.epsilon)) * p.count for p in parts if isinstance(p, PurePart)), Decimal(0))
    return float(total)


def _basic_delta(parts: tuple[Part, ...], epsilon: float) -> float:
    """A valid, quick bound on delta(epsilon): pure epsilons taken off the target, the rest by the closed form."""
    spare, squared_mu, failure = Decimal(repr(epsilon)) if math.isfinite(epsilon) else Decimal("Infinity"), 0.0, 0.0
    for p in parts:
        if isinstance(p, GaussianPart):
            squared_mu += p.squared_mu
        elif isinstance(p, SampledGaussianPart) and p.sampling == "without-replacement":
            squared_mu += p.count / p.noise_multiplier**2  # sampling never costs more than using everything
        elif isinstance(p, PurePart | ApproximatePart):
            spare -= Decimal(repr(p.epsilon)) * p.count
            if isinstance(p, ApproximatePart):
                failure += p.delta * p.count
        else:
            return 1.0
    if spare < 0:
        return 1.0
    return min(1.0, failure + gaussian_delta(float(spare), math.sqrt(squared_mu)))


@functools.lru_cache(maxsize=16384)
def delta(parts: tuple[Part, ...], epsilon: float) -> float:
    if not parts:
        return 0.0
    if isinstance(parts[0], NoPrivacyPart):
        return 1.0
    return _basic_delta(parts, epsilon)


@functools.lru_cache(maxsize=16384)
def epsilon(parts: tuple[Part, ...], delta: float) -> float:
    if not parts:
        return 0.0
    if isinstance(parts[0], NoPrivacyPart):
        return math.inf
    if len(parts) == 1 and isinstance(parts[0], GaussianPart):
        return gaussian_epsilon(delta, math.sqrt(parts[0].squared_mu))
    if all(isinstance(p, PurePart) for p in parts):
        return pure_sum(parts)
    return _basic_epsilon(parts, delta)


def _basic_epsilon(parts: tuple[Part, ...], delta: float) -> float:
    failure = sum(p.delta * p.count for p in parts if isinstance(p, ApproximatePart))
    if any(isinstance(p, MixturePart) for p in parts) or failure > delta:
        return math.inf
    squared_mu = sum(p.squared_mu for p in parts if isinstance(p, GaussianPart)) + sum(
        p.count / p.noise_multiplier**2 for p in parts if isinstance(p, SampledGaussianPart))  # fmt: skip
    return pure_sum(parts) + sum(p.epsilon * p.count for p in parts if isinstance(p, ApproximatePart)) + gaussian_epsilon(
        delta - failure, math.sqrt(squared_mu))  # fmt: skip


def within(parts: tuple[Part, ...], epsilon_budget: float, delta_budget: float) -> bool:
    if delta_budget == 0.0:
        return epsilon(parts, 0.0) <= epsilon_budget
    return delta(parts, epsilon_budget) <= delta_budget
