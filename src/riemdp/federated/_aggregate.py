"""What the server does with replies: refuse the ones that are no points near x_t, and average the
rest.
"""

from __future__ import annotations

import functools
import math
import numbers
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._errors import one_of
from ..statistics import frechet_mean

_TOLERANCE = 1e-6  # how far, relatively, a reply may be off the manifold (it is projected then)
_INSIDE = 1.0 - 1e-6  # fraction of the injectivity radius within which Log is trusted


def validate_reply(manifold: Any, current: Any, reply: Any, *, weight: float = 1.0) -> bool:
    """Whether an agent's `reply` may enter the average at x_t = `current`. Never raises on what an
    agent sent.

    True if the reply is a float64 array (a tuple of them on a `Product`) of exactly the point's
    shape, finite, on the manifold up to 1e-6, closer to `current` than the injectivity radius
    there, and `weight` is a finite number above 0. A reply is already private, so refusing it
    reveals nothing about a record that it does not.
    """
    if (
        isinstance(weight, bool | np.bool_)
        or not isinstance(weight, numbers.Real)
        or not 0 < float(weight) < math.inf
    ):
        return False
    point = as_point(manifold, current, reply)
    if point is None:
        return False
    return bool(_near_and_on(manifold, manifold._coerce("current", current), point))


def as_point(manifold: Any, current: Any, reply: Any) -> Any:
    """The reply as float64 arrays of the point's own structure, or None."""
    wanted = jax.tree.map(np.shape, current, is_leaf=lambda x: not isinstance(x, tuple))
    if isinstance(current, tuple) != isinstance(reply, tuple):
        return None
    if isinstance(reply, tuple):
        if len(reply) != len(current):
            return None
        parts = [
            as_point(m, c, r) for m, c, r in zip(manifold.manifolds, current, reply, strict=True)
        ]
        return None if any(p is None for p in parts) else tuple(parts)
    if (
        not isinstance(reply, np.ndarray | jax.Array)
        or reply.dtype != np.float64
        or reply.shape != wanted
    ):
        return None
    array = np.asarray(reply)
    return jnp.asarray(array) if np.all(np.isfinite(array)) else None


@functools.partial(jax.jit, static_argnums=0)
def _near_and_on(manifold: Any, current: Any, point: Any) -> Any:
    on = manifold._belongs(point, _TOLERANCE)
    step = manifold._log(current, point)
    distance = manifold._norm(current, step)
    finite = jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(step)]))
    return on & finite & (distance < _INSIDE * manifold._injectivity_radius(current))


def aggregate(
    manifold: Any,
    current: Any,
    replies: Sequence[Any],
    weights: Sequence[float],
    how: str = "tangent-mean",
) -> Any:
    """Average valid replies into the next point; `current` itself if there are none.

    **Arguments.** `replies`: points that `validate_reply` accepted; `weights`: positive numbers
    (normalised here). `how`: "tangent-mean", Exp_x(sum_i p_i Log_x x_i) with x = `current`
    (Huang2024 Definition of the tangent mean), or "frechet-mean". A result that is not finite or
    not on the manifold is refused too, and `current` returned.
    """
    one_of("aggregate", how, ("tangent-mean", "frechet-mean"))
    here = manifold._coerce("current", current)
    if not replies:
        return here
    stacked = jax.tree.map(
        lambda *leaves: jnp.stack([jnp.asarray(leaf) for leaf in leaves]), *replies
    )
    p = np.asarray(weights, dtype=np.float64)
    p = jnp.asarray(p / p.sum())
    if how == "tangent-mean":
        moved = _tangent_mean(manifold, here, stacked, p)
    else:
        moved = frechet_mean(manifold, manifold.project(stacked), weights=p).value
    good = all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in jax.tree.leaves(moved))
    return moved if good and bool(manifold.belongs(moved, _TOLERANCE)) else here


@functools.partial(jax.jit, static_argnums=0)
def _tangent_mean(manifold: Any, current: Any, stacked: Any, p: Any) -> Any:
    steps = manifold._log(current, manifold._project(stacked))
    mean = jax.tree.map(lambda v: jnp.tensordot(p, v, axes=1), steps)
    return manifold._exp(current, mean)
