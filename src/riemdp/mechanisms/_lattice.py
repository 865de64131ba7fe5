"""Gaussian and Laplace noise on a public grid: every coordinate that is released is a multiple of
a power of two, g, that follows from the scale alone.

A vector y is rounded to the grid, k = y / g to the nearest integers, and k + round(s N) is
released, N standard normal and s = sigma / g. That is round(k + s N), a function of the Gaussian
mechanism on the rounded vector. Laplace noise is k + Z, P(Z = j) proportional to exp(-|j| / t).
Rounding moves each coordinate by at most g / 2, so two neighbours by at most g sqrt(dim) more,
which `on_grid` adds to the sensitivity. float64 holds k and the noise, so it rounds their exact
sum once. Which numbers can come out is the same for all data.

`Purse` hands this noise out by shares: it is the one place where a share of a budget becomes noise.
To check what several answers of one release cost together, read it and `privacy/_noise.py`: a share
is an exact fraction, it is taken before its noise is drawn, and once the shares would add up to
more than 1 the answer is refused, undrawn. By the public plan of a mechanism that cannot happen.
Proofs: docs/proofs/gaussian.md, docs/proofs/laplace.md, docs/proofs/private-ball.md.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .._errors import RiemdpError, invalid
from .._namespace import Floats
from ..privacy._noise import Noise
from ..randomness import NoiseSource
from ..randomness._discrete_laplace import MOST_DIMENSIONS
from ..randomness._rounded import scale_up

if TYPE_CHECKING:
    from .._namespace import Array

FINENESS = 32  # a standard deviation is 2^32 to 2^33 steps of the grid
_FARTHEST = 1022  # coordinates beyond 2^1022 steps are moved there: no two go further apart
_FEW = 16  # coordinates that Python takes one by one
_HIGHEST = 900  # exponent of a grid up to which no sum overflows, which Python refuses
_HELD = 1 << 53  # float64 holds every integer up to here
# A bound of the rounding of a value up to this share of its sensitivity is added to it. A larger
# one is not, and the release is called idealised.
MOST_ROUNDING = 1e-3
_ULPS = 4e-15  # what the few products and roots of a scale are rounded by
_MOST_NOISE = 2.0**29  # multiplier times root of coordinates: every grid holds what is below


def exponent_of_grid(scale: float) -> int:
    """The grid of a public scale is two to this power."""
    return math.frexp(scale)[1] - 1 - FINENESS


def grid_of(scale: float) -> float:
    """The distance of the points of the grid."""
    return math.ldexp(1.0, exponent_of_grid(scale))


def on_grid(multiplier: float, sensitivity: float, dim: int) -> float:
    """The standard deviation of grid noise with this noise multiplier.

    Args:
        multiplier: sigma over sensitivity, above 0.
        sensitivity: Of the vector before it is rounded to the grid.
        dim: How many coordinates it has.

    Returns:
        A number with 28 significant bits, at least `multiplier` times the sensitivity of the
        rounded vector.
    """
    coarsest = 2.0 * grid_of(multiplier * sensitivity)
    for _ in range(2):
        whole = sensitivity + coarsest * math.sqrt(dim)
        scale = scale_up(multiplier * whole * (1.0 + _ULPS))
        if grid_of(scale) <= coarsest:
            return scale
        coarsest *= 2.0
    raise invalid(
        "budget",
        f"with noise multiplier {multiplier:.3g}",
        f"a grid of {dim} coordinates is too coarse for so much noise; give a larger budget",
    )


def has_laplace_grid(dim: int) -> bool:
    """Whether pure noise of this many coordinates is made of integers; else it is float64."""
    return dim <= MOST_DIMENSIONS


def scale_for(noise: Noise, sensitivity: float, dim: int, touched: int = 1) -> float:
    """sigma, or the scale s of the density exp(-|v| / s), for `dim` coordinates with this
    sensitivity; for several such vectors, in `touched` of which neighbours can differ together.
    """
    if noise.is_pure and not has_laplace_grid(dim):
        return math.nextafter(sensitivity * noise.multiplier * (1.0 + _ULPS), math.inf)
    return on_grid(noise.multiplier, sensitivity, touched**2 * dim)


def check_drawable(noise: Noise, coordinates: int = 1) -> None:
    """Raise where this is more noise than a public grid of so many coordinates holds: every release
    asks before its charge.
    """
    if noise.is_pure and not has_laplace_grid(coordinates):
        return
    if noise.multiplier * math.sqrt(coordinates) > _MOST_NOISE:
        raise invalid(
            "budget",
            noise.whole,
            f"it makes more noise than a grid of {coordinates} coordinates holds; give a larger"
            " one. Nothing was spent",
        )


def slack_of(scale: float, dim: int, *, pure: bool = False) -> float:
    """How much longer than the noise of `with_noise` the difference between a noisy vector and its
    value can be: on a grid both are rounded.
    """
    if pure and not has_laplace_grid(dim):
        return 0.0
    return grid_of(scale) * math.sqrt(dim) * (1.0 + _ULPS)


def added(y: Array | Floats, scale: float, source: NoiseSource) -> Floats:
    """Coordinates with noise: multiples of the grid of `scale`, which `on_grid` made.

    A coordinate that is not a number counts as 0.
    """
    exponent = exponent_of_grid(scale)
    values = np.asarray(y, dtype=np.float64)
    noise = source.rounded_normals(math.ldexp(scale, -exponent), values.shape)
    # below 2^37: float64 holds both terms, and rounds their sum once
    if values.ndim == 1 and len(values) <= _FEW and exponent < _HIGHEST:
        pairs = zip(values.tolist(), noise.tolist(), strict=True)
        return np.array([math.ldexp(_step(v, exponent) + z, exponent) for v, z in pairs])
    return np.ldexp(_steps(values, exponent) + noise, exponent)


def added_laplace(y: Array | Floats, scale: float, source: NoiseSource) -> Floats:
    """The same with noise of density exp(-|v| / scale) on the grid, for a vector y with a Laplace
    grid (`has_laplace_grid`). `on_grid` made the scale of the multiplier 1 / epsilon.

    Proof: docs/proofs/laplace.md.
    """
    exponent = exponent_of_grid(scale)
    values = np.asarray(y, dtype=np.float64)
    # 28 significant bits above 2^32: a whole number
    noise = source.laplace_integers(int(math.ldexp(scale, -exponent)), values.size)
    return np.ldexp(_sum(_steps(values, exponent), noise.reshape(values.shape)), exponent)


def with_noise(y: Array | Floats, scale: float, source: NoiseSource, *, pure: bool) -> Floats:
    """Coordinates with noise of this scale, Gaussian or, if `pure`, of density exp(-|v| / scale):
    on the grid, but for Laplace noise of a vector without a Laplace grid. All noise in a tangent
    space at a public or released point is drawn here; what follows looks at what it returns.
    """
    if not pure:
        return added(y, scale, source)
    values = np.asarray(y, dtype=np.float64)
    if has_laplace_grid(values.size):
        return added_laplace(values, scale, source)
    z = source.normals(values.shape)
    length = scale * float(source.gammas(float(values.size)))
    return values + length / np.linalg.norm(z) * z


def _steps(values: Floats, exponent: int) -> Floats:
    """The nearest points of the grid, as whole numbers, up to the farthest; 0 for what is not a
    number.
    """
    far = math.ldexp(1.0, _FARTHEST + min(exponent, 0))  # finite, in steps too
    steps = np.rint(np.ldexp(np.minimum(np.maximum(values, -far), far), -exponent))
    return np.where(np.isnan(steps), 0.0, steps)


def _step(value: float, exponent: int) -> float:
    """The same of one number, in a fifth of the time."""
    far = math.ldexp(1.0, _FARTHEST + min(exponent, 0))
    if math.isnan(value):
        return 0.0
    return float(round(math.ldexp(min(max(value, -far), far), -exponent)))


def _sum(steps: Floats, noise: NDArray[np.int64]) -> Floats:
    """The exact sum, rounded to float64: a function of the exact sum alone. 64-bit integers would
    hold values up to a few 1e8 deviations only.
    """
    if np.all(np.abs(noise) <= _HELD):
        return steps + noise  # both are exact in float64, which rounds their sum once
    # noise that float64 itself would round: hardly ever, and then in whole numbers of any size
    pairs = zip(steps.ravel().tolist(), noise.ravel().tolist(), strict=True)
    return np.array([float(int(k) + z) for k, z in pairs]).reshape(steps.shape)


def noise_of_integer(deviation: float, source: NoiseSource) -> float:
    """Noise for one integer, of at least this standard deviation: a multiple of a grid that holds
    the integers. The float64 sum with the integer is a function of their exact sum.
    """
    scale = scale_up(deviation * (1.0 + _ULPS))
    exponent = min(0, exponent_of_grid(scale))
    noise = source.rounded_normals(math.ldexp(scale, -exponent))
    return math.ldexp(float(noise), exponent)


def laplace_of_integer(scale: float, source: NoiseSource) -> float:
    """Noise for one integer with P(j g) proportional to exp(-|j g| / s), s at least this scale, on
    a grid g that holds the integers. The float64 sum with the integer is a function of their exact
    sum.
    """
    scale = scale_up(scale * (1.0 + _ULPS))
    exponent = min(0, exponent_of_grid(scale))
    noise = source.laplace_integer(int(math.ldexp(scale, -exponent)))
    return math.ldexp(float(noise), exponent)


class Purse:
    """The noise of one release: it hands out shares, draws, and refuses before the draw what would
    be more than the whole.

    Args:
        noise: Of the whole release, whose guarantee was charged.
        source: What noise is drawn from.
    """

    def __init__(self, noise: Noise, source: NoiseSource):
        self.noise, self.source = noise, source
        self.left = Fraction(1)

    def take(self, share: float | Fraction) -> Noise:
        """The noise of one more answer, whose share is then spent.

        Raises:
            RiemdpError: All shares together would be more than the whole, or this one is not above
                0. Nothing may be drawn.
        """
        exact = Fraction(share)
        if not 0 < exact <= self.left:
            raise RiemdpError(
                "an answer of a release would cost more than is left of its budget; it was not"
                " drawn"
            )
        self.left -= exact
        return self.noise.share(exact)

    def count(self, exact: float, share: float | Fraction) -> float:
        """A count, which neighbours change by at most 1, with noise: a multiple of a grid that
        holds the integers.
        """
        part = self.take(share)
        if part.is_pure:
            return float(exact) + laplace_of_integer(part.multiplier, self.source)
        return float(exact) + noise_of_integer(
            math.nextafter(part.multiplier, math.inf), self.source
        )

    def add(
        self, y: Array | Floats, sensitivity: float, share: float | Fraction
    ) -> tuple[Floats, float, float]:
        """Orthonormal coordinates, which neighbours move by at most `sensitivity`, with noise; the
        scale of the noise, and what rounding to a grid adds to its length.
        """
        (noisy,), scale, slack = self.add_apart([np.asarray(y)], sensitivity, share)
        return noisy, scale, slack

    def add_apart(
        self, vectors: list[Floats], sensitivity: float, share: float | Fraction, touched: int = 1
    ) -> tuple[list[Floats], float, float]:
        """The same for several vectors, each with noise of its own: neighbours differ in at most
        `touched` of them, by lengths that add up to at most the sensitivity (parallel composition
        of a public partition, or docs/proofs/classifiers.md, Lemma 3).
        """
        part, dim = self.take(share), vectors[0].size
        scale = scale_for(part, sensitivity, dim, touched)
        made = [with_noise(one, scale, self.source, pure=part.is_pure) for one in vectors]
        return made, scale, slack_of(scale, dim, pure=part.is_pure)
