"""How far one record can move a Frechet mean, or the gradient that defines it: public bounds, with their conditions checked.

Everything here is a function of public facts (the space, a public ball, the number of records, public weights, the public
tolerance of the solver). Records never enter. Notation: r is the radius of the ball, kappa the largest sectional curvature
that matters inside it, theta = 2 r sqrt(kappa), h = theta cot(theta) (1 where kappa <= 0).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._errors import InvalidArgument, integer, invalid, one_of, real

ADJACENCIES = ("replace-one", "add-or-remove-one")
CONSTANTS = ("tight", "reimherr2021", "han2024")


def frechet_mean_sensitivity(manifold: Any, ball: Any, n: int, *, tolerance: float = 0.0, adjacency: str = "replace-one",
                             weights: Any = None, constant: str = "tight") -> float:
    """Largest geodesic distance between the Frechet means of two neighbouring data sets whose records lie in `ball`.

    Formulas (r = ball.radius, theta = 2 r sqrt(kappa), h = theta cot(theta)):

    - Hadamard space, replace-one: 2 r / n; attained by collinear records. Add-or-remove-one: 2 r / (n + 1), n being the size
      of the smaller data set (give a public lower bound of it).
    - kappa > 0, replace-one: min(2 r, 2 r / (n cos theta)); add-or-remove-one: min(2 r, 2 r / ((n + 1) h)). Valid for
      r < min(injectivity radius, pi / (2 sqrt kappa)) / 2 and a mean inside the ball (clamp it).
    - public weights w (normalised to sum 1): 2 r max(w) takes the place of 2 r / n.
    - a mean known only up to |grad F| <= tolerance, F = 1/2 sum w_i d^2: 2 tolerance / h is added.

    **Arguments:**

    - `manifold`, `ball`: the space and the public domain (`Ball(center, radius)`).
    - `n`: number of records, at least 1 (a public number).
    - `tolerance`: the solver's *public* tolerance on |grad F|, at least 0. Never the residual that was realised: noise that
      depends on a residual depends on the data.
    - `adjacency`: "replace-one" or "add-or-remove-one".
    - `weights`: None, or n public non-negative weights (replace-one only).
    - `constant`: "tight" (default), or a looser published constant for reproduction only: "reimherr2021" (Theorem 2:
      2 r (2 - h) / (n h), 2 r / n where kappa <= 0), "han2024" (Remarks 4 and 5: the same with the diameter 2 r for the radius).

    **Errors:** `InvalidArgument` if the ball is too large for the curvature, or an argument is out of range.

    Source: Reimherr2021 Theorem 2; the constants for kappa > 0 follow from Rauch's comparison (the logarithm is
    theta/sin(theta)-Lipschitz, the Hessian of d^2/2 is at least theta cot(theta)).
    """
    n = integer("n", n)
    tolerance = real("tolerance", tolerance, at_least=0.0)
    one_of("adjacency", adjacency, ADJACENCIES)
    one_of("constant", constant, CONSTANTS)
    r, kappa = float(ball.radius), curvature_in_ball(manifold, ball)
    _check_convexity(manifold, ball, kappa)
    h = strong_convexity(manifold, ball)
    share = _largest_share(n, weights, adjacency)
    if constant != "tight":
        delta = _published(constant, r, kappa, share)
    elif kappa <= 0:
        delta = 2 * r * share
    elif adjacency == "replace-one":
        delta = 2 * r * share / math.cos(2 * r * math.sqrt(kappa))
    else:
        delta = 2 * r * share / h
    delta += 2 * tolerance / h
    # On a positively curved space the mean is required to lie in the ball, so no two means are further apart than 2 r.
    return min(delta, 2 * r) if kappa > 0 and constant == "tight" else delta


def mean_gradient_sensitivity(manifold: Any, ball: Any, n: int, *, weights: Any = None) -> float:
    """Largest change, in the metric at w, of grad F(w) = -sum_i w_i log_w(x_i) when one record of `ball` is replaced.

    Hadamard: 2 r / n at *every* w, because the logarithm is 1-Lipschitz. kappa > 0: (2 r / n) theta / sin(theta), for w in the
    ball only (outside it the change is unbounded near the cut locus). F = 1/(2n) sum d^2 without weights.

    Source: Han2024 section 5.2 with the corrected constants (grad d^2 = -2 log).
    """
    n = integer("n", n)
    r, kappa = float(ball.radius), curvature_in_ball(manifold, ball)
    _check_convexity(manifold, ball, kappa)
    theta = 2 * r * math.sqrt(max(kappa, 0.0))
    return 2 * r * _largest_share(n, weights, "replace-one") * _over_sin(theta)


def ambient_mean_sensitivity(manifold: Any, ball: Any, n: int, *, weights: Any = None) -> float:
    """Replace-one sensitivity, in the ambient Euclidean (Frobenius) norm, of the arithmetic mean of records of `ball`.

    It is 1/n (or the largest weight) times a bound of the ambient diameter of the ball: 2 r (Euclidean), 2 sin r (sphere, r <
    pi/2),
    2 lambda_max(centre) (e^r - 1) (SPD affine-invariant and log-Euclidean), 2 (2 s r + r^2) with s = sqrt(lambda_max) (SPD
    Bures-Wasserstein), r at most 2 (Poincare ball), 2 (e^r - 1) sqrt(2 c_0^2 - 1), c_0 the centre's time coordinate (Lorentz).
    `NotImplementedError` on quotients and products, where ambient representatives do not add up.

    Source: Reimherr2021 Proposition 1 (r_E = e^r - 1) and A.3.2, carried to any public centre.
    """
    n = integer("n", n)
    return _ambient_diameter(manifold, ball) * _largest_share(n, weights, "replace-one")


def _ambient_diameter(manifold: Any, ball: Any) -> float:
    r, kind = float(ball.radius), type(manifold).__name__
    center = np.zeros(1) if isinstance(ball.center, tuple) else np.asarray(ball.center, dtype=np.float64)
    if kind == "Euclidean":
        return 2 * r
    if kind == "Sphere" or (kind == "Stiefel" and manifold.r == 1):
        return 2 * math.sin(r) if r < math.pi / 2 else 2.0
    if kind in ("SPDAffineInvariant", "SPDLogEuclidean"):
        return 2 * float(np.linalg.eigvalsh(center)[-1]) * math.expm1(r)
    if kind == "SPDBuresWasserstein":
        return 2 * (2 * math.sqrt(float(np.linalg.eigvalsh(center)[-1])) * r + r * r)
    if kind == "PoincareBall":
        return min(r, 2.0)
    if kind == "Lorentz":
        return 2 * math.expm1(r) * math.sqrt(2 * float(center[0]) ** 2 - 1)
    raise NotImplementedError(f"{manifold!r} has no ambient mean: its representatives do not add up; use an intrinsic mechanism")


def strong_convexity(manifold: Any, ball: Any) -> float:
    """h such that d(., x)^2 / 2 is h-strongly convex on the ball for every x in it: theta cot(theta), or 1 for kappa <= 0."""
    theta = 2 * float(ball.radius) * math.sqrt(max(curvature_in_ball(manifold, ball), 0.0))
    return 1.0 if theta == 0.0 else theta / math.tan(theta)


def log_lipschitz(manifold: Any, ball: Any, base: Any) -> float:
    """Lipschitz constant of log_base on the ball: 1 on Hadamard spaces, else R' / sin(R') with R' = R sqrt(kappa), where R is
    the radius of a ball about `base` that holds the public ball. Refuses a base so far off that no bound holds."""
    if manifold.is_hadamard:
        return 1.0
    offset = float(np.asarray(manifold.dist(ball.center, base)))
    about_base = _Domain(base, float(ball.radius) + offset)
    kappa = curvature_in_ball(manifold, about_base)
    _check_convexity(manifold, about_base, kappa)
    return _over_sin(about_base.radius * math.sqrt(max(kappa, 0.0)))


def curvature_in_ball(manifold: Any, ball: Any) -> float:
    """Largest sectional curvature that geodesics between points of the ball can meet, from public facts alone.

    Bures-Wasserstein: 3 / ((s1 - 2 r)^2 + (s2 - 2 r)^2), s1 <= s2 the two smallest square roots of eigenvalues of the centre;
    it needs 2 r < s1. A product: the largest of its factors, each with the same radius about its part of the centre.
    """
    if hasattr(manifold, "manifolds"):  # a product: sectional curvature is at most the largest of its factors, or 0
        parts = [curvature_in_ball(m, _Domain(c, float(ball.radius)))
                 for m, c in zip(manifold.manifolds, ball.center, strict=True)]
        return max([0.0, *parts])
    if type(manifold).__name__ == "SPDBuresWasserstein":
        return _bures_wasserstein_curvature(manifold, ball)
    upper = float(manifold.curvature_bounds[1])
    if math.isinf(upper):
        raise InvalidArgument(f"argument `manifold` = {manifold!r} has no upper curvature bound, so no sensitivity is known; "
                              "use an optimiser with clipping (DPRGD) instead")
    return upper


class _Domain:
    """A centre and a radius (the ball of one factor of a product, or a ball about another centre)."""

    def __init__(self, center: Any, radius: float):
        self.center, self.radius = center, radius


def _bures_wasserstein_curvature(manifold: Any, ball: Any) -> float:
    roots = np.sqrt(np.linalg.eigvalsh(np.asarray(ball.center, dtype=np.float64)))
    if roots.size == 1:
        return 0.0
    r = float(ball.radius)
    if not 2 * r < roots[0]:
        raise invalid("ball", ball.radius, f"on {manifold!r} the radius must be below half the square root of the smallest "
                      f"eigenvalue of the centre, here {roots[0] / 2:.6g}, for the curvature to be bounded; use a smaller "
                      "ball or a centre with larger eigenvalues")
    # |sqrt lambda_i(A) - sqrt lambda_i(B)| <= d(A, B), and geodesics between points of B_r stay in B_2r.
    return 3.0 / ((roots[0] - 2 * r) ** 2 + (roots[1] - 2 * r) ** 2)


def _check_convexity(manifold: Any, ball: Any, kappa: float) -> None:
    if manifold.is_hadamard:
        return
    limit = math.inf if kappa <= 0 else math.pi / (2 * math.sqrt(kappa))
    if _is_bures_wasserstein_like(manifold):
        limit /= 2  # 2 r below the radius of injectivity was required for the curvature bound already
    else:
        limit = min(float(np.min(np.asarray(manifold.injectivity_radius(ball.center)))), limit) / 2
    if not ball.radius < limit:
        raise invalid("ball", ball.radius, f"on {manifold!r} (curvature up to {kappa:.4g}) the radius must be below "
                      f"{limit:.6g}, half the smaller of the injectivity radius and pi / (2 sqrt(kappa)); beyond it the "
                      "Frechet mean need not be unique and has no known sensitivity")


def _is_bures_wasserstein_like(manifold: Any) -> bool:
    return type(manifold).__name__ == "SPDBuresWasserstein"


def _over_sin(theta: float) -> float:
    return 1.0 if theta == 0.0 else theta / math.sin(theta)


def _published(constant: str, r: float, kappa: float, share: float) -> float:
    reach = r if constant == "reimherr2021" else 2 * r
    theta = 2 * r * math.sqrt(max(kappa, 0.0))  # both papers take h at the diameter of the domain
    h = 1.0 if theta == 0.0 else theta / math.tan(theta)
    return 2 * reach * share * (2 - h) / h


def _largest_share(n: int, weights: Any, adjacency: str) -> float:
    if weights is None:
        return 1.0 / n if adjacency == "replace-one" else 1.0 / (n + 1)
    w = public_weights(weights, n)
    if adjacency != "replace-one":
        raise invalid("adjacency", adjacency, 'public weights belong to a fixed list of records; use "replace-one"')
    return float(np.max(w))


def public_weights(weights: Any, n: int) -> np.ndarray:
    """The n public weights of the records, checked and normalised to sum 1."""
    try:
        w = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise invalid("weights", weights, "give n non-negative real numbers") from error
    if w.shape != (n,) or not np.all(np.isfinite(w)) or np.any(w < 0) or not np.sum(w) > 0:
        raise invalid("weights", weights, f"give one finite, non-negative weight for each of the {n} records, not all zero")
    return w / np.sum(w)
