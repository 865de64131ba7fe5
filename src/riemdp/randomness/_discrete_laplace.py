"""Integers and vectors of integers with Laplace distributions, from uniform words and integer
arithmetic.

On the line P(Z = j) is proportional to exp(-|j| / t), t a whole number; in d dimensions P(Z = k)
is proportional to exp(-|k| / t), |k| the Euclidean length. Neither is a rounded real number:
integers moved by m steps change these probabilities by at most e^(m / t), whatever the integers
are, because the constant is the same everywhere.

On the line (Canonne, Kamath and Steinke 2020, Algorithms 1 and 2): U is uniform on 0, ..., t - 1
and kept with probability exp(-U / t); V counts the heads of a coin of probability 1 / e; U + t V is
geometric, and gets a sign (-0 is thrown away). A coin of probability exp(-a / b), a <= b, comes
from coins of probabilities a / (b j), j = 1, 2, ... (von Neumann, Forsythe).

In d dimensions independent coordinates of scale t' >= t sqrt(d) are proposed, and kept with
probability exp(-(|k|_2 / t - |k|_1 / t')), which is at most 1 by the inequality of Cauchy and
Schwarz. A float64 comparison decides where it is clear by more than `GUARD`, ten thousand times its
error; else bounds in decimals do, with more random bits until they decide. How many proposals that
takes depends on the noise alone, and grows with d: 11 on average for d = 10.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import numpy as np

from .._errors import invalid

MOST_DIMENSIONS = 10
MOST_SCALE = 1 << 41
GUARD = 1e-8
_BUFFER = 64  # words that are drawn together

Below = Callable[[int], int]


def laplace_vector(generator: np.random.Generator, scale: int, dim: int) -> list[int]:
    """A vector of `dim` integers with probability proportional to exp(-|k| / scale).

    Raises:
        InvalidArgument: There are no or too many dimensions, or `scale` is not from 1 to 2^41.
    """
    if not 1 <= dim <= MOST_DIMENSIONS:
        raise invalid("dim", dim, f"give a whole number from 1 to {MOST_DIMENSIONS}")
    if not (isinstance(scale, int) and 1 <= scale <= MOST_SCALE):
        raise invalid("scale", scale, "give a whole number from 1 to 2^41")
    below = uniform_below(generator)
    if dim == 1:
        return [two_sided(below, scale)]
    wider = math.isqrt(scale * scale * dim - 1) + 1  # the smallest that is at least t sqrt(d)
    while True:
        k = [two_sided(below, wider) for _ in range(dim)]
        if _kept(below, k, scale, wider):
            return k


def laplace_integer(generator: np.random.Generator, scale: int) -> int:
    """An integer with probability proportional to exp(-|j| / scale), for any scale >= 1."""
    return two_sided(uniform_below(generator), scale)


# -------------------------------------------------------------------- on the line
def uniform_below(generator: np.random.Generator) -> Below:
    """n -> an integer, uniform on 0, ..., n - 1."""
    words: list[int] = []

    def below(n: int) -> int:
        bits = (n - 1).bit_length()
        while True:
            value, count = 0, 0
            while count < bits:
                if not words:
                    words.extend(generator.bit_generator.random_raw(_BUFFER).tolist())
                value, count = (value << 64) | words.pop(), count + 64
            value >>= count - bits
            if value < n:
                return value

    return below


def two_sided(below: Below, scale: int) -> int:
    """An integer j with probability proportional to exp(-|j| / scale)."""
    while True:
        u = below(scale)
        if not heads(below, u, scale):
            continue
        v = 0
        while heads(below, 1, 1):
            v += 1
        magnitude, negative = u + scale * v, below(2)
        if not (negative and magnitude == 0):
            return -magnitude if negative else magnitude


def heads(below: Below, a: int, b: int) -> bool:
    """True with probability exp(-a / b), 0 <= a <= b."""
    j = 1
    while below(b * j) < a:
        j += 1
    return j % 2 == 1


# -------------------------------------------------------------------- in several dimensions
def _kept(below: Below, k: list[int], scale: int, wider: int) -> bool:
    """True with probability exp(-(|k|_2 / scale - |k|_1 / wider))."""
    square, total = sum(x * x for x in k), sum(abs(x) for x in k)
    u, bits = below(1 << 53), 53
    limit = math.exp(min(0.0, total / wider - math.sqrt(square) / scale))
    gap = limit - math.ldexp(u, -53)
    if abs(gap) > GUARD:
        return gap > 0.0
    while True:
        low, high = _limit(square, total, scale, wider, 20 + bits // 3)
        if Fraction(u + 1, 1 << bits) <= low:
            return True
        if Fraction(u, 1 << bits) >= high:
            return False
        u, bits = (u << 64) | below(1 << 64), bits + 64


def _limit(
    square: int, total: int, scale: int, wider: int, digits: int
) -> tuple[Fraction, Fraction]:
    """Numbers below and above the probability. The decimal module rounds every operation correctly;
    the exponent, a difference of numbers below 2^20, errs by less than 10^8 units of its last
    digit.
    """
    with decimal.localcontext() as context:
        context.prec = digits + 20
        exponent = Decimal(total) / Decimal(wider) - Decimal(square).sqrt() / Decimal(scale)
        value = Fraction(min(exponent, Decimal(0)).exp())
    error = Fraction(1, 10**digits)
    return value - error, value + error
