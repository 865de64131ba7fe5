"""Where records come from that are read in parts: files, arrays in files, several side by side."""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import functools
import math
import mmap
import secrets
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .._errors import InvalidArgument
from .._trees import leaves, map_leaves

_READ = 1 << 23  # numbers that are read at a time where the file is made of large pieces
_NEAR = 1 << 11  # numbers around a single record that are read with it
_TOGETHER = 1 << 20  # numbers that are read at a time where single records are wanted

_FLOAT = np.dtype(np.float64)


class Unreadable(InvalidArgument):
    """Records that could not be read. Nothing of them is in the message."""


def checksum(part: Any, start: int) -> int:
    """A checksum of some records as they were read, which goes on from another."""
    for leaf in map(np.asarray, leaves(part)):
        if not leaf.dtype.hasobject:
            start = zlib.crc32(np.ascontiguousarray(leaf).reshape(-1).view(np.uint8).data, start)
    return start


@dataclasses.dataclass(frozen=True)
class Form:
    """The shape of one record, or of one factor of it, as float64."""

    shape: tuple[int, ...]
    dtype: np.dtype[np.float64] = _FLOAT


class AbstractSource(abc.ABC):
    """n records, read part by part.

    Every pass over all of them is compared with the first: the sensitivity of a value that several
    passes make holds for one set of records. The checksums begin at a secret number, and nothing
    shows them.

    Attributes:
        n: How many there are.
        called: The name of the argument, for errors.
        piece: How many are stored together.
        lies_elsewhere: Whether they can change while they are read, and reading takes time.
    """

    n: int
    called: str = "X"
    piece: int = 1
    lies_elsewhere: bool = True
    _first_pass: int | None = None

    @property
    @abc.abstractmethod
    def form(self) -> Any:
        """The shape of one record, as float64: a tree of `Form`."""

    @abc.abstractmethod
    def read(self, start: int, stop: int) -> Any:
        """Some records as they are stored."""

    @property
    def entries(self) -> int:
        """How many numbers one record has."""
        return max(1, sum(math.prod(leaf.shape) for leaf in leaves(self.form)))

    def fetched(self, start: int, stop: int) -> Any:
        """`read`, or an error that names the rows and shows nothing of them."""
        return self._tried(start, stop, f"rows {start} to {stop - 1} of {self.n}")

    def _tried(self, start: int, stop: int, which: str) -> Any:
        why = "other records than it says"
        try:
            part = self.read(start, stop)
            wanted = [(stop - start, *leaf.shape) for leaf in leaves(self.form)]
            if [np.shape(leaf) for leaf in leaves(part)] == wanted:
                return part
        except Exception as error:  # an error of a file format may show what the file holds
            why = type(error).__name__
        raise Unreadable(
            f"argument `{self.called}`: {which} cannot be read ({why}); the file is damaged,"
            " shorter than its header says, or gone, or a block of a Dask array fails or holds"
            " another number of records than the array says (after a filter of blocks call"
            " compute_chunk_sizes() first)"
        )

    def parts(self, rows: int) -> Iterator[tuple[Any, int]]:
        """(some records, the number of the first of them), which together are every record once, in
        order; each begins at a multiple of `rows`.
        """
        step, seen = rows * max(1, self.piece // rows), self._start
        for start in range(0, self.n, step):
            stop = min(start + step, self.n)
            part = self.fetched(start, stop)
            if self.lies_elsewhere:
                seen = checksum(part, seen)
            yield part, start
        if self._first_pass is None:
            self._first_pass = seen
        elif self._first_pass != seen:
            raise Unreadable(
                f"argument `{self.called}` differs at each read, and a release is about one set of"
                " records; give an array that stays what it is while it is read (of a Dask array"
                " whose graph draws random numbers, its persist())"
            )

    @functools.cached_property
    def _start(self) -> int:
        return secrets.randbits(32)

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
                parts.append(map_leaves(lambda leaf, wanted=wanted: leaf[wanted], part))
        return map_leaves(lambda *some: np.concatenate(some), *parts)


class Held(AbstractSource):
    """Records in memory."""

    lies_elsewhere = False

    def __init__(self, whole: Any):
        self.whole, self.n = whole, len(leaves(whole)[0])

    @property
    def form(self) -> Any:
        return map_leaves(lambda leaf: Form(leaf.shape[1:]), self.whole)

    def read(self, start: int, stop: int) -> Any:
        return map_leaves(lambda leaf: leaf[start:stop], self.whole)


class Sliced(AbstractSource):
    """The rows of anything that is indexed like an array: HDF5, Zarr."""

    def __init__(self, array: Any):
        self.array, self.n = array, int(array.shape[0])
        chunks = getattr(array, "chunks", None)
        if chunks:
            entries = int(np.prod(array.shape[1:]))
            self.piece = min(_rows_of_chunks(chunks[0]), max(1, _READ // max(1, entries)))

    @property
    def form(self) -> Any:
        return Form(tuple(self.array.shape[1:]))

    def read(self, start: int, stop: int) -> Any:
        return np.array(self.array[start:stop])


def _rows_of_chunks(rows: Any) -> int:
    """One number in HDF5 and Zarr, one for each chunk in Dask."""
    return max(rows) if isinstance(rows, tuple) else int(rows)


class Map(Sliced):
    """The rows of a mapped file. A page of a map whose file has become shorter ends the process:
    before each part a shorter file is an error.

    Raises:
        Unreadable: The file has become shorter than the map, whatever its name is now.
    """

    def __init__(self, array: np.memmap[Any, Any], called: str):
        super().__init__(array)
        held = getattr(array, "_mmap", None)
        self.map = held if isinstance(held, mmap.mmap) else None  # of an array in memory: None
        if self._is_short():
            raise Unreadable(
                f"argument `{called}` maps a file that has become shorter than the map; write it"
                " whole and map it again. Nothing was spent"
            )

    def _is_short(self) -> bool:
        """Whichever rows are wanted: they may be secret."""
        if self.map is None:
            return False
        begin = int(self.array.offset) - int(self.array.offset) % mmap.ALLOCATIONGRANULARITY
        return self.map.size() < begin + len(self.map)

    def read(self, start: int, stop: int) -> Any:
        if self._is_short():
            raise EOFError
        part = super().read(start, stop)
        if self.map is not None and self.array.mode in ("r", "r+"):
            with contextlib.suppress(AttributeError, ValueError, OSError):
                self.map.madvise(mmap.MADV_DONTNEED)  # or the pages count as memory of ours
        return part


class Computed(Sliced):
    """The rows of a Dask array, computed on whatever scheduler is active.

    Args:
        array: The array.
        counted: What is made of each block: an array of as many records as it was said to hold.
    """

    def __init__(self, array: Any, counted: Callable[..., np.ndarray]):
        if any(not math.isfinite(size) for size in array.shape):
            raise InvalidArgument(
                "argument `X` is a Dask array whose blocks have unknown sizes; call"
                " X.compute_chunk_sizes() first"
            )
        # Noise is for as many records as the array says. Dask believes what it is told of blocks.
        nothing = np.empty((0,) * array.ndim, array.dtype)
        super().__init__(array.map_blocks(counted, dtype=array.dtype, meta=nothing))

    def read(self, start: int, stop: int) -> Any:
        with np.errstate():  # what a block tells NumPy ends with it
            return np.asarray(self.array[start:stop])


class Columns(AbstractSource):
    """Records of which each of several sources holds a part: the factors of a product."""

    def __init__(self, called: str, factors: Sequence[AbstractSource]):
        self.factors, self.n = factors, same_count(called, [factor.n for factor in factors])
        self.piece = max(factor.piece for factor in factors)

    @property
    def form(self) -> Any:
        return tuple(factor.form for factor in self.factors)

    def read(self, start: int, stop: int) -> Any:
        return tuple(factor.read(start, stop) for factor in self.factors)


class Chosen(AbstractSource):
    """Some records of a source, of which it reads no more than these and their neighbours.

    Args:
        source: Where they are read from.
        places: Which; they increase.
    """

    lies_elsewhere = False

    def __init__(self, source: AbstractSource, places: np.ndarray):
        self.source, self.places = source, places
        self.n, self.called = len(places), source.called

    @property
    def form(self) -> Any:
        return self.source.form

    def read(self, start: int, stop: int) -> Any:
        return self.source.at(self.places[start:stop])

    def fetched(self, start: int, stop: int) -> Any:
        return self.read(start, stop)  # the source's errors, which name no rows


def same_count(name: str, counts: Sequence[int]) -> int:
    """How many records there are, of which several arrays hold a part each.

    Raises:
        InvalidArgument: The arrays have different lengths.
    """
    if len(set(counts)) != 1:
        raise InvalidArgument(
            f"argument `{name}` has factors with different numbers of records:"
            f" {sorted(set(counts))}"
        )
    return counts[0]
