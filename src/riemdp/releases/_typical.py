"""What "auto" compares: the error of every mechanism under one and the same public assumption on
where the mean lies.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from ..inference._distributions import ErrorDistribution
from ..manifolds import AbstractManifold, SPDAffineInvariant
from ..mechanisms._common import PointMechanism
from ..mechanisms._wrapped import AbstractWrapped
from ..randomness import noise_source
from ..sampling._spectral import direction_spectra, symmetric_directions
from ..statistics._tangent_mean import kept_shares

POSITION = 0.5  # the mean is taken to lie this share of the radius away from the public centre
_DRAWS = 256
_FLOATS = 50_000  # matrices of the average on affine-invariant space hold about so many numbers
_TOO_FAR = 0.999999


def typical_error(mechanism: PointMechanism, clamped: bool) -> float | None:
    """Root mean squared distance between a release and a mean half the radius away from the centre
    of the ball; None without a formula or a ball.

    Exact on flat spaces and, for wrapped noise, on hyperbolic space; Toponogov's bound where
    curvature is not negative; on affine-invariant space an average over fixed public directions. A
    release that is moved into the ball errs by at most the distance to a point of its sphere that
    stands at a right angle to the mean (when noise dwarfs the ball, the release is close to uniform
    on its surface).

    Args:
        mechanism: A mechanism that was made for a mean, with the ball about its base point.
        clamped: Whether a wrapped release is moved into the ball; Riemannian Laplace and K-norm
            releases always are.
    """
    if mechanism.ball is None:
        return None
    manifold, radius = mechanism.manifold, mechanism.ball.radius
    errors = mechanism.errors_at(POSITION * radius)
    if errors is None:
        return None
    if isinstance(mechanism, AbstractWrapped):
        errors = _averaged(mechanism, POSITION * radius, errors)
    moved = clamped or mechanism.stays_in_ball
    cap = _right_angle(manifold, radius, POSITION * radius) if moved else math.inf
    return math.sqrt(_capped_square(errors, cap))


def _averaged(
    mechanism: AbstractWrapped, distance: float, errors: ErrorDistribution
) -> ErrorDistribution:
    """On affine-invariant space the average over directions, where it is below the worst case."""
    manifold, lengths = mechanism.manifold, mechanism.lengths
    if isinstance(manifold, SPDAffineInvariant) and manifold.k > 1:
        deviation = mechanism.scale if mechanism.shrinks else 0.0
        square = _affine_square(manifold.k, distance, lengths, deviation)
        if square < errors.mean_square:
            return lengths.stretched(math.sqrt(square / lengths.mean_square))
    return errors


@functools.lru_cache(maxsize=256)
def _affine_square(k: int, distance: float, lengths: ErrorDistribution, deviation: float) -> float:
    """Mean squared affine-invariant distance of exp(a) and exp(a + xi), |a| = distance, over fixed
    public directions; infinite where float64 does not hold it. With a deviation of the noise above
    0, of exp(a) and the end of the James-Stein estimate of a + xi.
    """
    count, dim = max(24, min(_DRAWS, _FLOATS // k**2)), k * (k + 1) // 2
    source = noise_source(20246)
    steps = np.array([lengths.quantile((i + 0.5) / count) for i in range(count)])
    # a stands in the frame of its eigenvectors: that of xi is isotropic in any
    w, squares = distance * direction_spectra(k, count, source), np.empty(count)
    rows = max(1, _FLOATS // k**2)
    for i in range(0, count, rows):
        some = slice(i, min(i + rows, count))
        moved = steps[some, None, None] * symmetric_directions(k, some.stop - i, source)
        moved[:, np.arange(k), np.arange(k)] += w[some]
        moved *= kept_shares(np.linalg.norm(moved, axis=(1, 2)), dim, deviation)[:, None, None]
        v, p = np.linalg.eigh(moved)
        if max(np.max(np.abs(w)), np.max(np.abs(v))) > 15.0:
            return math.inf  # the product below has a condition beyond 10^13
        product = np.exp(0.5 * v)[:, :, None] * np.swapaxes(p, 1, 2) * np.exp(-0.5 * w[some, None])
        logs = 2 * np.log(np.linalg.svd(product, compute_uv=False))
        squares[some] = np.sum(logs**2, axis=1)
    # the mean of the strata stands below the mean square of the lengths by what lies in the last
    # tail
    return float(np.mean(squares) * lengths.mean_square / np.mean(steps**2))


def _right_angle(manifold: AbstractManifold, radius: float, distance: float) -> float:
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


def _capped_square(errors: ErrorDistribution, cap: float) -> float:
    """E min(error, cap)^2."""
    if math.isinf(cap):
        return errors.mean_square
    if math.isinf(errors.mean_square):
        return cap**2
    if errors.quantile(_TOO_FAR) <= cap:
        return errors.mean_square
    nodes, weights = np.polynomial.legendre.leggauss(60)
    lengths = np.array([min(errors.quantile(float(q)), cap) for q in (nodes + 1) / 2])
    return min(float(weights @ lengths**2) / 2, errors.mean_square)
