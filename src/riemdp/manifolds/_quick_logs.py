"""Logarithms of many symmetric positive definite matrices, by products of matrices alone.

With W = exp(L) and Z = W^-1, L is an odd function of L beside an even one: W - Z = 2 sinh L and
W + Z = 2 cosh L =: Y, so

    L = (W - Z) g(Y),    g(2 cosh x) = x / (2 sinh x).

g is smooth where the eigenvalues of Y lie, from 2 to 2 cosh(reach), and its only singularities are
y <= -2: a Chebyshev series of degree 42 gives L to 1e-10 where no eigenvalue of L exceeds 3.85 in
size. Written in blocks of powers (Paterson and Stockmeyer) that takes a dozen products of matrices.
Batched products take a fiftieth of the time of batched eigendecompositions (11 x 11), so a
logarithm takes a third, and what is computed at the next base point needs no inverse: that of
A W A^T is A^-T Z A^-1.

What is certified of each matrix: where |Y - 2 I|_F <= 2 cosh(reach) - 2 no eigenvalue of L exceeds
the reach, and every positive definite matrix with |L|_F <= reach passes (by convexity, a sum of
(2 cosh x - 2)^2 is largest for one eigenvalue). Whether W is positive definite is for the caller to
find out.
"""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np
from numpy.typing import DTypeLike

from ._base import EPS

Array = np.ndarray

LONGEST = 6.0  # a reach beyond which decompositions are faster
_NODES = 384  # of the interpolation; more than twice the largest degree
_STEPS = 16  # reaches are rounded up to multiples of 1/16, so that few series are made


@dataclasses.dataclass(frozen=True, eq=False)
class Series:
    """g as a Chebyshev series, in blocks.

    Attributes:
        reach: The largest logarithm of an eigenvalue that it holds for.
        blocks: (m, s) coefficients: the series is sum_j (2 T_s)^j (sum_i blocks_ji 2 T_i).
        missed: Bound of what it misses of an eigenvalue of L.
    """

    reach: float
    blocks: Array
    missed: float

    @property
    def top(self) -> float:
        """The largest |Y - 2 I|_F that is certified."""
        return 2.0 * math.cosh(self.reach) - 2.0

    @property
    def arrays(self) -> int:
        """How many arrays like the records the evaluation works in."""
        rows, size = self.blocks.shape
        return size + rows + 2

    def error(self, k: int, kind: DTypeLike = np.float64) -> float:
        """Bound of the Frobenius norm of the error of a logarithm, k x k, of what passes `widths`.

        Args:
            k: Rows.
            kind: The precision of the products. The inverses were computed in double precision, and
                err by as much as the condition of a matrix.
        """
        rounding, stretch = (
            EPS if np.dtype(kind) == np.float64 else float(np.finfo(np.float32).eps),
            math.exp(self.reach),
        )
        return (
            math.sqrt(k) * self.missed
            + rounding * k * (8.0 * (1.0 + self.reach) + 4.0 * stretch)
            + EPS * k * 4.0 * stretch**2
        )

    def logs(self, w: Array, z: Array, room: Array, out: Array) -> Array:
        """The logarithms of w (n, k, k), whose inverses are z, into `out`; symmetric but for
        rounding.

        Args:
            w: Symmetric positive definite matrices that pass `widths`.
            z: Their inverses.
            room: (arrays, n, k, k), which holds anything.
            out: (n, k, k). All of them in the same precision, single or double.
        """
        rows, size = self.blocks.shape
        blocks = self.blocks.astype(out.dtype)
        powers, sums, spare = room[: size + 1], room[size + 1 : -1], room[-1]
        # 2 T_i(U), i = 0 .. size, U = (Y - 2 I) 2 / top - I, which has eigenvalues in [-1, 1]
        powers[0] = 0.0
        _diagonal(powers[0])[...] = 2.0
        np.add(w, z, out=powers[1])
        powers[1] *= 4.0 / self.top
        _diagonal(powers[1])[...] -= 8.0 / self.top + 2.0
        for i in range(2, size + 1):
            half = i // 2
            np.matmul(powers[half], powers[i - half], out=powers[i])
            if i == 2 * half:
                _diagonal(powers[i])[...] -= 2.0
            else:
                powers[i] -= powers[1]
        np.matmul(blocks, powers[:size].reshape(size, -1), out=sums.reshape(rows, -1))
        for j in range(rows - 2, -1, -1):
            np.matmul(powers[size], sums[j + 1], out=spare)
            sums[j] += spare
        np.subtract(w, z, out=spare)
        return np.matmul(spare, sums[0], out=out)


def widths(w: Array, z: Array, room: Array) -> Array:
    """|W + Z - 2 I|_F of matrices (n, k, k) and their inverses; `room` is an array like them."""
    y = np.add(w, z, out=room)
    _diagonal(y)[...] -= 2.0
    y = y.reshape(len(y), -1)
    return np.sqrt(np.einsum("ni,ni->n", y, y))


def reach_of(width: float) -> float:
    """The reach that a width is certified for; infinite where it is not finite."""
    return math.acosh(1.0 + 0.5 * width) if math.isfinite(width) else math.inf


def series(reach: float, accuracy: float) -> Series | None:
    """A series for that reach, or a little more, that misses at most `accuracy` of an eigenvalue;
    None where there is none, or decompositions are faster.
    """
    if not reach <= LONGEST:
        return None
    return _series(math.ceil(max(reach, 0.5) * _STEPS) / _STEPS, accuracy)


@functools.lru_cache(maxsize=64)
def _series(reach: float, accuracy: float) -> Series | None:
    nodes = np.pi * (np.arange(_NODES) + 0.5) / _NODES
    y = math.cosh(reach) * (1.0 + np.cos(nodes)) + 1.0 - np.cos(nodes)
    x = np.arccosh(np.maximum(0.5 * y, 1.0))
    near = x < 1e-2
    square = x * x
    safe = np.where(near, 1.0, x)
    g = np.where(near, 0.5 - square / 12.0 + 7.0 * square**2 / 720.0, 0.5 * safe / np.sinh(safe))
    # 2 / m sum_i g_i cos(pi j (i + 1/2) / m), as a Fourier transform of g and its mirror image
    turns = np.exp(-0.5j * np.pi / _NODES * np.arange(_NODES))
    c = np.real(turns * np.fft.rfft(np.concatenate([g, g[::-1]]))[:_NODES]) / _NODES
    c[0] *= 0.5
    # |T_j| <= 1, so what is left out misses at most the sum of its coefficients. They fall by the
    # factor of the ellipse about [2, 2 cosh(reach)] through the singularity at -2; computed ones
    # fall to rounding.
    ends = math.cosh(0.5 * reach)
    falls = (ends + 1.0) / (ends - 1.0)
    size = np.where(np.abs(c) > EPS, np.abs(c), 0.0)
    left = np.cumsum(size[::-1])[::-1] + EPS * falls / (falls - 1.0)
    left *= 2.0 * math.sinh(reach)
    enough = np.flatnonzero(left <= accuracy)
    if not enough.size:
        return None
    degree = max(3, int(enough[0]) - 1)
    blocks = _in_blocks(c[: degree + 1], _block_size(degree))
    return Series(reach, blocks, float(left[degree + 1]))


def inverses(w: Array, room: Array, out: Array) -> Array:
    """The inverses of symmetric matrices (n, k, k) into `out`, by Gauss and Jordan without a change
    of rows, and which of the matrices are positive definite: those with positive pivots. The others
    may be anything.

    One matrix after the other, as LAPACK does it, takes twice as long for 11 x 11, seven times for
    3 x 3.

    Args:
        w: Symmetric matrices; one triangle or the other is read.
        room: (2, k, k, n), which holds anything.
        out: (n, k, k).
    """
    a, spare = room
    np.copyto(a, w.transpose(1, 2, 0))
    definite = np.ones(len(w), bool)
    for j in range(len(a)):
        pivot = a[j, j]
        definite &= (pivot > 0.0) & (pivot < np.inf)  # False for NaN
        row, last = a[j] / pivot, -1.0 / pivot
        np.multiply(a[:, j, None], row[None], out=spare)
        a -= spare
        a[j] = a[:, j] = row
        a[j, j] = last
    np.negative(a.transpose(2, 0, 1), out=out)
    return definite


def _block_size(degree: int) -> int:
    """The number of powers with which a series takes the fewest products."""
    return min(range(2, 17), key=lambda s: (s - 1 + degree // s, s))


def _in_blocks(c: Array, size: int) -> Array:
    """Coefficients a (m, size) with sum_j c_j T_j = sum_j (2 T_size)^j sum_i a_ji 2 T_i.

    T_(sq) T_i = (T_(sq + i) + T_(sq - i)) / 2, so from the top down each block takes its own terms
    and leaves a correction to the one below. That gives blocks times T_j(T_s); Chebyshev
    polynomials as powers have large coefficients, but those of the blocks fall faster.
    """
    rows = (len(c) - 1) // size + 1
    c = np.concatenate([c, np.zeros(rows * size - len(c))])
    a = np.zeros((rows, size))
    for q in range(rows - 1, 0, -1):
        a[q, 0] = c[size * q]
        for i in range(1, size):
            a[q, i] = 2.0 * c[size * q + i]
            c[size * q - i] -= c[size * q + i]
    a[0] = c[:size]
    powers = np.zeros((rows, rows))  # of T_j by powers
    for q in range(rows):
        powers[q, : q + 1] = np.polynomial.chebyshev.cheb2poly(np.eye(rows)[q, : q + 1])
    # T_i and T_s are given twice
    return 0.5 * (powers.T @ a) * 0.5 ** np.arange(rows)[:, None]


def _diagonal(a: Array) -> Array:
    """A view (n, k) of the diagonals of (n, k, k), which lie in one piece."""
    n, k, _ = a.shape
    return a.reshape(n, k * k)[:, :: k + 1]
