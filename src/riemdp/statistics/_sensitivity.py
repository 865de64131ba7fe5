"""How far one record can move a Fréchet mean, or the gradient that defines it: public bounds, with
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
from ..privacy._guarantee import ADD_REMOVE, ADJACENCIES, REPLACE_ONE


def frechet_mean_sensitivity(
    manifold: AbstractManifold,
    ball: Ball,
    n: int,
    *,
    tolerance: float = 0.0,
    adjacency: str = "replace-one",
    weights: ArrayLike | None = None,
) -> float:
    """Largest geodesic distance between the Fréchet means of two neighbouring data sets whose
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

    Returns:
        The bound.

    Raises:
        InvalidArgument: The ball is too large for the curvature, or an argument is out of range.

    Source:
        Reimherr2021 Theorem 2; the constants for kappa > 0 follow from Rauch's comparison (the
        logarithm is theta/sin(theta)-Lipschitz, the Hessian of d^2/2 is at least theta cot(theta)).
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
    if not isinstance(ball, Ball):
        raise invalid("ball", ball, "give a riemdp.Ball(center, radius)")
    domain = ball.on(manifold)
    return mean_bound(domain, n, tolerance=tolerance, adjacency=adjacency, weights=weights)


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


def gradient_bound(domain: Domain, n: int, *, adjacency: str, weights: ArrayLike | None) -> float:
    """Largest change, in the metric at w, of grad F(w) = -sum_i w_i log_w(x_i): 2 r max(w), or
    2 r / (n + 1) under add-or-remove-one. On a Hadamard space it holds at every w, because the
    logarithm is 1-Lipschitz; else that times theta / sin(theta), for w in the ball only (outside it
    the change is unbounded near the cut locus).

    Source:
        Han2024 section 5.2 with the corrected constants (grad d^2 = -2 log).
        Proof: docs/proofs/mean-sensitivity.md.
    """
    domain.check_convexity()
    if adjacency == ADD_REMOVE:
        _no_weights(weights)
        return 2 * domain.radius / (n + 1) * over_sin(domain.theta)
    return 2 * domain.radius * _largest_share(n, weights) * over_sin(domain.theta)


def ambient_bound(domain: Domain, n: int, *, adjacency: str, weights: ArrayLike | None) -> float:
    """Largest change of the arithmetic mean in the Frobenius norm. Replace-one: the largest weight
    times a bound of the ambient diameter of the ball. Add-or-remove-one: max(diameter / (n + 1),
    reach / n), reach being the distance of a record from the centre, which takes the place of
    lacking records.

    Source:
        Reimherr2021 Proposition 1 (r_E = e^r - 1) and A.3.2, carried to any public centre.
        Proof: docs/proofs/mean-sensitivity.md.
    """
    if adjacency == REPLACE_ONE:
        return domain.ambient_diameter * _largest_share(n, weights)
    _no_weights(weights)
    return max(domain.ambient_diameter / (n + 1), domain.ambient_reach / n)


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
