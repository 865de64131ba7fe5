"""Integers with the distribution of a rounded normal number, from uniform words and integer
arithmetic.

Z = round(s N) has P(Z = j) = Phi((j + 1/2) / s) - Phi((j - 1/2) / s). It is a function of the real
number N, so integer data with this noise is a function of the same data with ideal Gaussian noise.

N is drawn exactly, by rejection. The area under exp(-x^2 / 2), x >= 0, is covered by 256 rectangles
("strips") of equal area: strip i has the heights Y_i to Y_{i+1} and the width X_i >= f^-1(Y_i), a
multiple of 2^-8, so that X_i and Y_i are rational numbers. A uniform point of a uniform strip is
kept where it lies under the curve. Its x = U X_i is known to 55 bits of U at first:

- U below `inner` is under the curve, whatever the rest of U is;
- else a float64 comparison decides, unless it is closer than `GUARD`, more than 100 times its
  error; closer ones are decided with rational numbers, and with more bits where needed;
- if these 55 bits do not decide which integer s x is rounded to, more bits are drawn.

So the distribution is exact but for one thing: the lowest strip ends at x = 13. The normal numbers
beyond have probability 1.3e-38 < 2^-125, which bounds the total-variation distance of a draw.

The number of words and the time depend on the words drawn, hence on the noise.
"""

from __future__ import annotations

import decimal
import functools
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from .._errors import invalid

_STRIPS = 256
REACH = 13  # no draw is farther out, in standard deviations
_WIDTH_BITS = 8  # widths are multiples of 2^-8
_BITS = 55  # of U in the first word; the other nine are the strip and the sign
_SCALE_BITS = 28  # significant bits of a scale
MOST_SCALE = 2.0**41
GUARD = 2.0**-30
_BLOCK = 1 << 15  # draws at a time: what fits into a processor's cache

_U8, _U9, _U16, _U32 = (np.uint64(n) for n in (8, 9, 16, 32))
_ONE, _LOW8, _LOW16 = np.uint64(1), np.uint64(0xFF), np.uint64(0xFFFF)
# the exact value exceeds the computed one by less than this, in units of its last bit
_SLACK = np.uint64(257)

Words = NDArray[np.uint64]


class RawWords(Protocol):
    """Independent uniform words of 64 bits."""

    def random_raw(self, count: int, /) -> Any: ...


class Generator(Protocol):
    """What holds such words, as a generator of NumPy does."""

    @property
    def bit_generator(self) -> RawWords: ...


Integers = NDArray[np.int64]


class Strips(NamedTuple):
    """The rectangles.

    Attributes:
        width: X_i, in units of 2^-8.
        inner: U 2^55 below this number is under the curve.
        bottom: Y_i.
        height: Y_{i+1} - Y_i = area / X_i.
        floats: X_i, Y_i and 1 / height in float64.
    """

    width: NDArray[np.uint64]
    inner: NDArray[np.uint64]
    bottom: tuple[Fraction, ...]
    height: tuple[Fraction, ...]
    floats: tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]


def scale_up(x: float) -> float:
    """The smallest scale that `rounded_normals` takes and that is at least x."""
    mantissa, exponent = math.frexp(x)
    return math.ldexp(math.ceil(math.ldexp(mantissa, _SCALE_BITS)), exponent - _SCALE_BITS)


@functools.lru_cache(maxsize=64)
def _fits(scale: float) -> bool:
    return 1.0 <= scale <= MOST_SCALE and scale_up(scale) == scale


def rounded_normals(generator: Generator, scale: float, count: int) -> Integers:
    """`count` independent integers with the distribution of round(scale N), N standard normal.

    Raises:
        InvalidArgument: `scale` is below 1 or above 2^41, or has more than 28 significant bits.
    """
    if not _fits(scale):
        raise invalid("scale", scale, "give a number from 1 to 2^41 with 28 significant bits")
    out = np.empty(count, dtype=np.int64)
    for start in range(0, count, _BLOCK):
        size = min(_BLOCK, count - start)
        out[start : start + _BLOCK] = _block(generator, scale, size)
    return out


# -------------------------------------------------------------------- the rectangles
@functools.cache
def strips() -> Strips:
    """The rectangles, computed once. Widths and inner ends are rounded to the safe side by a part
    in 1e12, which is more than logarithm and root err.
    """
    low, high = 1, 1 << 40  # the area in units of 2^-40; the smallest that reaches the top
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _widths(middle)[1] > 1.0 + 1e-9 else (middle, high)
    widths, _ = _widths(high)
    area = Fraction(high, 1 << 40)
    heights = [area / Fraction(width, 1 << _WIDTH_BITS) for width in widths]
    edges = [Fraction(0)]
    for height in heights:
        edges.append(edges[-1] + height)
    inner = [
        math.floor(_crossing(float(edge)) * (1 - 1e-12) * 256 / width * (1 - 1e-12) * 2**_BITS)
        for edge, width in zip(edges[1:], widths, strict=True)
    ]
    floats = (
        np.array(widths) / 256.0,
        np.array([float(edge) for edge in edges[:-1]]),
        np.array([float(1 / height) for height in heights]),
    )
    return Strips(
        np.array(widths, dtype=np.uint64),
        np.array(inner, dtype=np.uint64),
        tuple(edges[:-1]),
        tuple(heights),
        floats,
    )


def _widths(area: int) -> tuple[list[int], float]:
    """The widths of 256 strips of this area (in units of 2^-40), and the height they reach."""
    widths, edge = [REACH << _WIDTH_BITS], 0.0
    for _ in range(_STRIPS - 1):
        edge += area * 2.0**-32 / widths[-1]
        widths.append(max(1, math.ceil(_crossing(edge) * (1 + 1e-12) * 256)))
    return widths, edge + area * 2.0**-32 / widths[-1]


def _crossing(height: float) -> float:
    """The x at which exp(-x^2 / 2) has this height."""
    return math.sqrt(-2.0 * math.log(height)) if height < 1.0 else 0.0


# -------------------------------------------------------------------- draws
def _words(generator: Generator, count: int) -> Words:
    return np.asarray(generator.bit_generator.random_raw(count))


def _block(generator: Generator, scale: float, count: int) -> Integers:
    words = _words(generator, count)
    strip = (words & _LOW8).astype(np.intp)
    negative = ((words >> _U8) & _ONE).astype(np.int64)
    u = words >> _U9
    magnitude, decided = _rounded(strip, u, scale)
    out = (magnitude ^ -negative) + negative
    others = np.flatnonzero(~((u < strips().inner[strip]) & decided))
    if others.size:
        out[others] = _finished(generator, scale, strip[others], negative[others], u[others])
    return out


def _rounded(strip: NDArray[np.intp], u: Words, scale: float) -> tuple[Integers, NDArray[np.bool_]]:
    """round(scale x), and whether no further bit of x can change it."""
    mantissa, exponent = math.frexp(scale)
    # below 2^12 * 2^28
    factor = strips().width[strip] * np.uint64(math.ldexp(mantissa, _SCALE_BITS))
    # u factor / 2^32, rounded down, in 64-bit words: scale x is this times 2^(exponent - 59)
    low = ((u & _LOW16) * factor) >> _U16
    low = (((u >> _U16) & _LOW16) * factor + low) >> _U16
    product = (u >> _U32) * factor + low
    shift = 59 - exponent
    halved = product + np.uint64(1 << (shift - 1))
    down, up = halved >> np.uint64(shift), (halved + _SLACK) >> np.uint64(shift)
    return down.astype(np.int64), down == up


def _finished(
    generator: Generator,
    scale: float,
    strip: NDArray[np.intp],
    negative: Integers,
    u: Words,
) -> Integers:
    """Draws whose first word did not decide. A point above the curve is thrown away, and a new one
    is drawn from a new word.
    """
    inside = u < strips().inner[strip]
    kept, unsure = inside.copy(), np.zeros(u.size, dtype=bool)
    outer = np.flatnonzero(~inside)
    v = _words(generator, outer.size)
    gap = _gap(strip[outer], u[outer], v)
    kept[outer], unsure[outer] = gap > 0.0, np.abs(gap) < GUARD
    magnitude, decided = _rounded(strip, u, scale)
    second = np.zeros_like(u)
    second[outer] = v
    for place in np.flatnonzero(unsure | (kept & ~decided)):
        i, bits = int(strip[place]), (int(u[place]), _BITS)
        if unsure[place]:
            kept[place], bits = _exactly_below(generator, i, bits, (int(second[place]), 64))
        if kept[place]:
            magnitude[place] = _exactly_rounded(generator, i, bits, scale)
    out = (magnitude ^ -negative) + negative
    again = np.flatnonzero(~kept)
    if again.size:
        out[again] = _block(generator, scale, again.size)
    return out


def _gap(strip: NDArray[np.intp], u: Words, v: Words) -> NDArray[np.float64]:
    """How far the curve is above the point (U, V) of its strip, in heights of the strip.

    Where numpy's exp errs by less than 2^-49, this errs by less than 2^-37.
    """
    width, bottom, per_height = (values[strip] for values in strips().floats)
    x = (u.astype(np.float64) + 0.5) * 2.0**-_BITS * width
    return (np.exp(-0.5 * x * x) - bottom) * per_height - v.astype(np.float64) * 2.0**-64


# -------------------------------------------------------------------- exact decisions
_Bits = tuple[int, int]  # the first bits of a uniform number, and how many they are


def _more(generator: Generator, bits: _Bits) -> _Bits:
    """64 bits more."""
    value, count = bits
    return (value << 64) | int(_words(generator, 1)[0]), count + 64


def _exactly_below(generator: Generator, strip: int, u: _Bits, v: _Bits) -> tuple[bool, _Bits]:
    """Whether the point (U, V) of a strip is under the curve, and the bits of U that are known."""
    width = Fraction(int(strips().width[strip]), 1 << _WIDTH_BITS)
    bottom, height = strips().bottom[strip], strips().height[strip]
    while True:
        left, right = (width * Fraction(u[0] + n, 1 << u[1]) for n in (0, 1))
        lower, upper = (bottom + height * Fraction(v[0] + n, 1 << v[1]) for n in (0, 1))
        digits = 30 + u[1] // 3
        if upper <= _density(right, digits)[0]:
            return True, u
        if lower >= _density(left, digits)[1]:
            return False, u
        u, v = _more(generator, u), _more(generator, v)


def _density(x: Fraction, digits: int) -> tuple[Fraction, Fraction]:
    """Numbers below and above exp(-x^2 / 2). The decimal module rounds every operation correctly;
    four operations err by less than 100 units of the last digit.
    """
    square = x * x / 2
    with decimal.localcontext() as context:
        context.prec = digits + 4
        value = Fraction((-Decimal(square.numerator) / Decimal(square.denominator)).exp())
    error = Fraction(100, 10**digits)
    return value - error, value + error


def _exactly_rounded(generator: Generator, strip: int, u: _Bits, scale: float) -> int:
    """round(scale x) from the bits of U, with more where they do not decide."""
    factor = Fraction(scale) * int(strips().width[strip]) / (1 << _WIDTH_BITS)
    while True:
        low = factor * Fraction(u[0], 1 << u[1]) + Fraction(1, 2)
        high = factor * Fraction(u[0] + 1, 1 << u[1]) + Fraction(1, 2)
        if math.floor(low) == math.ceil(high) - 1:
            return math.floor(low)
        u = _more(generator, u)
