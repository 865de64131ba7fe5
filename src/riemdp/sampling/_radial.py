"""Laplace distributions whose density depends on the radius alone: flat spaces, hyperbolic spaces,
spheres.

Each function returns exact draws of the distance r to the footpoint; the direction is uniform and
independent.
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction

import numpy as np

from ..randomness import NoiseSource
from ._hull import Scalar, TangentHull, Vector


def flat_radii(
    dim: int, scale: float, count: int, source: NoiseSource, cutoff: float
) -> np.ndarray:
    """r^{d-1} e^{-r/s}: Gamma(d, s); cut at `cutoff`, log-concave rejection."""
    if math.isinf(cutoff):
        return scale * source.gammas(float(dim), (count,))
    return flat_hull(dim, scale, cutoff).draw(source, count)


def hyperbolic_radii(
    dim: int, scale: float, count: int, source: NoiseSource, cutoff: float
) -> np.ndarray:
    """sinh^{d-1}(r) e^{-r/s}: T = e^{-2r} is Beta((1/s - d + 1)/2, d), exactly; cut at `cutoff`,
    log-concave rejection.

    T = G / (G + H) with Gamma variables G of shape a and H of shape d, so r = log(1 + H / G) / 2.
    G itself underflows where a is small (s near its limit); log G does not, because G has the
    distribution of G' U^(1/a) with G' of shape a + 1 and U uniform.
    """
    if math.isinf(cutoff):
        a = (1 / scale - (dim - 1)) / 2
        log_g = np.log(source.gammas(a + 1, (count,))) + np.log(source.uniforms((count,))) / a
        return 0.5 * np.logaddexp(0.0, np.log(source.gammas(float(dim), (count,))) - log_g)
    return hyperbolic_hull(dim, scale, cutoff).draw(source, count)


def hyperbolic_tail(dim: int, scale: float, end: float) -> float:
    """An upper bound on the probability that a draw without cutoff is longer than `end`.

    With a = (1/s - d + 1) / 2 the probability is that of a Beta(a, d) variable below e^{-2 end}.
    Its density is at most t^{a-1} / B(a, d), and a B(a, d) is the product of j / (j + a) over
    j < d: the bound is e^{-2 a end} times the product of 1 + a / j.
    """
    exact = (1 / Fraction(scale) - (dim - 1)) / 2  # near the limit of s the difference is small
    if exact <= 0:
        return 1.0
    a = float(exact)
    fall, rise = 2 * a * end, float(np.sum(np.log1p(a / np.arange(1, dim))))
    # each of the two errs by less than a hundredth of this part of it
    logarithm = rise - fall + 1e-13 * (rise + fall)
    return math.nextafter(math.exp(min(0.0, logarithm)), 1.0)


def sphere_radii(
    dim: int, scale: float, count: int, source: NoiseSource, cutoff: float
) -> np.ndarray:
    """sin^{d-1}(r) e^{-r/s} on (0, min(pi, cutoff)): log-concave."""
    return sphere_hull(dim, scale, min(math.pi, cutoff)).draw(source, count)


@functools.lru_cache(maxsize=64)
def flat_hull(dim: int, scale: float, cutoff: float) -> TangentHull:
    return radial_hull(log_of_power(dim, np.log), lambda r: (dim - 1) / r, scale, cutoff, dim)


@functools.lru_cache(maxsize=64)
def hyperbolic_hull(dim: int, scale: float, cutoff: float) -> TangentHull:
    growth = log_of_power(dim, log_sinh)
    return radial_hull(growth, lambda r: (dim - 1) / math.tanh(r), scale, cutoff, dim)


@functools.lru_cache(maxsize=64)
def sphere_hull(dim: int, scale: float, cutoff: float) -> TangentHull:
    growth = log_of_power(dim, lambda r: np.log(np.sin(r)))
    return radial_hull(growth, lambda r: (dim - 1) / math.tan(r), scale, cutoff, dim)


def log_of_power(dim: int, log: Vector) -> Vector:
    """The logarithm of a power d - 1; of power 0 it is 0, at 0 too."""
    return lambda r: (dim - 1) * log(r) if dim > 1 else 0.0 * r


def radial_hull(growth: Vector, rise: Scalar, scale: float, cutoff: float, dim: int) -> TangentHull:
    """The hull of e^{growth(r) - r / scale} on (0, cutoff), with `rise` the slope of the growth,
    in about `dim` dimensions.
    """

    def log_density(r: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return growth(r) - r / scale

    def slope(r: float) -> float:
        return rise(max(r, 1e-300)) - 1 / scale

    return TangentHull(log_density, slope, 0.0, cutoff, dim * scale)


def log_sinh(x: np.ndarray) -> np.ndarray:
    """log sinh x for x > 0, without overflow."""
    with np.errstate(divide="ignore"):
        return x + np.log(-np.expm1(-2 * x)) - math.log(2)


def log_sinhc(x: np.ndarray) -> np.ndarray:
    """log(sinh x / x), even, 0 at 0, without overflow or cancellation."""
    x = np.abs(x)
    near = x < 0.02
    x2 = x * x
    series = x2 / 6 - x2 * x2 / 180 + x2 * x2 * x2 / 2835
    if near.all():  # as where the scale is small
        return series
    y = np.where(near, 1.0, x)
    return np.where(near, series, log_sinh(y) - np.log(y))


def log_sinc(x: np.ndarray) -> np.ndarray:
    """log(sin x / x) for |x| < pi, 0 at 0."""
    x = np.abs(x)
    near = x < 0.02
    y = np.where(near, 1.0, x)
    x2 = x * x
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(near, -x2 / 6 - x2 * x2 / 180 - x2 * x2 * x2 / 2835, np.log(np.sin(y) / y))
