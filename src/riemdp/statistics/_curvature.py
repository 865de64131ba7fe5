"""Curvature inside a public ball, how large such a ball may be, and the constants of comparison
geometry that follow.

Everything here is a function of public facts. Notation: r is the radius of the ball, kappa the
largest sectional curvature that geodesics between points of the ball can meet, theta = 2 r
sqrt(kappa), h = theta cot(theta) (1 where kappa <= 0).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._errors import InvalidArgument, invalid

# A ball of radius r about W is fine on Bures-Wasserstein space while 2 r sqrt(kappa) < pi / 2,
# kappa = 3 / (s - r)^2 with s = sqrt(s1^2 + s2^2): that is r < s * (pi / 2) / (2 sqrt 3 + pi / 2).
_BURES_WASSERSTEIN_SHARE = (math.pi / 2) / (2 * math.sqrt(3) + math.pi / 2)


class Domain:
    """A centre and a radius (the ball of one factor of a product, or a ball about another centre)."""

    def __init__(self, center: Any, radius: float):
        self.center, self.radius = center, radius


def curvature_in_ball(manifold: Any, ball: Any) -> float:
    """Largest sectional curvature that geodesics between points of the ball can meet, from public
    facts alone.

    Bures-Wasserstein: 3 / (sqrt(s1^2 + s2^2) - r)^2, s1 <= s2 the two smallest square roots of
    eigenvalues of the centre. A product: the largest of its factors, each with the same radius
    about its part of the centre. Elsewhere: the space's bound.
    """
    if hasattr(
        manifold, "manifolds"
    ):  # a product: sectional curvature is at most the largest of its factors, or 0
        parts = [
            curvature_in_ball(m, Domain(c, float(ball.radius)))
            for m, c in zip(manifold.manifolds, ball.center, strict=True)
        ]
        return max([0.0, *parts])
    if is_bures_wasserstein(manifold):
        return _bures_wasserstein_curvature(manifold, ball)
    upper = float(manifold.curvature_bounds[1])
    if math.isinf(upper):
        raise InvalidArgument(
            f"argument `manifold` = {manifold!r} has no upper curvature bound, so no sensitivity is"
            " known; use an optimiser with clipping (DPRGD) instead"
        )
    return upper


def _bures_wasserstein_curvature(manifold: Any, ball: Any) -> float:
    """Two facts, proved here, and the pointwise bound K <= 3 / (l_1 + l_2) (l_1 <= l_2 the two
    smallest eigenvalues).

    1. sum_i (sqrt l_i(A) - sqrt l_i(B))^2 <= d(A, B)^2, eigenvalues in order. Since d^2 = tr A + tr
       B - 2 max over orthogonal Q of tr(A^1/2 B^1/2 Q), and tr(X Y) <= sum of products of ordered
       singular values (von Neumann), the last term is at most 2 sum_i sqrt(l_i(A) l_i(B)). So at
       distance at most r from the centre the pair (sqrt l_1, sqrt l_2) is within r of (s1, s2),
       hence l_1 + l_2 >= (sqrt(s1^2 + s2^2) - r)^2.
    2. Geodesics between points of the ball stay in it. Let c be the centre and f = d(c, .)^2 / 2,
       which is smooth (any two SPD matrices are joined by one minimising geodesic, in closed form).
       While R sqrt(kappa(R)) < pi / 2, where kappa(R) is the bound of fact 1 in the ball of radius
       R, Hessian comparison makes f strictly convex there. By continuity this holds for some R > r.
       Draw two points of the ball in to c along their radii: the geodesic between them depends
       continuously on them, starts as the point c, and whenever it lies in the ball of radius R
       convexity puts it into the ball of radius r. So its largest distance from c cannot pass
       through the values between r and R, and never leaves.
    """
    roots = _smallest_roots(ball.center)
    if roots.size == 1:  # isometric to a half-line
        return 0.0
    r, s = float(ball.radius), math.hypot(*roots)
    if not r < s:
        raise _too_large(manifold, ball, convexity_limit(manifold, ball.center))
    return 3.0 / (s - r) ** 2


def convexity_limit(manifold: Any, center: Any) -> float:
    """The radius below which a ball about `center` is convex, holds the one Frechet mean of its
    points, and has a known sensitivity: infinite on Hadamard spaces, else half of min(injectivity
    radius, pi / (2 sqrt kappa)).

    Bures-Wasserstein: the r at which 2 r sqrt(kappa) reaches pi / 2, .31199 sqrt(s1^2 + s2^2), and
    not above s1 (beyond which the ball is not inside the space). A product: the smallest of its
    factors' limits.
    """
    if manifold.is_hadamard:
        return math.inf
    if hasattr(manifold, "manifolds"):
        return min(convexity_limit(m, c) for m, c in zip(manifold.manifolds, center, strict=True))
    if is_bures_wasserstein(manifold):
        roots = _smallest_roots(center)
        smallest = float(roots[0])
        return (
            smallest
            if roots.size == 1
            else min(smallest, _BURES_WASSERSTEIN_SHARE * math.hypot(*roots))
        )
    kappa = curvature_in_ball(manifold, Domain(center, 0.0))
    convex = math.inf if kappa <= 0 else math.pi / (2 * math.sqrt(kappa))
    return min(float(np.min(np.asarray(manifold.injectivity_radius(center)))), convex) / 2


def check_convexity(manifold: Any, ball: Any) -> None:
    """Raise `InvalidArgument`, with the limit, for a ball that is too large for the curvature."""
    limit = convexity_limit(manifold, ball.center)
    if not ball.radius < limit:
        raise _too_large(manifold, ball, limit)


def strong_convexity(manifold: Any, ball: Any) -> float:
    """h such that d(., x)^2 / 2 is h-strongly convex on the ball for every x in it: theta
    cot(theta), or 1 for kappa <= 0.

    Raises `InvalidArgument` if the ball is too large for the curvature, where there is no such h >
    0.
    """
    check_convexity(manifold, ball)
    theta = 2 * float(ball.radius) * math.sqrt(max(curvature_in_ball(manifold, ball), 0.0))
    return 1.0 if theta == 0.0 else theta / math.tan(theta)


def log_lipschitz(manifold: Any, ball: Any, base: Any) -> float:
    """Lipschitz constant of log_base on the ball: 1 on Hadamard spaces, else R' / sin(R') with R' =
    R sqrt(kappa), where R is the radius of a ball about `base` that holds the public ball. Refuses
    a base so far off that no bound holds.
    """
    if manifold.is_hadamard:
        return 1.0
    offset = float(np.asarray(manifold.dist(ball.center, base)))
    about_base = Domain(base, float(ball.radius) + offset)
    check_convexity(manifold, about_base)
    return over_sin(
        about_base.radius * math.sqrt(max(curvature_in_ball(manifold, about_base), 0.0))
    )


def over_sin(theta: float) -> float:
    """theta / sin(theta), 1 at 0."""
    return 1.0 if theta == 0.0 else theta / math.sin(theta)


def is_bures_wasserstein(manifold: Any) -> bool:
    return type(manifold).__name__ == "SPDBuresWasserstein"


def _smallest_roots(center: Any) -> np.ndarray:
    """Square roots of the two smallest eigenvalues (of the one, for 1 x 1 matrices), in order."""
    return np.sqrt(np.maximum(np.linalg.eigvalsh(np.asarray(center, dtype=np.float64))[:2], 0.0))


def _too_large(manifold: Any, ball: Any, limit: float) -> InvalidArgument:
    why, remedy = (
        "half the smaller of the injectivity radius and pi / (2 sqrt(kappa))",
        "use a smaller radius",
    )
    if _holds_bures(manifold):
        why = "up to which the curvature, unbounded near singular matrices, is small enough"
        remedy += ", or a centre with larger eigenvalues"
    return invalid(
        "ball.radius",
        float(ball.radius),
        f"on {manifold!r} the radius must be below {limit:.6g} about this centre, {why}; beyond it"
        f" the Frechet mean has no known sensitivity. Remedy: {remedy}",
    )


def _holds_bures(manifold: Any) -> bool:
    return is_bures_wasserstein(manifold) or any(
        _holds_bures(m) for m in getattr(manifold, "manifolds", ())
    )
