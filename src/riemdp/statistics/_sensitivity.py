"""How far one record can move a Frechet mean, or the gradient that defines it: public bounds, with
their conditions checked.

Everything here is a function of public facts (the space, a public ball, the number of records,
public weights, the public tolerance of the solver). Records never enter. Notation: r is the radius
of the ball, kappa the largest sectional curvature that matters inside it, theta = 2 r sqrt(kappa),
h = theta cot(theta) (1 where kappa <= 0).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from .._errors import integer, invalid, one_of, real
from ..domains import Ball, Domain
from ..domains._domain import over_sin
from ..manifolds import AbstractManifold

REPLACE_ONE, ADD_REMOVE = ADJACENCIES = ("replace-one", "add-or-remove-one")
CONSTANTS = ("tight", "reimherr2021", "han2024")

__all__ = [
    "ADD_REMOVE",
    "ADJACENCIES",
    "CONSTANTS",
    "REPLACE_ONE",
    "ambient_mean_sensitivity",
    "frechet_mean_sensitivity",
    "mean_gradient_sensitivity",
    "public_weights",
    "strong_convexity",
]


def frechet_mean_sensitivity(
    manifold: AbstractManifold,
    ball: Ball,
    n: int,
    *,
    tolerance: float = 0.0,
    adjacency: str = "replace-one",
    weights: ArrayLike | None = None,
    constant: str = "tight",
) -> float:
    """Largest geodesic distance between the Frechet means of two neighbouring data sets whose
    records lie in `ball`.

    Formulas (r = ball.radius, theta = 2 r sqrt(kappa), h = theta cot(theta)):

    - replace-one, n records. Hadamard space: 2 r / n; attained by collinear records. kappa > 0:
      min(2 r, 2 r / (n cos theta)).
    - public weights w (normalised to sum 1), replace-one: 2 r max(w) takes the place of 2 r / n.
    - add-or-remove-one, where the number of records is itself private and n is a *public lower
      bound* of it: a data set with fewer than n records is filled up with copies of the centre of
      the ball, so the bound holds for every data set, the empty one too. Hadamard space: 2 r / (n +
      1); attained. kappa > 0: min(2 r, r max(2 / (n + 1), theta / (n sin theta)) / h). It holds as
      well for records with weights in [0, 1] of their own, n bounding their total (which is filled
      up likewise).
    - a mean known only up to |grad F| <= tolerance, F = 1/2 sum w_i d^2: 2 tolerance / h is added.

    For kappa > 0 it is valid for r < min(injectivity radius, pi / (2 sqrt kappa)) / 2 and a mean
    inside the ball (clamp it). Rounding is not in it: `FrechetMean(...).sensitivity` adds that.

    Args:
        manifold: The space.
        ball: The public domain, `Ball(center, radius)`.
        n: Number of records (replace-one), or the public lower bound of it (add-or-remove-one), at
            least 1.
        tolerance: The solver's *public* tolerance on |grad F|, at least 0. Never the residual that
            was realised: noise that depends on a residual depends on the data.
        adjacency: "replace-one" or "add-or-remove-one".
        weights: None, or n public non-negative weights (replace-one only).
        constant: "tight" (default), or a looser published constant for reproduction only,
            replace-one: "reimherr2021" (Theorem 2: 2 r (2 - h) / (n h), 2 r / n where kappa <= 0),
            "han2024" (Remarks 4 and 5: the same with the diameter 2 r for the radius).

    Returns:
        The bound.

    Raises:
        InvalidArgument: The ball is too large for the curvature, or an argument is out of range.

    Source:
        Reimherr2021 Theorem 2; the constants for kappa > 0 follow from Rauch's comparison (the
        logarithm is theta/sin(theta)-Lipschitz, the Hessian of d^2/2 is at least theta cot(theta));
        add-or-remove-one is proved in a comment.
        Proof: docs/proofs/mean-sensitivity.md.

    Examples:
        >>> import riemdp
        >>> line = riemdp.Euclidean(1)
        >>> riemdp.frechet_mean_sensitivity(line, riemdp.Ball(line.origin, 1.0), 100)
        0.02
    """
    n = integer("n", n)
    tolerance = real("tolerance", tolerance, at_least=0.0)
    one_of("adjacency", adjacency, ADJACENCIES)
    one_of("constant", constant, CONSTANTS)
    if constant == "tight":
        return mean_bound(
            bound(manifold, ball), n, tolerance=tolerance, adjacency=adjacency, weights=weights
        )
    if adjacency != REPLACE_ONE:
        raise invalid(
            "constant", constant, 'the published constants are for "replace-one"; use "tight"'
        )
    domain = bound(manifold, ball)
    domain.check_convexity()
    share = _largest_share(n, weights)
    delta = _published(constant, domain.radius, domain.curvature, share)
    return delta + 2 * tolerance / domain.strong_convexity


def mean_bound(
    domain: Domain, n: int, *, tolerance: float, adjacency: str, weights: ArrayLike | None
) -> float:
    """The formulas of `frechet_mean_sensitivity`, of checked arguments."""
    domain.check_convexity()
    r, h, theta = domain.radius, domain.strong_convexity, domain.theta
    if adjacency == ADD_REMOVE:
        _no_weights(weights)
        delta = r * max(2 / (n + 1), over_sin(theta) / n) / h
    else:
        delta = 2 * r * _largest_share(n, weights) / math.cos(theta)
    delta += 2 * tolerance / h
    # On a positively curved space the mean is required to lie in the ball, so no two means are
    # further apart than 2 r.
    return min(delta, 2 * r) if theta > 0 else delta


# Why 2 r / (n + 1) under add-or-remove-one, filling up included. Let D have total weight W, and D'
# one record x of weight v <= 1 more. Mean and gradient belong to the probability measure of the
# records and of max(0, n - W) of weight at the centre c.
#
# Both at least n: turning one measure into the other moves the share v / (W + v) <= 1 / (n + 1) by
# at most 2 r. Both below n: the share v / n from c to x, at most r: r / n <= 2 r / (n + 1). In
# between, with a = n - W < v lacking: the records' shares shrink from 1 / n to 1 / (n - a + v),
# which moves (n - a)(v - a) / (n (n - a + v)) by 2 r, and a / n moves from c by r. The first term
# is convex in a (with u = n - a it is (u - n + n v / (u + v)) / n), so the sum is largest at an
# end, a = 0 or a = v: the two cases before.
#
# On a Hadamard space the mean moves no farther than the measure does (in the Wasserstein-1
# distance), and the gradient at any point neither. For kappa > 0 the gradient of D' at the mean of
# D is |a log c - v log x| / (n - a + v) in the tangent space there, at most ((v - a) 2 r + a r
# theta / sin theta) / (n - a + v): a quotient of linear functions of a, so again largest at an end,
# 2 r / (n + 1) or r (theta / sin theta) / n; dividing by h bounds the distance of the means.


def mean_gradient_sensitivity(
    manifold: AbstractManifold,
    ball: Ball,
    n: int,
    *,
    weights: ArrayLike | None = None,
    adjacency: str = "replace-one",
) -> float:
    """Largest change, in the metric at w, of grad F(w) = -sum_i w_i log_w(x_i) between neighbouring
    data sets in `ball`.

    Hadamard: 2 r / n (replace-one) or 2 r / (n + 1) (add-or-remove-one, n as in
    `frechet_mean_sensitivity`) at *every* w, because the logarithm is 1-Lipschitz. kappa > 0: that
    times theta / sin(theta), for w in the ball only (outside it the change is unbounded near the
    cut locus). F = 1/(2n) sum d^2 without weights; public weights, replace-one: max(w) in the place
    of 1/n.

    Args:
        manifold: The space.
        ball: The public domain.
        n: Number of records, or the public lower bound of it.
        weights: None, or n public non-negative weights (replace-one only).
        adjacency: "replace-one" or "add-or-remove-one".

    Returns:
        The bound.

    Raises:
        InvalidArgument: The ball is too large for the curvature, or an argument is out of range.

    Source:
        Han2024 section 5.2 with the corrected constants (grad d^2 = -2 log).
        Proof: docs/proofs/mean-sensitivity.md.

    Examples:
        >>> import riemdp
        >>> space = riemdp.SPDAffineInvariant(2)
        >>> ball = riemdp.Ball(space.origin, 1.0)
        >>> riemdp.statistics.mean_gradient_sensitivity(space, ball, 100)
        0.02
    """
    n = integer("n", n)
    one_of("adjacency", adjacency, ADJACENCIES)
    return gradient_bound(bound(manifold, ball), n, adjacency=adjacency, weights=weights)


def gradient_bound(domain: Domain, n: int, *, adjacency: str, weights: ArrayLike | None) -> float:
    """The formulas of `mean_gradient_sensitivity`, of checked arguments."""
    domain.check_convexity()
    if adjacency == ADD_REMOVE:
        _no_weights(weights)
        return 2 * domain.radius / (n + 1) * over_sin(domain.theta)
    return 2 * domain.radius * _largest_share(n, weights) * over_sin(domain.theta)


def ambient_mean_sensitivity(
    manifold: AbstractManifold,
    ball: Ball,
    n: int,
    *,
    weights: ArrayLike | None = None,
    adjacency: str = "replace-one",
) -> float:
    """Sensitivity, in the ambient Euclidean (Frobenius) norm, of the arithmetic mean of records of
    `ball`.

    Replace-one: 1/n (or the largest weight) times a bound of the ambient diameter of the ball: 2 r
    (Euclidean), 2 sin r (sphere, r < pi/2), 2 lambda_max(centre) (e^r - 1) (SPD affine-invariant
    and log-Euclidean), 2 (2 s r + r^2) with s = sqrt(lambda_max) (SPD Bures-Wasserstein), r at most
    2 (Poincare ball), 2 (e^r - 1) sqrt(2 c_0^2 - 1), c_0 the centre's time coordinate (Lorentz).
    Add-or-remove-one (n as in `frechet_mean_sensitivity`): max(diameter / (n + 1), reach / n),
    reach being half the diameter, or 2 sin(r / 2) on the sphere and at most 2 in the Poincare ball:
    the distance of a record from the centre, which takes the place of lacking records.

    Args:
        manifold: The space.
        ball: The public domain.
        n: Number of records, or the public lower bound of it.
        weights: None, or n public non-negative weights (replace-one only).
        adjacency: "replace-one" or "add-or-remove-one".

    Returns:
        The bound.

    Raises:
        NotImplementedError: The space is a quotient or a product, where arrays do not add up.

    Source:
        Reimherr2021 Proposition 1 (r_E = e^r - 1) and A.3.2, carried to any public centre.
        Proof: docs/proofs/mean-sensitivity.md.

    Examples:
        >>> import riemdp
        >>> sphere = riemdp.Sphere(3)
        >>> ball = riemdp.Ball(sphere.origin, 0.5)
        >>> round(riemdp.statistics.ambient_mean_sensitivity(sphere, ball, 100), 6)
        0.009589
    """
    n = integer("n", n)
    one_of("adjacency", adjacency, ADJACENCIES)
    return ambient_bound(bound(manifold, ball), n, adjacency=adjacency, weights=weights)


def ambient_bound(domain: Domain, n: int, *, adjacency: str, weights: ArrayLike | None) -> float:
    """The formulas of `ambient_mean_sensitivity`, of checked arguments."""
    if adjacency == REPLACE_ONE:
        return domain.ambient_diameter * _largest_share(n, weights)
    _no_weights(weights)
    return max(domain.ambient_diameter / (n + 1), domain.ambient_reach / n)


def strong_convexity(manifold: AbstractManifold, ball: Ball) -> float:
    """The largest known h such that d(., x)^2 / 2 is h-strongly convex on the ball for every x in
    it: theta cot(theta) with theta = 2 r sqrt(kappa), and 1 where kappa <= 0.

    Args:
        manifold: The space.
        ball: The public domain.

    Returns:
        h, above 0 and at most 1.

    Raises:
        InvalidArgument: The ball is too large for the curvature, so that no such h > 0 is known.

    Source:
        Rauch's comparison theorem, as in Reimherr2021 Theorem 2.

    Examples:
        >>> import riemdp
        >>> sphere = riemdp.Sphere(3)
        >>> h = riemdp.statistics.strong_convexity(sphere, riemdp.Ball(sphere.origin, 0.5))
        >>> round(h, 4)
        0.6421
    """
    return bound(manifold, ball).strong_convexity


def bound(manifold: AbstractManifold, ball: Ball) -> Domain:
    """The ball as a domain of the space."""
    if not isinstance(ball, Ball):
        raise invalid("ball", ball, "give a riemdp.Ball(center, radius)")
    return ball.on(manifold)


def _published(constant: str, r: float, kappa: float, share: float) -> float:
    reach = r if constant == "reimherr2021" else 2 * r
    theta = 2 * r * math.sqrt(max(kappa, 0.0))  # both papers take h at the diameter of the domain
    h = 1.0 if theta == 0.0 else theta / math.tan(theta)
    return 2 * reach * share * (2 - h) / h


def _largest_share(n: int, weights: ArrayLike | None) -> float:
    return 1.0 / n if weights is None else float(np.max(public_weights(weights, n)))


def _no_weights(weights: ArrayLike | None) -> None:
    if weights is not None:
        raise invalid(
            "weights",
            weights,
            "under add-or-remove-one a record brings its own weight in [0, 1], and `n` bounds the "
            "total from below; leave `weights` out here",
        )


def public_weights(weights: ArrayLike, n: int) -> np.ndarray:
    """The n public weights of the records, checked and normalised to sum 1."""
    try:
        w = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise invalid("weights", weights, "give n non-negative real numbers") from error
    if w.shape != (n,) or not np.all(np.isfinite(w)) or np.any(w < 0) or not np.max(w) > 0:
        raise invalid(
            "weights",
            weights,
            f"give one finite, non-negative weight for each of the {n} records, not all zero",
        )
    w = w / np.max(w)  # first, so that the sum cannot overflow
    return w / np.sum(w)
