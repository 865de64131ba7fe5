"""How far to go along a noisy tangent vector. Post-processing: it reads released numbers only.

Where curvature is not negative this is the positive-part James-Stein estimate. Where it is, a small
error of direction leads far away: at a distance L from the base an angle moves the end by sinh(b L)
/ (b L) times what it would on flat space, b^2 being minus the curvature. There the share of the
vector that is kept is chosen by simulation on the manifold itself.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from .._namespace import Floats
from ..domains._ends import end_of
from ..domains._points import admit_point
from ..manifolds import AbstractManifold
from ..manifolds._base import Point
from ..privacy._noise import Noise
from ..randomness import noise_source
from ..statistics._tangent_mean import kept_shares

if TYPE_CHECKING:
    from jaxtyping import Float

    from .._namespace import Array


# What is tried, as shares of the James-Stein estimate.
_SHARES = (1.0, 0.92, 0.84, 0.76, 0.68, 0.6, 0.52, 0.44, 0.36, 0.28, 0.2, 0.12, 0.06)
_NUMBERS = 2048  # normals of a simulation; at least 8 and at most 48 vectors
# Where curvature is negative, noise of this share of the largest distance is long: shrinking gains
# from it on, and shorter noise is left as it is (docs/evidence/means.md).
_LONG_NOISE = 0.2
# A move after which the centre may still be far: in units of the curvature's radius, and of the
# radius that vectors were clipped at.
_LONG, _CLIPPED = 1.0, 0.3


def bend_of(manifold: AbstractManifold) -> float:
    """The root of minus the lowest curvature; 0 where none is negative, or none is known."""
    lowest = float(manifold.curvature_bounds[0])
    return math.sqrt(-lowest) if -math.inf < lowest < 0.0 else 0.0


def shortened(
    manifold: AbstractManifold,
    base: Point,
    noisy: Floats,
    deviation: float,
    radius: float,
    *,
    flat: bool = True,
) -> Floats:
    """Coordinates at `base` of what is released in the place of `noisy`, at most `radius` long.

    Args:
        manifold: The space.
        base: The public base point.
        noisy: Released coordinates of a tangent vector.
        deviation: Standard deviation of the noise in each of them.
        radius: The vector without noise is at most this long.
        flat: Whether the James-Stein estimate is taken also where curvature plays no part.
    """
    start = james_stein(noisy, deviation, radius)
    if bend_of(manifold) * float(np.linalg.norm(start)) > 1.0:
        return _simulated_share(manifold, base, start, deviation) * start
    return start if flat else james_stein(noisy, 0.0, radius)


def kept(
    noise: Noise,
    manifold: AbstractManifold,
    base: Point,
    noisy: Floats,
    scale: float,
    radius: float,
) -> Floats:
    """What is released in the place of coordinates with noise of this scale; see `shortened`."""
    deviation = noise.deviation(scale, noisy.size)
    return shortened(manifold, base, noisy, deviation, radius, flat=not noise.is_pure)


def next_center(
    noise: Noise,
    manifold: AbstractManifold,
    center: Point,
    noisy: Floats,
    scale: float,
    *,
    stretch: float,
    radius: float,
) -> tuple[Point, bool]:
    """The end of what is kept of `stretch` times a noisy mean of tangent vectors that were clipped
    at `radius`, and whether the move was so long that it may still be far from the records.
    """
    y = kept(noise, manifold, center, stretch * noisy, stretch * scale, radius)
    length = float(np.linalg.norm(y))
    far = bend_of(manifold) * length > _LONG or length > _CLIPPED * radius
    return admit_point(manifold, "center", end_of(manifold, center, y)), far


def james_stein(noisy: Floats, deviation: float, radius: float) -> Floats:
    """The positive-part James-Stein estimate, at most `radius` long; deviation 0 only shortens."""
    length = float(np.linalg.norm(noisy))
    if not 0.0 < length < math.inf:
        return np.zeros_like(noisy)
    return min(float(kept_shares(length, noisy.size, deviation)), radius / length) * noisy


def _simulated_share(
    manifold: AbstractManifold, base: Point, truth: Floats, deviation: float
) -> float:
    """The share of noisy vectors about `truth` that brings their ends nearest to its end, in mean
    square.
    """
    count = min(48, max(8, _NUMBERS // truth.size))
    normals = noise_source(0).normals((count, truth.size))  # public numbers: they protect nothing
    errors = np.asarray(
        _mean_squares(manifold, base, np.asarray(truth), np.asarray(deviation * normals))
    )
    errors = np.where(np.isfinite(errors), errors, math.inf)
    return _SHARES[int(np.argmin(errors))]


def _mean_squares(
    manifold: AbstractManifold, base: Point, truth: Float[Array, " d"], noise: Float[Array, "m d"]
) -> Float[Array, " shares"]:
    target = manifold._exp_coordinates(base, truth)

    def error(share: float) -> float:
        ends = manifold._exp_coordinates(base, share * (truth + noise))
        return float(np.mean(np.asarray(manifold._dist(target, ends)) ** 2))

    return np.array([error(share) for share in _SHARES])


def worth_shrinking(manifold: AbstractManifold, deviation: float, distance: float | None) -> bool:
    """Whether James-Stein shrinking follows Gaussian noise where nobody decides: a function of
    public numbers.

    Where curvature is not negative it does not increase the expected squared error in the tangent
    space, in dimension 3 and more. Where it is, shrinking waits for noise that is long.

    Args:
        manifold: The space.
        deviation: Standard deviation of the noise in each coordinate.
        distance: The value is at most so far from the base; None where that is not known.
    """
    if manifold.dim <= 2 or distance is None:
        return False
    lowest = float(manifold.curvature_bounds[0])
    return lowest >= 0.0 or math.sqrt(manifold.dim) * deviation > _LONG_NOISE * distance
