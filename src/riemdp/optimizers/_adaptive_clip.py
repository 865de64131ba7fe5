"""Gradients with a clip norm that nobody has to know: `clip_norm="adaptive"`.

The Gaussian query of `_noisy_gradient` also counts. A record contributes one vector,

    (clip_C(g_i) / C, w (1[|g_i| <= C] - 1/2)),    of norm at most sqrt(1 + w^2 / 4),

and the sum of all has sensitivity 2 sqrt(1 + w^2 / 4) (Poisson: half of it). The noise of both
parts is the noise multiplier times that, so an answer is one Gaussian mechanism as before, also on
batches. C follows from earlier answers. The first answers only count: (0, 1[|g_i| <= C] - 1/2).
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from .._errors import InvalidArgument
from ._kernels import AbstractKernel, Batch, Frame, State
from ._noisy_gradient import Batches, NoisyGradient, exact_sum
from ._people import unfolded

_RISE = 0.25  # of the pace at which log C falls, while the iterate travels


class ClipRange(NamedTuple):
    """The logarithm of the clip norm lies between `low` and `high`; both are released numbers."""

    low: Array | float
    high: Array | float

    @property
    def clip(self) -> Array:
        """The clip norm of the next answer."""
        return jnp.exp(0.5 * (self.low + self.high))


class AdaptiveClip(eqx.Module):
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
        sensitivity = batches.clips * adaptive.norm / batches.divisor
        # a hair more: the parts of the noise are made from it by products and quotients
        sigma = (1.0 + 1e-12) * noise_multiplier * sensitivity
        return cls(1.0, sigma, noise_multiplier, batches, adaptive=adaptive)

    def as_kind(self, kind: type[NoisyGradient]) -> NoisyGradient:
        """The same numbers in another class of this kind."""
        if isinstance(self, kind):
            return self
        if not issubclass(kind, AdaptingGradient):
            raise InvalidArgument(
                f"argument `clip_norm`: {kind.__name__} has no clip norm that is found on the way"
            )
        numbers = self.clip, self.sigma, self.noise_multiplier, self.batches
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
        batch, present = unfolded(batch, present)
        if self.scale is not None:
            y = kernel.coordinates(state, batch, None)
            lengths = jnp.sqrt(jnp.sum(y**2, axis=1))
            grid = self.deviation(step) * self.batches.divisor / self.scale
            half = jnp.trunc(0.5 * (1.0 - 1e-12) / grid * present)
            signs = jnp.where((lengths <= clip) | ~jnp.isfinite(lengths), half, -half)
            return self.integer_sum(y, present, clip=clip, sigma=self.sigma * clip), exact_sum(
                signs
            )
        contributions = kernel.gradients(state, batch, None)
        norms = contributions[0]
        within = (norms <= clip) | ~jnp.isfinite(norms)
        counted = jnp.sum(jnp.where(within, 0.5, -0.5) * present)
        return self.clipped_sum(kernel, state, contributions, present, clip=clip), counted

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
        mean = self.answer(kernel, state, frame, normals[:-1], sigma=self.sigma * found.clip)
        mean = jax.tree.map(lambda g: jnp.where(searches, 0.0, g), mean)
        deviation = self.deviation(step)
        if self.scale is None:
            share = 0.5 + counted / self.batches.divisor + deviation * normals[-1]
        else:
            share = 0.5 + (counted + normals[-1]) * (deviation / self.scale)
        return mean, adaptive.following(found, share, step)
