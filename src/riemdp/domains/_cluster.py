"""Records of a Dask array: each block is reduced where it lies, and only sums come back."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from .._errors import InvalidArgument
from .._parallel import of_process
from ._sources import (
    AbstractSource,
    Form,
    Sums,
    Unreadable,
    checksum,
    reported,
    unmasked,
)

# one block at a time in a process: decompositions that optimisers compile share their threads
_one = of_process(threading.Lock)


class Miscounted(Exception):
    """A block that does not hold the records that the array says it holds."""


class OnCluster(AbstractSource):
    """The rows of a Dask array, on whatever scheduler is active. Workers need riemdp installed.

    Args:
        array: The array; its blocks need known sizes.
    """

    def __init__(self, array: Any):
        if any(not math.isfinite(size) for size in array.shape):
            raise InvalidArgument(
                "argument `X` is a Dask array whose blocks have unknown sizes; call"
                " X.compute_chunk_sizes() first"
            )
        # Noise is for as many records as the array says. Dask believes what it is told of blocks.
        nothing = np.empty((0,) * array.ndim, array.dtype)
        counted = array.map_blocks(_counted, dtype=array.dtype, meta=nothing)
        self.array = counted.rechunk(dict.fromkeys(range(1, array.ndim), -1))
        self.n = int(array.shape[0])

    @property
    def form(self) -> Any:
        return Form(tuple(self.array.shape[1:]))

    def totals(
        self, work: Callable[[Any, int], tuple[Sums, Sums]], rows: int
    ) -> Iterable[tuple[Sums, Sums]]:
        from dask.base import compute  # type: ignore[reportMissingImports]
        from dask.delayed import delayed  # type: ignore[reportMissingImports]

        sizes = self.array.chunks[0]
        firsts = np.cumsum((0, *sizes[:-1]))
        blocks = self.array.to_delayed().ravel()
        job = delayed(work, pure=False, traverse=False)
        run = delayed(_run, pure=False)
        tasks = [
            run(job, block, int(first), self._start)
            for block, first, size in zip(blocks, firsts, sizes, strict=True)
            if size
        ]
        found = self._tried(lambda: compute(*tasks))
        reported(self.n, self.n)
        self._compare(tuple(seen for _, seen in found))
        return [sums for sums, _ in found]

    def _tried(self, compute: Callable[[], Any]) -> Any:
        name = self.called
        try:
            return compute()
        except Miscounted:
            why = (
                "does not hold the records that the array says it holds (a filter of blocks changes"
                f" how many there are); call {name}.compute_chunk_sizes() first"
            )
        except Exception as error:  # an error of a worker may show what a record holds
            why = (
                f"cannot be read or reduced ({type(error).__name__}); try {name}.sum().compute(),"
                " and see that the workers have riemdp installed"
            )
        raise Unreadable(f"argument `{name}`: a block of the Dask array {why}")

    def fetched(self, start: int, stop: int) -> Any:
        return self._tried(lambda: np.asarray(self.array[start:stop]))

    def chosen(self, places: np.ndarray) -> AbstractSource:
        some = OnCluster(self.array[places])
        some.called = self.called
        return some


def _counted(block: Any, block_info: Any) -> np.ndarray:
    """The block as an array of as many records as it was said to hold, masked entries as NaN."""
    found = unmasked(block)
    if found.shape != tuple(block_info[None]["chunk-shape"]):
        raise Miscounted
    return found


def _run(
    work: Callable[[Any, int], tuple[Sums, Sums]], block: Any, first: int, start: int
) -> tuple[tuple[Sums, Sums], int]:
    with _one():
        part = np.asarray(block)
        return work(part, first), checksum(part, start)
