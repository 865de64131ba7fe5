r"""Composition of privacy losses: tilted Fourier transforms on a lattice, always rounded towards
more privacy loss.

For a composition with loss L = sum of the parts' losses, delta(eps) = E (1 - exp(eps - L))_+. We
compute the distribution of L under the exponential tilt exp(lambda L - K(lambda)), K the log moment
of L, with lambda chosen so that eps lies in the *middle* of the tilted distribution. There the
Fourier transform has its full relative precision, however small delta is, and a window of a few
standard deviations is enough:

    delta(eps) = exp(K - lambda eps) sum_{l > eps} tilted(l) exp(-lambda (l - eps)) (1 - exp(-(l -
    eps))) + tail + infinite.

The transform is periodic. What lies above the window could wrap to below eps and be lost, so its
mass is bounded (Chernoff) and added as `tail`; what wraps from below only adds. The lattice step
follows from a bound on what discretisation adds to K, about lambda (lambda + 1) h^2 / 12 a step,
and is halved until the answer is stable. Source: Koskela, Jälkö and Honkela 2020 (Fourier
accountant); Doroshenko et al. 2022 (discretisation); the tilt is the usual Esscher transform.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import losses
from .events import (
    AllocatedGaussianEvent,
    ApproximateEvent,
    Event,
    MixtureEvent,
    PureEvent,
    SampledGaussianEvent,
    SelectedGaussianEvent,
    merge,
    once,
)
from .losses import Floats
from .normal import log_quantile

LARGEST_TRANSFORM = 1 << 22
_LONG_TRANSFORM = 1 << 18
_HOPELESS = 1e4  # epsilon above which Chernoff's bound will do
STABLE = 1e-3  # relative change of epsilon (or of log delta) between two lattices at which we stop
_MOMENTS = np.geomspace(1e-3, 1e9, 145)
_CUSHION = 1e-8  # relative, for the rounding of the transforms


@dataclass(frozen=True)
class _Losses:
    """The tilted distribution of the composed loss on a window of the lattice."""

    tilt: float
    log_norm: float  # K(tilt) of the discretised composition
    loss: Floats
    mass: Floats
    spare: float  # infinite losses and the bound on what lies above the window

    def delta(self, epsilon: float) -> float:
        above = slice(int(np.searchsorted(self.loss, epsilon, side="right")), None)
        gap = self.loss[above] - epsilon
        terms = self.mass[above] * np.exp(-self.tilt * gap) * -np.expm1(-gap)
        scale = self.log_norm - self.tilt * epsilon
        return min(
            1.0, self.spare + math.exp(min(700.0, scale)) * float(np.sum(terms)) * (1 + _CUSHION)
        )

    def epsilon(self, delta: float) -> float:
        """Smallest epsilon >= 0 in the window with delta(epsilon) <= delta; infinite if there is
        none.
        """
        low, high = 0, len(self.loss) - 1  # delta(loss[high]) is the spare alone
        if self.spare >= delta:
            return math.inf
        if self.loss[0] < 0.0:
            if self.delta(0.0) <= delta:
                return 0.0
            low = max(0, int(np.searchsorted(self.loss, 0.0)) - 1)
        if self.delta(float(self.loss[low])) <= delta:
            return max(0.0, float(self.loss[low]))
        while high - low > 1:
            middle = (low + high) // 2
            if self.delta(float(self.loss[middle])) <= delta:
                high = middle
            else:
                low = middle
        # Between two lattice points delta is linear in exp(epsilon).
        at_low, at_high = self.delta(float(self.loss[low])), self.delta(float(self.loss[high]))
        share = (at_low - delta) / (at_low - at_high) if at_low > at_high else 1.0
        width = float(self.loss[high] - self.loss[low])
        return max(0.0, float(self.loss[low]) + math.log1p(share * math.expm1(width)))


def _mass(parts: tuple[Event, ...], of: Callable[[Event], float]) -> float:
    """The chance that at least one application in a composition has a property that one of `part`
    has with chance `of(part)`.
    """
    survive = 0.0
    for p in parts:
        one = p.rate * _mass(p.local, of) if isinstance(p, MixtureEvent) else of(p)
        survive += getattr(p, "count", 1) * (math.log1p(-one) if one < 1.0 else -math.inf)
    return -math.expm1(survive)


@np.errstate(under="ignore")  # chances far out are 0
def _moments(parts: tuple[Event, ...], of: Callable[[Event], Any]) -> Any:
    """K of a composition from that of one application of every part, `of(part)` (a float, or an
    array for many moments).
    """
    total = 0.0
    for p in parts:
        if isinstance(p, MixtureEvent):
            log_rest = math.log1p(-p.rate) if p.rate < 1 else -math.inf
            one = np.logaddexp(log_rest, math.log(p.rate) + _moments(p.local, of))
        else:
            one = of(p)
        total = total + getattr(p, "count", 1) * one
    return total


def infinite_mass(parts: tuple[Event, ...]) -> float:
    """Mass that parts known only as (epsilon, delta) put on an infinite loss, composed."""
    return _mass(parts, lambda p: p.delta if isinstance(p, ApproximateEvent) else 0.0)


def lost_mass(parts: tuple[Event, ...], add: bool, tail: float = losses.TAIL) -> float:
    """Mass of the losses that `log_moments` leaves out (infinite, far above what can be
    exponentiated, or in the far tails).
    """
    return _mass(parts, lambda p: losses.lost_mass(once(p), add, tail))


def _sure_moments(parts: tuple[Event, ...], a: Floats) -> Floats:
    """Bounds on K(a) with all finite losses in it, in either direction: loose, and valid however
    little noise there is.
    """
    return _moments(parts, lambda p: losses.log_moment_bound(once(p), a))


def log_moments(
    parts: tuple[Event, ...], add: bool, a: Floats, tail: float = losses.TAIL
) -> Floats:
    """K(a) of a composition without its `lost_mass`, for planning and for the Chernoff (Renyi)
    bound.
    """
    return _moments(parts, lambda p: losses.log_moment(once(p), add, a, tail))


def is_asymmetric(parts: tuple[Event, ...]) -> bool:
    """Whether adding and removing a record must be looked at separately."""
    return any(
        (isinstance(p, SampledGaussianEvent) and p.sampling == "poisson")
        or isinstance(p, AllocatedGaussianEvent)
        or (isinstance(p, MixtureEvent) and is_asymmetric(p.local))
        for p in parts
    )


def _have_moments_alone(parts: tuple[Event, ...]) -> bool:
    """Whether a part has bounds on moments and no lattice of losses."""
    return any(
        isinstance(p, SelectedGaussianEvent)
        or (isinstance(p, MixtureEvent) and _have_moments_alone(p.local))
        for p in parts
    )


@np.errstate(under="ignore")  # chances far out are 0
def epsilon(parts: tuple[Event, ...], delta: float, accuracy: float = STABLE) -> float:
    """An upper bound on epsilon at `delta` > 0, refined until it changes by less than `accuracy`;
    both directions.
    """
    parts = _grouped(parts)
    removed = _epsilon(parts, False, delta, accuracy, 0.0)
    return (
        removed
        if not is_asymmetric(parts)
        else max(removed, _epsilon(parts, True, delta, accuracy, removed))
    )


@np.errstate(under="ignore")  # chances far out are 0
def delta(parts: tuple[Event, ...], epsilon: float, accuracy: float = STABLE) -> float:
    """An upper bound on delta at `epsilon` >= 0; both directions."""
    parts = _grouped(parts)
    removed = _delta(parts, False, epsilon, accuracy, 0.0)
    return (
        removed
        if not is_asymmetric(parts)
        else max(removed, _delta(parts, True, epsilon, accuracy, removed))
    )


def _grouped(parts: tuple[Event, ...]) -> tuple[Event, ...]:
    """Many unlike pure releases as fewer: each epsilon rounded up by at most 2 %. Keeps a long
    ledger quick to evaluate.
    """
    if sum(isinstance(p, PureEvent) for p in parts) <= 64:
        return parts
    rest = [p for p in parts if not isinstance(p, PureEvent)]
    rounded = [
        PureEvent(
            max(p.epsilon, math.exp(0.02 * math.ceil(50 * math.log(p.epsilon)))), count=p.count
        )
        for p in parts
        if isinstance(p, PureEvent)
    ]
    return merge([*rest, *rounded])


def _epsilon(
    parts: tuple[Event, ...], add: bool, delta: float, accuracy: float, known: float
) -> float:
    finite = delta - infinite_mass(parts)
    if finite <= 0.0:
        return math.inf
    sure = _sure_moments(parts, _MOMENTS) + _log_factor(_MOMENTS) - math.log(finite)
    surely = max(0.0, float(np.min(sure / _MOMENTS))) * (1 + 1e-6)
    if _have_moments_alone(parts):
        return surely
    spare = delta - lost_mass(parts, add)
    if spare < 0.5 * delta:  # what lies in the far tails weighs as much as delta
        surely = min(surely, _far_out(parts, add, delta))
    if spare <= 0.0:
        return surely
    log_delta = math.log(spare)
    moments = log_moments(parts, add, _MOMENTS)
    bounds = moments + _log_factor(_MOMENTS)
    best = int(np.argmin((bounds - log_delta) / _MOMENTS))
    # A Chernoff bound is valid, too; it matters only where no lattice of affordable size resolves
    # the loss.
    answer = min(surely, max(0.0, float((bounds - log_delta)[best] / _MOMENTS[best])) * (1 + 1e-6))
    # The other direction is known to be worse; or nothing is protected, and digits are not worth a
    # lattice of millions.
    if answer <= known or answer > _HOPELESS:
        return answer
    target, previous = max(answer, 1e-12), math.inf
    for refinement in range(12):
        peak = float(_MOMENTS[best])
        step = math.sqrt(16 * accuracy * target / (_weight(parts) * (peak + 1))) / 2**refinement
        plan = _Plan(_least_tilt(moments, target, log_delta, best), peak, step, target, log_delta)
        pld = _compose_as_fine_as_possible(parts, add, plan)
        found = pld.epsilon(delta)
        answer = min(answer, found)
        if found == 0.0:  # no lattice finds less
            break
        hopeless = refinement > 0 and math.isinf(found) and math.isinf(previous)
        if hopeless or _stable(previous, found, accuracy, pld, step):
            break
        # Where losses are rare and large, the first plan, made for Chernoff's epsilon, was far off.
        target, previous = max(answer, 1e-12), found
        best = int(np.argmin(bounds - _MOMENTS * target))
    return answer


def _far_out(parts: tuple[Event, ...], add: bool, delta: float) -> float:
    """Chernoff's bound on epsilon with nearly all losses in it, for deltas below the mass that a
    lattice counts as infinite.
    """
    spare = delta - lost_mass(parts, add, losses.FAR)
    if spare <= 0.0:
        return math.inf
    moments = log_moments(parts, add, _MOMENTS, losses.FAR) + _log_factor(_MOMENTS)
    return max(0.0, float(np.min((moments - math.log(spare)) / _MOMENTS))) * (1 + 1e-6)


def _delta(
    parts: tuple[Event, ...], add: bool, epsilon: float, accuracy: float, known: float
) -> float:
    sure = float(
        np.min(_sure_moments(parts, _MOMENTS) + _log_factor(_MOMENTS) - _MOMENTS * epsilon)
    )
    answer = min(1.0, infinite_mass(parts) + math.exp(min(0.0, sure)) * (1 + 1e-6))
    if _have_moments_alone(parts):
        return answer
    moments = log_moments(parts, add, _MOMENTS)
    bounds = moments + _log_factor(_MOMENTS) - _MOMENTS * epsilon
    best = int(np.argmin(bounds))
    lost = lost_mass(parts, add)
    answer = min(answer, lost + math.exp(min(0.0, float(bounds[best]))) * (1 + 1e-6))
    if answer <= max(known, lost):  # no lattice finds less than what it counts as infinite
        return max(known, answer)
    peak = float(_MOMENTS[best])
    k = log_moments(parts, add, peak * np.array([0.99, 1.0, 1.01]))
    variance = max(1e-30, float(k[0] - 2 * k[1] + k[2]) / (0.01 * peak) ** 2)
    coarse = math.sqrt(16 * accuracy / _weight(parts) * min(1 / (peak * (peak + 1)), variance))
    log_delta, previous = max(-600.0, math.log(max(answer, 1e-300)) - 3.0), math.inf
    for refinement in range(12):
        step = coarse / 2**refinement
        plan = _Plan(_least_tilt(moments, epsilon, log_delta, best), peak, step, epsilon, log_delta)
        pld = _compose_as_fine_as_possible(parts, add, plan)
        found = pld.delta(epsilon)
        answer = min(answer, found)
        if found <= 0.0 or _stable(previous, found, 3 * accuracy, pld, step):
            break
        log_delta, previous = max(-600.0, min(log_delta, math.log(found) - 0.5)), found
    return answer


def _least_tilt(moments: Floats, epsilon: float, log_delta: float, best: int) -> float:
    """The smallest tilt at which the rounding of the transform, about 1e-11 exp(K - tilt eps), is
    small beside delta.

    More tilt than that only magnifies what wraps around the window.
    """
    enough = moments - _MOMENTS * epsilon <= log_delta + 14.0
    return (
        float(_MOMENTS[min(best, int(np.argmax(enough)))])
        if np.any(enough)
        else float(_MOMENTS[best])
    )


def _stable(previous: float, found: float, accuracy: float, pld: _Losses, step: float) -> bool:
    """Whether halving the step has changed little, or the step cannot be halved; long transforms
    get more tolerance.
    """
    if pld.loss[1] - pld.loss[0] > 1.5 * step or (
        math.isfinite(previous) and len(pld.loss) > LARGEST_TRANSFORM // 3
    ):
        return True
    return abs(previous - found) <= accuracy * found * (1 if len(pld.loss) < _LONG_TRANSFORM else 5)


def _log_factor(a: Floats) -> Floats:
    """delta <= exp(K(a) - a eps) a^a / (1 + a)^(1 + a): the best factor in the Chernoff bound."""
    return -np.log1p(a) - a * np.log1p(1 / a)


def _weight(parts: tuple[Event, ...]) -> float:
    """How many discretisation errors add up."""
    total = 0.0
    for p in parts:
        if isinstance(p, MixtureEvent):
            total += p.count * p.rate * _weight(p.local)
        else:
            total += getattr(p, "count", 1)
    return total


@dataclass(frozen=True)
class _Plan:
    tilt: float  # of the transform
    peak: float  # the moment that dominates delta: Chernoff's
    step: float
    epsilon: float  # about where delta is wanted
    log_delta: float


def _compose_as_fine_as_possible(parts: tuple[Event, ...], add: bool, plan: _Plan) -> _Losses:
    """The composed distribution on a lattice of the planned step, or of the smallest multiple that
    memory allows.
    """
    pld = _compose(parts, add, plan)
    while pld is None:
        plan = replace(plan, step=2 * plan.step)
        pld = _compose(parts, add, plan)
    return pld


def _compose(parts: tuple[Event, ...], add: bool, plan: _Plan) -> _Losses | None:
    """The tilted distribution of the sum on a window that leaves out less than 1e-5 of delta; None
    if that window is too large.

    Mass that wraps from above the window arrives at its lower end, where the tilt weighs it
    exp(tilt * width) times more: it is the *tilted* mass above the window that must be small.
    """
    from scipy import fft  # as slow to import as scipy.special

    tilt, step, log_delta = plan.tilt, plan.step, plan.log_delta
    a, up, b, down, here = _about(parts, add, tilt, plan.peak)
    tops = (up - log_delta + 11.5 - tilt * plan.epsilon) / a
    chosen = int(np.argmin(tops))
    top, moment = max(float(tops[chosen]), 1.1 * plan.epsilon), tilt + float(a[chosen])
    # From below: P_tilted(L < bottom) <= exp(K(tilt - b) - K(tilt) + b bottom), which is
    # set to exp(-32).
    below = (-32.0 - down + here) / b
    bottom = float(np.max(below))
    if (top - bottom) / step > LARGEST_TRANSFORM:
        return None
    first, last = math.floor(bottom / step), math.ceil(top / step) + 1
    size = int(fft.next_fast_len(max(64, last - first + 1), real=True) or 0)
    if size > LARGEST_TRANSFORM:
        return None
    # Tails of single steps that together weigh less than 1e-6 of delta are not worth their lattice
    # points.
    tail = min(losses.TAIL, -log_quantile(log_delta - math.log(1e6 * max(1.0, _weight(parts)))))
    transform = _Transform(add, tilt, step, size, tail)
    try:
        spectrum, log_norm = transform.of(parts)
    except MemoryError:
        return None
    circular: Floats = np.asarray(fft.irfft(spectrum, size))
    mass = np.maximum(np.roll(circular, -(first % size)), 0.0)
    loss: Floats = step * np.arange(first, first + size, dtype=np.float64)
    # Chernoff on the discretised distribution itself, which is what wraps.
    log_tail = transform.log_moment(parts, moment) - moment * float(loss[-1])
    return _Losses(
        tilt, log_norm, loss, mass, transform.infinite(parts) + math.exp(min(0.0, log_tail))
    )


@functools.lru_cache(maxsize=64)
def _about(
    parts: tuple[Event, ...], add: bool, tilt: float, peak: float
) -> tuple[Floats, Floats, Floats, Floats, float]:
    """Moments on both sides of a tilt, which every step of a lattice is planned with: a, K(tilt +
    a), b, K(tilt - b) and K(tilt).
    """
    a = peak * np.geomspace(0.03, 30.0, 61)
    b = np.concatenate([a, [tilt + 0.5]])
    up, down = log_moments(parts, add, tilt + a), log_moments(parts, add, tilt - b)
    return a, up, b, down, log_moments(parts, add, np.array([tilt]))[0]


class _Transform:
    """Tilted characteristic functions of parts on one lattice; each piece is transformed once."""

    def __init__(self, add: bool, tilt: float, step: float, size: int, tail: float):
        self.add, self.tilt, self.step, self.size, self.tail = add, tilt, step, size, tail
        self._lattices: dict[Event, losses.Lattice] = {}
        self._spectra: dict[tuple[Event, ...], tuple[NDArray[np.complex128], float]] = {}

    def lattice(self, part: Event) -> losses.Lattice:
        one = once(part)
        if one not in self._lattices:
            self._lattices[one] = losses.lattice(one, self.add, self.step, self.tail)
        return self._lattices[one]

    def of(self, parts: tuple[Event, ...]) -> tuple[NDArray[np.complex128], float]:
        """(characteristic function of the tilted distribution, K(tilt)) of a composition."""
        if parts in self._spectra:
            return self._spectra[parts]
        total, log_norm = np.ones(self.size // 2 + 1, dtype=np.complex128), 0.0
        for p in parts:
            if isinstance(p, MixtureEvent):
                one, k = self.of(p.local)
                log_rest, log_hit = math.log1p(-p.rate), math.log(p.rate) + k
                k = float(np.logaddexp(log_rest, log_hit))
                one = math.exp(log_rest - k) + math.exp(log_hit - k) * one
            else:
                one, k = self._one(self.lattice(p))
            count = getattr(p, "count", 1)
            total *= one if count == 1 else _power(one, count)
            log_norm += count * k
        self._spectra[parts] = total, log_norm
        return total, log_norm

    def _one(self, lattice: losses.Lattice) -> tuple[NDArray[np.complex128], float]:
        weight, k = _tilted(lattice, self.tilt, self.step)
        from scipy import fft

        folded = np.bincount(lattice.index % self.size, weights=weight, minlength=self.size)
        return np.asarray(fft.rfft(folded)), k

    def log_moment(self, parts: tuple[Event, ...], a: float) -> float:
        """log E exp(a L) of the discretised composition, finite losses only."""
        return float(_moments(parts, lambda p: _tilted(self.lattice(p), a, self.step)[1]))

    def infinite(self, parts: tuple[Event, ...]) -> float:
        return _mass(parts, lambda p: self.lattice(p).infinite)


def _tilted(lattice: losses.Lattice, tilt: float, step: float) -> tuple[Floats, float]:
    with np.errstate(divide="ignore"):
        exponent = np.log(lattice.mass) + (tilt * step) * lattice.index
    peak = float(np.max(exponent))
    if peak == -math.inf:  # every loss is counted as infinite
        return np.zeros(exponent.shape), -math.inf
    weight = np.exp(exponent - peak)
    total = float(np.sum(weight))
    return weight / total, peak + math.log(total)


def _power(spectrum: NDArray[np.complex128], count: int) -> NDArray[np.complex128]:
    """spectrum ** count; frequencies that vanish below 1e-17 are left out, which saves most of the
    work.
    """
    size = np.abs(spectrum)
    out = np.zeros_like(spectrum)
    with np.errstate(divide="ignore"):
        keep = count * np.log(size) > -45.0
    out[keep] = np.exp(count * np.log(spectrum[keep]))
    return out
