"""Events of dp-accounting as parts of a guarantee, and back.

An event there adds up values that are clipped to C, and its noise multiplier is noise over C. The
sum moves by C where a value is added or removed, and by 2 C where one is replaced. Every figure is
an upper bound of what the event costs. Proof: docs/proofs/composition.md, Lemma 9.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from ..._errors import InvalidArgument, MissingExtra, integer, real
from .bounds import largest_loss
from .events import (
    Event,
    GaussianEvent,
    GroupEvent,
    NoPrivacyEvent,
    PureEvent,
    SampledGaussianEvent,
    SelectedGaussianEvent,
    merge,
)
from .losses import amplified

Parts = tuple[Event, ...]

_LEAST_NOISE = 1e-12  # noise multipliers and scales below it count as no noise
_WITHOUT, _POISSON = "without-replacement", "poisson"
_MOST = 10**12  # of the records by which a rate is written as a fraction


def values_that_change(replaced: bool) -> int:
    """How many of the summed values differ between neighbours, of which one is replaced, or one is
    added or removed.
    """
    return 2 if replaced else 1


# ------------------------------------------------------------------ from an event
def parts_of(event: Any, replaced: bool) -> Parts:
    """What an event costs where neighbours replace a record, or add or remove one.

    Events are known by the names of their classes: one of another name may mean anything.
    """
    known = _KNOWN.get(type(event).__name__)
    if known is None:
        raise _unsupported(event, "it has no upper bound here")
    return merge(known(event, replaced))


def _unsupported(event: Any, why: str) -> InvalidArgument:
    return InvalidArgument(
        f"argument `event`: a {type(event).__name__} cannot be taken over: {why}. State what the"
        " release costs by riemdp.privacy.approximate(epsilon, delta, adjacency=...)"
    )


def _no_operation(event: Any, replaced: bool) -> Parts:
    return ()


def _non_private(event: Any, replaced: bool) -> Parts:
    return (NoPrivacyEvent(),)


def _gaussian_noise(event: Any, replaced: bool) -> Parts:
    z = real("noise_multiplier", event.noise_multiplier, at_least=0.0)
    z /= values_that_change(replaced)
    return (GaussianEvent(z**-2.0) if z > _LEAST_NOISE else NoPrivacyEvent(),)


def _laplace_noise(event: Any, replaced: bool) -> Parts:
    scale = real("noise_multiplier", event.noise_multiplier, at_least=0.0)
    moved = values_that_change(replaced)
    return (PureEvent(moved / scale) if scale > _LEAST_NOISE else NoPrivacyEvent(),)


def _discrete_laplace_noise(event: Any, replaced: bool) -> Parts:
    rate = real("noise_parameter", event.noise_parameter, at_least=0.0)
    moved = integer("sensitivity", event.sensitivity) * values_that_change(replaced)
    # dp-accounting reads a parameter of 0 as no noise
    return (PureEvent(rate * moved) if rate > 0.0 else NoPrivacyEvent(),)


def _randomized_response(event: Any, replaced: bool) -> Parts:
    if not replaced:
        raise _unsupported(event, "an answer that is added or removed shows; take replace-one")
    p = real("noise_parameter", event.noise_parameter, at_least=0.0, at_most=1.0)
    buckets = integer("num_buckets", event.num_buckets)
    if buckets == 1:
        return ()
    # P(own bucket) = 1 - p + p / k, P(another) = p / k
    ratio = buckets * (1.0 - p) / p if p > 0.0 else math.inf
    return (PureEvent(math.log1p(ratio)) if ratio < math.inf else NoPrivacyEvent(),)


def _composed(event: Any, replaced: bool) -> Parts:
    return tuple(part for one in event.events for part in parts_of(one, replaced))


def _self_composed(event: Any, replaced: bool) -> Parts:
    count = integer("count", event.count, at_least=0)
    return tuple(part.repeat(count) for part in parts_of(event.event, replaced) if count)


def _poisson(event: Any, replaced: bool) -> Parts:
    rate = real("sampling_probability", event.sampling_probability, at_least=0.0, at_most=1.0)
    one = _sampled(event, rate, False, _POISSON)
    if not (replaced and one) or isinstance(one[0], NoPrivacyEvent):
        return one
    return (GroupEvent(2, one),)  # one less and one more: docs/proofs/subsampling.md, Lemma 7


def _fixed_size(event: Any, replaced: bool) -> Parts:
    if not replaced:
        raise _unsupported(event, "batches of a fixed size have a bound for replace-one alone")
    records = integer("source_dataset_size", event.source_dataset_size)
    batch = integer("sample_size", event.sample_size, at_least=0, at_most=records)
    return _sampled(event, batch / records, True, _WITHOUT)


def _sampled(event: Any, rate: float, replaced: bool, sampling: str) -> Parts:
    """What is in `event`, on a secret random batch."""
    inner = parts_of(event.event, replaced)
    if rate == 0.0 or not inner:
        return ()
    if rate == 1.0 or isinstance(inner[0], NoPrivacyEvent):
        return inner
    if isinstance(inner[0], GaussianEvent) and len(inner) == 1:
        return (SampledGaussianEvent(inner[0].squared_mu ** -0.5, rate, sampling),)
    if all(isinstance(part, PureEvent) for part in inner):
        return (PureEvent(max(0.0, amplified(float(largest_loss(inner)), rate))),)
    raise _unsupported(event, "its batches are used by more than Gaussian or pure releases alone")


_KNOWN: dict[str, Callable[[Any, bool], Parts]] = {
    "NoOpDpEvent": _no_operation,
    "NonPrivateDpEvent": _non_private,
    "GaussianDpEvent": _gaussian_noise,
    "LaplaceDpEvent": _laplace_noise,
    "DiscreteLaplaceDpEvent": _discrete_laplace_noise,
    "RandomizedResponseDpEvent": _randomized_response,
    "ComposedDpEvent": _composed,
    "SelfComposedDpEvent": _self_composed,
    "PoissonSampledDpEvent": _poisson,
    "SampledWithoutReplacementDpEvent": _fixed_size,
}


# ------------------------------------------------------------------ to an event
def event_of(parts: Parts, replaced: bool) -> Any:
    """An event of dp-accounting that costs at least as much as these parts."""
    try:
        events = importlib.import_module("dp_accounting.dp_event")
    except ImportError as error:
        raise MissingExtra(
            "Guarantee.to_dp_event needs dp-accounting: pip install dp-accounting"
        ) from error
    made = [_event_of_part(part, replaced, events) for part in parts]
    if len(made) == 1:
        return made[0]
    return events.ComposedDpEvent(made) if made else events.NoOpDpEvent()


def _event_of_part(part: Event, replaced: bool, events: Any) -> Any:
    if isinstance(part, NoPrivacyEvent):
        return events.NonPrivateDpEvent()
    if isinstance(part, GaussianEvent):
        return events.GaussianDpEvent(part.squared_mu**-0.5)
    if isinstance(part, PureEvent):
        made = _pure_event(part.epsilon, replaced, events)
        # each by itself: PLDAccountant 0.6 counts a SelfComposedDpEvent of answers once
        return made if part.count == 1 else events.ComposedDpEvent([made] * part.count)
    if isinstance(part, SampledGaussianEvent):
        inner = events.GaussianDpEvent(part.noise_multiplier)
        if part.sampling == _WITHOUT:
            made = events.SampledWithoutReplacementDpEvent(*_as_counts(part.rate), inner)
        else:
            made = events.PoissonSampledDpEvent(part.rate, inner)
        return made if part.count == 1 else events.SelfComposedDpEvent(made, part.count)
    if isinstance(part, SelectedGaussianEvent):
        one = events.GaussianDpEvent(part.noise_multiplier)
        made = events.RepeatAndSelectDpEvent(one, part.runs, math.inf)
        return made if part.count == 1 else events.SelfComposedDpEvent(made, part.count)
    raise InvalidArgument(
        f"dp-accounting has no event for this part of the guarantee: {part.describe()}. Give its"
        " accountant the (epsilon, delta) of `Guarantee.epsilon(delta)`"
    )


def _pure_event(epsilon: float, replaced: bool, events: Any) -> Any:
    """The pair that dominates every release of this epsilon; Laplace noise costs less."""
    if replaced:
        small = math.exp(-epsilon)
        return events.RandomizedResponseDpEvent(2.0 * small / (1.0 + small), 2)
    return events.DiscreteLaplaceDpEvent(epsilon, 1)  # its losses are -epsilon and epsilon


def _as_counts(rate: float) -> tuple[int, int]:
    """(records, batch size) with at least this rate."""
    nearest = Fraction(rate).limit_denominator(_MOST)
    records, batch = nearest.denominator, nearest.numerator
    return records, batch if batch / records >= rate else batch + 1
