"""Records of a Dask array: each block is reduced where it lies, and only sums come back."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable
from typing import Any

import jax
import numpy as np

from .._errors import InvalidArgument
from ._sources import AbstractSource, Sums, Unreadable, reported, spread_out

# one block at a time in a process: compiled eigendecompositions share their threads
_ONE = threading.Lock()


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
        self.array = array.rechunk(dict.fromkeys(range(1, array.ndim), -1))
        self.n = int(array.shape[0])

    @property
    def form(self) -> Any:
        return jax.ShapeDtypeStruct(tuple(self.array.shape[1:]), np.float64)

    def totals(
        self, work: Callable[[Any, int], tuple[Sums, Sums]], rows: int
    ) -> Iterable[tuple[Sums, Sums]]:
        import dask  # type: ignore[reportMissingImports]

        sizes = self.array.chunks[0]
        firsts = np.cumsum((0, *sizes[:-1]))
        blocks = self.array.to_delayed().ravel()
        job = dask.delayed(work, pure=False, traverse=False)
        run = dask.delayed(_run, pure=False)
        tasks = [
            run(job, block, int(first))
            for block, first, size in zip(blocks, firsts, sizes, strict=True)
            if size
        ]
        try:
            found = dask.compute(*tasks)
        except Exception as error:  # an error of a worker may show what a record holds
            why = type(error).__name__
        else:
            reported(self.n, self.n)
            return found
        raise self._unreadable(why)

    def _unreadable(self, why: str) -> Unreadable:
        return Unreadable(
            f"argument `{self.called}`: a block of the Dask array cannot be read or reduced"
            f" ({why}); try {self.called}.sum().compute(), and see that the workers have riemdp"
            " installed"
        )

    def thinned(self, size: int) -> tuple[AbstractSource, np.ndarray]:
        import dask.array  # type: ignore[reportMissingImports]

        stretches = spread_out(self.n, size)
        some = dask.array.concatenate([self.array[start:stop] for start, stop in stretches])
        places = np.concatenate([np.arange(start, stop) for start, stop in stretches])
        return OnCluster(some.rechunk({0: -1}).persist()), places

    def fetched(self, start: int, stop: int) -> Any:
        try:
            return np.asarray(self.array[start:stop])
        except Exception as error:
            why = type(error).__name__
        raise self._unreadable(why)

    def chosen(self, places: np.ndarray) -> AbstractSource:
        some = OnCluster(self.array[places])
        some.called = self.called
        return some


def _run(work: Callable[[Any, int], tuple[Sums, Sums]], block: Any, first: int) -> Any:
    with _ONE:
        return work(np.asarray(block), first)
