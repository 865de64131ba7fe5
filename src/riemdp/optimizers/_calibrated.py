"""How much noise a budget needs on the batches of DP-RGD and DP-RSGD, from public numbers."""

from __future__ import annotations

import functools
import math
from dataclasses import replace

from .._errors import InvalidArgument
from ..privacy import (
    Budget,
    allocated_gaussian_noise_multiplier,
    calibrate,
    gaussian_noise_multiplier,
    subsampled_gaussian_noise_multiplier,
)
from ._adaptive_clip import AdaptingGradient, AdaptiveClip
from ._noisy_gradient import Batches
from ._plan import ADAPTIVE

SEARCHES = 7  # noisy counts for a first clip norm
_REACH = 64.0 * math.log(2.0)  # it is searched between 2^-64 and 2^64, to a factor sqrt 2
_LIGHTEST = 0.5  # weight of the count: 3 % more noise, and a quantile nearer to 1 can be followed
_PRECISE, _COARSE = 0.1, 0.25  # standard deviation of a share: aimed at, and the largest accepted


def allocation(n: int, b: int) -> Batches:
    """Epochs of random allocation whose batches have b of n records, or a little fewer."""
    t = math.ceil(n / b)
    return Batches(n, math.ceil(n / t), "allocation", t)


@functools.lru_cache(maxsize=4096)
def calibrated(batches: Batches, epsilon: float, delta: float, steps: int) -> float:
    """The noise multiplier of `steps` answers on these batches."""
    budget = Budget(epsilon, delta)
    if batches.replaced:
        less = calibrated(replace(batches, replaced=False), epsilon, delta, steps)
        return calibrate(lambda z: batches.guarantee(z, steps), budget, guess=1.9 * less)
    if batches.epoch:
        return allocated_gaussian_noise_multiplier(
            budget, steps=batches.epoch, epochs=-(-steps // batches.epoch)
        )
    if batches.sampling == "full":
        return gaussian_noise_multiplier(budget, steps)
    return subsampled_gaussian_noise_multiplier(
        budget,
        population=batches.population,
        batch_size=batches.size,
        steps=steps,
        sampling=batches.sampling,
    )


def adapting(batches: Batches, budget: Budget | None, steps: int, dim: int) -> AdaptingGradient:
    """The query of a run whose clip norm is found on the way; `steps` after the search."""
    if budget is None:
        raise InvalidArgument(
            f"argument `noise_std` does not go with clip_norm={ADAPTIVE!r}: sigma follows the clip"
            " norm. Give a budget"
        )
    z = calibrated(batches, budget.epsilon, budget.delta, steps + SEARCHES)
    alone = 0.5 * z * batches.clips / batches.divisor  # standard deviation of a share in the search
    if alone > _COARSE:
        raise InvalidArgument(
            f"argument `clip_norm` = {ADAPTIVE!r}: {batches.size} records in a step are too few to"
            f" find a clip norm with this budget and {steps} steps; about"
            f" {math.ceil(batches.size * alone / _COARSE)} are needed. Give a number, fewer steps,"
            " a larger budget, or more records. Nothing was spent"
        )
    # sd of a share that is released with a gradient: 2 alone sqrt(1 + w^2 / 4) / w
    weight = min(1.0, max(_LIGHTEST, 2.0 * alone / _PRECISE))
    norm = math.hypot(1.0, weight / 2.0)
    # Records beyond C cost at most a bias of their share for each unit of C, and C costs noise in
    # what the second half of the steps average.
    noise = 2.0 * alone * norm * math.sqrt(dim / max(1.0, steps / 2.0))
    deviation = 2.0 * alone * norm / weight
    last = max(0.5, 1.0 - max(noise, 0.5 * deviation))
    # Fast enough to fall to a fifth in a step, slow enough that noise moves it little.
    pace = min(3.0, 0.25 / deviation), min(1.0, 0.1 / deviation)
    adaptive = AdaptiveClip(SEARCHES, _REACH, weight, steps / 2.0, last, pace)
    return AdaptingGradient.adapting(adaptive, batches, z)
