"""Where records come from that are read in parts: files, arrays in files, several side by side."""

from __future__ import annotations

import abc
import contextlib
import contextvars
import dataclasses
import functools
import math
import secrets
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from .._errors import InvalidArgument
from .._trees import leaves, map_leaves

_READ = 1 << 23  # numbers that are read at a time where the file is made of large pieces
_NEAR = 1 << 11  # numbers around a single record that are read with it
_TOGETHER = 1 << 20  # numbers that are read at a time where single records are wanted

_FLOAT = np.dtype(np.float64)
Sums = Any  # a tree of arrays
Progress = Callable[[int, int], None]
_progress: contextvars.ContextVar[Progress | None] = contextvars.ContextVar("reading", default=None)


@contextlib.contextmanager
def watched(progress: Progress) -> Iterator[None]:
    """Call `progress(read, n)` while records are read in parts: how many of the n records the
    current pass has read. How many passes there are depends on the records, as the time does.
    """
    token = _progress.set(progress)
    try:
        yield
    finally:
        _progress.reset(token)


def reported(read: int, n: int) -> None:
    """Tell whoever watches how far a pass is."""
    progress = _progress.get()
    if progress is not None:
        progress(read, n)


class Unreadable(InvalidArgument):
    """Records that could not be read. Nothing of them is in the message."""


def unmasked(X: Any) -> np.ndarray:
    """Many records as an array, masked entries as NaN. Entries that are no numbers stay what they
    are: they are read record by record.
    """
    array = np.asarray(X)
    if not isinstance(X, np.ma.MaskedArray):
        return array
    masked = np.ma.getmaskarray(X)
    if array.dtype.kind in "fiub":
        return np.where(masked, np.nan, as_float64(array))
    objects = array.astype(object)
    objects[masked] = None
    return objects


def as_float64(array: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):  # a warning would depend on one record
        return array.astype(np.float64, copy=False)


def checksum(part: Any, start: int) -> int:
    """A checksum of some records as they were read, which goes on from another."""
    for leaf in map(np.asarray, leaves(part)):
        if not leaf.dtype.hasobject:
            start = zlib.crc32(np.ascontiguousarray(leaf).reshape(-1).view(np.uint8).data, start)
    return start


class AbstractSource(abc.ABC):
    """n records, given to a function part by part.

    Every pass over all of them is compared with the first: the sensitivity of a value that several
    passes make holds for one set of records. The checksums begin at a secret number, and nothing
    shows them.

    Attributes:
        n: How many there are.
        called: The name of the argument, for errors.
    """

    n: int
    called: str = "X"
    _first_pass: tuple[int, ...] | None = None

    @functools.cached_property
    def _start(self) -> int:
        return secrets.randbits(32)

    def _compare(self, sums: tuple[int, ...]) -> None:
        """Compare the checksums of a pass with those of the first one."""
        if self._first_pass is None:
            self._first_pass = sums
        elif self._first_pass != sums:
            raise Unreadable(
                f"argument `{self.called}` differs at each read, and a release is about one set of"
                " records; give an array that stays what it is while it is read (of a Dask array"
                " whose graph draws random numbers, its persist())"
            )

    @property
    @abc.abstractmethod
    def form(self) -> Any:
        """The shape of one record, as float64: a tree of `Form`."""

    @property
    def entries(self) -> int:
        """How many numbers one record has."""
        return max(1, sum(math.prod(leaf.shape) for leaf in leaves(self.form)))

    @abc.abstractmethod
    def totals(
        self, work: Callable[[Any, int], tuple[Sums, Sums]], rows: int
    ) -> Iterable[tuple[Sums, Sums]]:
        """`work(part, first)` of parts that together hold every record once, in order: some records
        as they were given, and the number of the first of them.
        """

    @abc.abstractmethod
    def fetched(self, start: int, stop: int) -> Any:
        """Some records as they are stored, or an error that shows nothing of them."""

    @abc.abstractmethod
    def chosen(self, places: np.ndarray) -> AbstractSource:
        """The records at these places, which increase."""


class AbstractReader(AbstractSource):
    """Records that this process reads."""

    piece: int = 1
    """Records that are stored together."""

    @abc.abstractmethod
    def read(self, start: int, stop: int) -> Any:
        """Some records as they are stored."""

    @abc.abstractmethod
    def lengths(self, part: Any) -> set[int]:
        """How many records were read; several numbers where factors differ."""

    def fetched(self, start: int, stop: int) -> Any:
        """`read`, or an error that names the rows and shows nothing of them."""
        return self._tried(start, stop, f"rows {start} to {stop - 1} of {self.n}")

    def _tried(self, start: int, stop: int, which: str) -> Any:
        why = "fewer records than it says"
        try:
            part = self.read(start, stop)
            if self.lengths(part) == {stop - start}:
                return part
        except Exception as error:  # an error of a file format may show what the file holds
            why = type(error).__name__
        raise Unreadable(
            f"argument `{self.called}`: {which} cannot be read ({why}); the file is damaged,"
            " shorter than its header says, or gone"
        )

    def totals(
        self, work: Callable[[Any, int], tuple[Sums, Sums]], rows: int
    ) -> Iterable[tuple[Sums, Sums]]:
        step = rows * max(1, self.piece // rows)
        stored, seen = not isinstance(self, Held | Chosen), self._start
        for start in range(0, self.n, step):
            stop = min(start + step, self.n)
            part = self.fetched(start, stop)
            if stored:
                seen = checksum(part, seen)
            yield work(part, start)
            if stored:
                reported(stop, self.n)
        if stored:
            self._compare((seen,))

    def chosen(self, places: np.ndarray) -> AbstractSource:
        return Chosen(self, places)

    def at(self, places: np.ndarray) -> Any:
        """The records at these places, which increase, as they are stored.

        Each is read in a stretch of rows whose limits are multiples of a public number, which is
        kinder to a disk. An error names no rows: which stretches are read, and where one begins,
        tells of the secret members of a batch.
        """
        which = f"some of its {self.n} rows"
        if len(places) == 0:
            return self._tried(0, 0, which)
        near = max(1, self.piece, _NEAR // self.entries)
        most = max(1, _TOGETHER // (near * self.entries))
        blocks = np.unique(places // near)
        parts: list[Any] = []
        for run in np.split(blocks, np.flatnonzero(np.diff(blocks) > 1) + 1):
            for first in range(0, len(run), most):
                last = run[min(first + most, len(run)) - 1]
                start, stop = int(run[first] * near), min(int((last + 1) * near), self.n)
                low, high = np.searchsorted(places, (start, stop))
                wanted, part = places[low:high] - start, self._tried(start, stop, which)
                parts.append(map_leaves(functools.partial(_rows, places=wanted), part))
        return map_leaves(lambda *some: np.concatenate(some), *parts)


def _rows(x: np.ndarray, places: np.ndarray) -> np.ndarray:
    return x[places]


@dataclasses.dataclass(frozen=True)
class Form:
    """The shape of one record, or of one factor of it, as float64."""

    shape: tuple[int, ...]
    dtype: np.dtype[np.float64] = _FLOAT


class Held(AbstractReader):
    """Records in memory.

    Args:
        parts: Stretches of records as they were read.
    """

    def __init__(self, parts: list[Any]):
        whole, *others = parts
        self.whole = map_leaves(lambda *some: np.concatenate(some), *parts) if others else whole
        self.n = len(leaves(self.whole)[0])

    @property
    def form(self) -> Any:
        return map_leaves(lambda leaf: Form(leaf.shape[1:]), self.whole)

    def read(self, start: int, stop: int) -> Any:
        return map_leaves(lambda leaf: leaf[start:stop], self.whole)

    def lengths(self, part: Any) -> set[int]:
        return {len(leaf) for leaf in leaves(part)}


class Sliced(AbstractReader):
    """The rows of anything that is indexed like an array: HDF5, Zarr."""

    def __init__(self, array: Any):
        self.array, self.n = array, int(array.shape[0])
        chunks = getattr(array, "chunks", None)  # HDF5 and Zarr
        if chunks:
            entries = int(np.prod(array.shape[1:]))
            self.piece = min(int(chunks[0]), max(1, _READ // max(1, entries)))

    @property
    def form(self) -> Any:
        return Form(tuple(self.array.shape[1:]))

    def read(self, start: int, stop: int) -> Any:
        return np.array(self.array[start:stop])

    def lengths(self, part: Any) -> set[int]:
        return {len(part)} if part.shape[1:] == tuple(self.array.shape[1:]) else set()


class Columns(AbstractReader):
    """The factors of a product, read side by side."""

    def __init__(self, factors: tuple[AbstractReader, ...]):
        self.factors, self.n = factors, factors[0].n
        self.piece = max(factor.piece for factor in factors)

    @property
    def form(self) -> Any:
        return tuple(factor.form for factor in self.factors)

    def read(self, start: int, stop: int) -> Any:
        return tuple(factor.read(start, stop) for factor in self.factors)

    def lengths(self, part: Any) -> set[int]:
        found = zip(self.factors, part, strict=True)
        return set().union(*(factor.lengths(x) for factor, x in found))


class Chosen(AbstractReader):
    """Some records of a reader, of which it reads no more than these and their neighbours.

    Args:
        reader: Where they are read from.
        places: Which; they increase.
    """

    def __init__(self, reader: AbstractReader, places: np.ndarray):
        self.reader, self.places = reader, places
        self.n, self.called = len(places), reader.called

    @property
    def form(self) -> Any:
        return self.reader.form

    def read(self, start: int, stop: int) -> Any:
        return self.reader.at(self.places[start:stop])

    def fetched(self, start: int, stop: int) -> Any:
        return self.read(start, stop)  # the reader's errors, which name no rows

    def lengths(self, part: Any) -> set[int]:
        return {len(leaf) for leaf in leaves(part)}


def side_by_side(name: str, sources: list[AbstractSource]) -> AbstractSource:
    """The records of a product, from those of its factors."""
    readers = tuple(source for source in sources if isinstance(source, AbstractReader))
    if len(readers) < len(sources):
        raise InvalidArgument(
            f"argument `{name}` holds a Dask array as one factor of a product; Dask arrays are"
            " reduced for single arrays only: give mapped files, HDF5 or Zarr arrays"
        )
    return Columns(readers)
