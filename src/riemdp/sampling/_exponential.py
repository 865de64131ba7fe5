"""Exponentials of many small symmetric matrices by matrix products alone, several times faster than
by eigendecomposition.

Why not `numpy.linalg.eigh` everywhere: one draw of 30 rows takes 0.33 ms instead of 0.50, and 2000
draws 0.10 s instead of 0.41 s, on one core.

p is a polynomial that equals exp to rounding on [-radius, radius]. Where the spectrum lies there,
exp(S) = p(S), with eigenvalues far from zero. Else exp(S) = Y Y^T with Y = p(S / 2^(j+1))^(2^j):
the last product makes the result positive semidefinite by construction. Source: the evaluation with
few products is Paterson and Stockmeyer's, with squares completed (as in Sastre, Ibanez and Defez,
and Bader, Blanes and Casas, for Taylor polynomials); here it is done for Chebyshev series, which
serve symmetric matrices on twice the interval.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.polynomial import chebyshev, polynomial
from scipy import special

from .._parallel import cores, each, together
from ..randomness import NoiseSource

# Degree 4m from m + 2 products serves matrices with spectrum in [-radius, radius]: relative error
# below 1e-15. `anchor` is the free constant of the completed square; these values leave q (below)
# without a linear term, hence small, so that nothing cancels: the terms add up to at most 1.1 times
# the result.
_SCHEMES = {2: (0.14, 5.502), 3: (0.65, 2.7694)}
# Above this spectral radius (condition of the result above 10^10) `np.linalg.eigh` is used.
FARTHEST = 12.0
_CHUNK = 1 << 18  # floats of one array that a thread works on: so many that threads seldom meet
_COLUMNS = (
    1 << 16
)  # floats of one array that BLAS combines at a time: above this it would start threads of its own
_PAGE = 512  # floats in the smallest page of memory
# draws from one key, whatever the number of threads, so that a seed gives the same draws everywhere
_BLOCK = 2048
# up to this size BLAS multiplies on one thread, so that threads of ours may use the other cores
_BLAS_IS_SERIAL = 48


@functools.cache
def _coefficients(m: int) -> np.ndarray:
    """Rows B4, B3, B2, B1 with p = (B2 + q) q + B1, q = B4^2 + B3, each a polynomial of degree m
    (columns 1, x, .., x^m).
    """
    radius, anchor = _SCHEMES[m]
    degree = 4 * m
    series = 2 * special.iv(np.arange(degree + 1), radius)
    series[0] /= 2
    p = chebyshev.cheb2poly(series) / radius ** np.arange(degree + 1)
    h = _root(p, 2 * m, anchor)
    rest = polynomial.polysub(p, polynomial.polymul(h, h))[: 2 * m + 1]
    b2 = 2 * _root(-rest, m, anchor)
    q = polynomial.polysub(h, b2 / 2)
    q[0] = 0.0
    b1 = polynomial.polyadd(rest, polynomial.polymul(b2, b2) / 4)[: m + 1]
    b4 = _root(q, m, 0.0)
    b3 = polynomial.polysub(q, polynomial.polymul(b4, b4))[: m + 1]
    return np.stack([b4, b3, b2, b1])


def _root(a: np.ndarray, n: int, constant: float) -> np.ndarray:
    """The polynomial of degree n with this constant whose square agrees with `a` in the degrees 2n,
    .., n + 1.
    """
    b = np.zeros(n + 1)
    b[n] = math.sqrt(a[2 * n])
    for j in range(n - 1, 0, -1):
        b[j] = (a[n + j] - sum(b[i] * b[n + j - i] for i in range(j + 1, n))) / (2 * b[n])
    b[0] = constant
    return b


class _Workspace:
    """Arrays for exponentials of up to `count` matrices at a time, used again and again by one
    thread.
    """

    def __init__(self, k: int, count: int):
        self.k, self.count = k, count
        self.powers = np.empty((3, count, k, k))  # S, S^2, S^3
        self.sums = np.empty((4, count, k, k))
        self.upper = _upper_triangle(k)

    def exponential(self, count: int, shift: float, out: np.ndarray) -> None:
        """exp(shift I + S) for the first `count` matrices S of `powers[0]`, into `out`."""
        s, square, cube = (p[:count] for p in self.powers)
        with np.errstate(over="ignore", invalid="ignore"):
            np.matmul(s, s, out=square)
            radius = math.sqrt(
                _largest_norm(square)
            )  # of the spectrum: its largest square is at most |S^2|_F
            m = 2 if radius <= _SCHEMES[2][0] else 3
            if m == 3:
                np.matmul(square, s, out=cube)
                if radius > _SCHEMES[3][0]:  # a closer bound may save squarings
                    radius = min(radius, _largest_norm(cube) ** (1 / 3))
        if not (
            radius <= FARTHEST and abs(shift) + radius <= 300.0
        ):  # also where it is not a number
            out[:] = exponential_by_eigenvectors(s, shift)
            return
        # -1: p(S) is the exponential itself
        squarings = max(-1, math.ceil(math.log2(max(radius, 1e-300) / (2 * _SCHEMES[m][0]))))
        b = _coefficients(m) * np.ldexp(1.0, -(squarings + 1) * np.arange(m + 1))
        sums = [total[:count] for total in self.sums]
        flat = self.powers.reshape(3, -1)[:m, : count * self.k**2]
        combined = self.sums.reshape(4, -1)[:, : count * self.k**2]
        for low in range(0, flat.shape[1], _COLUMNS):
            np.matmul(
                b[:, 1:], flat[:, low : low + _COLUMNS], out=combined[:, low : low + _COLUMNS]
            )
        b4, b3, b2, b1 = sums
        np.matmul(b4, b4, out=s)  # S is not needed any more
        s += b3
        b2 += s
        _add_to_diagonal(b2, b[2, 0])
        np.matmul(b2, s, out=b4)
        b4 += b1
        _add_to_diagonal(b4, b[3, 0])
        y, other = b4, b3
        for _ in range(squarings):
            np.matmul(y, y, out=other)
            y, other = other, y
        if squarings >= 0:
            np.matmul(y, np.swapaxes(y, 1, 2), out=other)
            y = other
        # one triangle twice: exactly symmetric
        np.take(y.reshape(count, -1), self.upper, axis=1, out=out.reshape(count, -1), mode="clip")
        if shift != 0.0:
            out *= math.exp(shift)


def _largest_norm(a: np.ndarray) -> float:
    """Largest Frobenius norm."""
    flat = a.reshape(a.shape[0], -1)
    return math.sqrt(float(np.max(np.einsum("ij,ij->i", flat, flat))))


def _add_to_diagonal(a: np.ndarray, c: float) -> None:
    k = a.shape[-1]
    a.reshape(a.shape[0], -1)[:, :: k + 1] += c


def exponential_by_eigenvectors(s: np.ndarray, shift: float) -> np.ndarray:
    """exp(shift I + s), by eigenvectors, with log-eigenvalues that float64 can hold (see
    `within_float64`).
    """
    values, vectors = np.linalg.eigh(s)
    half = vectors * np.exp(0.5 * within_float64(values + shift))[:, None, :]
    product = half @ np.swapaxes(half, -1, -2)
    return 0.5 * (product + np.swapaxes(product, -1, -2))


def within_float64(logarithms: np.ndarray) -> np.ndarray:
    """Log-eigenvalues (q, k) such that float64 can hold the SPD matrix: where they spread over more
    than 33 (condition 10^14), or lie beyond 300, they are drawn together along the geodesic.
    Nothing else could be returned for such a draw.
    """
    middle = 0.5 * (np.max(logarithms, axis=1) + np.min(logarithms, axis=1))[:, None]
    half = 0.5 * np.ptp(logarithms, axis=1)[:, None]
    pulled = np.clip(middle, -300.0, 300.0) + (logarithms - middle) * np.minimum(
        1.0, 16.5 / np.maximum(half, 1e-300)
    )
    return pulled


# -------------------------------------------------------------------- isotropic directions,
# exponentiated
def exponentials_of_directions(
    center: np.ndarray, lengths: np.ndarray, source: NoiseSource
) -> np.ndarray:
    """exp(center + lengths[i] V_i), V_i independent and uniform on the unit sphere of symmetric
    matrices: (q, k, k).

    Normals are drawn, and everything is worked out, a few matrices at a time on every core that the
    process may use. Beyond 2048 draws each block has a key of its own, so that a seeded result does
    not depend on the number of threads.
    """
    count, k = lengths.size, center.shape[-1]
    out = _aligned((count, k, k))
    shift = float(np.trace(center)) / k
    traceless = center - shift * np.eye(k)
    starts = range(0, count, _BLOCK)
    sources = [source] * len(starts) if len(starts) <= 1 else source.children(len(starts))
    jobs = [
        (s, start, min(count, start + _BLOCK)) for s, start in zip(sources, starts, strict=True)
    ]

    def work(left: Iterator[tuple[NoiseSource, int, int]]) -> None:
        block = min(count, _BLOCK)
        pieces = -(-block // max(1, _CHUNK // k**2))
        space, draw = (
            _Workspace(k, -(-block // pieces)),
            _Directions(k),
        )  # of one size, without a small one left over
        for child, start, stop in left:
            for low in range(start, stop, space.count):
                n = min(space.count, stop - low)
                draw(lengths[low : low + n], child, space.powers[0, :n])
                if traceless.any():
                    space.powers[0, :n] += traceless
                space.exponential(n, shift, out[low : low + n])

    threads = min(len(sources), cores()) if k <= _BLAS_IS_SERIAL else 1
    if threads <= 1:
        work(iter(jobs))
    else:
        with ThreadPoolExecutor(threads - 1) as pool:
            # Memory is allocated at once: new pages that are met one by one cost several times as
            # much in virtual machines.
            pieces = np.array_split(out.reshape(-1), threads)
            each(pool, threads - 1, lambda piece: piece[::_PAGE].fill(0.0), pieces)
            together(pool, threads - 1, work, jobs)
    return out


@functools.lru_cache(maxsize=16)
def packed_positions(k: int) -> np.ndarray:
    """Where each entry of a symmetric matrix (row by row) stands in its packed form: diagonal
    first, then the upper triangle.
    """
    position = np.diag(np.arange(k))
    rows, columns = np.triu_indices(k, 1)
    position[rows, columns] = position[columns, rows] = k + np.arange(rows.size)
    position = position.ravel()
    position.flags.writeable = False
    return position


@functools.lru_cache(maxsize=16)
def _upper_triangle(k: int) -> np.ndarray:
    """Where each entry of a symmetric matrix (row by row) stands when only the upper triangle is
    read.
    """
    rows, columns = np.indices((k, k))
    position = (np.minimum(rows, columns) * k + np.maximum(rows, columns)).ravel()
    position.flags.writeable = False
    return position


class _Directions:
    """Symmetric matrices of given Frobenius norms and uniform directions, from k (k + 1) / 2
    normals each.
    """

    def __init__(self, k: int):
        self.k, self.dim, self.position = k, k * (k + 1) // 2, packed_positions(k)

    def __call__(self, lengths: np.ndarray, source: NoiseSource, out: np.ndarray) -> None:
        z = source.normals((lengths.size, self.dim))
        factors = (lengths / np.sqrt(np.einsum("ij,ij->i", z, z)))[:, None]
        z[:, : self.k] *= factors
        z[:, self.k :] *= (
            math.sqrt(0.5) * factors
        )  # an entry off the diagonal stands twice in the matrix
        np.take(z, self.position, axis=1, out=out.reshape(lengths.size, -1), mode="clip")


def _aligned(shape: tuple[int, ...]) -> np.ndarray:
    """An empty float64 array that JAX can take over without copying it (it needs 64-byte
    boundaries).
    """
    size = math.prod(shape)
    raw = np.empty(size + 8)
    start = (-raw.ctypes.data // 8) % 8
    return raw[start : start + size].reshape(shape)
