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
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._programs import double_precision
from ..manifolds._base import Point
from ._cluster import OnCluster
from ._mapped import source_of_map
from ._memory import give_back
from ._sources import AbstractReader, AbstractSource, Held, Sliced, Sums

ENTRIES = 1 << 19  # numbers of a part
MOST_ROWS = 1 << 15  # records of a part
_ULP = 2.0**-53
_OFTEN = 0.2  # seconds after which freed arrays go back to the system, which takes a fiftieth

Step = Callable[[Point], tuple[Any, Any]]  # records -> points, and which lay outside
Part = Callable[[Point, np.ndarray, jax.Array], Sums]  # points, outside, weights -> their sum


# ------------------------------------------------------------------ sums
def pairwise_sum(x: jax.Array) -> jax.Array:
    """The sum over the leading axis, whose length is a power of two, in pairs: each term takes part
    in log2(length) additions.
    """
    while x.shape[0] > 1:
        half = x.shape[0] // 2
        x = x[:half] + x[half:]
    return x[0]


class Total:
    """A sum of arrays with the rounding error of every addition added to it at the end (Sum2 of
    Ogita, Rump and Oishi 2005).
    """

    def __init__(self) -> None:
        self.high: list[np.ndarray] | None = None
        self.low: list[np.ndarray] = []
        self._form: Any = None

    def add(self, sums: Sums) -> None:
        """Add one more pytree of arrays."""
        leaves, self._form = jax.tree.flatten(sums)
        terms = [np.asarray(leaf) for leaf in leaves]
        if self.high is None:
            self.high, self.low = terms, [np.zeros_like(term) for term in terms]
            return
        with np.errstate(all="ignore"):
            for i, term in enumerate(terms):
                high = self.high[i]
                total = high + term
                back = total - high
                self.low[i] = self.low[i] + ((high - (total - back)) + (term - back))
                self.high[i] = total

    def merge(self, other: tuple[Sums, Sums]) -> None:
        """Add the two parts of another total."""
        self.add(other[0])
        self.low = [
            a + np.asarray(b) for a, b in zip(self.low, jax.tree.leaves(other[1]), strict=True)
        ]

    @property
    def parts(self) -> tuple[Sums, Sums]:
        """The sum, and what rounding took from it."""
        assert self.high is not None
        return jax.tree.unflatten(self._form, self.high), jax.tree.unflatten(self._form, self.low)

    @property
    def value(self) -> Sums:
        """The sum."""
        high, low = self.parts
        return jax.tree.map(lambda a, b: a + b, high, low)


def streamed_error(rows: int = MOST_ROWS) -> float:
    """Bound of the rounding error of a mean over parts of at most `rows` records, relative to the
    mean length of its terms, for up to 2^42 records.

    A weight times a term is rounded once, the sum of a part log2(rows) times. The sum of m <= 2^26
    parts errs by at most u |sum| + (m u)^2 sum |part| (Ogita, Rump and Oishi 2005, Proposition
    4.5), u = 2^-53, so by 1.5 u; the total weight, likewise, and the quotient add 3 u. The last u
    covers products of errors.
    """
    return _ULP * (max(rows - 1, 1).bit_length() + 7)


def source_of(X: object, called: str = "X") -> AbstractSource | None:
    """Where these records are to be read from in parts; None for records in memory.

    It is decided by the type of X, never by what it holds or how much; `called` is the name of the
    argument, for errors.
    """
    shape, kind = getattr(X, "shape", None), getattr(getattr(X, "dtype", None), "kind", "")
    if not (isinstance(shape, tuple) and shape and kind and kind in "fiub"):
        return None
    if isinstance(X, np.memmap):
        return source_of_map(X, called)
    package = type(X).__module__.partition(".")[0]
    if package in ("h5py", "zarr"):
        return Sliced(X)
    if package == "dask":
        return OnCluster(X)
    return None


# ------------------------------------------------------------------ the records of a query
@dataclasses.dataclass(frozen=True)
class _Work:
    """What is done with some records: admit, pad, move, sum. It can be sent to another process."""

    admit: Callable[[Any], Point]
    step: Step
    part: Part
    rows: int
    weights: Callable[[int, int], np.ndarray] | None

    def __call__(self, raw: Any, first: int) -> tuple[Sums, Sums]:
        with double_precision():  # a worker may be a thread, or a process, of its own
            return self._sums(raw, first)

    def _sums(self, raw: Any, first: int) -> tuple[Sums, Sums]:
        records = jax.tree.map(np.asarray, self.admit(raw))
        n = len(jax.tree.leaves(records)[0])
        total = Total()
        for start in range(0, max(n, 1), self.rows):
            count = min(self.rows, n - start)
            part = jax.tree.map(
                lambda x, s=start, c=count: _filled(x[s : s + c], self.rows), records
            )
            weights, given = np.zeros(self.rows), np.arange(self.rows) < count
            begin = first + start
            own = self.weights
            weights[:count] = 1.0 if own is None else own(begin, begin + count)
            points, outside = self.step(part)
            flags = np.asarray(outside) & given
            sums = self.part(points, flags, jnp.asarray(weights))
            total.add((sums, math.fsum(weights), float(np.count_nonzero(flags))))
        return total.parts


def _filled(x: np.ndarray, rows: int) -> np.ndarray:
    """Records, filled up to `rows` rows with NaN. They stay NumPy's until they are in a compiled
    function: with `jax_debug_nans` JAX refuses to make an array of its own of a NaN, and one record
    would decide about that error.
    """
    lack = rows - len(x)
    if lack == 0:
        return x
    return np.concatenate([x, np.full((lack, *x.shape[1:]), np.nan)])


@dataclasses.dataclass(frozen=True)
class _Then:
    """Two steps, one after the other. The flags are those of the first."""

    first: Step
    second: Step

    def __call__(self, x: Point) -> tuple[Point, Any]:
        points, outside = self.first(x)
        return self.second(points)[0], outside


@dataclasses.dataclass(frozen=True)
class _Slice:
    """Weights in memory, some at a time."""

    weights: np.ndarray

    def __call__(self, start: int, stop: int) -> np.ndarray:
        return self.weights[start:stop]


def _as_given(x: Point) -> tuple[Point, Any]:
    return x, jnp.zeros(len(jax.tree.leaves(x)[0]), dtype=bool)


@dataclasses.dataclass(frozen=True, eq=False)
class Stream:
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
        return dataclasses.replace(self, step=_Then(self.step, step))

    @functools.cached_property
    def form(self) -> Any:
        """The shape of one record after it was moved: a pytree of `jax.ShapeDtypeStruct`."""
        stacked = jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct((1, *leaf.shape), leaf.dtype), self.source.form
        )
        moved = jax.eval_shape(lambda x: self.step(x)[0], stacked)
        return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), moved)

    def weighted(self, weights: np.ndarray | None, filler: tuple[Point, float] | None) -> Stream:
        """The same records with weights, and a point in the place of records that lack."""
        return dataclasses.replace(self, weights=weights, filler=filler)

    def thinned(self, size: int) -> Stream:
        """About `size` of the records, chosen by their places."""
        part, places = self.source.thinned(size)
        weights = None if self.weights is None else self.weights[places]
        filler = self.filler
        if filler is not None and self.n:
            filler = filler[0], filler[1] * part.n / self.n
        if weights is not None and not weights.any() and not (filler and filler[1] > 0):
            weights = None  # none of these counts: for a sample they may as well count alike
        return dataclasses.replace(self, source=part, weights=weights, filler=filler)

    def chosen(self, places: np.ndarray, size: int) -> Stream:
        """The records at these places, which increase; `size`, a public number of them, decides
        how they are cut into parts.
        """
        weights = None if self.weights is None else self.weights[places]
        source, rows = self.source.chosen(places), rows_of(size, self.rows)
        return dataclasses.replace(self, source=source, rows=rows, weights=weights)

    def gathered(self, places: np.ndarray, size: int) -> Point:
        """The records at these places, which increase, in memory; filled up to `size` with what a
        step makes of NaN.
        """
        assert isinstance(self.source, AbstractReader)
        records = jax.tree.map(np.asarray, self.admit(self.source.at(places)))
        return self.step(jax.tree.map(lambda x: _filled(x, size), records))[0]

    def held(self) -> tuple[Point, np.ndarray] | None:
        """The points, the filler among them, and their shares, where the records are in memory."""
        if not isinstance(self.source, Held):
            return None
        records = jax.tree.map(np.asarray, self.admit(self.source.whole))
        moved: list[Point] = []
        for start in range(0, max(self.n, 1), self.rows):  # by the program that a pass runs
            count = min(self.rows, self.n - start)
            part = jax.tree.map(
                lambda x, s=start: _filled(x[s : s + self.rows], self.rows), records
            )
            moved.append(jax.tree.map(lambda x, c=count: x[:c], self.step(part)[0]))
        points = jax.tree.map(lambda *parts: jnp.concatenate(parts), *moved)
        weights = np.ones(self.n) if self.weights is None else self.weights
        if self.filler is not None:
            point, weight = self.filler
            points = jax.tree.map(
                lambda x, last: jnp.concatenate([x, jnp.asarray(last)[None]]), points, point
            )
            weights = np.append(weights, weight)
        return points, weights / math.fsum(weights)

    def sums(self, part: Part) -> tuple[Sums, float]:
        """(the sum of part(points, outside, weights) over the parts, the sum of the weights).

        Where a part has fewer records it is filled up with points of weight 0.
        """
        weights = None if self.weights is None else _Slice(self.weights)
        work = _Work(self.admit, self.step, part, self.rows, weights)
        total = Total()
        give_back()  # what was left before the pass, by the compiler too
        given = time.monotonic()
        for sums in self.source.totals(work, self.rows):
            total.merge(sums)
            if time.monotonic() - given > _OFTEN:
                give_back()
                given = time.monotonic()
        give_back()
        if self.filler is not None:
            point, weight = self.filler
            one = jax.tree.map(lambda x: jnp.asarray(x)[None], point)
            last = part(one, np.zeros(1, dtype=bool), jnp.array([weight]))
            total.add((last, weight, 0.0))
        value, weight, outside = total.value
        self.__dict__["count_outside"] = int(outside)
        return value, float(weight)

    def mean(self, terms: Callable[[Point], Any]) -> Any:
        """The weighted mean of terms(points), a pytree of arrays with one row a record."""
        total, weight = self.sums(functools.partial(_summed, terms))
        return jax.tree.map(lambda x: x / weight, total)

    @functools.cached_property
    def count_outside(self) -> int:
        """How many of the given records `step` flags; every pass counts them."""
        return int(self.sums(_count)[0]) if self.n else 0


def _summed(terms: Callable[[Point], Any], points: Point, _: Any, weights: jax.Array) -> Sums:
    return weighted_pairwise(terms(points), weights)


@jax.jit
def weighted_pairwise(terms: Any, weights: jax.Array) -> Any:
    """sum_i w_i t_i, in pairs; a term of weight 0 counts as 0 whatever it is."""
    shaped = lambda leaf: weights.reshape(weights.shape + (1,) * (leaf.ndim - 1))  # noqa: E731
    return jax.tree.map(
        lambda leaf: pairwise_sum(jnp.where(shaped(leaf) == 0, 0.0, shaped(leaf) * leaf)), terms
    )


def _count(_: Point, outside: np.ndarray, __: jax.Array) -> Sums:
    return np.float64(np.count_nonzero(outside))


def rows_of(n: int, most: int) -> int:
    """The size of a part, a power of two."""
    return min(most, 1 << max(4, (n - 1).bit_length() if n > 1 else 0))


def most_rows(entries: int) -> int:
    """The largest part of records of so many numbers, a power of two."""
    return min(MOST_ROWS, 1 << max(2, (ENTRIES // entries).bit_length() - 1))


def stream_of(source: AbstractSource, admit: Callable[[Any], Point]) -> Stream:
    """The records of a source, admitted part by part."""
    return Stream(source, admit, rows_of(source.n, most_rows(source.entries)))
