"""The second moment of the rows of a table: admission, clip, sum and sensitivity, in one query.

For rows z of length at most R, A = (1/n) sum z z^T changes by at most sqrt(2) R^2 / n in the
Frobenius norm when one row is replaced: |z z^T - z' z'^T|^2 = |z|^4 + |z'|^4 - 2 <z, z'>^2.
"""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from .._errors import invalid
from .._isolation import isolated
from .._namespace import Floats
from ..domains import Ball
from ..domains._door import admit_records
from ..domains._sums import BLOCK, MOST_TERMS, summation_error
from ..manifolds import Euclidean
from ..manifolds._base import RecordsLike
from ..manifolds._spectral import pack
from ..privacy._guarantee import REPLACE_ONE
from ._membership import Membership
from ._query import AbstractQuery, Records, other_count

PERSON_IS = "one matrix each: the mean of z z^T over that person's rows"
_SHORTER = 1.0 - 1e-12  # of the bound, to which a longer row is shortened: rounding stays below it
_LONGER = 1.0 + 1e-11  # what the lengths of rows that are kept, and their squares, round to at most


@dataclasses.dataclass(frozen=True, eq=False)
class SecondMoment(AbstractQuery):
    """A = sum_i w_i z_i z_i^T in the coordinates of `pack`, z being a row minus the public center,
    clipped to the radius of the domain.

    Every row is read alone: one that is no `dim` finite real numbers, or has a masked entry, counts
    as the center, z = 0. The weights are 1 / n; those of people are 1 / (n count), so that a person
    counts by the mean of z z^T.

    Args:
        domain: The public ball of the rows in `Euclidean(dim)`; its radius is the row norm.
        n: The public number of rows; with `people` of people.
        adjacency: "replace-one", the only one.
        people: Whether neighbours differ in everything of one person.

    Raises:
        InvalidArgument: An argument is out of range.

    Guarantee:
        `sensitivity` = sqrt(2) R^2 / n + rounding, under replace-one, in the Frobenius norm.

    Source:
        Proof: docs/proofs/second-moment.md; docs/proofs/people.md (`people`).
    """

    adjacencies: ClassVar[tuple[str, ...]] = (REPLACE_ONE,)

    people: bool = False

    @property
    def dim(self) -> int:
        """Number of columns."""
        return self.domain.manifold.dim

    @property
    def size(self) -> int:
        """Number of coordinates of A."""
        return self.dim * (self.dim + 1) // 2

    @property
    def row_norm(self) -> float:
        """The length R that rows are clipped to."""
        return self.domain.radius

    @property
    def sensitivity(self) -> float:
        """Largest change of A in the Frobenius norm."""
        terms = MOST_TERMS if self.people else None
        return second_moment_sensitivity(self.row_norm, self.n, terms=terms)

    @isolated
    def prepare(self, X: RecordsLike, members: Membership | None = None) -> Records:
        """Admit the rows one by one and clip each on its own.

        Args:
            X: The rows as the user gave them. Only the form of the whole is checked.
            members: With `people`: whose rows they are.
        """
        if (members is not None) != self.people:
            raise invalid("groups", type(members).__name__, "this query has another unit")
        rows, count = admit_records(self.domain.manifold, "X", X)
        if members is not None and len(members.places) != count:
            raise invalid("groups", "given", "give one label for each row")
        if (count if members is None else members.n) != self.n:
            raise other_count(count if members is None else members.n, self.n)
        z = np.asarray(rows) - np.asarray(self.domain.center)
        unreadable = ~np.isfinite(z).all(axis=1)
        shares = None if members is None else members.shares / self.n
        return self.clip(Records(z, shares, unreadable))

    def within(self, row_norm: float) -> SecondMoment:
        """The same query with another public or released row norm."""
        return dataclasses.replace(self, domain=dataclasses.replace(self.domain, radius=row_norm))

    def clip(self, records: Records) -> Records:
        """The same rows, each shortened to the row norm."""
        outside = records.outside | (row_lengths(records.points) > self.row_norm)
        return Records(clip_rows(records.points, self.row_norm), records.shares, outside)

    @isolated
    def value(self, records: Records) -> Floats:
        """A of prepared rows, (size,)."""
        return second_moment(records.points, records.shares)


def of_rows(
    dim: int,
    n: int,
    row_norm: float,
    *,
    center: ArrayLike | None = None,
    people: bool = False,
) -> SecondMoment:
    """The second moment of n rows of `dim` numbers about a public center; None: about 0."""
    at = np.zeros(dim) if center is None else np.asarray(center, dtype=np.float64)
    return SecondMoment(Ball(at, row_norm).on(Euclidean(dim)), n, people=people)


def second_moment_sensitivity(bound: float, n: int, *, terms: int | None = None) -> float:
    """Replace-one sensitivity of A for n rows of length at most `bound`, in the Frobenius norm,
    rounding of `second_moment` included. With n people it is a sum of at most `terms` rows.
    """
    exact = math.sqrt(2.0) * bound**2 / n
    # sums err by less than the sum of |z|^2 times `summation_error`; weights, the quotient and
    # `pack` by a few units of the last digit
    return exact * _LONGER + 2.0 * bound**2 * (
        summation_error(n if terms is None else terms) + 8.0 * math.ulp(1.0)
    )


def row_lengths(rows: Floats) -> Floats:
    """The length of each row; 0 for a row that is not finite. May be inf, never NaN."""
    largest, scaled = _scaled(_readable(rows))
    return (largest * np.linalg.norm(scaled, axis=1, keepdims=True))[:, 0]


def clip_rows(rows: Floats, bound: float) -> Floats:
    """Each row shortened to length `bound`; a row that is not finite becomes 0. Each output depends
    on its own row only.
    """
    rows = _readable(rows)
    largest, scaled = _scaled(rows)
    length = np.linalg.norm(scaled, axis=1, keepdims=True)
    shortened = scaled * (bound * _SHORTER / np.where(length > 0, length, 1.0))
    return np.where(largest * length <= bound, rows, shortened)


def second_moment(rows: Floats, shares: Floats | None = None) -> Floats:
    """A = sum_i w_i z_i z_i^T of clipped rows, in the coordinates of `pack`; equal weights w
    without `shares`.
    """
    if shares is None:
        return np.asarray(pack(_gram(rows) / len(rows)))
    return np.asarray(pack(_gram(rows * np.sqrt(shares)[:, None])))


def _gram(rows: Floats) -> Floats:
    """Z^T Z, in blocks of at most `BLOCK` rows and then of as many blocks."""
    if len(rows) <= BLOCK:
        return rows.T @ rows
    size = BLOCK
    while size * BLOCK < len(rows):
        size *= BLOCK
    total = np.zeros((rows.shape[1], rows.shape[1]))
    for start in range(0, len(rows), size):
        total += _gram(rows[start : start + size])
    return total


def _readable(rows: Floats) -> Floats:
    # Row by row in memory: in another layout NumPy adds the entries of a row in another order, and
    # one record may decide the layout (text in a column of a data frame). A length that changes by
    # rounding crosses a limit that it lies on, and then all rows do at once.
    return np.ascontiguousarray(
        np.where(np.isfinite(rows).all(axis=1, keepdims=True), rows, 0.0), dtype=np.float64
    )


def _scaled(rows: Floats) -> tuple[Floats, Floats]:
    """The largest entry of each row, and the row over it: lengths near the largest float do not
    overflow.
    """
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
    return largest, rows / np.where(largest > 0, largest, 1.0)
