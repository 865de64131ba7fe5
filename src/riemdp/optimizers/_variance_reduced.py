"""DP-RSVRG: variance-reduced steps about an anchor. Read this file, and `_noisy_gradient`, to check
its privacy.

Anchored. An epoch queries two `NoisyGradient`s: at its first iterate (the anchor) for the full
gradient r, multiplier z1; then at every inner step t >= 1 for the mean of

    clip_{c_t}(grad f(w_t; z) - PT grad f(anchor; z) - h) + h,    multiplier z2.

c_t and h are functions of w_t and the anchor, which are released, so they are public. A record
changes that mean by at most 2 c_t / b, and the noise is z2 * 2 c_t / b. At t = 0, w_t is the
anchor: every difference is 0, c_t = 0, no query is made and nothing is charged. The step goes along
the sum of the answer and PT r.

As published. Every inner step releases the sum of two private means in one noise: the transported
full gradient (clip C0, sensitivity 2 C0 / n if the transport does not expand) and the mean of
differences of gradients clipped to C1 (norm at most 2 C1, sensitivity 4 C1 / b). The variance is
split: sigma^2 = sigma1^2 + sigma2^2, z1 = sigma1 / (2 C0 / n), z2 = sigma2 / (4 C1 / b). Both are
charged at every step.
"""

from __future__ import annotations

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..manifolds._base import AbstractManifold, Point
from ..privacy import Guarantee, none
from ..problems._problem import Batch
from ._driver import Schedule
from ._kernels import AbstractKernel, Frame, Generic, Parts
from ._noisy_gradient import Batches, NoisyGradient
from ._people import unfolded
from ._steps import AbstractStep, Anchor, Row, batch_of

LARGE = 1e150  # "no bound" in a run without noise, where products with 0 must stay 0


@dataclass(frozen=True)
class NoiseSplit:
    """Noise multipliers of the two queries, and the standard deviations that follow."""

    z1: float  # full gradient
    z2: float  # inner steps
    sigma_full: float  # of the anchor's answer; 0 as published
    scale: float  # anchored: inner sigma / c_t; as published: the total sigma of an inner step


@dataclass(frozen=True)
class SvrgSettings:
    """The public numbers that accounting and calibration depend on (hashable)."""

    n: int
    b: int
    epochs: int
    inner: int
    restarts: int
    clip: float  # C1
    full_clip: float  # C0
    smoothness: float | None
    convexity: float | None
    rate: float
    anchored: bool

    @property
    def half_width(self) -> float | None:
        """Half the width of the range [mu, L] of the Hessians of records; L without a lower bound;
        None without L.
        """
        if self.smoothness is None or self.convexity is None:
            return self.smoothness
        return (self.smoothness - self.convexity) / 2

    @property
    def middle(self) -> float | None:
        """The middle of that range; None where it is 0 or unknown: h is then 0."""
        if self.smoothness is None or self.convexity is None:
            return None
        return (self.smoothness + self.convexity) / 2 or None

    @property
    def schedule(self) -> Schedule:
        """The order of its steps."""
        return Schedule(self.inner, self.epochs, self.restarts)

    # ------------------------------------------------------------------ queries and charges
    @property
    def queries_between_anchors(self) -> bool:
        """Whether inner steps issue queries. Where all Hessians are the same multiple of the
        identity, c_t = 0 and they do not.
        """
        return not self.anchored or self.half_width != 0.0

    def queries(self, offset: int, count: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """Of the full gradient and of inner steps offset..offset+count-1 of an epoch: (answers
        charged, rows of noise drawn).
        """
        if not self.anchored:
            return (count, 0), (count, count)
        first = 1 if offset == 0 else 0
        return (first, first), (count - first if self.queries_between_anchors else 0, count)

    @property
    def total_queries(self) -> tuple[int, int]:
        """Full gradients and batches that a whole run is charged."""
        (fulls, _), (inners, _) = self.queries(0, self.inner)
        return self.schedule.rounds * fulls, self.schedule.rounds * inners

    @property
    def batches(self) -> Batches:
        """What an inner step reads."""
        return Batches(self.n, self.b, "full" if self.b == self.n else "without-replacement")

    def guarantee(self, z1: float, z2: float) -> Guarantee:
        """The guarantee of a whole run, replace-one."""
        if z1 <= 0 or z2 <= 0:
            return none()
        fulls, inners = self.total_queries
        whole = Batches(self.n, self.n, "full").guarantee(z1, fulls)
        return whole.compose(self.batches.guarantee(z2, inners))

    def gradients(
        self, split: NoiseSplit, private: bool, lattice: bool
    ) -> tuple[NoisyGradient, NoisyGradient]:
        """The two queries: (full gradient, inner steps). As published the noise of the full
        gradient is part of the steps', so its own is 0, and it is not cut to a grid. `lattice`:
        anchored, with integer noise where both have enough of it.
        """
        full_clip, clip = (self.full_clip, 2 * self.clip) if private else (LARGE, 2 * LARGE)
        whole = Batches(self.n, self.n, "full")
        full = NoisyGradient(full_clip, split.sigma_full, split.z1, whole)
        sigma = split.scale * clip if self.anchored else split.scale
        inner = NoisyGradient(clip, sigma, split.z2, self.batches)
        whole_numbers = full.on_lattice(), inner.on_lattice()
        enough = all(gradient.scale is not None for gradient in whole_numbers)
        return whole_numbers if lattice and self.anchored and enough else (full, inner)


def difference_clip(most: Array | float, half_width: Array | float, distance: Array) -> Array:
    """c_t = min(2 C1, (L - mu) / 2 d(w_t, anchor)).

    A distance that overflowed bounds nothing, except where all Hessians are equal: c_t is 0 there
    at any distance, as it is in the account.
    """
    reach = jnp.where(jnp.isfinite(distance), half_width * distance, jnp.inf)
    return jnp.minimum(most, jnp.where(half_width == 0.0, 0.0, reach))


def expected_difference(
    m: AbstractManifold, point: Point, anchor: Point, middle: Array | float | None
) -> tuple[Frame, Array]:
    """h = -(mu + L) / 2 log_w(anchor), and d(w, anchor): functions of released points.

    A difference of gradients is the mean Hessian along the geodesic applied to -log_w(anchor), so
    it is at most (L - mu) / 2 d(w, anchor) away from h. h is 0 where log is not finite, and None
    for 0.
    """
    if middle is None:
        return None, jnp.asarray(m._dist(point, anchor))
    toward = m._log(point, anchor)
    leaves = jax.tree.leaves(toward)
    fine = jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in leaves]))
    h = jax.tree.map(lambda v: jnp.where(fine, -middle * v, 0.0), toward)
    return h, jnp.asarray(m._norm(point, toward))


def _tangent(kernel: Generic, point: Point, parts: Parts) -> tuple[Array, Parts]:
    """Norms and parts of per-record vectors, made tangent at `point` first."""
    parts = jax.vmap(kernel.manifold._to_tangent, (None, 0))(point, parts)
    return kernel.norms(point, parts), parts


def _weighted(batch: Batch) -> tuple[Batch, Array]:
    """The records of a batch, all of which count, and the weight of each."""
    return unfolded(batch, jnp.ones(jax.tree.leaves(batch)[0].shape[0]))


def _carried(kernel: Generic, anchor: Point, point: Point, parts: Parts) -> Parts:
    return jax.vmap(kernel.manifold._transport, (None, None, 0))(anchor, point, parts)


class AnchoredStep(AbstractStep):
    """An inner step of the anchored variant. Clipped and noised in the metric of w_t."""

    kernel: AbstractKernel = eqx.field(static=True)
    gradient: NoisyGradient  # its clip is 2 C1, the largest c_t
    scale: float  # sigma / c_t = z2 * 2 / b
    half_width: float
    middle: float | None

    def direction(self, state: Point, anchor: Anchor | None, data: Batch, row: Row) -> Frame:
        kernel, gradient = self.kernel, self.gradient
        assert anchor is not None
        assert isinstance(kernel, Generic)
        h, distance = expected_difference(kernel.manifold, state, anchor.point, self.middle)
        clip = difference_clip(gradient.clip, self.half_width, distance)
        clip = jnp.where(row.step == 0, 0.0, clip)
        batch, present = _weighted(batch_of(data, row))
        gradients = jax.vmap(kernel.gradient, (None, 0))  # made tangent below, once
        here, there = gradients(state, batch), gradients(anchor.point, batch)
        parts = jax.tree.map(jnp.subtract, here, _carried(kernel, anchor.point, state, there))
        if h is not None:
            parts = jax.tree.map(jnp.subtract, parts, h)
        norms, parts = _tangent(kernel, state, parts)
        sigma = self.scale * clip
        if gradient.scale is None:
            total = gradient.clipped_sum(kernel, state, (norms, parts), present, clip=clip)
        else:
            coordinates = kernel.coordinates_of(state, parts)
            total = gradient.integer_sum(coordinates, present, clip=clip, sigma=sigma)
        answer = gradient.answer(kernel, state, total, row.normals, center=h, sigma=sigma)
        released = kernel.manifold._transport(anchor.point, state, anchor.gradient)
        return jax.tree.map(jnp.add, answer, released)


class PublishedStep(AbstractStep):
    """An inner step as published. `anchor.gradient` is exact: private until this noise is added."""

    kernel: AbstractKernel = eqx.field(static=True)
    gradient: NoisyGradient  # its clip is 2 C1, its noise that of the whole step

    def direction(self, state: Point, anchor: Anchor | None, data: Batch, row: Row) -> Frame:
        kernel, gradient = self.kernel, self.gradient
        assert anchor is not None
        assert isinstance(kernel, Generic)
        batch, present = _weighted(batch_of(data, row))
        here = self._clipped(*kernel.gradients(state, batch))
        there = self._clipped(*kernel.gradients(anchor.point, batch))
        parts = jax.tree.map(jnp.subtract, here, _carried(kernel, anchor.point, state, there))
        contributions = _tangent(kernel, state, parts)
        total = gradient.clipped_sum(kernel, state, contributions, present)
        answer = gradient.answer(kernel, state, total, row.normals)
        full = kernel.manifold._transport(anchor.point, state, anchor.gradient)
        return jax.tree.map(jnp.add, answer, full)

    def _clipped(self, norms: Array, parts: Parts) -> Parts:
        """Each gradient clipped to C1, half of the clip norm of differences."""
        weights = self.gradient.weights(norms, 0.5 * self.gradient.clip)

        def scaled(leaf: Array) -> Array:
            w = weights.reshape((-1,) + (1,) * (leaf.ndim - 1))
            return jnp.where(w != 0.0, w * leaf, 0.0)

        return jax.tree.map(scaled, parts)


def transport_expands(manifold: AbstractManifold) -> bool:
    """Whether transport may lengthen a vector: then the published variant has no guarantee.

    Parallel transport is an isometry; those of Stiefel and Bures-Wasserstein spaces project. A
    space of your own whose transport is neither says so by `transport_is_nonexpansive = True`.
    """
    return not manifold.transport_is_nonexpansive
