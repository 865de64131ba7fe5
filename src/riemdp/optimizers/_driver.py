"""The host loop of every run: private_minimize, agents of a federated run, replicated runs, audits.

For each segment of steps: charge and draw (`PrivateDraws.take`), query the anchor where an epoch
begins, run the compiled steps, keep what was released. It knows no optimiser but by its `Run`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from .._errors import BudgetExceeded, interrupts
from .._isolation import isolated
from .._parallel import in_turn
from ..manifolds import Product
from ..randomness import NoiseSource
from . import _steps
from ._account import Account
from ._private_step import PrivateDraws, Query
from ._result import Recorder
from ._run import Outcome, Run, Segment
from ._steps import Anchor, Block, Carry, Span
from ._streamed import check_streamed, full_query_streamed, run_streamed, steps_at_once

ENTRIES = 1 << 20  # numbers of one block of randomness
REPEATED_ENTRIES = 1 << 22  # the same, over all repetitions
_SECONDS = 0.5  # of one compiled call, at most


@dataclass(frozen=True)
class RunContext:
    """What a run has on the host side."""

    source: NoiseSource
    records: int  # how many there are
    account: Account = field(default_factory=Account)  # who pays, and for whom
    recorder: Recorder | None = None  # history and progress


@in_turn
@isolated
def drive(run: Run, context: RunContext, repetitions: int | None = None) -> Outcome:
    """Carry out a run, or `repetitions` independent ones at once (no history)."""
    driver = _Driver(run, context, repetitions)
    driver.begin()
    driver.carry_out()
    return driver.outcome()


@dataclass
class _Progress:
    """How far a run has come."""

    charged: list[int]  # answers of each query
    taken: int = 0  # steps that were carried out
    averaged: int = 0  # of these, since the last restart
    restart: int = 0
    calls: int = 0  # per-record gradients


class _Driver:
    def __init__(self, run: Run, context: RunContext, repetitions: int | None):
        self.run, self.context, self.repetitions = run, context, repetitions
        self.repeated = repetitions is not None
        self.kernel = run.work.step.kernel
        self.recorder = context.recorder
        self.source = context.source
        self.anchor: Anchor | None = None
        self.status = "completed"
        self.progress = _Progress([0] * len(run.gradients))
        schedule = run.schedule
        self.target: Any = schedule.epochs * schedule.inner  # steps of the last restart
        batches = run.gradients[-1].batches
        check_streamed(run.work.data, run.work.step, batches)
        width = run.gradients[-1].noise_size(self.kernel) + (
            0 if batches.sampling == "full" else batches.size
        )
        # The batches of an epoch of random allocation are drawn together: an epoch is one block.
        self.rows = schedule.inner if batches.epoch else _rows(schedule.inner, width, repetitions)
        state = _steps.state_at(self.kernel, run.point)
        mean = run.point if run.output == "geodesic-average" else None
        self.carry = Carry(state, mean, clip=run.clip)
        if repetitions is not None:
            self.carry = jax.tree.map(
                lambda x: jnp.broadcast_to(x, (repetitions, *jnp.shape(x))), self.carry
            )

    # ------------------------------------------------------------------ before the first step
    def begin(self) -> None:
        """See that the run can be paid for; then draw which iterate it returns."""
        run, context = self.run, self.context
        planned = run.guarantee(run.charged())
        context.account.check(planned)
        if run.output == "uniform":
            # An iterate of the last restart. What follows it would not change the output and is not
            # computed, but is charged: which one it is, is not hidden.
            shape = () if self.repetitions is None else (self.repetitions,)
            self.target = self.source.integers(1, self.target + 1, shape)
        self.draws = PrivateDraws(
            self.source,
            context.account,
            planned,
            run.gradients[-1].noise_size(self.kernel),
            context.records,
            self.repetitions,
        )

    def _settle(self) -> None:
        """Draw which records the run is on, where that is random: once, after the first charge."""
        if self.run.settle is not None:
            settled = self.run.settle(self.source)
            self.run = replace(self.run, work=settled.work, anchor=settled.anchor, settle=None)

    def _segments(self) -> list[tuple[Segment, int]]:
        """Segments in order, and how many steps of each are taken: none after the iterate that is
        the output.
        """
        schedule = self.run.schedule
        counted: list[tuple[Segment, int]] = []
        for segment in schedule.segments(self.rows):
            count = segment.size
            if segment.restart == schedule.restarts - 1:
                count = min(count, int(np.max(self.target)) - segment.done)
            if count > 0:
                counted.append((segment, count))
        return counted

    # ------------------------------------------------------------------ the loop
    def carry_out(self) -> None:
        """All segments; an interrupt ends them early."""
        if self.recorder is not None:
            self.recorder.begin(self.run.name, self.run.schedule.steps)
        todo = self._segments()
        self.timer = StepTimer()
        ahead = None
        try:
            with interrupts():
                for i, (segment, count) in enumerate(todo):
                    drawn = ahead or self._draw(segment, count)
                    following = todo[i + 1] if i + 1 < len(todo) else None
                    ahead = self._take(segment, count, drawn, following)
        except KeyboardInterrupt:
            self.status = "interrupted"
        except BudgetExceeded:
            if self.progress.taken == 0:
                raise
            # Another run used the ledger meanwhile; what was released stays released.
            self.status = "interrupted"
        finally:
            if self.recorder is not None:
                self.recorder.end()
        if self.status == "completed" and self.run.output == "uniform":
            whole = self.run.charged()
            rest = tuple(w - s for w, s in zip(whole, self.progress.charged, strict=True))
            if any(rest):
                planned = self.run.guarantee(whole)
                self.context.account.pay(self.run.guarantee(rest), planned)
            self.progress.charged = list(whole)

    def _draw(self, segment: Segment, count: int) -> tuple[Block, Any]:
        """Randomness of a segment's first `count` steps and of its anchor, charged first."""
        run, charged = self.run, self.progress.charged
        counts = run.queries(segment.offset, count)
        queries = [Query(g, *numbers) for g, numbers in zip(run.gradients, counts, strict=True)]

        def note() -> None:
            for i, query in enumerate(queries):
                charged[i] += query.charged
            self._settle()

        randomness = self.draws.take(queries, note)
        rates = run.rates[segment.step : segment.step + count]
        normals, indices, mask = (self._arranged(x, count) for x in randomness[-1])
        block = Block(normals, _padded(rates, self.rows), indices, mask)
        at_anchor = randomness[0].normals
        if len(at_anchor) == 0:
            shape = self.repetitions or 1, self.draws.noise_size
            at_anchor = np.zeros(shape, at_anchor.dtype)
        return block, at_anchor if self.repeated else at_anchor[0]

    def _draw_ahead(self, segment: Segment, count: int) -> tuple[Block, Any] | None:
        """The next segment's randomness while this one's steps run. What an interrupt leaves of it
        is dropped: charged, never used.
        """
        try:
            return self._draw(segment, count)
        except BudgetExceeded:  # raised again when the segment is due
            return None

    def _take(
        self,
        segment: Segment,
        count: int,
        drawn: tuple[Block, Any],
        following: tuple[Segment, int] | None,
    ) -> tuple[Block, Any] | None:
        """The first `count` steps of a segment; returns the next segment's randomness if it was
        drawn meanwhile.
        """
        progress, (block, normals) = self.progress, drawn
        if segment.restart != progress.restart:
            progress.restart, progress.averaged = segment.restart, 0
        self._set_anchor(segment, normals)
        row, ahead = 0, None
        while row < count:
            end = self._pause(row, count, block)
            take = partial(self._compiled, segment, block, row, end)
            early = end == count and following is not None and not self.repeated
            meanwhile = (
                partial(self._draw_ahead, *following) if early and following else lambda: None
            )
            self.carry, ahead = self.timer.timed(end - row, take, meanwhile)
            progress.taken += end - row
            progress.averaged += end - row
            progress.calls += (end - row) * self.run.gradient_calls[0]
            row = end
            if self.recorder is not None:
                point = partial(_steps.current_point, self.kernel, self.carry.state)
                self.recorder.after(progress.taken, progress.calls, point)
        if self.kernel.manifold._repaired == "each block" or isinstance(
            self.kernel.manifold, Product
        ):
            state = _steps.repaired_state(self.kernel, self.carry.state, self.repeated)
            self.carry = self.carry._replace(state=state)
        return ahead

    def _pause(self, row: int, count: int, block: Block) -> int:
        """The row before which the host looks up."""
        if self.repeated:
            return count
        end = min(count, row + self.timer.steps(count - row))
        most = steps_at_once(self.run.work.data, block.indices)
        if most is not None:
            end = min(count, row + max(1, most))
        return end if self.recorder is None else self.recorder.limit(self.progress.taken, row, end)

    def _compiled(self, segment: Segment, block: Block, row: int, end: int) -> Carry:
        """Rows row..end-1 of a block."""
        work, averaged = self.run.work, float(self.progress.averaged)
        if not self.repeated:
            span = Span(row, end, segment.offset, averaged)
            steps = run_streamed if work.data.come_in_parts else _steps.run_steps
            return steps(work, self.carry, self.anchor, block, span)
        ends: Any = end
        if self.run.output == "uniform" and segment.restart == self.run.schedule.restarts - 1:
            ends = np.clip(self.target - segment.done, 0, end)
        span = Span(row, ends, segment.offset, averaged)
        return _steps.run_repetitions(work, self.carry, self.anchor, block, span)

    def _set_anchor(self, segment: Segment, normals: np.ndarray) -> None:
        """Query the full gradient where an epoch begins."""
        query = self.run.anchor
        if query is None or segment.offset > 0:
            return
        point = _steps.current_point(self.kernel, self.carry.state, self.repeated)
        answer = _steps.full_query_repetitions if self.repeated else _steps.full_query
        if query.data.come_in_parts:
            answer = full_query_streamed
        self.anchor = Anchor(point, answer(query.step, query.data, point, normals))
        self.progress.calls += self.run.gradient_calls[1]

    def _arranged(self, drawn: np.ndarray | None, count: int) -> Any:
        """What was drawn for `count` steps (of each repetition), padded to the block's rows."""
        if drawn is None or self.repetitions is None:
            return None if drawn is None else _padded(drawn, self.rows)
        array = drawn.reshape(self.repetitions, count, -1)
        if count == self.rows:
            return array
        out = np.zeros((array.shape[0], self.rows, array.shape[2]), dtype=array.dtype)
        out[:, :count] = array
        return out

    def outcome(self) -> Outcome:
        """The result of the run as it stands."""
        value = _steps.current_point(self.kernel, self.carry.state, self.repeated)
        if self.carry.mean is not None and self.progress.averaged > 0:
            value = self.carry.mean
        return Outcome(
            value,
            self.context.account.stated(self.run.guarantee(tuple(self.progress.charged))),
            self.progress.taken,
            self.progress.calls,
            self.status,
            self.carry.skipped,
            self.source.reproducible,
            None if self.carry.clip is None else self.carry.clip.clip,
        )


class StepTimer:
    """Chooses how many steps to run per compiled call, aiming at 0.5 s, so that the host can look
    up in between (progress, Ctrl-C). Results do not depend on it.
    """

    def __init__(self) -> None:
        self.rate = 0.0

    def steps(self, left: int) -> int:
        """At most `left` steps for the next call."""
        return min(left, 16) if self.rate == 0.0 else max(1, int(self.rate * _SECONDS))

    def timed(self, steps: int, call: Callable[[], Any], meanwhile: Callable[[], Any]) -> Any:
        """Start `call`, which takes this many steps, do `meanwhile`, wait; returns both results."""
        begin = time.perf_counter()
        out = call()
        extra = meanwhile()
        jax.block_until_ready(out)
        self.rate = max(steps / max(time.perf_counter() - begin, 1e-6), self.rate)
        return out, extra


def _rows(steps: int, width: int, repetitions: int | None) -> int:
    """Steps of a block. For one run they are rounded so that few shapes occur (4, 16, 64, ...)."""
    if repetitions is not None:
        return max(1, min(steps, REPEATED_ENTRIES // (repetitions * width)))
    most = max(1, ENTRIES // max(1, width))
    rows = 4
    while rows < min(steps, most):
        rows *= 4
    return int(max(1, min(rows, most)))


def _padded(array: NDArray[Any], rows: int) -> NDArray[Any]:
    """`array` with zero rows appended up to `rows`: one shape of blocks is one compilation."""
    if array.shape[0] == rows:
        return array
    out = np.zeros((rows, *array.shape[1:]), dtype=array.dtype)
    out[: array.shape[0]] = array
    return out
