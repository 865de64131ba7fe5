"""What the driver is told of a run: its steps in order, its queries, what is charged for them, and
what it came to. An optimiser describes itself as a `Run`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..manifolds._base import Point
from ..privacy import Guarantee
from ..randomness import NoiseSource
from ._adaptive_clip import ClipRange
from ._private_step import NoisyGradient, Query, guarantee_of
from ._records import PrivateRecords
from ._steps import AbstractStep, Work


class Segment(NamedTuple):
    """Consecutive steps whose randomness is drawn together, within one epoch."""

    epoch: int  # counted over all restarts
    restart: int
    offset: int  # steps before it in its epoch
    size: int
    step: int  # steps before it, over all restarts
    done: int  # steps before it since the last restart


@dataclass(frozen=True)
class Schedule:
    """The public order of steps: `restarts` times `epochs` of `inner` steps. A run without anchors
    is one epoch.
    """

    inner: int
    epochs: int = 1
    restarts: int = 1

    @property
    def rounds(self) -> int:
        """Epochs, over all restarts."""
        return self.epochs * self.restarts

    @property
    def steps(self) -> int:
        """Steps, over all restarts."""
        return self.rounds * self.inner

    def segments(self, rows: int) -> Iterator[Segment]:
        """The run in order, cut into segments of at most `rows` steps."""
        for epoch in range(self.rounds):
            for offset in range(0, self.inner, rows):
                yield Segment(
                    epoch,
                    epoch // self.epochs,
                    offset,
                    min(rows, self.inner - offset),
                    epoch * self.inner + offset,
                    epoch % self.epochs * self.inner + offset,
                )


class FullQuery(NamedTuple):
    """The query at an anchor: its step, and the records as its kernel takes them."""

    step: AbstractStep
    data: PrivateRecords


@dataclass(frozen=True, eq=False)
class Run:
    """An optimiser on a problem and its records, as the driver sees it.

    Attributes:
        name: For people.
        point: Where it starts.
        work: What the compiled steps are computed with.
        schedule: The order of steps.
        rates: The step size of every step.
        output: "last", "uniform" or "geodesic-average".
        gradients: The queries: the steps' is the last, the anchor's (if any) the first.
        queries: (offset, count) -> for each of `gradients`, how many answers steps offset..offset +
            count - 1 of an epoch are charged, and for how many noise is drawn.
        gradient_calls: Per-record gradients of a step, and of an anchor.
        anchor: The query at an anchor.
        clip: Where the clip norm lies at the start, if it is found on the way.
        settle: Where random numbers decide about the records: makes the run on them, once nothing
            can refuse it any more.
    """

    name: str
    point: Point
    work: Work
    schedule: Schedule
    rates: NDArray[np.float64]
    output: str
    gradients: tuple[NoisyGradient, ...]
    queries: Callable[[int, int], tuple[tuple[int, int], ...]]
    gradient_calls: tuple[int, int]
    anchor: FullQuery | None = None
    clip: ClipRange | None = None
    settle: Callable[[NoiseSource], Run] | None = None

    def charged(self) -> tuple[int, ...]:
        """How many answers of each query a whole run is charged."""
        epoch = self.queries(0, self.schedule.inner)
        return tuple(self.schedule.rounds * charged for charged, _ in epoch)

    def guarantee(self, charged: tuple[int, ...]) -> Guarantee:
        """The guarantee of so many answers of each query."""
        pairs = zip(self.gradients, charged, strict=True)
        return guarantee_of([Query(gradient, count, 0) for gradient, count in pairs])


class Outcome(NamedTuple):
    """What a run came to. `value` has a leading axis of repetitions where there are any."""

    value: Point
    guarantee: Guarantee  # of all that was charged, for what the run protects
    steps: int
    gradient_calls: int
    status: str
    skipped: Any
    reproducible: bool
    clip: Any = None  # the clip norm that was found, if it is found on the way
