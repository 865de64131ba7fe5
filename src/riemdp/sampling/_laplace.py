"""`riemannian_laplace`: exact draws of the distribution with density proportional to
exp(-d(x, eta) / sigma). Never a Markov chain.
"""

from __future__ import annotations

import dataclasses
import math
from functools import lru_cache, singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._errors import InvalidArgument, SlowSamplerWarning, invalid, warn
from .._trees import leaves, map_leaves
from ..manifolds import (
    AbstractManifold,
    Euclidean,
    Grassmann,
    Lorentz,
    PoincareBall,
    Product,
    SPDAffineInvariant,
    SPDBuresWasserstein,
    SPDLogEuclidean,
    Sphere,
)
from ..manifolds._base import Point
from ..randomness import NoiseSource, noise_source
from . import _radial, _spectral
from ._exponential import exponentials_of_directions
from ._far import PublicBall, View, affine_points, hyperbolic_points, widest_ball
from ._points import direction_and_exp

SLOW, HOPELESS = 50.0, 1e7  # expected tries from which a warning, and a refusal, is due
_BLOCK = 1 << 24  # floats of normals drawn at once
_PILOT = 1 << 20  # floats of the draws that tell how many tries a truncated one takes,
_PROPOSED = 1 << 23  # and of what is proposed for them
_TOGETHER = 1 << 20  # floats of such draws that are held at once
_VAIN = 1e-3  # proposals kept of HOPELESS ones, below which no pilot asks how many
_FROM_ORIGIN = View()


# ------------------------------------------------------- does the distribution exist, and its cost
def laplace_scale_limit(manifold: AbstractManifold) -> float:
    """The number below which a scale must lie for the Laplace distribution on the whole space:
    1/(d - 1) on hyperbolic space of dimension d, sqrt(12 / (k (k^2 - 1))) on affine-invariant.

    Returns:
        The limit in units of distance; infinite on flat, compact and Bures-Wasserstein spaces.

    Raises:
        NotImplementedError: No exact sampler is known.
    """
    sampler_of(manifold)
    if isinstance(manifold, Lorentz | PoincareBall):
        return 1 / (manifold.dim - 1) if manifold.dim > 1 else math.inf
    return (
        _spectral.affine_scale_limit(manifold.k)
        if isinstance(manifold, SPDAffineInvariant)
        else math.inf
    )


def check_scale(manifold: AbstractManifold, sigma: float, cutoff: float) -> None:
    """Refuse a scale for which the untruncated distribution does not exist."""
    limit = laplace_scale_limit(manifold)
    if math.isinf(cutoff) and not sigma < limit:
        raise invalid(
            "sigma",
            sigma,
            f"on {manifold!r} the Laplace distribution exists only for sigma < {limit:.6g} (volume"
            " grows faster than the density falls); use a smaller sigma (more records or a larger"
            " epsilon), or give a ball= to truncate it to",
        )


def expected_tries(
    manifold: AbstractManifold, sigma: float, *, eta: Point | None = None, cutoff: float = math.inf
) -> float:
    """Expected number of proposals one exact draw takes, 1 where the distribution is sampled
    directly. A public figure on homogeneous spaces; on Bures-Wasserstein space that of the
    footpoint `eta` given (default: the identity).
    """
    if isinstance(manifold, SPDAffineInvariant):
        return _spectral.expected_tries_affine(manifold.k, float(sigma), float(cutoff))
    pilot: Any = None
    if isinstance(manifold, Grassmann):
        p = min(manifold.r, manifold.m - manifold.r)
        proposal = _spectral.grassmann_proposal(manifold.m, p, float(sigma), float(cutoff))
        source = noise_source(20241)
        r = proposal.hull.draw(source, 256)
        normal = source.normals((256, manifold.m - p, p))
        pilot = proposal.log_ratio(r, _spectral.unit_singular_values(normal, p) * r[:, None])
    if isinstance(manifold, SPDBuresWasserstein):
        at = np.eye(manifold.k) if eta is None else np.asarray(eta)
        pilot = _spectral.BuresProposal(at, float(sigma)).propose(256, noise_source(20242), cutoff)[
            0
        ]
    return 1.0 if pilot is None else 1 / max(float(np.mean(np.exp(np.minimum(pilot, 0.0)))), 1e-300)


def far_probability(manifold: AbstractManifold, sigma: float) -> float:
    """An upper bound on the probability that an untruncated draw lies farther from the footpoint
    than `widest_ball(manifold)`: distances to such draws are not known well enough in float64 to
    accept or reject them.

    Proved, rounding of the bound included, in `AffineProposal.tail` and `hyperbolic_tail`.
    """
    end = widest_ball(manifold)
    if math.isinf(end):
        return 0.0
    if isinstance(manifold, SPDAffineInvariant):
        return _spectral.affine_proposal(manifold.k, float(sigma), math.inf).tail(end)
    return _radial.hyperbolic_tail(manifold.dim, float(sigma), end)


def warn_if_slow(manifold: AbstractManifold, tries: float) -> None:
    """Refuse what would not end, warn of what will take long, both with the number of tries."""
    remedy = (
        "a smaller sigma (more records, a larger epsilon), or a Gaussian mechanism if a delta > 0"
        " is acceptable"
    )
    if tries > HOPELESS:
        many = "far too many" if math.isinf(tries) else f"about {tries:.3g}"
        why = f"exact sampling on {manifold!r} would take {many} tries a draw; use {remedy}"
        raise InvalidArgument(why)
    if tries > SLOW:
        warn(
            f"exact sampling on {manifold!r} takes about {tries:.0f} tries a draw at this scale;"
            f" {remedy} is faster",
            SlowSamplerWarning,
        )


# -------------------------------------------------------------------- draws
def draw(
    manifold: AbstractManifold,
    eta: Point,
    sigma: float,
    count: int,
    source: NoiseSource,
    cutoff: float = math.inf,
    view: View = _FROM_ORIGIN,
) -> Point:
    """`count` exact draws with d(x, eta) <= cutoff (math.inf: the whole distribution), stacked
    along the first axis.

    Draws that float64 cannot hold, or that lie beyond `view.reach` (not on hyperbolic spaces), are
    shortened towards the public point of `view`: a function of the drawn point, which eta does not
    enter.
    """
    sampler = sampler_of(manifold)
    target = _Target(sigma, cutoff, view)
    # a log-Euclidean sampler goes through its draws in blocks itself
    block = max(
        1, count if isinstance(manifold, SPDLogEuclidean) else _BLOCK // max(1, manifold.noise_size)
    )
    parts = [
        sampler(manifold, eta, target, min(block, count - start), source)
        for start in range(0, count, block)
    ]
    if not parts:
        return map_leaves(lambda leaf: np.zeros((0, *np.shape(leaf))), eta)
    return (
        parts[0] if len(parts) == 1 else map_leaves(lambda *leaves: np.concatenate(leaves), *parts)
    )


@dataclasses.dataclass(frozen=True, eq=False)
class Truncation:
    """How the distribution exp(-d(x, eta) / sigma), restricted to a public ball, is drawn; decided
    by public numbers.

    `from_center` False: draw the distribution about eta with radii up to the diameter and keep what
    falls into the ball. True: draw the distribution about the centre c with radii up to that of the
    ball, and keep x with probability exp(-(d(x, eta) - d(x, c) + d(c, eta)) / sigma), which the
    triangle inequality makes at most 1. Both are exact. The first wastes nothing where sigma is
    small beside the ball, the second needs at most exp(2 radius / sigma) proposals wherever eta
    lies.

    `tries` is the expected number of proposals a draw takes for eta on the edge of the ball, where
    it is largest: a pilot run of 16 to 2048 draws from a fixed public seed. Infinite if none of
    them landed inside, or if each of them would take too many proposals for such a run. There is no
    run where that is sure to be so (`_most_kept`).
    """

    ball: PublicBall
    sigma: float
    from_center: bool
    tries: float

    def draw(
        self,
        manifold: AbstractManifold,
        eta: Point,
        count: int,
        source: NoiseSource,
        *,
        warn: bool = False,
    ) -> Point:
        """`count` exact draws for a footpoint in the ball."""
        accepted: list[Point] = []
        have = tried = 0
        tries = _batch_size(math.ceil(1.2 * count))
        while have < count:
            for some in _in_parts(manifold, tries):
                points, keep = self._propose(manifold, eta, some, source)
                accepted.append(map_leaves(lambda leaf, keep=keep: np.asarray(leaf)[keep], points))
                have, tried = have + int(np.sum(keep)), tried + some
            if warn and have < count and tried >= 4096 and tried > SLOW * max(have, 1):
                warn_if_slow(manifold, tried / max(have, 0.5))
                warn = False
            rate = max(have, 1) / tried
            tries = _batch_size(min(1 << 16, math.ceil(1.2 * (count - have) / rate)))
        return map_leaves(lambda *leaves: np.concatenate(leaves)[:count], *accepted)

    def _propose(
        self,
        manifold: AbstractManifold,
        eta: Point,
        tries: int,
        source: NoiseSource,
        *,
        rough: bool = False,
    ) -> tuple[Point, NDArray[np.bool_]]:
        center, radius = self.ball.center, float(self.ball.radius)
        view = View(center, rough=rough)
        if not self.from_center:
            points = draw(manifold, eta, self.sigma, tries, source, 2 * radius, view)
            return points, np.asarray(manifold.dist(center, points)) <= radius
        points = draw(manifold, center, self.sigma, tries, source, radius, view)
        out = np.asarray(manifold.dist(center, points))
        log_ratio = out - np.asarray(manifold.dist(eta, points)) - float(manifold.dist(center, eta))
        accepted = np.log(source.uniforms((tries,))) < log_ratio / self.sigma
        return points, accepted & (out <= radius)


def truncation(manifold: AbstractManifold, sigma: float, ball: PublicBall) -> Truncation:
    """The faster of the two ways to draw the distribution restricted to `ball`.

    Raises:
        InvalidArgument: `ball` is so large that float64 cannot tell which draws lie inside.
    """
    widest = widest_ball(manifold)
    if not ball.radius <= widest:
        raise invalid(
            "ball",
            ball,
            f"a Laplace distribution truncated to a ball on {manifold!r} needs a radius of at most"
            f" {widest:g}, so that float64 can tell which draws lie inside",
        )
    return _truncation(manifold, float(sigma), _Hashed(ball))


class _Hashed:
    """A ball as the key of a cache: the same by value."""

    def __init__(self, ball: PublicBall):
        self.ball = ball
        center = [np.asarray(leaf).tobytes() for leaf in leaves(ball.center)]
        self._key = (float(ball.radius), *center)

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Hashed) and self._key == other._key


@lru_cache(maxsize=256)
def _truncation(manifold: AbstractManifold, sigma: float, hashed: _Hashed) -> Truncation:
    ball = hashed.ball
    radius = float(ball.radius)
    shares = _most_kept(manifold.dim, radius / sigma) if manifold.is_hadamard else (1.0, 1.0)
    if max(shares) * HOPELESS < _VAIN:
        return Truncation(ball, sigma, True, math.inf)
    source = noise_source(20243)
    z = source.normals((manifold.noise_size,))
    v = manifold.tangent_from_normals(ball.center, z)
    factor = 0.999999 * radius / float(manifold.norm(ball.center, v))
    edge = manifold.exp(ball.center, map_leaves(lambda leaf: factor * leaf, v))
    most = max(64, min(2048, _PILOT // manifold.noise_size))
    ways: list[Truncation] = []
    for from_center, cutoff, share in zip((True, False), (radius, 2 * radius), shares, strict=True):
        radial = expected_tries(manifold, sigma, eta=ball.center, cutoff=cutoff)
        pilot = min(
            most, max(64 if radial <= 4.0 else 0, int(_PROPOSED / (radial * manifold.noise_size)))
        )
        tries = math.inf
        # A way whose lengths alone take more tries than the other way is not the faster one.
        faster = not any(way.tries <= radial for way in ways)
        if pilot >= 16 and faster and share * HOPELESS >= _VAIN:
            way = Truncation(ball, sigma, from_center, math.inf)
            kept = sum(
                int(np.sum(way._propose(manifold, edge, some, source, rough=True)[1]))
                for some in _in_parts(manifold, pilot)
            )
            tries = radial * pilot / kept if kept else math.inf
        ways.append(Truncation(ball, sigma, from_center, tries))
        if tries <= 4.0:
            break
    return min(ways, key=lambda way: way.tries)


def _most_kept(dim: int, wide: float) -> tuple[float, float]:
    """The shares of proposals that are kept for eta on the edge of a ball with radius / sigma =
    `wide` on a Hadamard manifold, from the centre and from eta, at most, if all directions are
    equally likely. So they are on flat and hyperbolic spaces. On others the cosine of an angle has
    nearly the same variance, and `_VAIN` leaves room for the rest: what is decided is public, and
    exact draws stay exact.

    A triangle with two sides and the angle t between them has a third side that is at least that of
    the flat one. From the centre, proposals on the edge are the likeliest to be kept, with
    probability exp(-2 wide sin(t / 2)) at most. From eta, a proposal of length 2 radius u lies
    outside unless u <= cos t. Volume makes it longer than a flat one, of density
    u^{d-1} e^{-2 wide u} on [0, 1], which falls below c with probability at most
    c^d e^{2 wide (1 - c)}.
    """
    angle = (np.arange(4000) + 0.5) * (math.pi / 4000)
    size = (dim - 2) * np.log(np.sin(angle))
    c = np.maximum(np.cos(angle), 1e-300)
    inside = np.minimum(0.0, dim * np.log(c) + 2 * wide * (1 - c))
    logs = (-2 * wide * np.sin(angle / 2), np.where(angle < math.pi / 2, inside, -np.inf))
    weight = np.exp(size - np.max(size))
    center, eta = (float(np.sum(weight * np.exp(kept)) / np.sum(weight)) for kept in logs)
    return (center, eta) if dim > 1 else (1.0, 1.0)


@dataclasses.dataclass(frozen=True, eq=False)
class _Target:
    """The distribution exp(-d(x, eta) / sigma) for d(x, eta) <= cutoff, and where far draws are
    shortened to.
    """

    sigma: float
    cutoff: float
    view: View


@singledispatch
def _draw(
    manifold: AbstractManifold, eta: Point, target: _Target, count: int, source: NoiseSource
) -> Point:
    raise NotImplementedError(
        f"no exact Riemannian Laplace sampler is known on {manifold!r}; use a Gaussian mechanism,"
        " or gradient perturbation (riemdp.optimizers)"
    )


def sampler_of(manifold: AbstractManifold) -> Any:
    """The sampler of a space, or NotImplementedError that says why there is none."""
    if isinstance(manifold, Product) and not is_flat(manifold):
        raise NotImplementedError(
            f"{manifold!r}: no exact Riemannian Laplace sampler is known on a product with a curved"
            " factor (the distance couples the factors); release factors separately, or use a"
            " Gaussian mechanism"
        )
    found = _draw.dispatch(type(manifold))
    if found is _draw.dispatch(object):
        found(manifold, None, _Target(1.0, math.inf, _FROM_ORIGIN), 0, noise_source(0))
    return found


@_draw.register(Euclidean)
@_draw.register(Product)
def _(
    manifold: Euclidean | Product, eta: Point, target: _Target, count: int, source: NoiseSource
) -> Point:
    radii = _radial.flat_radii(manifold.dim, target.sigma, count, source, target.cutoff)
    return _by_radius(manifold, eta, radii, count, source)


@_draw.register
def _(
    manifold: SPDLogEuclidean, eta: Point, target: _Target, count: int, source: NoiseSource
) -> Point:
    radii = _radial.flat_radii(manifold.dim, target.sigma, count, source, target.cutoff)
    w, q = np.linalg.eigh(np.asarray(eta))
    return exponentials_of_directions((q * np.log(w)) @ q.T, radii, source)


@_draw.register(Lorentz)
@_draw.register(PoincareBall)
def _(
    manifold: Lorentz | PoincareBall, eta: Point, target: _Target, count: int, source: NoiseSource
) -> Point:
    radii = _radial.hyperbolic_radii(manifold.dim, target.sigma, count, source, target.cutoff)
    z = source.normals((count, manifold.noise_size))
    return hyperbolic_points(manifold, eta, radii, z, target.view)


@_draw.register
def _(manifold: Sphere, eta: Point, target: _Target, count: int, source: NoiseSource) -> Point:
    radii = _radial.sphere_radii(manifold.dim, target.sigma, count, source, target.cutoff)
    return _by_radius(manifold, eta, radii, count, source)


@_draw.register
def _(
    manifold: SPDAffineInvariant, eta: Point, target: _Target, count: int, source: NoiseSource
) -> Point:
    q, w = _spectral.affine_tangents(manifold.k, target.sigma, count, source, target.cutoff)
    return affine_points(np.asarray(eta), q, w, target.view)


@_draw.register
def _(
    manifold: SPDBuresWasserstein, eta: Point, target: _Target, count: int, source: NoiseSource
) -> Point:
    proposal = _spectral.BuresProposal(np.asarray(eta), target.sigma)

    def propose(tries: int) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
        return proposal.propose(tries, source, target.cutoff)

    return _spectral.rejection(count, source, propose, 0.7, 4 * manifold.k**2)[0]


@_draw.register
def _(manifold: Grassmann, eta: Point, target: _Target, count: int, source: NoiseSource) -> Point:
    p = min(manifold.r, manifold.m - manifold.r)
    proposal = _spectral.grassmann_proposal(manifold.m, p, target.sigma, target.cutoff)
    w = np.asarray(eta)

    def propose(tries: int) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
        r = proposal.hull.draw(source, tries)
        z = source.normals((tries, manifold.m, manifold.r))
        u = z - w @ (w.T @ z)
        u /= np.sqrt(np.sum(u * u, axis=(1, 2)))[:, None, None]
        return proposal.log_ratio(r, r[:, None] * _spectral.unit_singular_values(u, p)), (
            r[:, None, None] * u,
        )

    (tangents,) = _spectral.rejection(count, source, propose, 0.7, 2 * manifold.m * manifold.r)
    # a frame of the subspace that does not tell how the frame eta was turned
    return manifold._nearest_frame(manifold.exp(eta, tangents), target.view.center_on(manifold))


# -------------------------------------------------------------------- helpers
def _by_radius(
    manifold: AbstractManifold,
    eta: Point,
    radii: NDArray[np.float64],
    count: int,
    source: NoiseSource,
) -> Point:
    return direction_and_exp(manifold, eta, radii, source.normals((count, manifold.noise_size)))


def is_flat(manifold: AbstractManifold) -> bool:
    """Whether lengths of draws have a Gamma distribution: flat spaces and products of such."""
    if isinstance(manifold, Product):
        return all(is_flat(m) for m in manifold.manifolds)
    return isinstance(manifold, Euclidean | SPDLogEuclidean)


def _in_parts(manifold: AbstractManifold, tries: int) -> list[int]:
    """Sizes of parts, as many draws as are wanted in all, few of them where points are large."""
    most = 1 << max(0, (_TOGETHER // manifold.noise_size).bit_length() - 1)
    whole, rest = divmod(tries, most)
    return [most] * whole + [rest] * (rest > 0)


def _batch_size(tries: int) -> int:
    """At least this many, and one of 16, 64, 256, ..: each shape is compiled once, so there should
    be few.
    """
    return 1 << (2 * max(2, ((tries - 1).bit_length() + 1) // 2))
