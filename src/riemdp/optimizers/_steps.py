"""The compiled part of every run: blocks of private steps in one call.

Everything random comes in from the host, block by block. Trip counts and public numbers are traced,
so one compilation serves every number of steps of a shape. The query of a step is its
`AbstractStep`; all else here is post-processing of the answers and costs no privacy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ..domains._clamp import clamp
from ..manifolds._base import AbstractManifold, Point, Tangent
from ..problems._problem import Batch
from ._kernels import AbstractKernel, Frame, State, repaired

TRACES: Counter[str] = Counter()  # how often each loop was traced; tests count compilations


class Anchor(NamedTuple):
    """Where the inner steps of a variance-reduced epoch start, and the full gradient there."""

    point: Point
    gradient: Tangent


class Row(NamedTuple):
    """Randomness of one step: normals, batch indices, their mask (None: all count)."""

    normals: Any
    indices: Any
    mask: Any
    step: Any  # the step's number within its epoch


class Block(NamedTuple):
    """Host-drawn randomness and public rates of a block of steps, padded to a fixed shape."""

    normals: Any  # (rows, noise_size)
    rates: Any  # (rows,)
    indices: Any = None  # (rows, b); None for all records
    mask: Any = None  # (rows, b); None where every index counts


# The axis of the repetitions in each field of a block.
_REPEATED = Block(normals=0, rates=None, indices=0, mask=0)


class Carry(NamedTuple):
    """State between steps."""

    state: State
    mean: Any = None  # running geodesic average of the iterates
    skipped: Any = np.zeros((), np.int64)  # steps that overflowed and were not taken
    clip: Any = None  # where the clip norm lies, if it is found on the way; released


class AbstractStep(ABC):
    """The query of one step: the only part of a run that reads the records."""

    kernel: AbstractKernel

    @abstractmethod
    def direction(self, state: State, anchor: Anchor | None, data: Any, row: Row) -> Frame:
        """The private direction at `state`: answers of a `NoisyGradient` and released values."""

    def query(self, carry: Carry, anchor: Anchor | None, data: Any, row: Row) -> tuple[Frame, Any]:
        """The private direction, and the clip norm's range after it."""
        return self.direction(carry.state, anchor, data, row), carry.clip


class Confinement(NamedTuple):
    """A public ball into which every iterate is moved back."""

    center: Point
    radius: Any


class Work(NamedTuple):
    """What every step of a run is computed with."""

    step: AbstractStep
    data: Any  # `PrivateRecords`
    ball: Confinement | None = None


class Span(NamedTuple):
    """Rows begin..end-1 of a block; row i is the epoch's step offset + i."""

    begin: Any
    end: Any
    offset: Any
    averaged: Any  # how many iterates are in the running average before row `begin`


def _finite(tree: PyTree[Array]) -> Array:
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves(tree)]))


def _where(flag: Array, yes: PyTree[Array], no: PyTree[Array]) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(flag, a, b), yes, no)


def inside(manifold: AbstractManifold, ball: Confinement | None, point: Point) -> Point:
    """The point moved into the ball, if there is one."""
    return point if ball is None else clamp(manifold, ball.center, ball.radius, point)


def _moved(work: Work, state: State, direction: Frame, rate: Array) -> tuple[State, Array]:
    """The state after a step, and whether it was taken: one that overflows is skipped."""
    kernel = work.step.kernel
    moved = kernel.move(state, jax.tree.map(lambda v: -rate * v, direction))
    if work.ball is not None:
        moved = kernel.start(inside(kernel.manifold, work.ball, kernel.point(moved)))
    fine = _finite(moved)
    return _where(fine, moved, state), fine


def _averaged(kernel: AbstractKernel, mean: Point, state: State, count: Array) -> Point:
    """Streaming geodesic average of the iterates: mean <- exp_mean(log_mean(w) / count)."""
    m = kernel.manifold
    step = jax.tree.map(lambda v: v / count, m._log(mean, kernel.point(state)))
    moved = repaired(m, m._exp(mean, step))
    return _where(_finite(moved), moved, mean)


def after(
    work: Work, carry: Carry, direction: Frame, clip: Any, rate: Array, averaged: Array
) -> Carry:
    """The state after a step along a private direction; it is the average's `averaged`-th point."""
    mean = carry.mean
    moved, fine = _moved(work, carry.state, direction, rate)
    if mean is not None:
        mean = _averaged(work.step.kernel, mean, moved, averaged)
    return Carry(moved, mean, carry.skipped + jnp.where(fine, 0, 1), clip)


def _steps(work: Work, carry: Carry, anchor: Anchor | None, block: Block, span: Span) -> Carry:
    def body(i: Array, carry: Carry) -> Carry:
        indices = None if block.indices is None else block.indices[i]
        mask = None if block.mask is None else block.mask[i]
        row = Row(block.normals[i], indices, mask, span.offset + i)
        direction, clip = work.step.query(carry, anchor, work.data, row)
        averaged = span.averaged + (i - span.begin) + 1.0
        return after(work, carry, direction, clip, block.rates[i], averaged)

    return jax.lax.fori_loop(span.begin, span.end, body, carry)


@jax.jit
def run_steps(work: Work, carry: Carry, anchor: Anchor | None, block: Block, span: Span) -> Carry:
    """Some steps of one run."""
    TRACES["steps"] += 1
    return _steps(work, carry, anchor, block, span)


@jax.jit
def run_repetitions(
    work: Work, carry: Carry, anchor: Anchor | None, block: Block, span: Span
) -> Carry:
    """The same steps of many independent runs: `carry`, `anchor`, the randomness of `block` and,
    where it is an array, `span.end` have a leading axis for them.
    """
    TRACES["repetitions"] += 1
    random = Block(*(a if x is not None else None for x, a in zip(block, _REPEATED, strict=True)))
    ends = Span(None, 0 if jnp.ndim(span.end) else None, None, None)
    return jax.vmap(partial(_steps, work), in_axes=(0, 0, random, ends))(carry, anchor, block, span)


# ------------------------------------------------------------------------ queries at an anchor
def _at_anchor(step: AbstractStep, data: Any, point: Point, normals: Array) -> Tangent:
    state = step.kernel.start(point)
    direction = step.direction(state, None, data, Row(normals, None, None, 0))
    return step.kernel.to_tangent(state, direction)


@jax.jit
def full_query(step: AbstractStep, data: Any, point: Point, normals: Array) -> Tangent:
    """One private full gradient, as a tangent vector at `point`."""
    TRACES["full_query"] += 1
    return _at_anchor(step, data, point, normals)


@jax.jit
def full_query_repetitions(step: AbstractStep, data: Any, point: Point, normals: Array) -> Tangent:
    """The same of many independent runs at once."""
    TRACES["full_query_repetitions"] += 1
    return jax.vmap(partial(_at_anchor, step, data))(point, normals)


# ---------------------------------------------------------------------- small compiled functions
@partial(jax.jit, static_argnums=0)
def state_at(kernel: AbstractKernel, point: Point) -> State:
    """The kernel's state at a point."""
    return kernel.start(point)


@partial(jax.jit, static_argnums=0)
def prepared(kernel: AbstractKernel, data: Batch) -> Any:
    """The records as the kernel takes them."""
    return kernel.prepare(data)


@partial(jax.jit, static_argnums=(0, 2))
def current_point(kernel: AbstractKernel, state: State, repeated: bool = False) -> Point:
    """The point of a state (of every state of a batch, where `repeated`)."""
    return jax.vmap(kernel.point)(state) if repeated else kernel.point(state)


@partial(jax.jit, static_argnums=(0, 2))
def repaired_state(kernel: AbstractKernel, state: State, repeated: bool = False) -> State:
    """The state without the rounding drift of a block of steps."""

    def one(state: State) -> State:
        return kernel.start(repaired(kernel.manifold, kernel.point(state), thoroughly=True))

    return jax.vmap(one)(state) if repeated else one(state)
