"""Queries: what is computed of private records, each with the sensitivity that it has.

A query is made from public facts alone. `prepare` is the only function that sees what a user gave,
`value` the only one that looks at all records together. Neither raises because of what a record
holds. Those of a mean are in `_mean_query`.
"""

from __future__ import annotations

import abc
import dataclasses
from typing import Any, ClassVar

import numpy as np

from .._errors import InvalidArgument, counted, integer, one_of
from .._isolation import isolated
from ..domains import Domain
from ..domains._clamp import in_parts
from ..domains._door import admit_in_parts
from ..domains._stream import Step, Stream
from ..domains._sums import mean_of
from ..manifolds._base import Point, RecordsLike, Tangent
from ..privacy._guarantee import ADJACENCIES, REPLACE_ONE


@dataclasses.dataclass(frozen=True, eq=False)
class Records:
    """What `prepare` makes of the records: points inside the public ball, with their shares.

    Attributes:
        points: The records, moved into the ball, (n, *manifold.shape); or the `Stream` of them
            where they are read in parts.
        shares: Their shares in the mean, n numbers that sum to 1; None where they are equal, or
            where the stream has them.
        outside: Which of the given records lay outside the ball or were no points, (n,); None where
            that was not looked at. As private as the records.
    """

    points: Point
    shares: np.ndarray | None = None
    outside: Any = None

    @property
    def count_outside(self) -> int:
        """How many of the given records lay outside the ball or were no points: private, and
        replacing, adding or removing one record changes it by at most 1.
        """
        if isinstance(self.outside, Stream):
            return self.outside.count_outside
        return int(np.count_nonzero(np.asarray(self.outside)))


@dataclasses.dataclass(frozen=True, eq=False)
class AbstractQuery(abc.ABC):
    """A statistic of n records of a public domain, with its sensitivity.

    A subclass gives `sensitivity`, `prepare` and `value`. It is made from public facts alone, and
    neither `prepare` nor `value` raises because of what a record holds.

    Args:
        domain: The public domain of the records.
        n: The public number of records, at least 1, or the lower bound that stands in its place
            under add-or-remove-one.
        adjacency: "replace-one" or "add-or-remove-one".

    Raises:
        InvalidArgument: `n` or `adjacency` cannot be used.

    Guarantee:
        `value` of the prepared records of neighbouring data sets differs by at most `sensitivity`.

    Source:
        Proof: docs/proofs/mean-sensitivity.md.
    """

    adjacencies: ClassVar[tuple[str, ...]] = ADJACENCIES
    """The neighbours that its sensitivity is known for."""

    domain: Domain
    n: int
    _: dataclasses.KW_ONLY
    adjacency: str = REPLACE_ONE

    def __post_init__(self) -> None:
        integer("n", self.n)
        one_of("adjacency", self.adjacency, self.adjacencies)

    def _admitted(self, X: RecordsLike | Stream, at_least: int = 1) -> tuple[Any, int]:
        """Records, or the stream of them, and their number."""
        return admit_in_parts(self.domain.manifold, "X", X, at_least=at_least)

    def _each(self, X: RecordsLike | Stream, step: Step) -> Records:
        """The n records, every one of them made by `step` what is averaged."""
        records, count = self._admitted(X)
        if count != self.n:
            raise other_count(count, self.n)
        if isinstance(records, Stream):
            return of_stream(records.moved(step))
        points, outside = in_parts(self.domain.manifold, step, records)
        return Records(points, None, outside)

    @property
    @abc.abstractmethod
    def sensitivity(self) -> float:
        """Largest change of `value` between neighbours, rounding included: a public number."""

    @abc.abstractmethod
    def prepare(self, X: RecordsLike) -> Records:
        """Admit the records one by one, as the user gave them, and move them into the domain."""

    @abc.abstractmethod
    def value(self, records: Records) -> Point | Tangent:
        """The statistic of prepared records."""


def of_stream(stream: Stream) -> Records:
    """The records of a stream, which says itself which lay outside."""
    return Records(stream, None, stream)


def themselves(points: Point) -> Point:
    """The terms of a mean of the points themselves."""
    return points


def other_count(count: int, n: int) -> InvalidArgument:
    return InvalidArgument(
        f"argument `X` has {counted(count, 'record')}; this query is made for n = {n}"
    )


@isolated
def average(terms: Any) -> Any:
    """The mean of terms with equal weights, one row a record; of an array or a stream."""
    return mean_of(terms, None, themselves)
