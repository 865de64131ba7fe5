r"""Privacy losses of single mechanisms: their moments, and their pessimistic discretisation on a
lattice.

The privacy loss of a dominating pair (P, Q) is L = log dP/dQ under P. On a lattice of step h the
loss of a bin [a, a + h] with P-mass p and Q-mass q is moved to its two ends in the one way that
keeps both masses,

    v = (p - q e^a) / (1 - e^-h) at a + h,   p - v at a,

so that delta(eps) is exact at lattice points and its chord (a bound from above, by convexity in
e^eps) between them. Everything else errs upwards: the tail beyond 10.7 standard deviations (mass
below 1e-26) counts as an infinite loss. Source: Doroshenko, Ghazi, Kamath, Kumar and Manurangsi
2022 (connect the dots).
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from . import allocation
from .events import (
    AllocatedGaussianEvent,
    ApproximateEvent,
    CoarselyAllocatedEvent,
    Event,
    GaussianEvent,
    PureEvent,
    SampledGaussianEvent,
    SelectedGaussianEvent,
)
from .gaussian import gaussian_delta
from .normal import between, ndtr

Floats = NDArray[np.float64]
TAIL = 10.7  # standard deviations; the normal mass beyond is 5e-27
FAR = 37.0  # the same for deltas as small as that; the mass beyond is 5e-300
LONGEST = 1 << 23  # points of one lattice
_AT_ONCE = 1 << 16  # terms of moments, which stay in a processor's cache
LARGEST = 600.0  # losses above count as infinite: exp(600) is still a float64


@dataclass(frozen=True)
class Lattice:
    """A pmf of the loss on multiples of the step: index -> mass, the rest of the mass being an
    infinite loss.
    """

    index: NDArray[np.int64]
    mass: Floats
    infinite: float


def lattice(part: Event, add: bool, step: float, tail: float = TAIL) -> Lattice:
    """One application of `part`, discretised; losses beyond `tail` standard deviations of the noise
    count as infinite.

    `add`: the direction of an asymmetric pair in which the record is added. Raises `MemoryError`
    above `LONGEST` points.
    """
    if isinstance(part, GaussianEvent):
        return _normal_lattice(math.sqrt(part.squared_mu), 1.0, False, step, tail)
    if isinstance(part, PureEvent):
        return _two_points(part.epsilon, 0.0, step)
    if isinstance(part, ApproximateEvent):
        return _two_points(part.epsilon, part.delta, step)
    if isinstance(part, AllocatedGaussianEvent):
        loss, mass, infinite = _epoch(part).losses(add)
        return _points_on_lattice(loss, mass, infinite, step)
    assert isinstance(part, SampledGaussianEvent)
    mu = 1 / part.noise_multiplier
    if part.sampling == "poisson":
        return _normal_lattice(mu, part.rate, add, step, tail)
    return _mirrored(_normal_lattice(mu, part.rate, False, step, tail, positive=True), step)


def _epoch(part: AllocatedGaussianEvent) -> allocation.RatioDistribution:
    coarse = isinstance(part, CoarselyAllocatedEvent)
    points = allocation.COARSE if coarse else allocation.FINE
    return allocation.epoch(part.noise_multiplier, part.steps, points)


def log_moment(part: Event, add: bool, a: Floats, tail: float = TAIL) -> Floats:
    """log E exp(a L) of one application of `part` for every `a`, over all losses but those counted
    in `lost_mass`.
    """
    if isinstance(part, PureEvent):
        return _pure_moment(part.epsilon, a)
    if isinstance(part, SelectedGaussianEvent):
        return _selected_moment(part, a)
    loss, log_mass, _ = _quadrature(part, add, tail)
    if loss.size == 0:
        return np.full(np.shape(a), -math.inf)
    found = np.empty(np.shape(a))
    rows = max(1, _AT_ONCE // loss.size)
    for start in range(0, len(a), rows):
        exponent = np.multiply.outer(a[start : start + rows], loss)
        exponent += log_mass
        peak = exponent.max(axis=-1, keepdims=True)
        exponent -= peak
        np.exp(exponent, out=exponent)
        found[start : start + rows] = peak[:, 0] + np.log(np.sum(exponent, axis=-1))
    return found


def lost_mass(part: Event, add: bool, tail: float = TAIL) -> float:
    """At least the mass of the losses that `log_moment` leaves out: those above `LARGEST` and the
    far tails.
    """
    if isinstance(part, PureEvent | SelectedGaussianEvent):
        return 0.0
    return _quadrature(part, add, tail)[2]


def log_moment_bound(part: Event, a: Floats) -> Floats:
    """A bound on log E exp(a L) over all finite losses, in either direction, however large they
    are.

    For a sampled Gaussian p^(1 + a) q^-a is convex in the pair (p, q), so that its integral is at
    most that of the mixture of "not drawn" (1) and "drawn" (the Gaussian's). Without replacement
    the distribution is the same above 0, and what is below 0 there, at least log(1 - rate), is at
    most 0: that adds at most 1 - (1 - rate)^a.
    """
    if isinstance(part, PureEvent):
        return _pure_moment(part.epsilon, a)
    if isinstance(part, ApproximateEvent):
        return _pure_moment(part.epsilon, a) + math.log1p(-part.delta)
    if isinstance(part, GaussianEvent):
        return a * (a + 1) / 2 * part.squared_mu
    if isinstance(part, SelectedGaussianEvent):
        return _selected_moment(part, a)
    if isinstance(part, AllocatedGaussianEvent):  # the ratio is a mean of those of the steps
        return a * (a + 1) / 2 / part.noise_multiplier**2
    assert isinstance(part, SampledGaussianEvent)
    drawn = math.log(part.rate) + a * (a + 1) / 2 / part.noise_multiplier**2
    mixed = np.logaddexp(math.log1p(-part.rate) if part.rate < 1 else -math.inf, drawn)
    if part.sampling == "poisson":
        return mixed
    with np.errstate(divide="ignore"):
        return np.logaddexp(
            mixed,
            np.log(-np.expm1(a * math.log1p(-part.rate)) if part.rate < 1 else np.ones_like(a)),
        )


def _selected_moment(part: SelectedGaussianEvent, a: Floats) -> Floats:
    """A bound on log E exp(a L) of the best of a Poisson number of Gaussian releases, in either
    direction: a times that on the Renyi divergence of order 1 + a.

    It rests on the delta of *one* release at epsilon = log(1 + 1/a). Source: Papernot and Steinke
    2022, Theorem 6, with no release at all as an outcome of its own. Proof:
    docs/proofs/private-search.md, Lemma 2.
    """
    mu = 1.0 / part.noise_multiplier
    one = [gaussian_delta(math.log1p(1.0 / order), mu) for order in np.ravel(a).tolist()]
    failure = np.reshape(np.array(one), np.shape(a))
    best = a * (a + 1) / 2 * mu**2 + a * part.runs * failure + math.log(part.runs)
    return np.logaddexp(-part.runs, best)


def _pure_moment(epsilon: float, a: Floats) -> Floats:
    return -math.log1p(math.exp(-epsilon)) + np.logaddexp(a * epsilon, -(1 + a) * epsilon)


@functools.lru_cache(maxsize=256)
def _quadrature(part: Event, add: bool, tail: float) -> tuple[Floats, Floats, float]:
    """Losses and log masses that stand for the continuous distribution, and the mass that they
    leave out, not less than it is.

    The trapezoid rule is spectrally accurate on a Gaussian as long as its points are closer than a
    standard deviation. So where the two normal distributions of a mixture are far apart each has
    points of its own; there is nothing between them.
    """
    if isinstance(part, ApproximateEvent):
        e, failure = part.epsilon, part.delta
        log_up = -math.log1p(math.exp(-e)) + math.log1p(-failure)
        return np.array([e, -e]), np.array([log_up, log_up - e]), failure
    if isinstance(part, AllocatedGaussianEvent):
        loss, mass, infinite = _epoch(part).losses(add)
        keep = loss <= LARGEST
        with np.errstate(divide="ignore"):
            log_mass = np.log(mass[keep])
        lost = infinite + float(np.sum(mass[~keep]))
        return np.maximum(loss[keep], -LARGEST), log_mass, lost
    if isinstance(part, GaussianEvent):
        mu, rate = math.sqrt(part.squared_mu), 1.0
    else:
        assert isinstance(part, SampledGaussianEvent)
        mu, rate = 1 / part.noise_multiplier, part.rate
    symmetric = isinstance(part, SampledGaussianEvent) and part.sampling != "poisson"
    if add:
        x, log_weight = _points(-tail, tail)
    elif symmetric:
        x, log_weight = _points(max(mu / 2, mu - tail), mu + tail)
    elif rate < 1.0 and mu > 3 * tail:
        x, log_weight = (
            np.concatenate(pair)
            for pair in zip(_points(-tail, tail), _points(mu - tail, mu + tail), strict=True)
        )
    else:
        x, log_weight = _points(-tail if rate < 1.0 else mu - tail, mu + tail)
    log_base = log_weight - x * x / 2 - math.log(2 * math.pi) / 2
    drift = mu * x - mu * mu / 2
    loss = drift if rate == 1.0 else np.logaddexp(math.log1p(-rate), math.log(rate) + drift)
    tails = 3 * float(
        ndtr(-tail)
    )  # of each normal distribution, and what little of one lies in the other's window
    if add:
        keep = -loss <= LARGEST
        if not np.any(keep):
            return np.empty(0), np.empty(0), 1.0
        lost = tails + (0.0 if keep[0] else float(ndtr(x[keep][0])))
        return np.maximum(-loss, -LARGEST)[keep], log_base[keep], lost
    keep = loss <= LARGEST
    if not np.any(keep):
        # In the symmetric distribution what is not drawn has loss 0 or less; the other distribution
        # has nothing else.
        nothing = np.zeros(1 if symmetric else 0)
        return nothing, nothing, min(1.0, rate + tails)
    last = float(x[keep][-1])
    lost = tails + (
        0.0 if keep[-1] else (1 - rate) * float(ndtr(-last)) + rate * float(ndtr(mu - last))
    )
    loss, log_mass = loss[keep], (log_base + loss)[keep]
    if not symmetric:
        return loss, log_mass, lost
    rest = max(1e-300, 1 - float(np.sum(np.exp(log_mass)) + np.sum(np.exp(log_mass - loss))))
    return (
        np.concatenate([loss, -loss, [0.0]]),
        np.concatenate([log_mass, log_mass - loss, [math.log(rest)]]),
        lost,
    )


def _points(low: float, high: float) -> tuple[Floats, Floats]:
    """Points of the trapezoid rule on an interval, and the logarithms of their weights."""
    x = np.linspace(low, high, 1501)
    log_weight = np.full(x.shape, math.log(x[1] - x[0]))
    log_weight[[0, -1]] -= math.log(2)
    return x, log_weight


def _normal_lattice(
    mu: float, rate: float, add: bool, step: float, tail: float, positive: bool = False
) -> Lattice:
    """Pair (1 - rate) N(0, 1) + rate N(mu, 1) against N(0, 1), or the reverse when `add`."""
    rest = 1.0 - rate
    if add:
        log_rest = math.log(rest) if rest > 0 else -math.inf
        ends = (
            -np.logaddexp(log_rest, math.log(rate) + mu * x - mu * mu / 2) for x in (-tail, tail)
        )
        top, bottom = map(float, ends)
    else:
        high, low = mu * (mu + tail) - mu * mu / 2, -mu * tail - mu * mu / 2
        if rate == 1.0:
            low = mu * (mu - tail) - mu * mu / 2
        top, bottom = (amplified(e, rate) for e in (high, low))
    if positive:
        bottom = 0.0
    first = math.floor(min(max(bottom, -LARGEST), LARGEST) / step)
    last = max(first + 1, math.ceil(min(top, LARGEST) / step))
    if last - first > LONGEST:
        raise MemoryError("the lattice of a privacy loss is too fine for its range")
    edge = step * np.arange(first, last + 1)
    # Where on the x axis the loss passes each edge; the lowest bin takes everything below it, too.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        inner = np.expm1(-edge if add else edge) / rate
        x = np.where(inner > -1.0, np.log1p(np.maximum(inner, -1.0)), -np.inf) / mu + mu / 2
    if not positive:
        x[0] = np.inf if add else -np.inf
    lower, upper = (x[1:], x[:-1]) if add else (x[:-1], x[1:])
    base = between(lower, upper)  # N(0, 1)
    moved = between(lower - mu, upper - mu)  # N(mu, 1)
    a = edge[:-1]
    # p - q e^a, written so that the leading terms cancel on paper and not in floating point.
    if add:
        p = base
        numerator = -np.expm1(a) * base - np.exp(a) * rate * (moved - base)
        infinite = float(ndtr(x[-1]))
    else:
        p = base + rate * (moved - base)
        numerator = rate * (moved - base) - np.expm1(a) * base
        infinite = rest * float(ndtr(-x[-1])) + rate * float(ndtr(mu - x[-1]))
    upward = np.clip(numerator / -math.expm1(-step), 0.0, p)
    mass = np.zeros(last - first + 1)
    mass[:-1] = p - upward
    mass[1:] += upward
    return Lattice(np.arange(first, last + 1), mass, infinite)


def amplified(loss: float, rate: float) -> float:
    """log(1 - rate + rate e^loss), for any loss: at rate 1 it is the loss itself, where the sum
    would be log(0) below -37.
    """
    if rate == 1.0:
        return loss
    return math.log1p(rate * math.expm1(loss)) if loss < LARGEST else loss + math.log(rate)


def _mirrored(half: Lattice, step: float) -> Lattice:
    """The symmetric loss whose positive part is given: p(-t) = e^-t p(t), and what is left has loss
    0.
    """
    keep = half.index > 0
    index, mass = half.index[keep], half.mass[keep]
    mirror = mass * np.exp(-step * index)
    middle = max(0.0, 1.0 - half.infinite - math.fsum(mass) - math.fsum(mirror))
    return Lattice(
        np.concatenate([-index[::-1], [0], index]),
        np.concatenate([mirror[::-1], [middle], mass]),
        half.infinite,
    )


def _two_points(epsilon: float, failure: float, step: float) -> Lattice:
    """Randomised response at `epsilon`, failing altogether with probability `failure`."""
    up = (1.0 - failure) / (1.0 + math.exp(-epsilon))
    index: list[int] = []
    mass: list[float] = []
    for loss, weight in ((epsilon, up), (-epsilon, up * math.exp(-epsilon))):
        k = math.floor(loss / step)
        upward = min(weight, max(0.0, weight * math.expm1(k * step - loss) / math.expm1(-step)))
        index += [k, k + 1]
        mass += [weight - upward, upward]
    return Lattice(np.array(index), np.array(mass), failure)


def _points_on_lattice(loss: Floats, mass: Floats, infinite: float, step: float) -> Lattice:
    """A distribution of losses at points, each moved to its two neighbours on the lattice with its
    mass under P and under Q kept, which is a bound from above.
    """
    far = loss > LARGEST
    infinite += float(np.sum(mass[far]))
    loss, mass = np.maximum(loss[~far], -LARGEST), mass[~far]
    k = np.floor(loss / step).astype(np.int64)
    first = int(k.min()) if k.size else 0
    if k.size and int(k.max()) - first > LONGEST:
        raise MemoryError("the lattice of a privacy loss is too fine for its range")
    upward = np.clip(mass * np.expm1(k * step - loss) / math.expm1(-step), 0.0, mass)
    size = int(k.max()) - first + 2 if k.size else 1
    weight: Floats = np.asarray(np.bincount(k - first, mass - upward, size), dtype=np.float64)
    weight += np.bincount(k - first + 1, upward, size)
    return Lattice(np.arange(first, first + size), weight, infinite)
