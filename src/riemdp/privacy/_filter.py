r"""When may one more release be granted, if what came out before may have decided which one it is?

The composition of fixed guarantees bounds what releases leak that were chosen in advance. A ledger
is queried after every release, by a person who has seen the outputs. Whether delta holds is then a
question about E max over choices, not max over choices of E, so a ledger needs a *filter*: a rule
whose budget holds whatever the strategy. Write L for the privacy loss so far. All rules here are of
one kind: a function Phi(L, state) with

    E Phi(L + X, new state) <= Phi(L, state)   for every release X that the rule admits,
    Phi(L, any state that the rule admits) >= (1 - exp(epsilon - L))_+,
    Phi(0, nothing spent) <= delta.

Then delta(epsilon) <= delta for every strategy, and sums of such functions share out delta.

**Gaussian rule.** Phi(L, r) = delta of a Gaussian of squared mu r at epsilon - L, with r what is
left of B = mu(epsilon, delta)^2. A Gaussian release uses up 1/z^2 of it, exactly (the GDP filter).
Any other release X costs the least c with delta_{X + Gaussian(r)} <= delta_{Gaussian(r + c)} at
every epsilon, r being what is left afterwards. For a pure release that is at most
4 ndtri(1/(1 + exp(-e)))^2 (Dong, Roth and Su 2022, Proposition 2.11 solved for mu) and nearly e^2
where e^2 is small beside r. Other releases dominate no Gaussian in their far tails; there a small
part of delta, the reserve, pays for what is left over (`gaussian_cost`).

**Renyi rule.** Phi(L, K) = delta sum_k w_k exp(a_k L - K_k), K_k the sum of the releases' log
moments at the fixed orders 1 + a_k, w fixed weights with sum 1. A mixture over orders, because the
best order may otherwise be chosen by what came out.

**Pure rule.** While all releases are pure and their epsilons add up to at most epsilon the loss
never exceeds epsilon, and no part of delta is needed.

**One release alone**, made of whatever parts, was chosen before anything came out: its own figures
hold.

Sources: Feldman and Zrnic 2021, Lecuyer 2021 (Renyi filters); Smith and Thakurta 2022 (GDP
filter); Rogers, Roth, Ullman and Vadhan 2016 (filters, basic composition).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from ._budget import Budget
from ._guarantee import Guarantee
from .accounting import bounds, fourier, normal
from .accounting.events import Event, GaussianEvent, GroupEvent, PureEvent, merge
from .accounting.gaussian import gaussian_mu

Floats = NDArray[np.float64]

# Shares of delta under the mixed rule. They add up to 1.
_GAUSSIAN_SHARE, _GAUSSIAN_RESERVE = 0.40, 0.05
_RENYI_SHARE, _RENYI_RESERVE = 0.30, 0.25
# Under the Gaussian rule alone the budget in mu^2 is this much below the exact one, which leaves a
# reserve of at least half of it, relative to delta. Calibrated noise keeps twice this distance.
_ROOM = 1e-12
_STEPS_OF_BLUR = 1.05  # costs are tabulated for remaining budgets on this geometric grid


@dataclass(frozen=True)
class Spent:
    """What a filter has to know: Gaussian and pure releases, which add up, and all other runs.

    Attributes:
        simple: Gaussian and pure parts of releases made of nothing else.
        runs: One entry for each release (or run planned as a whole) that has other parts.
        mixed: Whether delta is shared between the rules; None until the first release decides.
    """

    simple: Guarantee
    runs: tuple[Guarantee, ...] = ()
    mixed: bool | None = None

    def with_(self, whole: Guarantee) -> Spent:
        """The state after one more release, or run planned as a whole."""
        simple = is_simple(whole)
        mixed = (not simple) if self.mixed is None else self.mixed
        if simple:
            return Spent(self.simple.compose(whole), self.runs, mixed)
        return Spent(self.simple, (*self.runs, whole), mixed)


@np.errstate(under="ignore")  # chances far out are 0
def admits(spent: Spent, budget: Budget) -> bool:
    """Whether releases with this total are within `budget`, however they were chosen."""
    parts = merge(p for g in (spent.simple, *spent.runs) for p in g.parts)
    if not parts:
        return True
    if bounds.largest_loss(parts) <= Decimal(repr(budget.epsilon)):
        return True
    if budget.delta == 0.0:
        return False
    if len(spent.runs) == 1 and not spent.simple.parts:
        return spent.runs[0].within(budget)
    rests = [rest for g in spent.runs if (rest := _rest(g.parts))]
    if not spent.mixed:
        return _gaussian_rule(parts, rests, *_whole_delta(budget))
    share = _GAUSSIAN_SHARE * budget.delta
    limit = gaussian_mu(budget.epsilon, share) ** 2
    return _gaussian_rule(parts, rests, limit, _GAUSSIAN_RESERVE * budget.delta) or _renyi_rule(
        parts, budget
    )


def _whole_delta(budget: Budget) -> tuple[float, float]:
    """(limit in mu^2, reserve) of the Gaussian rule alone.

    The derivative of log delta by log mu^2 is above 0.42 for delta <= 1/2 at every epsilon, and
    falls to 0 for delta near 1: there nothing is kept for runs that need a reserve.
    """
    limit = gaussian_mu(budget.epsilon, budget.delta) ** 2 * (1 + _ROOM)
    return limit, 0.4 * _ROOM * budget.delta if budget.delta <= 0.5 else 0.0


def is_simple(release: Guarantee) -> bool:
    """Whether the release is Gaussian only or pure only: such releases add up one by one."""
    return all(isinstance(p, GaussianEvent) for p in release.parts) or all(
        isinstance(p, PureEvent) for p in release.parts
    )


def _rest(parts: tuple[Event, ...]) -> tuple[Event, ...]:
    return tuple(p for p in parts if not isinstance(p, GaussianEvent | PureEvent))


# -------------------------------------------------------------------- the Gaussian rule
def _gaussian_rule(
    parts: tuple[Event, ...],
    rests: Iterable[tuple[Event, ...]],
    limit: float,
    reserve: float,
) -> bool:
    """Whether the costs in mu^2 add up to at most `limit`, using up at most `reserve` of delta."""
    fixed = sum(p.squared_mu for p in parts if isinstance(p, GaussianEvent))
    pures = [p for p in parts if isinstance(p, PureEvent)]
    if fixed > limit:
        return False
    for i, rest in enumerate(rests):
        failure = bounds.delta(rest, math.inf)
        reserve -= failure
        # Half of what is reserved goes to the first run, a quarter to the second, and so on.
        part = reserve / 2 ** (i + 1)
        if part <= 0.0:
            return False
        fixed += gaussian_cost(rest, failure + part)
        if fixed > limit:
            return False
    if fixed + sum(p.count * _least_cost(p.epsilon) for p in pures) > limit:
        return False
    # The costs depend on what is left, and what is left on the costs: the least fixed point.
    total = fixed
    for _ in range(200):
        guess = total * (1 + 1e-9)
        total = fixed + sum(p.count * pure_cost(p.epsilon, limit - guess) for p in pures)
        if total > limit:
            return False
        if total <= guess:
            return True
    return False


def _least_cost(epsilon: float) -> float:
    """Less than any cost of a pure release: its expected loss is at most half its squared mu."""
    return 2 * epsilon * math.tanh(epsilon / 2) * (1 - 1e-9)


def pure_cost(epsilon: float, blur: float) -> float:
    """The squared mu that a pure release uses up when `blur` of squared mu is left afterwards."""
    if blur <= 0.0:
        return _unblurred(epsilon)
    step = math.floor(math.log(blur) / math.log(_STEPS_OF_BLUR))
    return _pure_cost(epsilon, step)


def _smaller_of_two(epsilon: float) -> float:
    """The smaller probability of randomised response, 1 / (1 + e^epsilon), without overflow."""
    return math.exp(-epsilon) / (1 + math.exp(-epsilon))


def _unblurred(epsilon: float) -> float:
    """Randomised response is dominated by the Gaussian of equal total variation."""
    # -ndtri of the smaller probability: no cancellation for large epsilon
    return (2 * normal.quantile(_smaller_of_two(epsilon))) ** 2 * (1 + 1e-12)


@functools.lru_cache(maxsize=1 << 16)
def _pure_cost(epsilon: float, step: int) -> float:
    blur = _STEPS_OF_BLUR**step
    sigma, plain = math.sqrt(blur), _unblurred(epsilon)
    if not 0.003 * sigma < epsilon < 6 * sigma:  # too fine to be certified, or nothing to gain
        return plain
    top = epsilon + blur / 2 + 13.5 * sigma
    x = np.linspace(0.0, top, 1500 + int(100 * epsilon / sigma))
    up = 1 / (1 + math.exp(-epsilon))
    profile = up * _delta(x - epsilon, sigma) + (1 - up) * _delta(x + epsilon, sigma)
    if profile[-1] > 1e-35:
        return plain
    return _least_dominating(x, profile, blur, _least_cost(epsilon), plain)


@functools.lru_cache(maxsize=1 << 12)
def gaussian_cost(parts: tuple[Event, ...], failure: float) -> float:
    """A squared mu c with delta(epsilon) <= failure + (delta of a Gaussian of squared mu c), for
    every epsilon and in both directions; infinite if there is none.
    """
    top = max(1e-12, bounds.epsilon(parts, failure))
    if top > 500.0:
        return math.inf
    step = 2.0 ** (math.floor(2.0 * math.log2(top / 20.0)) / 2.0)  # alike runs share their points
    x = step * np.arange(math.ceil(top / step) + 1)
    profile = np.array([bounds.delta(parts, float(e)) for e in x]) - failure
    profile = np.maximum.accumulate(np.maximum(profile, 0.0)[::-1])[::-1]
    profile[-1] = 0.0
    highest = 1e-6
    while not _dominated(x, profile, math.sqrt(highest)):
        highest *= 4
        if highest > 1e6:
            return math.inf
    return _least_dominating(x, profile, 0.0, highest / 4, highest)


def _least_dominating(x: Floats, profile: Floats, blur: float, low: float, high: float) -> float:
    """The least c between `low` and `high` (which is known to do) with `profile` below the delta of
    a Gaussian of squared mu blur + c.
    """
    for _ in range(12):
        middle = (low + high) / 2
        if _dominated(x, profile, math.sqrt(blur + middle)):
            high = middle
        else:
            low = middle
    return high


def _dominated(x: Floats, profile: Floats, mu: float) -> bool:
    """Whether a profile, known at the points x >= 0, lies below that of a Gaussian on all of
    [x[0], x[-1]].

    Profiles are convex in exp(epsilon). Between two points the one lies below its chord and the
    other above both its tangents, so the comparison at the crossing of the tangents decides.
    """
    bound, slope = _delta_and_slope(x, mu)
    ratio = np.expm1(np.diff(x))
    second = slope[1:] / (1 + ratio)
    difference = slope[:-1] - second
    with np.errstate(divide="ignore", invalid="ignore"):
        cross = (bound[:-1] - bound[1:] - second * ratio) / difference
    cross = np.clip(np.where(difference > 0, cross, 0.0), 0.0, ratio)
    chord = profile[:-1] + np.diff(profile) * cross / ratio
    below = np.maximum(bound[:-1] - slope[:-1] * cross, bound[1:] + second * (ratio - cross))
    return bool(np.all(profile <= bound) and np.all(chord <= below))


def _delta_and_slope(x: Floats, mu: float) -> tuple[Floats, Floats]:
    """delta(x) of a Gaussian for x >= 0, and exp(x) Phi(-mu/2 - x/mu): its slope in exp(x) times
    -exp(x).
    """
    a = mu / 2 - x / mu
    density = np.exp(-a * a / 2)
    second = 0.5 * density * normal.scaled_tails((mu / 2 + x / mu) / math.sqrt(2))
    below = 0.5 * density * normal.scaled_tails(np.maximum(-a, 0.0) / math.sqrt(2))
    first = np.where(a > 0, normal.ndtr(a), below)
    return np.maximum(first - second, 0.0), second


def _delta(x: Floats, mu: float) -> Floats:
    """delta(x) of a Gaussian, for x of either sign."""
    size = np.abs(x)
    value = _delta_and_slope(size, mu)[0]
    return np.where(x >= 0, value, -np.expm1(-size) + np.exp(-size) * value)


# -------------------------------------------------------------------- the Renyi rule
@functools.lru_cache(maxsize=256)
def _orders(epsilon: float, delta: float) -> tuple[Floats, Floats]:
    """Orders minus 1 and log weights, from the budget alone: about the order that is best for
    Gaussian releases, and above it those that are best for fewer and larger losses.
    """
    best = max(0.5, epsilon / gaussian_mu(epsilon, delta) ** 2 - 0.5)
    index = np.arange(-4, 11)
    weight = 0.85 ** np.abs(index)
    return best * 2.0 ** (index / 2), np.log(weight / np.sum(weight))


def _renyi_rule(parts: tuple[Event, ...], budget: Budget) -> bool:
    if any(isinstance(p, GroupEvent) for p in parts):  # their moments are not known
        return False
    share = _RENYI_SHARE * budget.delta
    orders, log_weight = _orders(budget.epsilon, share)
    excess = np.concatenate([[0.0], np.geomspace(1e-9, 60.0, 400)])
    for add in (False, True) if fourier.is_asymmetric(parts) else (False,):
        if fourier.lost_mass(parts, add) > _RENYI_RESERVE * budget.delta:
            return False
        moments = fourier.log_moments(parts, add, orders) + 1e-9
        at = np.add.outer(excess, [budget.epsilon]) * orders + (log_weight - moments)
        peak = np.max(at, axis=1)
        log_phi = peak + np.log(np.sum(np.exp(at - peak[:, None]), axis=1)) + math.log(share)
        needed = np.log(-np.expm1(-np.append(excess[1:], np.inf)))
        if np.any(log_phi < needed):
            return False
    return True
