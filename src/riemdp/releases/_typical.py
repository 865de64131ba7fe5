"""What "auto" compares: the error of every mechanism under one and the same public assumption on
where the mean lies.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from scipy import special

from ..manifolds import SPDAffineInvariant
from ..mechanisms import KNormGradient, RiemannianLaplace
from ..mechanisms._error_law import ErrorLaw, wrapped_law
from ..randomness import noise_source
from ..sampling._spectral import symmetric_directions

POSITION = 0.5  # the mean is taken to lie this share of the radius away from the public centre
_DRAWS = 256
_FLOATS = 50_000  # matrices of the average on affine-invariant space hold about so many numbers
_TOO_FAR = 0.999999


def typical_error(mechanism: Any, clamped: bool) -> float | None:
    """Root mean squared distance between a release and a mean half the radius away from the centre
    of the ball; None without a formula.

    `mechanism` is one of the library's, built for a ball about its base point; `clamped` says
    whether a wrapped release is moved into the ball (Riemannian Laplace and K-norm releases always
    are). Exact on flat spaces and, for wrapped noise, on hyperbolic space; Toponogov's bound where
    curvature is not negative; on affine-invariant space an average over fixed public directions. A
    release that is moved into the ball errs by at most the distance to a point of its sphere that
    stands at a right angle to the mean (noise that is much larger than the ball has no direction of
    its own).
    """
    manifold, radius = mechanism.manifold, float(mechanism.ball.radius)
    if isinstance(mechanism, RiemannianLaplace | KNormGradient):
        law = mechanism.draw_law or ErrorLaw.at_most(
            math.inf
        )  # no law: volume puts nearly everything at the edge of the ball
        clamped = True
    else:
        law = _wrapped(mechanism, POSITION * radius)
    if law is None:
        return None
    cap = _right_angle(manifold, radius, POSITION * radius) if clamped else math.inf
    return math.sqrt(_capped_square(law, cap))


def _wrapped(mechanism: Any, distance: float) -> ErrorLaw | None:
    manifold, lengths = mechanism.manifold, mechanism.length_law
    law = wrapped_law(manifold, distance, lengths)
    if isinstance(manifold, SPDAffineInvariant) and manifold.k > 1 and law is not None:
        square = _affine_square(manifold.k, distance, lengths)
        if square < law.mean_square:
            return lengths.stretched(math.sqrt(square / lengths.mean_square))
    return law


@functools.lru_cache(maxsize=256)
def _affine_square(k: int, distance: float, lengths: ErrorLaw) -> float:
    """Mean squared affine-invariant distance of exp(a) and exp(a + xi), |a| = distance, over fixed
    public directions; infinite where float64 does not hold it.
    """
    count = max(24, min(_DRAWS, _FLOATS // k**2))
    source = noise_source(20246)
    a = distance * symmetric_directions(k, count, source)
    steps = np.array([lengths.quantile((i + 0.5) / count) for i in range(count)])
    xi = steps[:, None, None] * symmetric_directions(k, count, source)
    (w, q), (v, p) = np.linalg.eigh(a), np.linalg.eigh(a + xi)
    if (
        max(np.max(np.abs(w)), np.max(np.abs(v))) > 15.0
    ):  # the product below has a condition beyond 10^13
        return math.inf
    product = (
        np.exp(0.5 * v)[:, :, None] * (np.swapaxes(p, 1, 2) @ q) * np.exp(-0.5 * w)[:, None, :]
    )
    logs = 2 * np.log(np.linalg.svd(product, compute_uv=False))
    # the mean of the strata stands below the mean square of the lengths by what lies in the last
    # tail
    return float(np.mean(np.sum(logs**2, axis=1)) * lengths.mean_square / np.mean(steps**2))


def _right_angle(manifold: Any, radius: float, distance: float) -> float:
    """Distance of two points at `radius` and `distance` from the centre, at a right angle there,
    where curvature is the lowest that the space has (zero, if that is not negative: no more than
    that).
    """
    lowest = float(manifold.curvature_bounds[0])
    if not lowest < 0 or not math.isfinite(lowest):
        return math.hypot(radius, distance)
    root = math.sqrt(-lowest)
    a, b = root * radius, root * distance
    # log cosh without overflow, then arccosh(e^x) likewise
    log_product = sum(x + math.log1p(math.exp(-2 * x)) - math.log(2) for x in (a, b))
    side = log_product + math.log1p(math.sqrt(max(0.0, -math.expm1(-2 * log_product))))
    return min(side / root, radius + distance)


def _capped_square(law: ErrorLaw, cap: float) -> float:
    """E min(error, cap)^2."""
    if math.isinf(cap):
        return law.mean_square
    if math.isinf(law.mean_square):
        return cap**2
    if law.quantile(_TOO_FAR) <= cap:
        return law.mean_square
    nodes, weights = special.roots_legendre(60)
    lengths = np.array([min(law.quantile(float(q)), cap) for q in (nodes + 1) / 2])
    return min(float(weights @ lengths**2) / 2, law.mean_square)
