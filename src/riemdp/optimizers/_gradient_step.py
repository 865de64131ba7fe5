"""The step of DP-RGD and DP-RSGD: one answer of a noisy gradient, and the records that it takes."""

from __future__ import annotations

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ..domains import Domain
from ..domains._clamp import clamp_flagged
from ..domains._stream import Stream
from ..problems._problem import Batch, _chunk
from ._adaptive_clip import AdaptingGradient
from ._kernels import AbstractKernel, Frame, State, over_chunks
from ._noisy_gradient import NoisyGradient
from ._people import each_record
from ._steps import AbstractStep, Anchor, Carry, Row, batch_of, prepared


class GradientStep(AbstractStep):
    """One answer of a noisy gradient: on the row's batch, or on all records."""

    kernel: AbstractKernel = eqx.field(static=True)
    gradient: NoisyGradient
    chunk: int = eqx.field(static=True)
    center: Any = None  # a public record (a batch of one), about whose gradient is clipped

    def direction(self, state: State, anchor: Anchor | None, data: Batch, row: Row) -> Frame:
        return self.query(Carry(state), None, data, row)[0]

    def query(self, carry: Carry, anchor: Anchor | None, data: Any, row: Row) -> tuple[Frame, Any]:
        about = self.about(carry.state)

        def sums(part: Batch, present: Array) -> PyTree[Array]:
            return self.sums(carry, part, present, about, row.step)

        if row.indices is None:
            total = over_chunks(data, self.chunk, sums)
        else:
            present = jnp.ones(row.indices.shape[0]) if row.mask is None else row.mask
            total = sums(batch_of(data, row), present)
        return self.answered(carry, total, about, row)

    def about(self, state: State) -> Frame:
        """The public tangent vector about which gradients are clipped; None for 0."""
        return None if self.center is None else self.kernel.public_gradient(state, self.center)

    def sums(
        self, carry: Carry, part: Batch, present: Array, about: Frame, step: Array
    ) -> PyTree[Array]:
        """What some records add to the total of an answer; the total of all is their sum."""
        kernel, gradient, state = self.kernel, self.gradient, carry.state
        if isinstance(gradient, AdaptingGradient):
            return gradient.joint_sum_of(kernel, state, part, present, carry.clip.clip, step)
        return gradient.sum_of(kernel, state, part, present, about)

    def answered(
        self, carry: Carry, total: PyTree[Array], about: Frame, row: Row
    ) -> tuple[Frame, Any]:
        """The private direction made from a total, and the clip norm's range after it."""
        kernel, gradient, state = self.kernel, self.gradient, carry.state
        if isinstance(gradient, AdaptingGradient):
            return gradient.adapted_answer(kernel, state, total, row.normals, carry.clip, row.step)
        return gradient.answer(kernel, state, total, row.normals, center=about), carry.clip


def inside_ball(domain: Domain, records: Batch | Stream) -> Any:
    """The records, moved into a public ball."""
    if isinstance(records, Stream):
        return records.then(partial(clamp_flagged, domain.manifold, domain.center, domain.radius))
    return each_record(domain.clamp, records)


def prepared_for(kernel: AbstractKernel, records: Batch | Stream) -> Any:
    """The records in the form that the kernel takes."""
    if kernel.takes_data_as_they_are:
        return records
    if isinstance(records, Stream):
        return records.then(partial(_prepared, kernel))
    return each_record(partial(prepared, kernel), records)


def _prepared(kernel: AbstractKernel, records: Batch) -> tuple[Any, None]:
    return prepared(kernel, records), None


def chunk_of(records: Batch | Stream, repetitions: int | None) -> int:
    """Records handled at once, so that memory does not grow with n or with the repetitions."""
    if isinstance(records, Stream):
        return records.rows
    leaves = jax.tree.leaves(records)
    if repetitions is None:
        return _chunk(leaves)
    return _chunk(leaves, max(1 << 14, (1 << 21) // repetitions))
