"""What a run returns, and what it shows while it goes on; none of this decides a result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import numpy as np

from ..manifolds._base import Point, held
from ..privacy import Guarantee
from ..privacy._arithmetic import IDEALISED, in_words
from ..privacy._permit import Receipt
from ..problems._problem import Problem
from ._records import PrivateRecords

_SEEDED = "NOT PRIVATE: drawn with a seed; must not be published as private"


class HistoryRow(NamedTuple):
    """One recorded step. `objective` was computed from the private records without noise: NOT
    private.
    """

    step: int
    gradient_calls: int
    objective: float
    value: Any


class History(tuple[HistoryRow, ...]):
    """Recorded steps, oldest first. Its objectives are not private and must not be published."""

    __slots__ = ()

    def __repr__(self) -> str:
        return (
            f"History({len(self)} rows, NOT PRIVATE: objectives computed without noise)"
            if self
            else "History()"
        )


@dataclass(frozen=True, eq=False)
class OptimizationResult:
    """The released point and everything public about how it was made.

    Attributes:
        value: The released point, a read-only float64 NumPy array (a tuple on `Product`).
        guarantee: Of everything drawn, made in the function that drew the noise.
        sigma: Standard deviation of the noise per orthonormal coordinate of the averaged gradient
            (DP-RSVRG: of the full gradient; `details` has the inner one; with an adaptive clip
            norm: at the last one, which is `details["clip_norm"]`). 0 without noise.
        history: Rows recorded with `record_every`, NOT private; empty by default.
        gradient_calls: How many per-record gradients were evaluated.
        steps: Steps taken.
        reproducible: True if a seed was given; then nothing here is private.
        method: What ran.
        status: "completed", or "interrupted": the value is the last released iterate, and the
            guarantee covers what was drawn.
        details: Further public facts: clip norm, noise multiplier, sensitivity, expected noise to
            signal, ... `planned_guarantee` is that of the run as planned; it also holds if the
            decision to interrupt depended on the iterates. `skipped_steps` counts steps that
            overflowed and were not taken.
        receipt: The random id of the run's charges, and whether a ledger took them; `Ledger.holds`
            looks it up. None where nothing was charged here.
    """

    value: Any
    guarantee: Guarantee
    sigma: float
    history: Sequence[HistoryRow]
    gradient_calls: int
    steps: int
    reproducible: bool
    method: str
    status: str = "completed"
    details: Mapping[str, Any] = field(default_factory=dict)
    receipt: Receipt | None = None

    def __post_init__(self) -> None:
        details = {"numerics": IDEALISED, **self.details}
        object.__setattr__(self, "details", MappingProxyType(details))
        rows = History(row._replace(value=held(row.value)) for row in self.history)
        object.__setattr__(self, "history", rows)
        object.__setattr__(self, "value", held(self.value))

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        state["details"] = dict(self.details)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, item in state.items():
            object.__setattr__(self, name, item)
        self.__post_init__()  # details and values are read-only, which a pickle forgets

    def __str__(self) -> str:
        shape = jax.tree.map(np.shape, self.value)
        lines = [
            f"Point of shape {shape} by {self.method}, {self.steps} steps, {self.status}",
            f"  guarantee: {self.guarantee}",
            *([f"  budget: {self.details['budget']}"] if "budget" in self.details else []),
            f"  sigma: {self.sigma:.6g} per coordinate of the averaged gradient",
        ]
        if "numerics" in self.details:
            lines.append(f"  numerics: {in_words(self.details['numerics'])}")
        if self.details.get("skipped_steps"):
            lines.append(
                f"  {self.details['skipped_steps']} steps overflowed and were not taken: give a"
                " smaller learning_rate"
            )
        if self.reproducible:
            lines.append(f"  {_SEEDED}")
        if self.history:
            lines.append(
                "  the history holds objectives computed without noise: NOT PRIVATE, do not"
                " publish it"
            )
        return "\n".join(lines)

    __repr__ = __str__


class Recorder:
    """History and progress bar of one run. The history is not private.

    Args:
        problem: Whose objective is recorded.
        records: The private records.
        every: Record each so many steps; 0 records nothing.
        progress: Show a bar on the terminal.
    """

    def __init__(self, problem: Problem, records: PrivateRecords, every: int, progress: bool):
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
            self.rows.append(HistoryRow(taken, calls, self.records.objective(self.problem, w), w))

    def end(self) -> None:
        """Close the bar."""
        if self.bar is not None:
            self.bar.stop()
            self.bar = None

    def history(self) -> History:
        """What was recorded."""
        return History(self.rows)
