"""Sums of records: cut into parts, added in pairs, and the parts with what rounding took from them.

How records are cut into parts depends on their number and shape alone, in memory and in a file
(`Stream`) alike.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any

import numpy as np

from .._trees import leaves, map_leaves
from ..manifolds._base import Point

ENTRIES = 1 << 16  # numbers of a part
FEW, MOST_ENTRIES = 1 << 8, 1 << 18  # so few records are a part up to so many numbers
MOST_ROWS = 1 << 15  # records of a part
_ULP = 2.0**-53
BLOCK = 4096  # terms that are added at a time
MOST_TERMS = BLOCK**3  # more records than any data set has

Sums = Any  # a tree of arrays
Part = Callable[[Point, np.ndarray, np.ndarray], Sums]  # points, outside, weights -> their sum


class AbstractParts(abc.ABC):
    """Records that are read in parts, with weights of their own."""

    @abc.abstractmethod
    def sums(self, part: Part) -> tuple[Sums, float]:
        """(the sum of part(points, outside, weights) over the parts, the sum of the weights)."""


def pairwise_sum(x: np.ndarray) -> np.ndarray:
    """The sum over the leading axis, in pairs: each of n terms takes part in at most ceil(log2 n)
    additions.
    """
    if len(x) < 2:
        return x.sum(axis=0)
    half = 1 << (len(x) - 1).bit_length() - 1
    pairs = x[:half].copy()
    pairs[: len(x) - half] += x[half:]
    while half > 1:
        half //= 2
        pairs[:half] += pairs[half : 2 * half]
    return pairs[0]


class Total:
    """A sum of arrays with the rounding error of every addition added to it at the end (Sum2 of
    Ogita, Rump and Oishi 2005).
    """

    def __init__(self) -> None:
        self.high: Sums = None
        self.low: Sums = None

    def add(self, sums: Sums) -> None:
        """Add one more tree of arrays."""
        terms = map_leaves(np.asarray, sums)
        if self.high is None:
            self.high, self.low = terms, map_leaves(lambda _: 0.0, terms)
            return
        total = map_leaves(np.add, self.high, terms)
        self.low = map_leaves(_with_lost, self.low, self.high, terms, total)
        self.high = total

    @property
    def value(self) -> Sums:
        """The sum, with what rounding took from it."""
        assert self.high is not None
        return map_leaves(np.add, self.high, self.low)


def _with_lost(low: np.ndarray, high: np.ndarray, term: np.ndarray, total: np.ndarray) -> Any:
    """What rounding has taken so far, and what it took from high + term = total."""
    back = total - high
    return low + ((high - (total - back)) + (term - back))


def streamed_error(rows: int = MOST_ROWS) -> float:
    """Bound of the rounding error of a mean over parts of at most `rows` records, relative to the
    mean length of its terms, for up to 2^42 records.

    A weight times a term is rounded once, the sum of a part log2(rows) times. The sum of m <= 2^26
    parts errs by at most u |sum| + (m u)^2 sum |part| (Ogita, Rump and Oishi 2005, Proposition
    4.5), u = 2^-53, so by 1.5 u; the total weight, likewise, and the quotient add 3 u. The last u
    covers products of errors.
    """
    return _ULP * (max(rows - 1, 1).bit_length() + 7)


def summation_error(n: int) -> float:
    """Bound of the relative rounding error of a sum of n terms as this package adds them: blocks of
    at most `BLOCK` terms in any order, then the sums of the blocks likewise.
    """
    levels = 1
    while n > BLOCK:
        n, levels = -(-n // BLOCK), levels + 1
    return _ULP * (BLOCK * levels if levels > 1 else n)


def weighted_pairwise(terms: Any, weights: np.ndarray | None) -> Any:
    """sum_i w_i t_i, in pairs; a term of weight 0 counts as 0 whatever it is. None: weights 1."""

    def total(leaf: np.ndarray) -> np.ndarray:
        if weights is None:
            return pairwise_sum(leaf)
        w = weights.reshape(weights.shape + (1,) * (leaf.ndim - 1))
        return pairwise_sum(np.where(w == 0, 0.0, w * leaf))

    return map_leaves(total, terms)


def mean_of(
    points: Point | AbstractParts, shares: np.ndarray | None, terms: Callable[[Point], Any]
) -> Any:
    """The weighted mean of terms(points), a tree of arrays with one row a record: of points in
    memory, with shares that sum to 1 (None: equal ones), or of `AbstractParts`, with weights of
    their own. Both are cut into parts and added alike.
    """
    return mean_of_sums(points, shares, lambda part, w: weighted_pairwise(terms(part), w))


def mean_of_sums(
    points: Point | AbstractParts, shares: np.ndarray | None, sums: Callable[[Point, Any], Sums]
) -> Sums:
    """The same of sums(some points, their weights), with the rounding error of `streamed_error`."""
    if isinstance(points, AbstractParts):
        total, weight = points.sums(lambda part, _, weights: sums(part, weights))
        return map_leaves(lambda x: x / weight, total)
    n, entries = len(leaves(points)[0]), sum(leaf[:1].size for leaf in leaves(points))
    rows, total = rows_of(n, most_rows(max(1, entries))), Total()
    for start in range(0, n, rows):
        part = map_leaves(lambda x, s=start: np.asarray(x[s : s + rows]), points)
        total.add(sums(part, None if shares is None else shares[start : start + rows]))
    return total.value if shares is not None else map_leaves(lambda x: x / n, total.value)


def rows_of(n: int, most: int) -> int:
    """The size of a part, a power of two."""
    return min(most, 1 << max(4, (n - 1).bit_length() if n > 1 else 0))


def most_rows(entries: int) -> int:
    """The largest part of records of so many numbers, a power of two."""
    rows = max(ENTRIES // entries, min(FEW, MOST_ENTRIES // entries))
    return min(MOST_ROWS, 1 << max(2, rows.bit_length() - 1))
