"""epsilon(delta) and delta(epsilon) of a tuple of parts: closed forms first, privacy-loss
distributions for the rest.

Every route gives an upper bound; the smallest is the answer. Answers are memoised by value.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from decimal import Decimal

from . import allocation, fourier, normal
from .events import (
    AllocatedGaussianEvent,
    ApproximateEvent,
    Event,
    GaussianEvent,
    GroupEvent,
    MixtureEvent,
    NoPrivacyEvent,
    PureEvent,
    SampledGaussianEvent,
    SelectedGaussianEvent,
    once,
)
from .gaussian import gaussian_delta, gaussian_epsilon
from .losses import amplified
from .trade_off import TradeOff, geometric_sum, pure_rate


def largest_loss(parts: tuple[Event, ...]) -> Decimal:
    """The largest privacy loss that can occur: pure parts add up, in decimal, so that three of 0.1
    make exactly 0.3.
    """
    total = Decimal(0)
    for p in parts:
        if isinstance(p, PureEvent):
            total += Decimal(repr(p.epsilon)) * p.count
        elif isinstance(p, MixtureEvent):
            total += largest_loss(p.local) * p.count
        elif isinstance(p, GroupEvent):
            total += largest_loss(p.inner) * p.size
        else:
            return Decimal("Infinity")
    return total


_SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)


def _split(parts: tuple[Event, ...]) -> tuple[GroupEvent | None, tuple[Event, ...]]:
    """A part for groups, which has no lattice of losses, and the others."""
    groups = [p for p in parts if isinstance(p, GroupEvent)]
    return (groups[0] if groups else None), tuple(p for p in parts if p not in groups[:1])


def _group_delta(group: GroupEvent, epsilon: float) -> float:
    one = epsilon / group.size
    general = delta(group.inner, one) * geometric_sum(one, group.size)
    return min(general, trade_off(group.inner).group_delta(epsilon, group.size))


@functools.lru_cache(maxsize=256)
def trade_off(parts: tuple[Event, ...]) -> TradeOff:
    """The true-positive rates that are possible at every false-positive rate."""
    failure = delta(parts, math.inf)
    top = epsilon(parts, min(0.5, 1.01 * failure + 1e-15))
    return TradeOff(lambda e: delta(parts, e), top, _exact_rate(parts), float(largest_loss(parts)))


def _exact_rate(parts: tuple[Event, ...]) -> Callable[[float], float] | None:
    """The rates in closed form, where there is one; for a group, by the chain of its members."""
    if not parts:
        return lambda rate: rate
    if any(isinstance(p, NoPrivacyEvent) for p in parts):
        return lambda rate: 1.0
    if len(parts) != 1:
        return None
    (part,) = parts
    if isinstance(part, GaussianEvent):
        mu = math.sqrt(part.squared_mu)
        return lambda rate: normal.cdf(normal.quantile(rate) + mu)
    if isinstance(part, PureEvent) and part.count == 1:
        return lambda rate: pure_rate(part.epsilon, rate)
    if isinstance(part, GroupEvent):
        return lambda rate: trade_off(part.inner).group_rate(rate, part.size)
    return None


@functools.lru_cache(maxsize=1 << 16)
def delta(parts: tuple[Event, ...], epsilon: float) -> float:
    """An upper bound on delta(epsilon)."""
    exact = _closed_delta(parts, epsilon)
    if exact is not None:
        return exact
    group, rest = _split(parts)
    if group is not None:
        found = [_group_delta(group, epsilon)] if not rest else []
        # Otherwise basic composition, at a few shares of epsilon.
        shares = _SHARES if rest else ()
        found += [_group_delta(group, s * epsilon) + delta(rest, (1 - s) * epsilon) for s in shares]
        return min(1.0, *found)
    return min(simple_delta(parts, epsilon), fourier.delta(parts, epsilon))


@functools.lru_cache(maxsize=1 << 16)
def epsilon(parts: tuple[Event, ...], delta: float) -> float:
    """An upper bound on epsilon(delta)."""
    exact = _closed_epsilon(parts, delta)
    if exact is not None:
        return exact
    if delta == 0.0:
        return float(largest_loss(parts))
    group, rest = _split(parts)
    if group is not None:
        if not rest:
            return trade_off(group.inner).group_epsilon(delta, group.size)
        return min(epsilon((group,), s * delta) + epsilon(rest, (1 - s) * delta) for s in _SHARES)
    if _least_variation(parts) <= delta and _variation(parts) <= delta:
        return 0.0  # the total variations of the single steps already add up to no more
    return min(simple_epsilon(parts, delta), fourier.epsilon(parts, delta))


def _variation(parts: tuple[Event, ...]) -> float:
    """The total variations of the single steps, added."""
    alone = ((getattr(p, "count", 1), _closed_delta((once(p),), 0.0) or 0.0) for p in parts)
    return sum((count * one for count, one in alone), 0.0)


def _least_variation(parts: tuple[Event, ...]) -> float:
    """At most `_variation`, in closed form: of the releases of a mixture it has one alone."""
    total = 0.0
    for p in parts:
        count = getattr(p, "count", 1)
        if isinstance(p, MixtureEvent):
            one = max((_least_variation((once(q),)) for q in p.local), default=0.0)
            total += count * p.rate * one
        else:
            total += count * (_closed_delta((once(p),), 0.0) or 0.0)
    return total


def within(parts: tuple[Event, ...], epsilon_budget: float, delta_budget: float) -> bool:
    """Whether the parts are (epsilon_budget, delta_budget)-private, by the quickest bound that can
    tell.
    """
    quick = quickly_within(parts, epsilon_budget, delta_budget)
    return epsilon(parts, delta_budget) <= epsilon_budget if quick is None else quick


def quickly_within(
    parts: tuple[Event, ...], epsilon_budget: float, delta_budget: float
) -> bool | None:
    """The answer of `within` where bounds in closed form decide; None where only a privacy-loss
    distribution can.
    """
    if largest_loss(parts) <= Decimal(repr(epsilon_budget)):
        return True
    if delta_budget == 0.0:
        return False
    exact = _closed_delta(parts, epsilon_budget)
    if exact is not None:
        return exact <= delta_budget
    if any(isinstance(p, GroupEvent) for p in parts):
        return None
    if simple_delta(parts, epsilon_budget) <= delta_budget:
        return True
    alone = (_closed_delta((p,), epsilon_budget) for p in parts)
    return False if any(cost is not None and cost > delta_budget for cost in alone) else None


def _closed_delta(parts: tuple[Event, ...], epsilon: float) -> float | None:
    if len(parts) == 0:
        return 0.0
    if isinstance(parts[0], NoPrivacyEvent):
        return 1.0
    if math.isinf(epsilon):
        seen = [p for p in parts if isinstance(p, GroupEvent)]
        if any(fourier.infinite_mass(p.inner) > 0 for p in seen):
            return 1.0  # no figure is made for this rare question
        return fourier.infinite_mass(tuple(p for p in parts if p not in seen))
    if len(parts) != 1:
        return None
    (part,) = parts
    assert not isinstance(part, NoPrivacyEvent)
    if isinstance(part, GaussianEvent):
        return gaussian_delta(epsilon, math.sqrt(part.squared_mu))
    if isinstance(part, GroupEvent) or part.count > 1:
        return None
    if isinstance(part, PureEvent):
        return _pure_delta(part.epsilon, epsilon)
    if isinstance(part, ApproximateEvent):
        return part.delta + (1 - part.delta) * _pure_delta(part.epsilon, epsilon)
    if isinstance(part, SampledGaussianEvent):
        return part.rate * gaussian_delta(
            _unamplified(epsilon, part.rate), 1 / part.noise_multiplier
        )
    if isinstance(part, AllocatedGaussianEvent):
        return allocation.epoch(part.noise_multiplier, part.steps).delta(epsilon)
    if isinstance(part, MixtureEvent):
        return part.rate * delta(part.local, epsilon)
    return fourier.delta(parts, epsilon)


def _pure_delta(of: float, epsilon: float) -> float:
    """delta(epsilon) of randomised response at the epsilon `of`."""
    return max(0.0, -math.expm1(min(0.0, epsilon - of)) / (1 + math.exp(-of)))


def _closed_epsilon(parts: tuple[Event, ...], delta: float) -> float | None:
    if not parts:
        return 0.0
    if isinstance(parts[0], NoPrivacyEvent):
        return math.inf
    if len(parts) != 1:
        return None
    (part,) = parts
    assert not isinstance(part, NoPrivacyEvent)
    if isinstance(part, GaussianEvent):
        return gaussian_epsilon(delta, math.sqrt(part.squared_mu))
    if isinstance(part, GroupEvent) or part.count > 1 or delta == 0.0:
        return None
    if isinstance(part, PureEvent | ApproximateEvent):
        failure = part.delta if isinstance(part, ApproximateEvent) else 0.0
        if delta < failure:
            return math.inf
        share = (delta - failure) / (1 - failure) * (1 + math.exp(-part.epsilon))
        return max(0.0, part.epsilon + math.log1p(-share)) if share < 1 else 0.0
    if isinstance(part, SampledGaussianEvent):
        if delta >= part.rate:
            return 0.0
        return amplified(gaussian_epsilon(delta / part.rate, 1 / part.noise_multiplier), part.rate)
    if isinstance(part, MixtureEvent):
        return 0.0 if delta >= part.rate else epsilon(part.local, delta / part.rate)
    return None


def _unamplified(epsilon: float, rate: float) -> float:
    """log(1 + (e^epsilon - 1)/rate)."""
    return math.log1p(math.expm1(epsilon) / rate) if epsilon < 600 else epsilon - math.log(rate)


def _simple(parts: tuple[Event, ...]) -> tuple[Decimal, float, float]:
    """Bounds that add up: (epsilons, squared mu, failure probabilities); sampling costs at most
    using everything.
    """
    epsilons, squared_mu, failure = Decimal(0), 0.0, 0.0
    for p in parts:
        if isinstance(p, GaussianEvent):
            squared_mu += p.squared_mu
        elif isinstance(p, SampledGaussianEvent | AllocatedGaussianEvent):
            squared_mu += p.count / p.noise_multiplier**2
        elif isinstance(p, PureEvent | ApproximateEvent):
            epsilons += Decimal(repr(p.epsilon)) * p.count
            failure += p.delta * p.count if isinstance(p, ApproximateEvent) else 0.0
        elif isinstance(p, SelectedGaussianEvent):
            failure = math.inf  # there is no such bound of it
        elif isinstance(p, MixtureEvent):
            e, m, f = _simple(p.local)
            epsilons, squared_mu, failure = (
                epsilons + e * p.count,
                squared_mu + m * p.count,
                failure + f * p.count * p.rate,
            )
    return epsilons, squared_mu, failure


def simple_delta(parts: tuple[Event, ...], epsilon: float) -> float:
    """A quick bound: pure epsilons off the target, Gaussians in closed form, failures added."""
    epsilons, squared_mu, failure = _simple(parts)
    spare = float(Decimal(repr(epsilon)) - epsilons)
    return 1.0 if spare < 0 else min(1.0, failure + gaussian_delta(spare, math.sqrt(squared_mu)))


def simple_epsilon(parts: tuple[Event, ...], delta: float) -> float:
    """The same bound, solved for epsilon."""
    epsilons, squared_mu, failure = _simple(parts)
    if failure > delta or (failure == delta and squared_mu > 0):
        return math.inf
    return float(epsilons) + gaussian_epsilon(delta - failure, math.sqrt(squared_mu))


def group_of(part: Event, size: int) -> Event | None:
    """What a part costs a group of `size` records, where that is a part of the same kind."""
    if isinstance(part, GaussianEvent):
        return GaussianEvent(part.squared_mu * size * size)
    if isinstance(part, PureEvent):
        return PureEvent(part.epsilon * size, count=part.count)
    if isinstance(part, ApproximateEvent) and part.count == 1:
        failure = part.delta * geometric_sum(part.epsilon, size)
        return ApproximateEvent(size * part.epsilon, failure) if failure < 1 else NoPrivacyEvent()
    if isinstance(part, GroupEvent):
        return GroupEvent(part.size * size, part.inner)
    return None
