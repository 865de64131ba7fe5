"""`Domain`: a ball bound to its space, with the constants of comparison geometry that hold in it.

Everything here is a function of public facts. Notation: r is the radius of the ball, kappa the
largest sectional curvature that geodesics between points of the ball can meet, theta = 2 r
sqrt(kappa), h = theta cot(theta) (1 where kappa <= 0).
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from .._errors import InvalidArgument, invalid
from .._isolation import isolated
from .._trees import leaves, map_leaves
from ..manifolds import AbstractManifold, Product
from ..manifolds._base import Point
from ..manifolds._spd import AbstractSPD
from ._clamp import clamp, clamp_flagged, contains, slack
from ._frame import carried_and_clamped, carried_back, framed
from ._sums import streamed_error

T = TypeVar("T")

if TYPE_CHECKING:
    from jaxtyping import Bool

    from .._namespace import Array


def constant(found: Callable[[Any], T]) -> functools.cached_property[T]:
    """A property that is worked out once, and in double precision or not at all."""

    return functools.cached_property(isolated(found))


_FAR = 1e-12  # share of the radius up to which rounding far outside the ball is that of a value


def loses_far(manifold: AbstractManifold) -> bool:
    """Whether float64 loses the logarithm of points far from the center."""
    if isinstance(manifold, Product):
        return any(loses_far(factor) for factor in manifold.manifolds)
    return isinstance(manifold, AbstractSPD)


@dataclasses.dataclass(frozen=True, eq=False)
class Domain:
    """A ball bound to its space: immutable, compared by identity.

    `Ball.on(manifold)` makes one and checks it. The constructor itself checks nothing.

    Args:
        manifold: The space.
        center: A point of it.
        radius: Greater than 0.

    Examples:
        >>> import riemdp
        >>> sphere = riemdp.Sphere(3)
        >>> domain = riemdp.Ball(sphere.origin, 0.5).on(sphere)
        >>> round(domain.strong_convexity, 3), round(domain.convexity_limit, 3)
        (0.642, 0.785)
    """

    manifold: AbstractManifold
    center: Point
    radius: float

    # ------------------------------------------------------------------ moving points
    @isolated
    def clamp(self, records: Point) -> Point:
        """Records (*batch, *shape) moved radially into the ball; see `Ball.clamp`."""
        return clamp(self.manifold, self.center, self.radius, records)

    @isolated
    def contains(self, points: Point) -> Bool[Array, "*batch"]:
        """Whether each point belongs to the manifold and lies within the radius of the center."""
        return contains(self.manifold, self.center, self.radius, points)

    @constant
    def frame(self) -> Frame:
        """The domain as it is seen from its center, where float64 resolves it best."""
        return Frame(self)

    # ------------------------------------------------------------------ constants
    @constant
    def curvature(self) -> float:
        """kappa: the largest sectional curvature that geodesics between points of the ball can
        meet. The space says it (`AbstractManifold._curvature_in_ball`).

        Raises:
            InvalidArgument: There is no upper bound of the curvature in the ball.
        """
        kappa = float(self.manifold._curvature_in_ball(self.center, self.radius))
        if math.isfinite(kappa):
            return kappa
        if self.convexity_limit > 0:
            raise self._too_large()
        raise InvalidArgument(
            f"argument `manifold` = {self.manifold!r} has no upper curvature bound, so no"
            " sensitivity is known; use an optimiser with clipping (DPRGD) instead"
        )

    @constant
    def convexity_limit(self) -> float:
        """The radius below which a ball about the center is convex, holds the one Fréchet mean of
        its points, and has a known sensitivity.

        Infinite on Hadamard spaces, else half of min(injectivity radius, pi / (2 sqrt kappa)),
        unless the space knows better (`AbstractManifold._convexity_limit`).
        """
        return float(self.manifold._convexity_limit(self.center))

    def check_convexity(self) -> None:
        """Raise `InvalidArgument`, with the limit, for a ball that is too large for the
        curvature.
        """
        if not self.radius < self.convexity_limit:
            if not self.convexity_limit > 0:
                _ = self.curvature  # raises, saying that the curvature is unbounded
            raise self._too_large()

    @constant
    def theta(self) -> float:
        """2 r sqrt(kappa), 0 where kappa <= 0."""
        return 2 * self.radius * math.sqrt(max(self.curvature, 0.0))

    @constant
    def strong_convexity(self) -> float:
        """h such that d(., x)^2 / 2 is h-strongly convex on the ball for every x in it: theta
        cot(theta), or 1 for kappa <= 0.

        Raises:
            InvalidArgument: The ball is too large for the curvature, where there is no such h > 0.
        """
        self.check_convexity()
        return 1.0 if self.theta == 0.0 else self.theta / math.tan(self.theta)

    def log_lipschitz(self, base: Point) -> float:
        """Lipschitz constant of log_base on the ball.

        Args:
            base: A public point.

        Returns:
            1 on Hadamard spaces, else R' / sin(R') with R' = R sqrt(kappa), where R is the radius
            of a ball about `base` that holds this one.

        Raises:
            InvalidArgument: `base` is so far off that no bound holds.
        """
        if self.manifold.is_hadamard:
            return 1.0
        offset = float(np.asarray(self.manifold.dist(self.center, base)))
        about_base = Domain(self.manifold, base, self.radius + offset)
        about_base.check_convexity()
        return over_sin(about_base.theta / 2)

    @constant
    def fold(self) -> float:
        """The distance I from the center at which an admitted value becomes the center; infinite
        where curvature is not positive, but of SPD matrices, alone or in a product, only as far as
        float64 resolves: one at distance t may have a condition of e^(sqrt(2) t), or be singular on
        Bures-Wasserstein space, and beyond 1e15 its logarithm is lost.

        A value at distance t moves to min(t, R, I - t), R a hair less than the radius, so that two
        values never move apart.
        Moving what lies outside to the boundary alone takes values near the far side of a sphere
        apart. It needs 2 radius <= I <= pi / sqrt(kappa), kappa on the ball of radius I, and I
        within the injectivity radius.

        Raises:
            InvalidArgument: There is no such I.
        """
        m, center = self.manifold, self.center
        resolved = self._resolved_fold if loses_far(m) else math.inf
        if m.is_hadamard:
            return resolved
        # short of the injectivity radius: a clamp makes the center of what is nearer to it
        reach = (1.0 - 1e-8) * float(np.min(np.asarray(m._injectivity_radius(center))))
        twice = 2.0 * self.radius
        for far in (min(reach, resolved), twice):
            kappa = float(m._curvature_in_ball(center, far))
            bent = math.inf if not math.isfinite(kappa) else far * math.sqrt(max(kappa, 0.0))
            within = far >= twice and (far <= reach or m._is_geodesic)
            if within and bent <= math.pi * (1.0 + 1e-12):
                return far
        raise invalid(
            "ball.radius",
            self.radius,
            f"on {m!r} it must be below half the injectivity radius ({reach / 2:.6g} about this"
            " centre) and pi / (2 sqrt(kappa)), or moving values into the ball would take some of"
            " them farther apart. Remedy: use a smaller radius",
        )

    @property
    def _resolved_fold(self) -> float:
        far = 2.0 * self.radius
        for _ in range(60):
            if not self.manifold._resolution(self.center, 2.0 * far) <= _FAR * self.radius:
                break
            far *= 2.0
        return far

    @constant
    def folded_resolution(self) -> float:
        """Public bound of what rounding adds to that of a value in the ball where one outside,
        short of `fold`, is moved into it: 0 where that is infinite, and infinite where float64 does
        not resolve SPD matrices so far.
        """
        if not math.isfinite(self.fold):
            return 0.0
        far = float(self.manifold._resolution(self.center, self.fold))
        lost = loses_far(self.manifold) and not far <= 10.0 * slack(self.radius)
        return math.inf if lost else far

    @constant
    def ambient_diameter(self) -> float:
        """Bound of the Euclidean (Frobenius) distance of two points of the ball as arrays.

        Raises:
            NotImplementedError: The arrays of the space do not add up (quotients, products).
        """
        return float(self.manifold._ambient_diameter(self.center, self.radius))

    @constant
    def ambient_reach(self) -> float:
        """Bound of the Euclidean (Frobenius) distance of a point of the ball from its center."""
        return float(self.manifold._ambient_reach(self.center, self.radius))

    # ------------------------------------------------------------------ rounding
    @constant
    def resolution(self) -> float:
        """Public bound of what float64 resolves in the ball: of the smallest residual that a mean
        of points of the ball can be solved to, and of the error of its logarithm at the center.
        The space says it (`AbstractManifold._resolution`).
        """
        return float(self.manifold._resolution(self.center, self.radius))

    @constant
    def rounding(self) -> float:
        """Public bound of the rounding error of a mean of points of the ball, seen from the
        center: `resolution`, and that of the sum, however many its terms are.
        """
        return self.resolution + 2 * self.radius * streamed_error()

    @constant
    def is_resolved(self) -> bool:
        """Whether float64 can tell that a value which was moved into the ball is there. Where it
        cannot, the clamp may make the center of one value and not of another, and no rounding error
        is that large. Errors are below a tenth of `resolution`.
        """
        return self.resolution <= 10.0 * slack(self.radius)

    def _too_large(self) -> InvalidArgument:
        why = "half the smaller of the injectivity radius and pi / (2 sqrt(kappa))"
        remedy = "use a smaller radius"
        if math.isinf(self.manifold.curvature_bounds[1]):
            why = "up to which the curvature, unbounded near singular matrices, is small enough"
            remedy += ", or a centre with larger eigenvalues"
        return invalid(
            "ball.radius",
            self.radius,
            f"on {self.manifold!r} the radius must be below {self.convexity_limit:.6g} about this"
            f" centre, {why}; beyond it the Fréchet mean has no known sensitivity. Remedy:"
            f" {remedy}",
        )


_OF_FOLD = ("fold", "folded_resolution")


class DomainOfMeans(Domain):
    """A domain of values that a query has moved into it: none comes from outside, so none is folded
    and no rounding of that is paid for.
    """

    @classmethod
    def of(cls, domain: Domain) -> DomainOfMeans:
        """The same ball, with the constants that have been worked out."""
        made = cls(domain.manifold, domain.center, domain.radius)
        vars(made).update({k: v for k, v in vars(domain).items() if k not in _OF_FOLD})
        return made

    @property
    def fold(self) -> float:  # type: ignore[reportIncompatibleVariableOverride]
        return math.inf


def over_sin(theta: float) -> float:
    """theta / sin(theta), 1 at 0."""
    return 1.0 if theta == 0.0 else theta / math.sin(theta)


@dataclasses.dataclass(frozen=True, eq=False)
class Frame:
    """A domain carried to a well-conditioned place by a public isometry.

    Flat Hadamard spaces (Euclidean, log-Euclidean) are seen in the orthonormal coordinates of the
    logarithm at the center, affine-invariant and hyperbolic spaces with the center carried to the
    origin, products factor by factor. Other spaces stay where they are.

    Args:
        domain: The domain in the user's space.
    """

    domain: Domain

    @constant
    def local(self) -> Domain:
        """The domain in the frame: same radius, same constants."""
        if self.is_identity:
            return self.domain
        manifold, center = framed(self.domain.manifold, self.domain.center)
        return dataclasses.replace(self.domain, manifold=manifold, center=center)

    @constant
    def is_identity(self) -> bool:
        """Whether the domain stays where it is."""
        space, there = framed(self.domain.manifold, self.domain.center)
        return space == self.domain.manifold and all(
            np.array_equal(np.asarray(a), np.asarray(b))
            for a, b in zip(leaves(self.domain.center), leaves(there), strict=True)
        )

    @constant
    def clamp_flagged(self) -> Callable[[Point], tuple[Point, Bool[Array, " n"]]]:
        """A function of records (n, *shape) of the user's space, which carries them into the frame
        and moves them into the ball: to records of `local.manifold`, every one within the radius of
        the center, and for each whether it lay outside the ball or was no point. Both depend on its
        own record only; the flags are as private as the records.
        """
        d, local = self.domain, self.local
        if self.is_identity:
            return functools.partial(clamp_flagged, d.manifold, d.center, d.radius)
        there = local.manifold, local.center, d.radius
        return functools.partial(carried_and_clamped, d.manifold, d.center, *there)

    @isolated
    def back(self, point: Point) -> Point:
        """A released point of the frame, in the user's space: post-processing.

        A point that float64 cannot hold there is drawn towards the center by powers of two, which
        looks at the released point only.
        """
        if self.is_identity:
            return point
        space, manifold = self.local.manifold, self.domain.manifold
        near = point
        for power in range(1, 81):
            found, valid = carried_back(manifold, self.domain.center, near)
            if np.asarray(valid):
                return found
            v = space.log(self.local.center, point)
            shorter = map_leaves(lambda leaf, share=0.5**power: share * leaf, v)
            near = space.exp(self.local.center, shorter)
        return self.domain.center
