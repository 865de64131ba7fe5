"""What the server does with replies: it refuses those that are no points near x_t, and averages
the rest; or it takes a step along the sum of words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._errors import one_of
from .._isolation import isolated
from .._namespace import is_jax
from .._trees import leaves, map_leaves
from ..manifolds import AbstractManifold, Product
from ..manifolds._base import Point
from ..optimizers._kernels import repaired
from ..optimizers._plan import plan_optimizer
from ..statistics import frechet_mean
from ._prirfed import PriRFed
from ._shared_sum import Integers, SharedSum, center_gradient

_TOLERANCE = 1e-6  # how far, relatively, a reply may be off the manifold (it is projected then)
_INSIDE = 1.0 - 1e-6  # fraction of the injectivity radius within which Log is trusted


@isolated
def validate_reply(manifold: AbstractManifold, current: Point, reply: object) -> bool:
    """Whether an agent's reply may enter the average. Never raises on what an agent sent.

    A reply is already private, so refusing it reveals nothing about a record that it does not.

    Args:
        manifold: The space.
        current: The point x_t of the round.
        reply: What the agent sent.

    Returns:
        True if the reply is a float64 array (a tuple of them on a `Product`) of exactly the point's
        shape, finite, on the manifold up to 1e-6, and closer to `current` than the injectivity
        radius there.

    Examples:
        >>> import numpy as np, riemdp
        >>> north, east = np.eye(3)[2], np.eye(3)[0]
        >>> riemdp.federated.validate_reply(riemdp.Sphere(3), north, east)
        True
        >>> riemdp.federated.validate_reply(riemdp.Sphere(3), north, -north)
        False
    """
    point = as_point(manifold, current, reply)
    if point is None:
        return False
    return bool(_near_and_on(manifold, manifold._coerce("current", current), point))


@isolated
def as_point(manifold: AbstractManifold, current: Point, reply: object) -> Any:
    """The reply as float64 arrays of the point's own structure, or None."""
    wanted = map_leaves(np.shape, current)
    if isinstance(current, tuple) != isinstance(reply, tuple):
        return None
    if isinstance(reply, tuple):
        if len(reply) != len(current) or not isinstance(manifold, Product):
            return None
        parts = [
            as_point(m, c, r) for m, c, r in zip(manifold.manifolds, current, reply, strict=True)
        ]
        return None if any(p is None for p in parts) else tuple(parts)
    if not (isinstance(reply, np.ndarray) or is_jax(reply)):
        return None
    array = np.asarray(reply)
    if array.dtype != np.float64 or array.shape != wanted:
        return None
    return array if np.all(np.isfinite(array)) else None


def _near_and_on(manifold: AbstractManifold, current: Point, point: Point) -> np.ndarray:
    step = manifold._log(current, point)
    if not all(np.all(np.isfinite(leaf)) for leaf in leaves(step)):
        return np.asarray(False)
    near = manifold._norm(current, step) < _INSIDE * manifold._injectivity_radius(current)
    return np.asarray(manifold._belongs(point, _TOLERANCE)) & np.asarray(near)


@isolated
def aggregate(
    manifold: AbstractManifold,
    current: Point,
    replies: Sequence[Point],
    weights: Sequence[float],
    how: str = "tangent-mean",
) -> Point:
    """Average valid replies into the next point.

    Args:
        manifold: The space.
        current: The point x_t of the round.
        replies: Points that `validate_reply` accepted.
        weights: Positive numbers p_i; they are normalised here.
        how: "tangent-mean", Exp_x(sum_i p_i Log_x x_i) with x = `current`, or "frechet-mean", the
            weighted Fréchet mean of the replies.

    Returns:
        The average; `current` if there are no replies, or if the average is not a finite point of
        the space.

    Source:
        Huang2024, definition of the tangent mean.
    """
    one_of("aggregate", how, ("tangent-mean", "frechet-mean"))
    here = manifold._coerce("current", current)
    if not replies:
        return here
    stacked = map_leaves(lambda *some: np.stack([np.asarray(leaf) for leaf in some]), *replies)
    p = np.asarray(weights, dtype=np.float64)
    p = np.asarray(p / p.sum())
    if how == "tangent-mean":
        moved = _tangent_mean(manifold, here, stacked, p)
    else:
        moved = frechet_mean(manifold, manifold.project(stacked), weights=p).value
    good = all(bool(np.all(np.isfinite(leaf))) for leaf in leaves(moved))
    return moved if good and bool(manifold.belongs(moved, _TOLERANCE)) else here


def _tangent_mean(
    manifold: AbstractManifold, current: Point, stacked: Point, p: np.ndarray
) -> Point:
    steps = manifold._log(current, manifold._project(stacked))
    mean = map_leaves(lambda v: np.tensordot(p, v, axes=1), steps)
    return manifold._exp(current, mean)


@isolated
def moved_by_sum(
    prirfed: PriRFed, shared: SharedSum, current: Point, total: Integers, records: int
) -> Point | None:
    """The next point, one step along the noisy mean of all gradients of `records`, or None where
    the `total` of the words has no sum: some party used other masks. A finite point of the space;
    post-processing of the sum.
    """
    problem, local = prirfed.problem, prirfed.local
    ball = problem.ball if local.is_confined else None
    coordinates = shared.value(total, records * prirfed.clip)
    if coordinates is None:
        return None
    mean = coordinates / records
    if ball is not None:
        mean = mean + center_gradient(problem, current)
    plan: Any = plan_optimizer(problem, records, local, None, noise_std=shared.sigma)
    manifold = problem.manifold
    step = manifold.from_coordinates(current, -float(plan.rates[0]) * mean)
    carry = manifold.exp if local.update == "exp" else manifold.retract
    point = repaired(manifold, carry(current, step))
    if ball is not None:
        point = ball.on(manifold).clamp(point)
    return point if bool(manifold.belongs(point, 1e-6)) else None
