"""Records that do not fit into memory: read in parts, of which only sums are kept.

A `Stream` stands where an array of records stands. Every part goes through the same door and the
same clamp as an array would, so which records are invalid, or lie outside a ball, is decided
alike. How the records are cut into parts depends on their number and shape alone. What a record
holds raises nothing; what cannot be read raises an error that names rows, of a batch not even
these, and no value.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .._isolation import isolated
from .._trees import leaves, map_leaves
from ..manifolds._base import Point
from ._sources import AbstractSource, Chosen, Form, Held
from ._sums import AbstractParts, Part, Sums, Total, most_rows, rows_of

HELD = 1 << 24  # numbers of moved records that are kept in memory between passes

Step = Callable[[Point], tuple[Any, Any]]  # records -> points, and which lay outside


def _filled(x: np.ndarray, rows: int) -> np.ndarray:
    """Records, filled up to `rows` rows with NaN."""
    return np.concatenate([x, np.full((rows - len(x), *x.shape[1:]), np.nan)])


def _one_after_the_other(first: Step, second: Step, x: Point) -> tuple[Point, Any]:
    """The flags are those of the first step."""
    points, outside = first(x)
    return second(points)[0], outside


def _as_given(x: Point) -> tuple[Point, Any]:
    return x, np.zeros(len(leaves(x)[0]), dtype=bool)


@dataclasses.dataclass(frozen=True, eq=False)
class Stream(AbstractParts):
    """n private records that are read in parts.

    Attributes:
        source: Where they are read from.
        admit: The door, for some of them.
        rows: How many make a part, a power of two.
        step: What is done with every record on its own: a point, and whether it lay outside.
        weights: Their weights, at least 0; None for 1 each.
        filler: A point and its weight that stand for records that lack; None where none do.
    """

    source: AbstractSource
    admit: Callable[[Any], Point]
    rows: int
    step: Step = _as_given
    weights: np.ndarray | None = None
    filler: tuple[Point, float] | None = None

    @property
    def n(self) -> int:
        """How many records there are, the filler not counted."""
        return self.source.n

    def moved(self, step: Step) -> Stream:
        """The same records, every one moved by `step` when it is read."""
        return dataclasses.replace(self, step=step)

    def then(self, step: Step) -> Stream:
        """The same records, every one moved on by one more step."""
        both = functools.partial(_one_after_the_other, self.step, step)
        return dataclasses.replace(self, step=both)

    @isolated
    def kept(self) -> Stream:
        """The same records, read and moved once, where they are few enough to be kept: that is
        decided by their number and shape.
        """
        entries = sum(math.prod(leaf.shape) for leaf in leaves(self.form))
        if self.n * entries > HELD:
            return self
        source = Held(self.each(self.step))
        return dataclasses.replace(self, source=source, admit=_as_kept, step=_as_kept)

    @isolated
    def each(self, look: Callable[[Point], Any]) -> Any:
        """What `look` makes of every admitted record, in memory: a tree of arrays with one row a
        record, from one pass.
        """
        none = map_leaves(np.asarray, look(self._none()))
        found = map_leaves(lambda x: np.empty((self.n, *x.shape[1:]), x.dtype), none)
        for part, first in self._parts():
            for into, leaf in zip(leaves(found), leaves(look(part)), strict=True):
                into[first : first + len(leaf)] = leaf
        return found

    def _none(self) -> Point:
        """No records."""
        return map_leaves(lambda form: np.zeros((0, *form.shape)), self.source.form)

    def _parts(self) -> Iterator[tuple[Point, int]]:
        """(some admitted records, the number of the first), as many at a time as make a part."""
        for raw, first in self.source.parts(self.rows):
            records = map_leaves(np.asarray, self.admit(raw))
            for start in range(0, len(leaves(records)[0]), self.rows):
                some = slice(start, start + self.rows)
                yield map_leaves(lambda x, some=some: x[some], records), first + start

    @functools.cached_property
    def form(self) -> Any:
        """The shape of one record after it was moved: a tree of arrays of no record."""
        return map_leaves(lambda x: Form(np.shape(x)[1:]), self.step(self._none())[0])

    def weighted(self, weights: np.ndarray | None, filler: tuple[Point, float] | None) -> Stream:
        """The same records with weights, and a point in the place of records that lack."""
        return dataclasses.replace(self, weights=weights, filler=filler)

    def chosen(self, places: np.ndarray, size: int) -> Stream:
        """The records at these places, which increase; `size`, a public number of them, decides
        how they are cut into parts.
        """
        weights = None if self.weights is None else self.weights[places]
        source, rows = Chosen(self.source, places), rows_of(size, self.rows)
        return dataclasses.replace(self, source=source, rows=rows, weights=weights)

    def gathered(self, places: np.ndarray, size: int) -> Point:
        """The records at these places, which increase, in memory; filled up to `size` with what a
        step makes of NaN.
        """
        records = map_leaves(np.asarray, self.admit(self.source.at(places)))
        return self.step(map_leaves(lambda x: _filled(x, size), records))[0]

    @isolated
    def sums(self, part: Part) -> tuple[Sums, float]:
        """(the sum of part(points, outside, weights) over the parts, the sum of the weights).

        The filler is a part of its own.
        """
        total = Total()
        for records, first in self._parts():
            count, own = len(leaves(records)[0]), self.weights
            weights = np.ones(count) if own is None else own[first : first + count]
            points, outside = self.step(records)
            sums = part(points, np.asarray(outside), weights)
            whole = float(count) if own is None else math.fsum(weights)
            total.add((sums, whole, float(np.count_nonzero(outside))))
        if self.filler is not None:
            point, weight = self.filler
            one = map_leaves(lambda x: np.asarray(x)[None], point)
            last = part(one, np.zeros(1, dtype=bool), np.array([weight]))
            total.add((last, weight, 0.0))
        value, weight, outside = total.value
        vars(self)["count_outside"] = int(outside)
        return value, float(weight)

    @functools.cached_property
    def count_outside(self) -> int:
        """How many of the given records `step` flags; every pass counts them."""
        return int(self.sums(_count)[0]) if self.n else 0


def _as_kept(x: Any) -> Any:
    return x


def _count(_: Point, outside: np.ndarray, __: np.ndarray) -> Sums:
    return np.float64(np.count_nonzero(outside))


def stream_of(source: AbstractSource, admit: Callable[[Any], Point]) -> Stream:
    """The records of a source, admitted part by part."""
    return Stream(source, admit, rows_of(source.n, most_rows(source.entries)))
