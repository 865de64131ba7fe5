"""The Hessian of a mean of SPD matrices, affine-invariant, from products of logarithms.

At a point a record with logarithm A has the Hessian S -> f(ad A) S, f(x) = (x / 2) coth(x / 2),
ad A S = A S - S A. With a polynomial in place of f, even and of degree 6, that is a sum of
A^i S A^j: the Hessian of all records is found from second moments of A, A^2 and A^3 (as in
`_streamed_affine`), and its product with one S by six products of matrices. In the frame of A's
eigenvectors f multiplies the entries of S by f of how far eigenvalues lie apart, at most
sqrt(2) |A|; so the product misses no more of a record than the polynomial misses up to there.

All of it is in single precision, which is a thousand times finer than the polynomial.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence

import numpy as np

from ._affine_mean import packing
from ._streamed_affine import assembled, bent, fitted
from ._sums import pairwise

Array = np.ndarray

ARRAYS = 5  # room that moments and products take, in arrays like the logarithms
# What single precision may add to the error of a product, in units of |S|; products up to the
# largest distance of a series stay below a tenth of it.
ROUNDED = 1e-4
_PER_UNIT = 8  # widths are rounded up to such shares of 1, so that few polynomials are made


@dataclasses.dataclass(frozen=True, eq=False)
class Bend:
    """f as a polynomial.

    Attributes:
        coefficients: Of 1, x^2, x^4 and x^6.
        misses: The largest error on [0, x], at even steps of x.
        step: That step.
    """

    coefficients: Array
    misses: Array
    step: float

    def missed(self, lengths: Array) -> Array:
        """Bound of what is missed of the Hessian of records with logarithms of these lengths."""
        place = np.ceil(math.sqrt(2.0) * lengths / self.step)
        inside = place < len(self.misses)
        return np.where(inside, self.misses[np.where(inside, place, 0).astype(int)], np.inf)


def bend(width: float) -> Bend:
    """A polynomial for log-eigenvalues that lie up to `width` apart."""
    return _bend(math.ceil(width * _PER_UNIT) / _PER_UNIT)


@functools.lru_cache(maxsize=32)
def _bend(width: float) -> Bend:
    coefficients = fitted(width)
    x = np.linspace(0.0, 2.0 * width, 4097)
    error = np.abs(np.polynomial.polynomial.polyval(x * x, coefficients) - bent(x))
    # between two steps the error exceeds that at either by less than this (|f''| and that of the
    # polynomial are below 2 up to there)
    between = 0.5 * float(x[1]) ** 2
    return Bend(coefficients, np.maximum.accumulate(error) + between, float(x[1]))


@dataclasses.dataclass(frozen=True)
class Moments:
    """What the Hessian is assembled from: weighted sums over records, and the sum of weights."""

    second: Array
    one_sided: Array
    weight: float

    @staticmethod
    def mean(parts: Sequence[Moments | None]) -> Moments:
        """Of all parts, which have some, together; their weight is 1."""
        given = [part for part in parts if part is not None]
        weight = math.fsum(part.weight for part in given)
        second = pairwise([part.second for part in given]) / weight
        return Moments(second, pairwise([part.one_sided for part in given]) / weight, 1.0)

    def __add__(self, other: Moments) -> Moments:
        return Moments(self.second + other.second, self.one_sided + other.one_sided, 1.0)

    def __sub__(self, other: Moments) -> Moments:
        return Moments(self.second - other.second, self.one_sided - other.one_sided, 1.0)

    def hessian(self, bend: Bend) -> Array:
        """The mean Hessian in orthonormal coordinates (`_affine_mean.packing`)."""
        constant = float(bend.coefficients[0])
        return assembled(len(self.one_sided), constant, self.second, self.one_sided)


def moments(a: Array, w: Array, bend: Bend, room: Array) -> Moments:
    """Of logarithms a (n, k, k) with weights w, both in single precision; `room` is `ARRAYS` arrays
    like a.
    """
    n, k, _ = a.shape
    _, c1, c2, c3 = (float(c) for c in bend.coefficients)
    a2, a3, a4, a5, spare = room[:ARRAYS]
    np.matmul(a, a, out=a2)
    np.matmul(a2, a, out=a3)
    np.matmul(a2, a2, out=a4)
    np.matmul(a4, a, out=a5)
    # sum w (c1 A^2 + c2 A^4 + c3 A^6)
    heavy = w[:, None]
    one_sided = (c1 * (w @ a2.reshape(n, -1)) + c2 * (w @ a4.reshape(n, -1))).reshape(k, k)
    np.multiply(a3, heavy[:, :, None], out=spare)
    one_sided = one_sided.astype(np.float64)
    one_sided += c3 * (a3.reshape(-1, k).T @ spare.reshape(-1, k))
    # (x - y)^2, ^4 and ^6 multiplied out, of products with a power of x or y alone
    i, j, _scale = packing(k)
    place = i * k + j
    p1, p2, p3, p4, p5 = (x.reshape(n, -1).take(place, axis=1) for x in (a, a2, a3, a4, a5))
    q1, q2, q3 = p1 * heavy, p2 * heavy, p3 * heavy
    p5 *= -12.0 * c3
    p1 *= -2.0 * c1
    p5 += p1
    np.multiply(p3, -8.0 * c2, out=p1)
    p5 += p1
    p4 *= 30.0 * c3
    p2 *= 6.0 * c2
    p4 += p2
    p3 *= -20.0 * c3
    second = (q1.T @ p5).astype(np.float64)
    second += q2.T @ p4
    second += q3.T @ p3
    return Moments(second, one_sided, float(np.sum(w, dtype=np.float64)))


def product(a: Array, w: Array, bend: Bend, s: Array, room: Array) -> Array:
    """sum_i w_i p(ad A_i) S, p the polynomial, of a symmetric S (k, k); the other arguments as in
    `moments`.
    """
    n, k, _ = a.shape
    size = max(float(np.linalg.norm(s)), 1e-300)
    inside, other = room[0], room[1]
    inside[...] = (s / size).astype(a.dtype)  # no number of a step is too small for it
    total = bend.coefficients[0] * float(np.sum(w, dtype=np.float64)) * s / size
    for c in bend.coefficients[1:]:
        # of symmetric S the commutator is antisymmetric, and that of an antisymmetric one symmetric
        np.matmul(a, inside, out=other)
        np.subtract(other, other.swapaxes(1, 2), out=inside)
        np.matmul(a, inside, out=other)
        np.add(other, other.swapaxes(1, 2), out=inside)
        total = total + c * (w @ inside.reshape(n, -1)).reshape(k, k).astype(np.float64)
    return size * total
