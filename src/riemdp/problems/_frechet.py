"""Fréchet means and geometric medians as problems: of points of any manifold, and with public
weights on hyperbolic space.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from .._errors import InvalidArgument, integer, invalid, one_of, real
from ..domains import Ball
from ..manifolds import Lorentz, PoincareBall
from ..manifolds._base import AbstractManifold, Point
from ._problem import Formula, Problem, Record


@dataclass(frozen=True)
class SquaredDistance(Formula):
    """d(w, z)^2, hashable by its manifold so that equal problems share one compilation."""

    manifold: AbstractManifold

    def __call__(self, w: Point, z: Point) -> Any:
        return self.manifold._squared_dist(w, z)


@dataclass(frozen=True)
class SquaredDistanceGradient(Formula):
    """-2 log_w(z)."""

    manifold: AbstractManifold

    def __call__(self, w: Point, z: Point) -> Any:
        return jax.tree.map(lambda v: -2.0 * v, self.manifold._log(w, z))


@dataclass(frozen=True)
class Weighted(Formula):
    """A loss or a gradient of a record y, times its weight, for a pair (weight, y)."""

    of: Callable[[Point, Record], Any]

    def __call__(self, w: Point, z: tuple[Any, Record]) -> Any:
        weight, y = z
        return jax.tree.map(lambda v: weight * v, self.of(w, y))


@dataclass(frozen=True)
class Distance(Formula):
    """d(w, z), hashable by its manifold so that equal problems share one compilation."""

    manifold: AbstractManifold

    def __call__(self, w: Point, z: Point) -> Any:
        return self.manifold._dist(w, z)


@dataclass(frozen=True)
class DistanceGradient(Formula):
    """-log_w(z) / d(w, z), and 0 at w = z."""

    manifold: AbstractManifold

    def __call__(self, w: Point, z: Point) -> Any:
        v = self.manifold._log(w, z)
        length = self.manifold._norm(w, v)
        share = jnp.where(length > 0.0, -1.0 / jnp.where(length > 0.0, length, 1.0), 0.0)
        return jax.tree.map(lambda leaf: share * leaf, v)


def _hessian_bound(lowest_curvature: float, diameter: float | None) -> float:
    """Largest eigenvalue of the Hessian of d^2 at distance `diameter`: 2 x coth x, x =
    sqrt(-kappa_min) * diameter.
    """
    if not math.isfinite(lowest_curvature):
        return 2.0
    root = math.sqrt(max(0.0, -lowest_curvature))
    if root == 0.0:
        return 2.0
    x = 1.0 if diameter is None else max(root * diameter, 1e-6)
    return 2.0 * x / math.tanh(x)


def _convexity(manifold: AbstractManifold, ball: Ball | None) -> float | None:
    """Smallest eigenvalue of the Hessian of d^2 inside the ball: 2 on Hadamard spaces, 2 x cot x
    elsewhere; None if unknown.
    """
    if manifold.is_hadamard:
        return 2.0
    if ball is None:
        return None
    try:
        return 2.0 * ball.on(manifold).strong_convexity
    except InvalidArgument:  # a ball beyond the convexity radius, where no bound holds
        return None


def frechet_mean(manifold: AbstractManifold, *, ball: Ball | None = None) -> Problem:
    """The Fréchet mean: loss d(w, z)^2, gradient -2 log_w(z) of norm 2 d(w, z), on any manifold
    that has `log`. On Bures-Wasserstein this is the barycentre of centred Gaussians.

    The problem states: smoothness 2 x coth(x) with x = sqrt(-kappa_min) * 2r, and 2 on
    non-negatively curved spaces (without a ball x = 1); convexity 2 on Hadamard spaces, 2 x cot(x)
    with x = sqrt(kappa_max) * 2r in a ball elsewhere (None without one); lipschitz 4r, the largest
    gradient norm while the iterate is in the ball (None without a ball).

    Args:
        manifold: The space.
        ball: Where the records live, public. `sensitivity="domain"` becomes available: records are
            clamped to it, and the replace-one sensitivity of the mean gradient is 2 * 2r / n at
            every point of a Hadamard space.

    Source:
        Han2024 sections 5.2, 5.3 with the factors 2 restored (grad d^2 = -2 log).
    """
    if not isinstance(manifold, AbstractManifold):
        raise invalid(
            "manifold", manifold, "give a riemdp manifold, for example riemdp.SPDLogEuclidean(5)"
        )
    diameter = None if ball is None else 2.0 * float(ball.radius)
    smoothness = _hessian_bound(manifold.curvature_bounds[0], diameter)
    return Problem(
        manifold,
        SquaredDistance(manifold),
        gradient=SquaredDistanceGradient(manifold),
        smoothness=smoothness,
        convexity=_convexity(manifold, ball),
        lipschitz=None if diameter is None else 2.0 * diameter,
        ball=ball,
        record_lipschitz=None if ball is None else 2.0,
        record_shape=manifold.shape,
        condition=smoothness / 2.0 * 1.5,
    )


def geometric_median(manifold: AbstractManifold) -> Problem:
    """The geometric median: loss d(w, z), gradient -log_w(z) / d(w, z), on any manifold that has
    `log`.

    A gradient has length 1, or 0 where w = z or where there is none, so the mean of n gradients
    moves by at most 2/n when a record is replaced: no ball is needed, and nothing is clipped by
    clip_norm = 1, the problem's `lipschitz`. No smoothness is stated, because there is none near a
    record: give a learning rate that falls, as `riemdp.private_geometric_median` does.

    Args:
        manifold: The space.

    Raises:
        InvalidArgument: `manifold` is no manifold.

    Source:
        Fletcher, Venkatasubramanian and Joshi 2009 (the median on manifolds).

    Examples:
        >>> import numpy as np, riemdp
        >>> problem = riemdp.problems.geometric_median(riemdp.Euclidean(2))
        >>> g = problem.riemannian_gradient(np.zeros(2), np.array([3.0, 4.0]))
        >>> [round(float(x), 6) for x in g]
        [-0.6, -0.8]
    """
    if not isinstance(manifold, AbstractManifold):
        raise invalid(
            "manifold", manifold, "give a riemdp manifold, for example riemdp.SPDLogEuclidean(5)"
        )
    return Problem(
        manifold,
        Distance(manifold),
        gradient=DistanceGradient(manifold),
        lipschitz=1.0,
        record_shape=manifold.shape,
    )


def hyperbolic_prediction(
    n: int, *, model: str = "lorentz", protects: str = "labels", diameter: float | None = None
) -> Problem:
    """Hyperbolic structured prediction with public features: loss alpha d(w, y)^2 for records
    (alpha, y).

    The prediction for a query is the weighted Fréchet mean of the labels y_i in hyperbolic space,
    with kernel-ridge weights alpha = (K + gamma I)^{-1} k(x) of the features. The data of a run is
    the tuple (alpha, Y) of shapes (n,) and (n, *shape); `prediction_weights` computes alpha.

    Args:
        n: As in `Lorentz(n)`, or `PoincareBall(n)` for model="poincare".
        model: "lorentz" or "poincare".
        protects: "labels". Anything else is refused: changing one feature vector moves every weight
            (in our check one record moved the others by 1.45 out of a total of 11.1), so clipping
            per record does not protect (x_i, y_i) pairs, contrary to Han2024 section 5.4.
        diameter: A public bound D on d(w, y), for the smoothness 2 max|alpha| D coth D. The factor
            max|alpha| is yours to multiply in when weights exceed 1.

    Guarantee:
        The optimiser's, for the LABELS only: neighbours differ in one y_i. The weights enter as
        public numbers, so the features must be public.

    Source:
        Proof: docs/proofs/optimisers.md.
    """
    n = integer("n", n, at_least=1 if model == "poincare" else 2)
    one_of("model", model, ("lorentz", "poincare"))
    if protects != "labels":
        raise InvalidArgument(
            f"argument `protects` = {protects!r} is not available: the kernel weights of every"
            " record depend on all features, so replacing one (feature, label) pair moves all"
            " terms of the sum. Use protects='labels' with public features."
        )
    manifold = Lorentz(n) if model == "lorentz" else PoincareBall(n)
    reach = None if diameter is None else real("diameter", diameter, above=0.0)
    return Problem(
        manifold,
        Weighted(SquaredDistance(manifold)),
        gradient=Weighted(SquaredDistanceGradient(manifold)),
        smoothness=_hessian_bound(-1.0, reach),
        lipschitz=None if reach is None else 2.0 * reach,
        record_shape=((), manifold.shape),
        protects="the labels (features and kernel weights are public)",
    )


def prediction_weights(
    features: ArrayLike, query: ArrayLike, *, bandwidth: float = 0.2, regularisation: float = 1e-5
) -> np.ndarray:
    """Kernel ridge weights alpha = (K + gamma I)^{-1} k(x) of PUBLIC features, Gaussian kernel.

    The features are read without noise: nothing protects them.

    Args:
        features: (n, r).
        query: (r,).
        bandwidth: Of the kernel.
        regularisation: gamma.

    Source:
        Han2024 section 5.4 (bandwidth 0.2, gamma 1e-5 there).
    """
    from scipy.linalg import cho_factor, cho_solve  # 0.1 s, for this function alone

    x = np.asarray(features, dtype=np.float64)
    q = np.asarray(query, dtype=np.float64)
    if x.ndim != 2 or x.shape[0] == 0 or not np.all(np.isfinite(x)):
        raise invalid("features", features, "give a finite, non-empty array of shape (n, r)")
    if q.shape != x.shape[1:] or not np.all(np.isfinite(q)):
        raise invalid("query", query, f"give a finite vector of length {x.shape[1]}")
    width = real("bandwidth", bandwidth, above=0.0)
    gamma = real("regularisation", regularisation, above=0.0)
    squares = np.sum(x**2, axis=1)
    gram = np.exp(-np.maximum(squares[:, None] + squares[None] - 2 * x @ x.T, 0.0) / (2 * width**2))
    at_query = np.exp(-np.sum((x - q) ** 2, axis=1) / (2 * width**2))
    return np.asarray(cho_solve(cho_factor(gram + gamma * np.eye(len(x))), at_query))
