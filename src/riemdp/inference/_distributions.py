"""The distribution of the distance between a release and the value it protects, known before
anything is spent.

Each distribution is a function of public facts (scale, dimension, space, radius) and says what it
is: "exact", or an "upper bound".
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .._errors import real
from ..manifolds import AbstractManifold, Lorentz, Sphere
from ..privacy._noise import Noise
from ..sampling._laplace import is_flat, laplace_scale_limit
from ..sampling._radial_density import radial_log_density

Floats = NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class ErrorDistribution:
    """Distribution of the error d(release, value). `kind` is "exact", "upper bound" (the mean
    square is at most this), or "estimate" (an exact formula averaged over fixed public directions).
    """

    mean_square: float
    kind: str
    note: str = ""

    @property
    def expected_error(self) -> float:
        """Root of the mean squared distance."""
        return math.sqrt(self.mean_square)

    def quantile(self, q: float) -> float:
        """The distance that the error stays below with probability q, 0 < q < 1."""
        return self._quantile(real("q", q, above=0.0, below=1.0))

    def _quantile(self, q: float) -> float:
        raise NotImplementedError

    @staticmethod
    def at_most(distance: float) -> TabulatedErrors:
        """Nothing is known but that the error is at most this distance."""
        return TabulatedErrors(
            distance**2, "upper bound", "the diameter of the ball", (distance, distance)
        )


@dataclasses.dataclass(frozen=True)
class ChiErrors(ErrorDistribution):
    """sigma * chi_d: the length of an isotropic Gaussian vector."""

    sigma: float = 0.0
    dim: int = 1

    def stretched(self, factor: float) -> ChiErrors:
        """The distribution of `factor` times the length, as an upper bound."""
        return gaussian_errors(self.dim, factor * self.sigma, exact=False)

    def shrunk(self, distance: float | None = None) -> ShrunkErrors:
        """Error of the James-Stein estimate of a vector from one with this noise, an upper bound.

        For a vector v the mean square is at most d sigma^2 - (d - 2)^2 sigma^4 E 1 / |y|^2 (James
        and Stein), and E 1 / |y|^2 >= 1 / (|v|^2 + (d - 2) sigma^2) (Jensen; the distribution of
        |y|^2 is a Poisson mixture of chi squares). The estimate lies within min(|y|, (d - 2)
        sigma^2 / |y|) <= sqrt(d - 2) sigma of the noisy vector y, which bounds quantiles.

        Args:
            distance: A bound of |v|, or None.
        """
        lost = max(self.dim - 2, 0) * self.sigma**2
        # not lost**2 / (...): the fourth power of a noise above 1e77 is beyond float64
        gain = lost * (lost / (distance**2 + lost)) if distance is not None and lost > 0 else 0.0
        note = "James-Stein: never more than without shrinking on average"
        return ShrunkErrors(self.mean_square - gain, "upper bound", note, self, math.sqrt(lost))

    def _quantile(self, q: float) -> float:
        return self.sigma * chi_exceeded(self.dim, 1 - q)


@dataclasses.dataclass(frozen=True)
class GammaErrors(ErrorDistribution):
    """Gamma(d, s): the length of a vector with density exp(-|v| / s) in d dimensions."""

    scale: float = 0.0
    dim: int = 1

    def stretched(self, factor: float) -> GammaErrors:
        """The distribution of `factor` times the length, as an upper bound."""
        return laplace_errors(self.dim, factor * self.scale, exact=False)

    def _quantile(self, q: float) -> float:
        from scipy import special

        return self.scale * float(special.gammaincinv(self.dim, q))


Lengths = ChiErrors | GammaErrors  # of noise in a tangent space


@dataclasses.dataclass(frozen=True)
class TabulatedErrors(ErrorDistribution):
    """Quantiles at the probabilities 0, 1/m, ..., 1, interpolated linearly. Of an upper bound the
    next one of them is taken: a chord lies below quantiles that bend down, as the first ones do. In
    the last step, the tail, they bend up.
    """

    table: tuple[float, ...] = ()

    def _quantile(self, q: float) -> float:
        last = len(self.table) - 1
        if self.kind == "upper bound" and q * last <= last - 1:
            return self.table[math.ceil(q * last * (1.0 - 1e-12))]
        return float(np.interp(q, np.linspace(0.0, 1.0, last + 1), self.table))


@dataclasses.dataclass(frozen=True)
class CappedErrors(ErrorDistribution):
    """The error of another distribution after a step that brings it to at most `cap`, and never
    makes it larger than `factor` times what it was.
    """

    inner: ErrorDistribution | None = None
    cap: float = math.inf
    factor: float = 1.0

    def _quantile(self, q: float) -> float:
        assert self.inner is not None
        return min(self.factor * self.inner.quantile(q), self.cap)


@dataclasses.dataclass(frozen=True)
class TabulatedShrunkErrors(TabulatedErrors):
    """The error of another distribution, tabulated after shrinking."""

    inner: ErrorDistribution | None = None


@dataclasses.dataclass(frozen=True)
class ShrunkErrors(ErrorDistribution):
    """The error of another distribution after a move by at most `shift`."""

    inner: ErrorDistribution | None = None
    shift: float = 0.0

    def _quantile(self, q: float) -> float:
        assert self.inner is not None
        return self.inner.quantile(q) + self.shift


def chi_exceeded(dim: int, chance: float) -> float:
    """The length that a standard normal vector of this dimension exceeds with this probability."""
    from scipy import special  # 0.4 s, which a plan in a ball that is searched does not need

    return math.sqrt(float(special.chdtri(dim, chance)))


def gaussian_errors(dim: int, sigma: float, *, exact: bool, note: str = "") -> ChiErrors:
    """Error of length sigma chi_d: mean square d sigma^2."""
    return ChiErrors(dim * sigma**2, "exact" if exact else "upper bound", note, sigma, dim)


def laplace_errors(dim: int, scale: float, *, exact: bool, note: str = "") -> GammaErrors:
    """Error of distribution Gamma(d, s): mean square d (d + 1) s^2."""
    return GammaErrors(
        dim * (dim + 1) * scale**2, "exact" if exact else "upper bound", note, scale, dim
    )


def capped(
    errors: ErrorDistribution | None, cap: float, factor: float = 1.0
) -> ErrorDistribution | None:
    """The distribution after a step that brings the error to at most `cap`, and to at most `factor`
    times what it was. An estimate stays one, unless the cap lies below it.
    """
    if errors is None or not math.isfinite(cap):
        return errors
    square = factor**2 * errors.mean_square
    estimated = errors.kind == "estimate" and square < cap**2
    kind = "estimate" if estimated else "upper bound"
    return CappedErrors(min(square, cap**2), kind, errors.note, errors, cap, factor)


def keeps_near(manifold: AbstractManifold, radius: float) -> bool:
    """Whether a point that is moved radially into a ball of this radius is proved to come no
    farther from any point of the ball. Proof: docs/proofs/confidence-region.md, Lemma 6.
    """
    return manifold.is_hadamard or (isinstance(manifold, Sphere) and radius <= math.pi / 3)


def moved_in(
    errors: ErrorDistribution | None, manifold: AbstractManifold, radius: float
) -> ErrorDistribution | None:
    """The distribution of the distance to a point of a ball, after a release was moved radially
    into it.

    It is at most the diameter. Where `keeps_near` is proved it is no larger than before. Elsewhere
    it is at most twice as large: the release z moves by its distance from the ball, which is at
    most its distance from a point of the ball.
    """
    return capped(errors, 2.0 * radius, 1.0 if keeps_near(manifold, radius) else 2.0)


def unbounded(errors: ErrorDistribution) -> ErrorDistribution:
    """The distribution of the noise itself, before it was bounded by a ball or shrunk."""
    while (
        isinstance(errors, CappedErrors | ShrunkErrors | TabulatedShrunkErrors)
        and errors.inner is not None
    ):
        errors = errors.inner
    return errors


def riemannian_laplace_errors(manifold: AbstractManifold, scale: float) -> ErrorDistribution:
    """Distribution of the distance under exp(-d/s): Gamma(d, s) on flat spaces, a Beta distribution
    on hyperbolic space, quadrature of the radial density elsewhere; on Bures-Wasserstein space
    Gamma(d, s) is an upper bound, its Jacobian decreasing along rays.
    """
    if not manifold.is_homogeneous and manifold.curvature_bounds[0] >= 0:
        return laplace_errors(
            manifold.dim, scale, exact=False, note="flat distribution, curvature is non-negative"
        )
    if is_flat(manifold):
        return laplace_errors(manifold.dim, scale, exact=True)
    return _radial_errors(manifold, scale)


@functools.lru_cache(maxsize=256)
def riemannian_laplace_bound(manifold: AbstractManifold, scale: float) -> ErrorDistribution | None:
    """A distribution of lengths that are never shorter, in distribution, than the distance under
    exp(-d/s).

    It is the distribution itself where that is exact. Elsewhere the volume of small solid angles
    grows along rays at most as on the hyperbolic space of the lowest curvature (Bishop and Gromov),
    so the quotient of the two radial densities never increases, and distances on the hyperbolic
    space are longer. None where the distribution does not exist there.
    """
    errors = riemannian_laplace_errors(manifold, scale)
    if errors.kind != "estimate":
        return errors
    lowest = float(manifold.curvature_bounds[0])
    if lowest >= 0.0:
        return laplace_errors(manifold.dim, scale, exact=False, note="Bishop and Gromov")
    if not math.isfinite(lowest):
        return None
    root, space = math.sqrt(-lowest), Lorentz(manifold.dim + 1)
    if not root * scale < 0.99 * laplace_scale_limit(space):
        return None
    unit = _radial_errors(space, root * scale)
    table = tuple(length / root for length in unit.table)
    square = unit.mean_square / root**2
    return TabulatedErrors(square, "upper bound", "Bishop and Gromov", table)


@functools.lru_cache(maxsize=256)
@np.errstate(under="ignore")  # densities far out are 0
def _radial_errors(manifold: AbstractManifold, scale: float) -> TabulatedErrors:
    log_density, end, numerical = radial_log_density(manifold, scale)
    grid = _support(log_density, end, manifold.dim * scale)
    values = log_density(grid)
    weights = np.exp(values - np.max(values))
    steps = np.concatenate([[0.0], np.cumsum(0.5 * (weights[1:] + weights[:-1]) * np.diff(grid))])
    square = weights * grid**2
    mean_square = float(np.sum(0.5 * (square[1:] + square[:-1]) * np.diff(grid)) / steps[-1])
    table = tuple(float(v) for v in np.interp(np.linspace(0.0, 1.0, 401), steps / steps[-1], grid))
    averaged = ("estimate", "radial density averaged over fixed public directions")
    kind, note = averaged if numerical else ("exact", "quadrature")
    return TabulatedErrors(mean_square, kind, note, table)


def _support(
    log_density: Callable[[np.ndarray], np.ndarray], end: float, guess: float
) -> np.ndarray:
    """A grid over the radii where the density is within e^-60 of its largest value."""
    coarse = np.geomspace(
        guess * 1e-4, guess * 1e4, 300
    )  # steps of 6 %, a fraction of the window in any dimension below 10^4
    coarse = coarse[coarse < end] if math.isfinite(end) else coarse
    if math.isfinite(end):
        coarse = np.unique(np.concatenate([coarse, np.linspace(0, end, 82)[1:-1]]))
    values = log_density(coarse)
    top = int(np.argmax(values))
    near = np.nonzero(values > values[top] - 60)[0]
    low = coarse[max(near[0] - 1, 0)]
    high = coarse[min(near[-1] + 1, coarse.size - 1)]
    return np.linspace(0.0 if near[0] == 0 else low, high, 6001)[1:]


def wrapped_errors(
    manifold: AbstractManifold,
    radius: float | None,
    lengths: ErrorDistribution,
    *,
    shrunk: bool = False,
) -> ErrorDistribution | None:
    """Distribution of d(Exp_b(a), Exp_b(a + xi)) for |a| <= radius and xi isotropic of length
    distribution `lengths`.

    Flat spaces: |xi|, exact. Curvature >= 0: at most |xi| (Toponogov). Curvature >= -k: at most the
    third side of the hyperbolic triangle of curvature -k with sides |a|, |a + xi| and the same
    angle (Toponogov); this is an equality on hyperbolic space. The bound is taken at |a| = radius,
    the worst case, and needs one.

    With `shrunk`, Gaussian lengths, of d(Exp_b(a), Exp_b(s)), s the James-Stein estimate of a + xi.
    Curvature >= 0: at most |s - a|. Curvature >= -k: the same triangle with the side |s|, at the
    worst of all |a| <= radius.
    """
    lowest, highest = (float(c) for c in manifold.curvature_bounds)
    if shrunk and isinstance(lengths, ChiErrors):
        if lowest >= 0.0:
            return lengths.shrunk(radius)
        if radius is None or not math.isfinite(lowest):
            return None
        return _shrunk_hinge_errors(math.sqrt(-lowest), float(radius), lengths)
    if lowest == highest == 0.0 and manifold.is_hadamard:
        return dataclasses.replace(lengths, kind="exact")
    if lowest >= 0.0:
        return dataclasses.replace(
            lengths, kind="upper bound", note="curvature is non-negative (Toponogov)"
        )
    if radius is None or not math.isfinite(lowest):
        return None
    return _hinge_errors(int(manifold.dim), math.sqrt(-lowest), float(radius), lengths)


def shrunk_errors(
    manifold: AbstractManifold, radius: float, lengths: ErrorDistribution
) -> ErrorDistribution | None:
    """Distribution of d(Exp_b(a), Exp_b(s)) for |a| <= radius and s what `shortened` makes of a +
    xi, where xi is isotropic of length distribution `lengths`.

    Curvature >= 0: at most |s - a| (Toponogov), so at most what James and Stein prove of it.
    Curvature >= -k: no proof that shrinking helps is known; the bound without it is an estimate.
    """
    is_flat_or_up = float(manifold.curvature_bounds[0]) >= 0.0
    errors = wrapped_errors(manifold, radius, lengths, shrunk=is_flat_or_up)
    if errors is None or isinstance(errors, ShrunkErrors):
        return errors
    if is_flat_or_up:
        return dataclasses.replace(errors, kind="upper bound", note="before it is shortened")
    return dataclasses.replace(errors, kind="estimate", note=errors.note + ", before it is shrunk")


def _cosines(dim: int) -> np.ndarray:
    """Quantiles of the cosine of the angle between a fixed and a uniform direction: (1 + cos) / 2 ~
    Beta((d-1)/2, (d-1)/2); +-1 in one dimension.
    """
    if dim == 1:
        return np.array([-1.0, 1.0])
    from scipy import special

    middles = (np.arange(200) + 0.5) / 200
    return 2 * special.betaincinv((dim - 1) / 2, (dim - 1) / 2, middles) - 1


@functools.lru_cache(maxsize=256)
def _hinge_errors(
    dim: int, root: float, radius: float, lengths: ErrorDistribution
) -> TabulatedErrors:
    # Bins of the length's distribution, evaluated at their upper edge (an upper bound); the last
    # ones reach 1 - 1e-13.
    upper_edges = np.concatenate(
        [np.linspace(0.0, 0.99, 300)[1:], 1 - np.logspace(-2, -13, 111)[1:]]
    )
    weights = np.diff(np.concatenate([[0.0], upper_edges]))
    length = np.array([lengths.quantile(float(q)) for q in upper_edges])[:, None]
    cosine = _cosines(dim)
    side = np.sqrt(np.maximum((radius + length * cosine) ** 2 + (length**2) * (1 - cosine**2), 0.0))
    # third side of the hyperbolic triangle: cosh c = cosh(a - b) + sinh a sinh b (1 - cos(angle at
    # b)), scaled by root
    a, b = root * radius, root * side
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        inner_cos = np.where(
            side > 0, (radius + length * cosine) / np.where(side > 0, side, 1.0), 1.0
        )
        half_angle_squared = np.clip((1 - inner_cos) / 2, 0.0, 1.0)
        argument = np.sqrt(np.sinh((a - b) / 2) ** 2 + np.sinh(a) * np.sinh(b) * half_angle_squared)
        third = 2 * np.arcsinh(argument) / root
    third = np.minimum(
        np.where(np.isfinite(third), third, np.inf), 2 * radius + length
    )  # the triangle inequality holds too
    mean_square = float(weights @ np.mean(third**2, axis=1) / np.sum(weights))
    order = np.argsort(third, axis=None)
    cumulative = np.cumsum(
        (weights[:, None] * np.full(cosine.size, 1 / cosine.size)).ravel()[order]
    )
    at = np.minimum(np.searchsorted(cumulative, np.linspace(0.0, 1.0, 401)), order.size - 1)
    table = tuple(float(v) for v in third.ravel()[order][at])
    return TabulatedErrors(
        mean_square,
        "upper bound",
        "hyperbolic comparison triangle, value at the edge of the ball",
        table,
    )


# Edges of the bins of an upper bound, in chance: lengths of noise, and cosines of directions.
_LENGTH_BINS = np.concatenate([np.linspace(0.0, 0.95, 39), 1 - np.geomspace(0.03, 1e-13, 24)])
_TAILS = np.geomspace(1e-6, 0.01, 5)
_COSINE_BINS = np.concatenate(
    [[0.0], _TAILS, np.linspace(0.02, 0.98, 33), 1.0 - _TAILS[::-1], [1.0]]
)
_DISTANCES = 48  # bins of the distance between value and base


@functools.lru_cache(maxsize=256)
@np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore")
def _shrunk_hinge_errors(root: float, radius: float, lengths: ChiErrors) -> TabulatedShrunkErrors:
    """Distribution of the third side of the hyperbolic triangle with sides |a| <= radius and |s|, s
    the James-Stein estimate of a + xi: the worst of all |a|, each of them, the length of xi and its
    direction at the worst of its bin. An upper bound of the mean square and of every quantile.
    """
    from scipy import special

    half = (lengths.dim - 1) / 2
    cosine = 2 * special.betaincinv(half, half, _COSINE_BINS) - 1
    length = np.array([chi_exceeded(lengths.dim, 1 - q) for q in _LENGTH_BINS]) * lengths.sigma
    weights = np.outer(np.diff(_LENGTH_BINS), np.diff(_COSINE_BINS))
    weights /= np.sum(weights)  # what lies beyond 1 - 1e-13 is left out, as elsewhere
    probabilities = np.linspace(0.0, 1.0, 401)
    table, mean_square = np.zeros(401), 0.0
    edges = np.linspace(0.0, radius, _DISTANCES + 1)
    for near, far in itertools.pairwise(edges):
        third = _farthest_ends(root, (near, far), length, cosine, lengths)
        mean_square = max(mean_square, float(np.sum(weights * third**2)))
        order = np.argsort(third, axis=None)
        at = np.searchsorted(np.cumsum(weights.ravel()[order]), probabilities)
        table = np.maximum(table, third.ravel()[order][np.minimum(at, order.size - 1)])
    return TabulatedShrunkErrors(
        mean_square,
        "upper bound",
        "hyperbolic comparison triangle, shrunk, value anywhere in the ball",
        tuple(float(v) for v in table),
        _hinge_errors(lengths.dim, root, radius, lengths),
    )


def _farthest_ends(
    root: float, distances: tuple[float, float], length: Floats, cosine: Floats, lengths: ChiErrors
) -> Floats:
    """The largest third side over each bin of lengths (axis 0) and cosines (axis 1), for any |a|
    between two distances.
    """
    near, far = distances
    short, long, low, high = length[:-1, None], length[1:, None], cosine[:-1], cosine[1:]

    # |a + xi| is convex in |a| and |xi|: largest at a corner, smallest on an edge of the bin
    largest = np.maximum(_third(far, long, high), _third(near, long, high))
    largest = np.maximum(largest, _third(far, short, high))
    by_length = [_third(a, np.clip(-a * low, short, long), low) for a in distances]
    by_distance = [_third(np.clip(-x * low, near, far), x, low) for x in (short, long)]
    smallest = np.minimum(np.minimum(*by_length), np.minimum(*by_distance))
    lost = (lengths.dim - 2) * lengths.sigma**2  # the estimate keeps |y| - lost / |y| of y
    most, least = (np.maximum(y - lost / np.maximum(y, 1e-300), 0.0) for y in (largest, smallest))
    # the angle at the base grows with |xi| / |a|, and where the cosine falls
    widest = (near + long * low) / np.maximum(_third(near, long, low), 1e-300)
    half_angle_squared = np.clip((1.0 - widest) / 2.0, 0.0, 1.0)
    apart = np.maximum(np.abs(far - least), np.abs(most - near))
    across = np.sinh(root * far) * np.sinh(root * most) * half_angle_squared
    third = 2.0 * np.arcsinh(np.sqrt(np.sinh(root * apart / 2.0) ** 2 + across)) / root
    return np.where(np.isfinite(third), np.minimum(third, far + most), far + most)


def _third(a: Floats | float, length: Floats | float, cosine: Floats) -> Floats:
    """Length of the sum of two vectors of these lengths with this cosine between them."""
    return np.sqrt(np.maximum((a + length * cosine) ** 2 + length**2 * (1 - cosine**2), 0.0))


def lengths_of(noise: Noise, scale: float, dim: int) -> ErrorDistribution:
    """Distribution of the length of noise of this scale."""
    errors = laplace_errors if noise.is_pure else gaussian_errors
    return errors(dim, scale, exact=False)
