"""Regressions from noisy second moments: functions of what was released and of public numbers. No
record comes here, and so no privacy rests on it. Formulas: docs/proofs/regression.md, Lemmas 6, 8.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .._namespace import Floats
from ..manifolds._spectral import unpack
from ..statistics._tangent_mean import kept_shares

TARGET = 1.0 / math.sqrt(2.0)  # the weight k of the target
_RELATIVE = 1e-9  # of the largest eigenvalue: no smaller one is believed


class Line(NamedTuple):
    """A linear function of vectors z, and how far targets lie from it; all in units of half the
    range of the targets, from its middle.

    Attributes:
        coefficients: (dim,).
        intercept: Its value at z = 0.
        variance: The mean of the squared residuals of the records, noise considered.
    """

    coefficients: Floats
    intercept: float
    variance: float


def weights(dim: int) -> tuple[float, float]:
    """The weights of a vector and of the 1 behind it, whose squares add up to 1: the lighter the 1,
    the less noise `dim` coefficients have, and the more the intercept.
    """
    square = 1.0 / (1.0 + math.sqrt(dim))
    return math.sqrt(1.0 - square), math.sqrt(square)


def noise_level(dim: int, deviation: float) -> float:
    """Half of about the largest eigenvalue of the noise on the second moments of z, for noise of
    this standard deviation in each coordinate: the ridge, where none is given.
    """
    return math.sqrt(dim / 2.0) * deviation / weights(dim)[0] ** 2


class Fitted(NamedTuple):
    """A linear function of rows x = (c v, s), from noisy second moments.

    Attributes:
        coefficients: (dim + 1, targets).
        inverse: That of the moments of x, (dim + 1, dim + 1).
        residual: The mean of the outer products of residuals, (targets, targets), the part of the
            noise taken out on average.
    """

    coefficients: Floats
    inverse: Floats
    residual: Floats


def regressed(
    noisy: Floats, dim: int, targets: int, deviation: float, alpha: float | None
) -> Fitted:
    """A ridge regression of some targets on vectors of `dim` coordinates, from the noisy second
    moments of (c v, s, targets): a function of released and public numbers.

    The mean of v, in the weight of v, is moved towards 0 by James-Stein: a noisy one would move the
    intercept, and it is near 0 where that is a centre that was found.

    The noise of the residuals is taken out of them to the second order (Stein's formula for the
    coefficients, which have the noise of the same matrix).
    """
    of_vector, of_one = weights(dim)
    size = dim + 1
    matrix = np.array(unpack(np.asarray(noisy), size + targets))
    matrix[dim, dim] = of_one**2  # public
    moments, cross, square = matrix[:size, :size], matrix[:size, size:], matrix[size:, size:]
    mean = moments[:dim, dim] / of_one
    length = max(float(np.linalg.norm(mean)), 1e-100)  # a plan's mean is 0, and 1 / 0^2 no number
    mean *= float(kept_shares(length, dim, deviation / (math.sqrt(2.0) * of_one)))
    values, vectors = np.linalg.eigh(moments[:dim, :dim] - np.outer(mean, mean))
    level = of_vector**2 * noise_level(dim, deviation)
    added = level if alpha is None else of_vector**2 * alpha
    floor = max(level, _RELATIVE * float(np.abs(values).max(initial=0.0)))
    inside = (vectors / np.maximum(values + added, floor)) @ vectors.T
    # the inverse of the matrix of both, the intercept without a ridge
    inverse = np.empty((size, size))
    inverse[:dim, :dim], inverse[dim, :dim] = inside, -inside @ mean / of_one
    inverse[:dim, dim] = inverse[dim, :dim]
    inverse[dim, dim] = (1.0 + mean @ inside @ mean) / of_one**2
    found = inverse @ cross
    apparent = square - found.T @ cross - cross.T @ found + found.T @ moments @ found
    fitted = np.trace(inverse) * (np.eye(targets) + found.T @ found) + found.T @ inverse @ found
    return Fitted(found, inverse, apparent + deviation**2 * fitted)


def ridge(noisy: Floats, dim: int, deviation: float, alpha: float | None) -> Line:
    """`regressed` for one target. The residual variance is not stated below one standard deviation
    of its own noise.
    """
    of_vector, of_one = weights(dim)
    fit = regressed(noisy, dim, 1, deviation, alpha)
    found = fit.coefficients[:, 0]
    least = deviation * (1.0 + float(found @ found))
    variance = max(float(fit.residual[0, 0]), least) / TARGET**2
    return Line(
        of_vector * found[:dim] / TARGET,
        of_one * float(found[dim]) / TARGET,
        min(variance, 4.0),  # nothing in the range is farther from anything in it
    )
