"""Records in mapped files. A page of a map whose file has become shorter ends the process, so they
are read from the file, whatever their layout; from the map only where no name leads to its file.
"""

from __future__ import annotations

import contextlib
import mmap
import os
from typing import Any

import numpy as np

from ._sources import AbstractReader, Form, Sliced, Unreadable

_STRETCH = 1 << 16  # bytes that are read together though not all of them are wanted
_MAPS = "/proc/self/maps"  # which files this process has mapped; on Linux

Mapped = np.memmap[Any, Any]
Strides = tuple[int, ...]


def source_of_map(array: Mapped, called: str) -> AbstractReader:
    """Where the records of a `numpy.memmap`, or of a part of one, are read from.

    Raises:
        Unreadable: The file has become shorter than the map, whatever its name is now.
    """
    held = _map_of(array)
    if held is None or array.size == 0:  # in memory, in spite of its type
        return Sliced(array)
    if held.size() < _place(array)[1]:
        raise Unreadable(
            f"argument `{called}` maps a file that has become shorter than the map; write it whole"
            " and map it again. Nothing was spent"
        )
    # what was written to a copy-on-write map ("c") is in no file
    if array.mode in ("r", "r+", "w+") and array.filename is not None:
        file = _named(os.fspath(str(array.filename)), held)
        if file is not None:
            return MappedFile(array, file)
    return Map(array)


class MappedFile(AbstractReader):
    """The rows of a map, or of a part of one in any layout, read from its file: a page that has
    gone missing is an error then, and not the end of the process.

    Args:
        array: A map, or a part of one.
        file: Device and number of the file that is mapped, as `os.stat` has them.
    """

    def __init__(self, array: Mapped, file: tuple[int, int]):
        self.n, self.shape, self.dtype = len(array), array.shape[1:], array.dtype
        self.path, self.strides = os.fspath(str(array.filename)), array.strides
        self.first, self.end = _place(array)
        self.file = file

    @property
    def form(self) -> Any:
        return Form(self.shape)

    def read(self, start: int, stop: int) -> Any:
        part = np.empty((stop - start, *self.shape), dtype=self.dtype)
        if part.size == 0:
            return part
        with open(self.path, "rb", buffering=0) as stream:
            found = os.fstat(stream.fileno())
            if self.file != (found.st_dev, found.st_ino):
                raise OSError("another file has taken its place")  # other records, in mid-release
            if found.st_size < self.end:  # whichever rows are wanted: they may be secret
                raise EOFError
            _fill(stream, part, self.first + start * self.strides[0], self.strides)
        return part

    def lengths(self, part: Any) -> set[int]:
        return {len(part)}


class Map(Sliced):
    """The rows of a map, read through it. A file that was made shorter before a part is read is an
    error; in the middle of one it still ends the process.
    """

    def __init__(self, array: Mapped):
        super().__init__(array)
        self.map = _map_of(array)
        self.end = _place(array)[1]

    def read(self, start: int, stop: int) -> Any:
        assert self.map is not None
        if self.map.size() < self.end:  # of the file that is mapped, whatever its name is now
            raise EOFError
        part = super().read(start, stop)
        if self.array.mode in ("r", "r+"):
            with contextlib.suppress(AttributeError, ValueError, OSError):
                self.map.madvise(mmap.MADV_DONTNEED)  # or the pages count as memory of ours
        return part


# ------------------------------------------------------------------ where a map is
def _map_of(array: Mapped) -> mmap.mmap | None:
    """The map that an array looks at; None for one in memory."""
    found = getattr(array, "_mmap", None)
    return found if isinstance(found, mmap.mmap) else None


def _place(array: Mapped) -> tuple[int, int]:
    """Where in its file the first entry stands, and where the last one in the order of the file
    ends.
    """
    held = _map_of(array)
    assert held is not None
    # a part of a map carries the offset of the whole, which begins at a multiple of the page
    begin = int(array.offset) - int(array.offset) % mmap.ALLOCATIONGRANULARITY
    first = begin + array.__array_interface__["data"][0] - _address(held)
    low, high = _span(array.shape, array.strides)
    assert begin <= first + low
    return first, first + high + array.itemsize


def _span(shape: tuple[int, ...], strides: Strides) -> tuple[int, int]:
    """How far before and after the first entry entries begin."""
    ends = [(size - 1) * stride for size, stride in zip(shape, strides, strict=True)]
    return sum(min(0, end) for end in ends), sum(max(0, end) for end in ends)


def _address(held: mmap.mmap) -> int:
    return np.frombuffer(held, np.uint8).__array_interface__["data"][0]


def _named(path: str, held: mmap.mmap) -> tuple[int, int] | None:
    """Device and number of the file of this name, where it is the one that is mapped. Where the
    system does not say which file is mapped, the one of the same name is taken for it.
    """
    try:
        with (
            open(path, "rb") as stream,
            mmap.mmap(stream.fileno(), 1, access=mmap.ACCESS_READ) as own,
        ):
            found = os.fstat(stream.fileno())
            same = _file_at(_address(own)) == _file_at(_address(held))
            return (found.st_dev, found.st_ino) if same else None
    except (OSError, ValueError):  # gone, closed to us, or empty
        return None


def _file_at(address: int) -> tuple[str, str] | None:
    """Device and number of the file that is mapped at an address, as the system writes them, which
    need not be as `os.stat` has them.
    """
    try:
        with open(_MAPS) as lines:
            for line in lines:
                limits, _, _, device, number = line.split(maxsplit=5)[:5]
                low, high = (int(limit, 16) for limit in limits.split("-"))
                if low <= address < high:
                    return device, number
    except OSError:
        pass
    return None


# ------------------------------------------------------------------ reading
def _fill(stream: Any, out: np.ndarray, first: int, strides: Strides) -> None:
    """Fill `out` with entries of a file whose first is at `first` and whose others lie `strides`
    apart, in stretches that are mostly wanted.
    """
    if out.flags.c_contiguous and out.strides == strides:
        _read_into(stream, memoryview(out.data).cast("B"), first)
        return
    low, high = _span(out.shape, strides)
    size = high - low + out.itemsize
    if size <= max(_STRETCH, 2 * out.nbytes):
        stretch = np.empty(size, dtype=np.uint8)
        _read_into(stream, memoryview(stretch.data), first + low)
        out[...] = np.ndarray(out.shape, out.dtype, stretch.data, -low, strides)
        return
    apart = [abs(s) if n > 1 else 0 for n, s in zip(out.shape, strides, strict=True)]
    axis = int(np.argmax(apart))
    together = max(1, min(out.shape[axis] // 2, _STRETCH // 2 // apart[axis]))
    for begin in range(0, out.shape[axis], together):
        some = (slice(None),) * axis + (slice(begin, begin + together),)
        _fill(stream, out[some], first + begin * strides[axis], strides)


def _read_into(stream: Any, view: memoryview, place: int) -> None:
    stream.seek(place)
    while len(view):
        got = stream.readinto(view)
        if not got:
            raise EOFError
        view = view[got:]
