"""What a run shows while it goes on: pace, history, progress. None of it decides a result."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax

from ..manifolds._base import Point
from ..problems._problem import Batch, Problem
from ._result import History, HistoryRow
from ._streamed import objective

_SECONDS = 0.5


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


class Recorder:
    """History and progress bar of one run. The history is not private.

    Args:
        problem: Whose objective is recorded.
        records: The private records.
        every: Record each so many steps; 0 records nothing.
        progress: Show a bar on the terminal.
    """

    def __init__(self, problem: Problem, records: Batch, every: int, progress: bool):
        self.problem, self.records, self.every = problem, records, every
        self.rows: list[HistoryRow] = []
        self.bar: Any = None
        self.progress = bool(progress)

    def begin(self, name: str, total: int) -> None:
        """Open the bar."""
        if self.progress:
            from rich.progress import Progress

            self.bar = Progress(transient=True)
            self.bar.start()
            self.task = self.bar.add_task(name, total=total)

    def limit(self, taken: int, row: int, end: int) -> int:
        """The row to stop before, so that no step to be recorded is run past."""
        if not self.every:
            return end
        return min(end, row + self.every - taken % self.every)

    def after(self, taken: int, calls: int, point: Callable[[], Point]) -> None:
        """Some steps were taken: `taken` in all, with `calls` gradients."""
        if self.bar is not None:
            self.bar.update(self.task, completed=taken)
        if self.every and taken % self.every == 0:
            w = point()
            self.rows.append(HistoryRow(taken, calls, objective(self.problem, w, self.records), w))

    def end(self) -> None:
        """Close the bar."""
        if self.bar is not None:
            self.bar.stop()
            self.bar = None

    def history(self) -> History:
        """What was recorded."""
        return History(self.rows)
