"""The second-moment matrix of the rows of a table: clipping, and its coordinates.

For rows z of length at most R, A = (1/n) sum z z^T changes by at most sqrt(2) R^2 / n in the
Frobenius norm when one row is replaced: |z z^T - z' z'^T|^2 = |z|^4 + |z'|^4 - 2 <z, z'>^2.
"""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ..domains._frame import BLOCK, summation_error
from ..manifolds._spectral import pack
from ._membership import Membership

Floats = NDArray[np.float64]

PERSON_IS = "one matrix each: the mean of z z^T over that person's rows"


def second_moment_sensitivity(bound: float, n: int, *, terms: int | None = None) -> float:
    """Replace-one sensitivity of A for n rows of length at most `bound`, in the Frobenius norm,
    rounding of `second_moment` included. With n people it is a sum of at most `terms` rows.
    """
    exact = math.sqrt(2.0) * bound**2 / n
    # rows are shortened to a part in 1e12; sums err by less than the sum of |z|^2 times
    # `summation_error`, the quotient and `pack` by a few units of the last digit
    return exact * (1.0 + 1e-11) + 2.0 * bound**2 * (
        summation_error(n if terms is None else terms) + 8.0 * math.ulp(1.0)
    )


def row_lengths(rows: Floats) -> Floats:
    """The length of each row; 0 for a row that is not finite. May be inf, never NaN."""
    largest, scaled = _scaled(_readable(rows))
    with np.errstate(over="ignore"):
        return (largest * np.linalg.norm(scaled, axis=1, keepdims=True))[:, 0]


def clip_rows(rows: Floats, bound: float) -> Floats:
    """Each row shortened to length `bound`; a row that is not finite becomes 0. Each output depends
    on its own row only.
    """
    rows = _readable(rows)
    largest, scaled = _scaled(rows)
    length = np.linalg.norm(scaled, axis=1, keepdims=True)
    with np.errstate(over="ignore"):
        inside = largest * length <= bound
    return np.where(
        inside, rows, scaled * (bound * (1.0 - 1e-12) / np.where(length > 0, length, 1.0))
    )


def second_moment(rows: Floats, members: Membership | None = None) -> Floats:
    """A = (1/n) sum z z^T of clipped rows, in the coordinates of `pack`. With `members` n is the
    number of people, and a person counts by the mean of that person's z z^T.
    """
    if members is None:
        return np.asarray(pack(jnp.asarray(_gram(rows) / len(rows))))
    weighted = rows * np.sqrt(members.shares)[:, None]
    return np.asarray(pack(jnp.asarray(_gram(weighted) / members.n)))


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
