"""Batches of random size for a block of steps, by Poisson sampling or by random allocation: fresh,
secret; drawn on the host like the noise.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from .._errors import RiemdpError
from ..randomness import NoiseSource


def batches_of(
    sampling: str, source: NoiseSource, n: int, count: int, size: int, population: int, epoch: int
) -> tuple[NDArray[np.int64], NDArray[np.float64] | None]:
    """`count` batches of n records: of `size` distinct ones, of each with probability size /
    population, or (count / epoch) times the n records dealt out to `epoch` batches.

    How wide the arrays of random batches are follows from the public numbers, not from n: programs
    of different widths round differently, and n is private there.
    """
    if sampling == "allocation":
        epochs, left = divmod(count, epoch)
        if left:
            raise RiemdpError(f"{count} batches are no whole epochs of {epoch}")
        return allocated_batches(source, n, epoch, epochs, expected=population / epoch)
    if sampling == "poisson":
        return poisson_batches(source, n, size / population, count, expected=size)
    return source.subsets(n, size, count), None


def poisson_batches(
    source: NoiseSource, n: int, rate: float, count: int, *, expected: float | None = None
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """`count` batches in which each of n records is present independently with probability `rate`:
    indices and 0/1 mask.

    The count * n coin tosses are drawn through the gaps between successes, which are geometric, so
    the cost is that of the successes. The batches have random sizes; the arrays are as wide as a
    public bound that a batch exceeds with probability below 1e-12, and wider (doubled until it
    fits; the loop is then compiled again) when one does: nothing is ever cut off. `expected` is the
    public size that the bound is for, n * rate by default.
    """
    if rate >= 1.0:
        return np.tile(np.arange(n), (count, 1)), np.ones((count, n))
    total = count * n
    likely = total * rate
    parts: list[NDArray[np.int64]] = []
    last = -1
    while last < total:
        draw = int(likely + 6.0 * math.sqrt(likely) + 16) if not parts else 64
        u = source.uniforms((draw,))
        # Geometric on {1, 2, ...} by inversion; with log1p it is right for rates down to 1e-300.
        gaps = np.maximum(1.0, np.ceil(np.log(u) / math.log1p(-rate)))
        hits = last + np.cumsum(np.minimum(gaps, total + 1.0)).astype(np.int64)
        parts.append(hits)
        last = int(hits[-1])
    hits = np.concatenate(parts)
    hits = hits[hits < total]
    step, record = np.divmod(hits, n)
    return _padded(step, record, count, n * rate if expected is None else expected)


def allocated_batches(
    source: NoiseSource, n: int, steps: int, epochs: int, *, expected: float | None = None
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """`epochs` times `steps` batches: in each epoch every one of n records is in exactly one of
    `steps` batches, uniformly drawn, independently of the other records and of other epochs.
    Indices and 0/1 mask, as wide as for Poisson batches.
    """
    bins = source.integers(0, steps, (epochs, n))
    step = (bins + steps * np.arange(epochs)[:, None]).ravel()
    order = np.argsort(step, kind="stable")
    mean = n / steps if expected is None else expected
    return _padded(step[order], order % n, epochs * steps, mean)


def _padded(
    step: NDArray[np.int64], record: NDArray[np.int64], count: int, mean: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Members of `count` batches of expected size `mean`, in the order of the batches: indices and
    mask.
    """
    sizes = np.bincount(step, minlength=count)
    width = math.ceil(mean + 8.0 * math.sqrt(mean) + 16.0)
    while width < int(sizes.max(initial=0)):
        width *= 2
    column = np.arange(len(step)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    indices = np.zeros((count, width), dtype=np.int64)
    mask = np.zeros((count, width))
    indices[step, column] = record
    mask[step, column] = 1.0
    return indices, mask
