"""Integers with the distribution of a discrete Gaussian, P(Z = j) proportional to exp(-j^2 / (2
s^2)).

Sums of such integers over several parties are needed where nobody may see a single summand: a sum
of rounded normal numbers is no rounded normal number. See docs/proofs/secure-sums.md.

An integer j is proposed with the distribution of round(s N) (`_rounded`), which has the probability
phi(j / s) / s times the integral of exp(-u^2 / (2 s^2)) cosh(a u) over |u| <= 1/2, a = j / s^2. The
last factor is smallest for j = 0, so keeping a proposal with probability

    A(j) = integral of exp(-u^2 / (2 s^2)) / integral of exp(-u^2 / (2 s^2)) cosh(a u)

leaves exactly the discrete Gaussian. A(j) >= exp(-a^2 / 8) >= 1 - a^2 / 8, so nearly every uniform
number is below it at sight; for the others A(j) is computed to as many digits as they need.

Exact but for what `_rounded` leaves out, the tail beyond 13 scales.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._rounded import Integers, Words, rounded_normals

_SPARE = 100  # digits that are computed and not used: cancellation takes fewer than 80 of them


def discrete_gaussians(generator: np.random.Generator, scale: float, count: int) -> Integers:
    """`count` independent integers with P(Z = j) proportional to exp(-j^2 / (2 scale^2)).

    Raises:
        InvalidArgument: `scale` is below 1 or above 2^41, or has more than 28 significant bits.
    """
    out = rounded_normals(generator, scale, count)
    waiting = np.arange(count)
    while True:
        kept = _kept(generator, scale, out[waiting])
        waiting = waiting[~kept]
        if not waiting.size:
            return out
        out[waiting] = rounded_normals(generator, scale, waiting.size)


def _kept(generator: np.random.Generator, scale: float, proposed: Integers) -> NDArray[np.bool_]:
    u: Words = np.asarray(generator.bit_generator.random_raw(proposed.size))
    a = proposed / scale**2
    # U < (u + 1) / 2^64; 2^-40 is more than all of these operations err
    below = (u >> np.uint64(11)).astype(np.float64) * 2.0**-53 + 2.0**-40
    kept = below < 1.0 - a * a / 8.0
    for place in np.flatnonzero(~kept):
        kept[place] = _below(generator, int(u[place]), abs(int(proposed[place])), scale)
    return kept


def _below(generator: np.random.Generator, u: int, j: int, scale: float) -> bool:
    """Whether a uniform number that begins with the 64 bits of u is below A(j)."""
    import mpmath

    bits = 64
    while True:
        digits = 10 + bits // 3
        share = keeping(j, scale, digits)
        with mpmath.workdps(digits + _SPARE):
            low, error = mpmath.mpf(u) / mpmath.mpf(2) ** bits, mpmath.mpf(10) ** -digits
            if low + mpmath.mpf(2) ** -bits <= share - error:
                return True
            if low >= share + error:
                return False
        u = (u << 64) | int(generator.bit_generator.random_raw(1)[0])
        bits += 64


@functools.lru_cache(maxsize=4096)
def keeping(j: int, scale: float, digits: int) -> Any:
    """A(j), right to this many digits."""
    import mpmath

    with mpmath.workdps(digits + _SPARE):
        s, half = mpmath.mpf(scale), mpmath.mpf(1) / 2
        root = s * mpmath.sqrt(2)
        middle = mpmath.exp(-((j / s) ** 2) / 2) * mpmath.erf(half / root)
        return 2 * middle / (mpmath.erfc((j - half) / root) - mpmath.erfc((j + half) / root))
