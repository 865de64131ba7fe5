"""DP-RSVRG: variance-reduced steps about an anchor. Read this file, and `_private_step`, to check
its privacy.

Anchored. An epoch queries two `NoisyGradient`s: at its first iterate (the anchor) for the full
gradient r, multiplier z1; then at every inner step t >= 1 for the mean of

    clip_{c_t}(grad f(w_t; z) - PT grad f(anchor; z) - h) + h,    multiplier z2.

c_t and h are functions of w_t and the anchor, which are released, so they are public. A record
changes that mean by at most 2 c_t / b, and the noise is z2 * 2 c_t / b: c_t is the `unit` of its
query. At t = 0, w_t is the anchor: every difference is 0, c_t = 0, no query is made and nothing is
charged. The step goes along the sum of the answer and PT r.

As published. Every inner step releases the sum of two private means in one noise: the transported
full gradient (clip C0, sensitivity 2 C0 / n if the transport does not expand) and the mean of
differences of gradients clipped to C1 (norm at most 2 C1, sensitivity 4 C1 / b). The variance is
split: sigma^2 = sigma1^2 + sigma2^2, z1 = sigma1 / (2 C0 / n), z2 = sigma2 / (4 C1 / b). Both are
charged at every step.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array

from .._programs import traced
from ..manifolds._base import AbstractManifold, Point
from ..privacy import Guarantee, none
from ..problems._problem import Batch
from ._kernels import AbstractKernel, Frame, Generic, Parts, lengths
from ._private_step import Batches, NoisyGradient
from ._records import PrivateRecords
from ._run import Schedule
from ._steps import AbstractStep, Anchor, Row

LARGE = 1e150  # "no bound" in a run without noise, where products with 0 must stay 0


@dataclass(frozen=True)
class NoiseSplit:
    """Noise multipliers of the two queries."""

    z1: float  # full gradient
    z2: float  # inner steps


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

    @property
    def full_sensitivity(self) -> float:
        """Of the full gradient."""
        return 2 * self.full_clip / self.n

    @property
    def inner_sensitivity(self) -> float:
        """Of an inner step's mean of differences; anchored in units of c_t."""
        return (2.0 if self.anchored else 4 * self.clip) / self.b

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

    def guarantee(self, split: NoiseSplit) -> Guarantee:
        """The guarantee of a whole run, replace-one."""
        if split.z1 <= 0 or split.z2 <= 0:
            return none()
        fulls, inners = self.total_queries
        whole = Batches(self.n, self.n, "full").guarantee(split.z1, fulls)
        return whole.compose(self.batches.guarantee(split.z2, inners))

    def gradients(
        self, split: NoiseSplit, private: bool, lattice: bool
    ) -> tuple[NoisyGradient, NoisyGradient]:
        """The two queries: (full gradient, inner steps); anchored the inner one is in units of c_t.
        As published the steps' noise covers both, and nothing is cut to a grid. `lattice`:
        anchored, with integer noise where both have enough of it.
        """
        whole = Batches(self.n, self.n, "full")
        if not private:
            return NoisyGradient(None, 0.0, whole), NoisyGradient(None, 0.0, self.batches)
        full = NoisyGradient(self.full_clip, split.z1, whole)
        inner = NoisyGradient(1.0 if self.anchored else 2 * self.clip, split.z2, self.batches)
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


def _differences(kernel: Generic, anchor: Point, point: Point, here: Parts, there: Parts) -> Array:
    """Coordinates at `point` of here - PT there, per record."""
    carried = jax.vmap(kernel.manifold._transport, (None, None, 0))(anchor, point, there)
    parts = jax.tree.map(jnp.subtract, here, carried)
    return kernel.coordinates_of(point, kernel.made_tangent(point, parts))


@traced("kernel", "chunk")
class AnchoredStep(AbstractStep):
    """An inner step of the anchored variant. Clipped and noised in the metric of w_t."""

    kernel: AbstractKernel
    gradient: NoisyGradient  # in units of c_t
    chunk: int
    most: float  # 2 C1, the largest c_t
    half_width: float
    middle: float | None

    def direction(
        self, state: Point, anchor: Anchor | None, data: PrivateRecords, row: Row
    ) -> Frame:
        kernel, gradient = self.kernel, self.gradient
        assert anchor is not None
        assert isinstance(kernel, Generic)
        h, distance = expected_difference(kernel.manifold, state, anchor.point, self.middle)
        clip = difference_clip(self.most, self.half_width, distance)
        clip = jnp.where(row.step == 0, 0.0, clip)
        about = None
        if h is not None:
            about = kernel.coordinates_of(state, jax.tree.map(lambda v: v[None], h))[0]

        def sums(records: Batch, present: Array) -> Array:
            gradients = jax.vmap(kernel.gradient, (None, 0))
            here, there = gradients(state, records), gradients(anchor.point, records)
            y = _differences(kernel, anchor.point, state, here, there)
            return gradient.total_of(y if about is None else y - about, present, unit=clip)

        total = data.total(row, self.chunk, sums)
        answer = gradient.answer(kernel, state, total, row.normals, center=about, unit=clip)
        released = kernel.manifold._transport(anchor.point, state, anchor.gradient)
        return jax.tree.map(jnp.add, answer, released)


@traced("kernel", "chunk")
class PublishedStep(AbstractStep):
    """An inner step as published. `anchor.gradient` is exact: private until this noise is added."""

    kernel: AbstractKernel
    gradient: NoisyGradient  # its clip is 2 C1
    chunk: int
    more: float  # how much longer the noise is than this query's own: it covers both means

    def direction(
        self, state: Point, anchor: Anchor | None, data: PrivateRecords, row: Row
    ) -> Frame:
        kernel, gradient = self.kernel, self.gradient
        assert anchor is not None
        assert isinstance(kernel, Generic)

        def sums(records: Batch, present: Array) -> Array:
            here, there = (self._clipped(at, records) for at in (state, anchor.point))
            y = _differences(kernel, anchor.point, state, here, there)
            return gradient.total_of(y, present)

        total = data.total(row, self.chunk, sums)
        answer = gradient.answer(kernel, state, total, self.more * row.normals)
        full = kernel.manifold._transport(anchor.point, state, anchor.gradient)
        return jax.tree.map(jnp.add, answer, full)

    def _clipped(self, point: Point, records: Batch) -> Parts:
        """Each gradient clipped to C1, half of the clip norm of differences."""
        assert isinstance(self.kernel, Generic)
        parts = self.kernel.tangents(point, records)
        norms = lengths(self.kernel.coordinates_of(point, parts))
        weights = self.gradient.weights(norms, self.gradient.limit(0.5))

        def scaled(leaf: Array) -> Array:
            w = weights.reshape((-1,) + (1,) * (leaf.ndim - 1))
            return jnp.where(w != 0.0, w * leaf, 0.0)

        return jax.tree.map(scaled, parts)
