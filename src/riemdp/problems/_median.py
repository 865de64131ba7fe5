"""The geometric median as a problem: gradients of length 1, whatever the records are."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .._errors import invalid
from ..manifolds._base import AbstractManifold, Point
from ._problem import Formula, Problem


class Distance(Formula):
    """d(w, z), hashable by its manifold so that equal problems share one compilation."""

    manifold: AbstractManifold = eqx.field(static=True)

    def __call__(self, w: Point, z: Point) -> Any:
        return self.manifold._dist(w, z)


class DistanceGradient(Formula):
    """-log_w(z) / d(w, z), and 0 at w = z."""

    manifold: AbstractManifold = eqx.field(static=True)

    def __call__(self, w: Point, z: Point) -> Any:
        v = self.manifold._log(w, z)
        length = self.manifold._norm(w, v)
        share = jnp.where(length > 0.0, -1.0 / jnp.where(length > 0.0, length, 1.0), 0.0)
        return jax.tree.map(lambda leaf: share * leaf, v)


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
