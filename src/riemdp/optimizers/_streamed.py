"""Steps on records that are read in parts: where the total of a step comes from, and nothing else.

The query is the `NoisyGradient` of a run in memory, with its noise, its batches and its charges.

- A step on all records, or on a batch that is too large to be held, is one map-reduce over parts:
  `GradientStep.sums` of each. On the lattice these are whole numbers and add exactly, so their sum
  is that of a run in memory, in whatever order they are added.
- Smaller batches of a few steps are read together, in the order of their places, each record once,
  and given to the compiled loop in the order that the sampler drew.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, PyTree
from numpy.typing import NDArray

from .._errors import InvalidArgument
from ..manifolds._base import Point, Tangent
from ._kernels import Frame
from ._private_step import Batches, GradientStep
from ._records import PrivateRecords, filled_up
from ._steps import AbstractStep, Anchor, Block, Carry, Row, Span, Work, after, run_steps, state_at

ENTRIES = 1 << 21  # numbers of the records that some steps hold at a time


# ------------------------------------------------------------------ what can be read in parts
def check_streamed(data: PrivateRecords, step: AbstractStep, batches: Batches) -> None:
    """Raise, naming `data` or `batch_size`, where such a run cannot read its records in parts."""
    if not data.come_in_parts or isinstance(step, GradientStep):
        return
    name = data.called
    most = ENTRIES // data.entries
    if batches.sampling == "full" or batches.size > most:
        raise InvalidArgument(
            f"argument `batch_size` = {batches.size}: records that are read in parts need batches"
            f" of at most {min(most, batches.population - 1)} of them with this optimiser; give a"
            f" smaller one, numpy.asarray({name}), or use DPRGD or DPRSGD"
        )


def steps_at_once(data: PrivateRecords, indices: NDArray[np.int64] | None) -> int | None:
    """For how many steps records are read at a time; None where there is nothing to read. Where it
    is 0 one step reads its records part by part.
    """
    if not data.come_in_parts:
        return None
    if indices is None:
        return 0
    return ENTRIES // (indices.shape[1] * data.entries)


# ------------------------------------------------------------------ steps
def run_streamed(work: Work, carry: Carry, anchor: Anchor | None, block: Block, span: Span) -> Any:
    """Rows span.begin..span.end-1 of a block, whose records are read for them: as many as
    `steps_at_once`, else one.
    """
    data = work.data
    if steps_at_once(data, block.indices):
        return _on_gathered(work, carry, anchor, block, span)
    bare = work._replace(data=None)
    for i in range(span.begin, span.end):
        some = data
        if block.indices is not None:
            mask = None if block.mask is None else block.mask[i]
            some = _batch(data, block.indices[i], mask)
        step, count = span.offset + i, span.averaged + (i - span.begin) + 1.0
        about, total = _total(work.step, carry, some, step)
        row = Row(block.normals[i], None, None, step)
        carry = _given(bare, carry, total, about, row, block.rates[i], count)
    return carry


def _on_gathered(
    work: Work, carry: Carry, anchor: Anchor | None, block: Block, span: Span
) -> Carry:
    """Some steps on their batches, which are read together."""
    rows = slice(span.begin, span.end)
    wanted = block.indices[rows]
    places, found = np.unique(wanted, return_inverse=True)
    most = steps_at_once(work.data, block.indices) or 1
    held = work.data.gathered(places, min(most, len(block.indices)) * wanted.shape[1])
    indices = np.zeros_like(block.indices)
    indices[rows] = found.reshape(wanted.shape)
    return run_steps(work._replace(data=held), carry, anchor, block._replace(indices=indices), span)


def _batch(
    data: PrivateRecords, indices: NDArray[np.int64], mask: NDArray[np.float64] | None
) -> PrivateRecords:
    """The members of one batch, in the order of their places."""
    return data.chosen(np.sort(indices if mask is None else indices[mask != 0.0]), len(indices))


def full_query_streamed(
    step: AbstractStep, data: PrivateRecords, point: Point, normals: Any
) -> Tangent:
    """One private full gradient, as a tangent vector at `point`."""
    carry = Carry(state_at(step.kernel, point))
    about, total = _total(step, carry, data, 0)
    return _given_tangent(step, carry, total, about, Row(normals, None, None, 0))


def _total(
    step: AbstractStep, carry: Carry, data: PrivateRecords, index: int
) -> tuple[Frame, PyTree[np.ndarray]]:
    """About what the gradients of these records are clipped, and the sum of what they add."""
    assert isinstance(step, GradientStep)
    at = Carry(carry.state, clip=carry.clip)
    about = _about(step, at)
    return about, data.total_of_parts(partial(_part, step, at, about, index, data.chunk(None)))


def _part(
    step: GradientStep,
    carry: Carry,
    about: Frame,
    index: int,
    rows: int,
    part: Any,
    _: Any,
    present: NDArray[np.float64],
) -> PyTree[Array]:
    return _sums(step, carry, about, index, *filled_up(rows, part, present))


@jax.jit
def _sums(
    step: GradientStep, carry: Carry, about: Frame, index: Array, part: Any, present: Array
) -> PyTree[Array]:
    return step.sums(carry, about, index, part, present)


@jax.jit
def _about(step: GradientStep, carry: Carry) -> Frame:
    return step.about(carry.state)


@jax.jit
def _given(
    work: Work, carry: Carry, total: Any, about: Frame, row: Row, rate: Array, averaged: Array
) -> Carry:
    """A step whose total was found."""
    step = work.step
    assert isinstance(step, GradientStep)
    direction, clip = step.gradient.answered(step.kernel, carry, total, about, row)
    return after(work, carry, direction, clip, rate, averaged)


@jax.jit
def _given_tangent(step: GradientStep, carry: Carry, total: Any, about: Frame, row: Row) -> Tangent:
    direction, _ = step.gradient.answered(step.kernel, carry, total, about, row)
    return step.kernel.to_tangent(carry.state, direction)
