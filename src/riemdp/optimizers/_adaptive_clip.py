"""Gradients with a clip norm that nobody has to know: `clip_norm="adaptive"`.

The Gaussian query of `_private_step` also counts. A record contributes one vector,

    (clip_C(g_i) / C, w (1[|g_i| <= C] - 1/2)),    of norm at most sqrt(1 + w^2 / 4),

and the sum of all has sensitivity 2 sqrt(1 + w^2 / 4) (Poisson: half of it). The noise of both
parts is the noise multiplier times that, so an answer is one Gaussian mechanism as before, also on
batches. C, the `unit` of the query, follows from earlier answers. The first answers only count:
(0, 1[|g_i| <= C] - 1/2).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from .._errors import InvalidArgument
from .._programs import traced
from ..privacy import Budget
from ._kernels import AbstractKernel, Batch, Frame, State, lengths
from ._private_step import Batches, NoisyGradient
from ._records import exact_sum
from ._steps import Carry, Row

ADAPTIVE = "adaptive"  # a clip norm that is found on the way
SEARCHES = 7  # noisy counts for a first clip norm
_REACH = 64.0 * math.log(2.0)  # it is searched between 2^-64 and 2^64, to a factor sqrt 2
_LIGHTEST = 0.5  # weight of the count: 3 % more noise, and a quantile nearer to 1 can be followed
_PRECISE, _COARSE = 0.1, 0.25  # standard deviation of a share: aimed at, and the largest accepted
_RISE = 0.25  # of the pace at which log C falls, while the iterate travels


class ClipRange(NamedTuple):
    """The logarithm of the clip norm lies between `low` and `high`; both are released numbers."""

    low: Array | float
    high: Array | float

    @property
    def clip(self) -> Array:
        """The clip norm of the next answer."""
        return jnp.exp(0.5 * (self.low + self.high))


@traced()
class AdaptiveClip:
    """How a clip norm is found: public numbers.

    The first `searches` answers halve the range of log C, by whether half of the gradients are
    longer. After them log C falls by `pace` (share of gradients within C - aimed share), both parts
    of the answer being noisy: the clip follows the median while the iterate travels, then the
    quantile `last`.
    """

    searches: int  # how many answers only count
    reach: float  # log C is searched in (-reach, reach)
    weight: float  # w, of the count beside the clipped gradients
    travel: float  # answers that follow the median, after the search
    last: float  # quantile of the gradient norms that is followed after them
    pace: tuple[float, float]  # while the iterate travels, and after it

    @property
    def norm(self) -> float:
        """Of one record's contribution, in units of the clip norm, at most."""
        return (1.0 + 0.25 * self.weight**2) ** 0.5

    @property
    def begin(self) -> ClipRange:
        """Before the first answer."""
        return ClipRange(jnp.asarray(-self.reach), jnp.asarray(self.reach))

    def following(self, found: ClipRange, share: Array, step: Array) -> ClipRange:
        """The range after an answer whose noisy share of gradients within the clip is `share`."""
        middle = 0.5 * (found.low + found.high)
        below = share >= 0.5
        low, high = jnp.where(below, found.low, middle), jnp.where(below, middle, found.high)
        travels = step < self.searches + self.travel
        aim = jnp.where(travels, 0.5, self.last)
        change = jnp.where(travels, *self.pace) * (jnp.clip(share, 0.0, 1.0) - aim)
        # The share is that of the point before the step. Were C to rise as fast as it falls, it
        # would do so after every step that its own noise led too far, and the run would oscillate.
        change = jnp.where(travels & (change < 0.0), _RISE * change, change)
        moved = jnp.clip(middle - change, -self.reach, self.reach)
        searches = step < self.searches
        return ClipRange(jnp.where(searches, low, moved), jnp.where(searches, high, moved))


@traced("batches")
class AdaptingGradient(NoisyGradient):
    """A `NoisyGradient` whose clip norm is found on the way. See the head of this file.

    `clip` is 1, and `sigma` and `sensitivity` are in units of the clip norm, which the loop carries
    along.
    """

    adaptive: AdaptiveClip

    @classmethod
    def adapting(
        cls, adaptive: AdaptiveClip, batches: Batches, noise_multiplier: float
    ) -> AdaptingGradient:
        """With a clip norm that is found on the way."""
        return cls(1.0, noise_multiplier, batches, adaptive=adaptive)

    def as_kind(self, kind: type[NoisyGradient]) -> NoisyGradient:
        """The same numbers in another class of this kind."""
        if isinstance(self, kind):
            return self
        if not issubclass(kind, AdaptingGradient):
            raise InvalidArgument(
                f"argument `clip_norm`: {kind.__name__} has no clip norm that is found on the way"
            )
        numbers = self.clip, self.noise_multiplier, self.batches
        return kind(*numbers, scale=self.scale, adaptive=self.adaptive)

    @property
    def sensitivity(self) -> float:
        """Largest change by one record of mean and weighted count together."""
        return self.batches.clips * self.adaptive.norm / self.batches.divisor

    def noise_size(self, kernel: AbstractKernel) -> int:
        """How many normals one answer takes: one more, for the count."""
        return super().noise_size(kernel) + 1

    def deviation(self, step: Array) -> Array:
        """Standard deviation of the share of an answer.

        sigma is the noise multiplier times the sensitivity, over b: that of (gradient / C, w (count
        - 1/2)); while only the count is released its sensitivity is half of `clips`.
        """
        alone = 0.5 * self.sigma / self.adaptive.norm
        return jnp.where(step < self.adaptive.searches, alone, self.sigma / self.adaptive.weight)

    # ------------------------------------------------------------------ the query (compiled code)
    def joint_sum_of(
        self,
        kernel: AbstractKernel,
        state: State,
        batch: Batch,
        present: Array,
        clip: Array,
        step: Array,
    ) -> tuple[Frame, Array]:
        """The clipped sum, and the sum of 1[|g_i| <= clip] - 1/2 over the records of the batch; on
        the lattice both in steps of their grids. A gradient that is not finite counts as 0 in the
        first and as short in the second.
        """
        if self.scale is None and not kernel.has_quick_coordinates:
            total, norms = kernel.weighted_sum(
                state, batch, lambda norms: self.weights(norms, clip) * present
            )
        else:
            y = kernel.coordinates(state, batch)
            total, norms = self.total_of(y, present, unit=clip), lengths(y)
        within = (norms <= clip) | ~jnp.isfinite(norms)
        if self.scale is None:
            return total, jnp.sum(jnp.where(within, 0.5, -0.5) * present)
        grid = self.deviation(step) * self.batches.divisor / self.scale
        half = jnp.trunc(0.5 * (1.0 - 1e-12) / grid * present)
        return total, exact_sum(jnp.where(within, half, -half))

    def adapted_answer(
        self,
        kernel: AbstractKernel,
        state: State,
        total: tuple[Frame, Array],
        normals: Array,
        found: ClipRange,
        step: Array,
    ) -> tuple[Frame, ClipRange]:
        """One joint answer: the noisy mean (0 while the clip is searched) and the clip after it.

        `total` is that of `joint_sum_of` at `found.clip`; the last of the normals is the count's.
        """
        adaptive = self.adaptive
        searches = step < adaptive.searches
        frame, counted = total
        mean = self.answer(kernel, state, frame, normals[:-1], unit=found.clip)
        mean = jax.tree.map(lambda g: jnp.where(searches, 0.0, g), mean)
        deviation = self.deviation(step)
        if self.scale is None:
            share = 0.5 + counted / self.batches.divisor + deviation * normals[-1]
        else:
            share = 0.5 + (counted + normals[-1]) * (deviation / self.scale)
        return mean, adaptive.following(found, share, step)

    # ------------------------------------------------------------------ as a step asks for it
    def asked(
        self, kernel: AbstractKernel, carry: Carry, batch: Batch, present: Array, about: Any, t: Any
    ) -> tuple[Array, Array]:
        return self.joint_sum_of(kernel, carry.state, batch, present, carry.clip.clip, t)

    def answered(
        self, kernel: AbstractKernel, carry: Carry, total: Any, about: Any, row: Row
    ) -> tuple[Frame, Any]:
        return self.adapted_answer(kernel, carry.state, total, row.normals, carry.clip, row.step)


# ------------------------------------------------------------------ before a run
def adapting(batches: Batches, budget: Budget | None, steps: int, dim: int) -> AdaptingGradient:
    """The query of a run whose clip norm is found on the way; `steps` after the search."""
    if budget is None:
        raise InvalidArgument(
            f"argument `noise_std` does not go with clip_norm={ADAPTIVE!r}: sigma follows the clip"
            " norm. Give a budget"
        )
    z = batches.multiplier(budget, steps + SEARCHES)
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
