"""The radial clamp that makes a sensitivity hold whatever the records are."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..manifolds import AbstractManifold
from ..manifolds._base import Point, Tangent

# A record this close to the equations of the space is carried onto it; anything farther is not a
# point of the space.
LOOSE, TIGHT = 1e-6, 1e-10
ENTRIES = 1 << 21  # numbers clamped at a time
_INSIDE = 1.0 - 1e-12  # clamped records land a hair inside, so that rounding never puts one outside
# A clamped record whose computed distance exceeds the radius by more than this, relative and
# absolute, goes to the center.
_SLACK = 1e-6, 1e-14


def _expand(flag: Array, leaf: Array) -> Array:
    return flag.reshape(flag.shape + (1,) * (leaf.ndim - flag.ndim))


def _choose(flag: Array, yes: Point, no: Point) -> Point:
    return jax.tree.map(
        lambda a, b: jnp.where(_expand(flag, jnp.broadcast_arrays(a, b)[0]), a, b), yes, no
    )


def _all_finite(batch: int, x: Point) -> Array:
    flags = [
        jnp.all(jnp.isfinite(leaf), axis=tuple(range(batch, leaf.ndim)))
        for leaf in jax.tree.leaves(x)
    ]
    return functools.reduce(jnp.logical_and, flags)


@functools.partial(jax.jit, static_argnums=0)
def clamp(manifold: AbstractManifold, center: Point, radius: Any, x: Point) -> Point:
    """Records moved radially into the ball.

    Many records are handled in parts, because the work space is several times the input.
    """
    if len(manifold._batch_shape(x)) != 1:
        return _clamp_batch(manifold, center, radius, x)
    (n,) = manifold._batch_shape(x)
    size = max(1, n // max(1, sum(leaf.size for leaf in jax.tree.leaves(x)) // ENTRIES)) if n else 0
    if size >= n:
        return _clamp_batch(manifold, center, radius, x)

    def body(i: Any, out: Any) -> Any:
        first = jnp.minimum(
            i * size, n - size
        )  # the last part overlaps the one before it; both read `x`
        part = jax.tree.map(lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, first, size), x)
        done = _clamp_batch(manifold, center, radius, part)
        return jax.tree.map(
            lambda to, leaf: jax.lax.dynamic_update_slice_in_dim(to, leaf, first, 0), out, done
        )

    return jax.lax.fori_loop(0, -(-n // size), body, jax.tree.map(jnp.zeros_like, x))


def _clamp_batch(manifold: AbstractManifold, center: Point, radius: Any, x: Point) -> Point:
    safe, distance, v, valid = _polar(manifold, center, x)
    inside = distance <= radius
    scale = jnp.where(inside, 0.0, _INSIDE * radius / jnp.where(inside, 1.0, distance))

    def move(_: Any) -> tuple[Point, Array]:
        moved = manifold._exp(center, jax.tree.map(lambda leaf: _expand(scale, leaf) * leaf, v))
        usable = valid & _all_finite(scale.ndim, moved)
        moved = _choose(usable, moved, center)
        # Far from the center float64 may not hold the end of the geodesic: nothing but the result
        # itself says that it is a point, and that the ball was reached.
        most = radius if manifold._is_geodesic else radius * (1.0 + _SLACK[0]) + _SLACK[1]
        reached = manifold._belongs(moved, TIGHT) & (manifold._dist(center, moved) <= most)
        return _choose(inside, safe, moved), valid & (inside | (usable & reached))

    def stay(_: Any) -> tuple[Point, Array]:
        return jax.tree.map(lambda a, b: jnp.broadcast_to(a, b.shape), safe, v), valid

    kept, valid = jax.lax.cond(jnp.all(inside | ~valid), stay, move, None)
    return _choose(valid, kept, center)


@functools.partial(jax.jit, static_argnums=0)
def contains(manifold: AbstractManifold, center: Point, radius: Any, x: Point) -> Array:
    """Whether each record is a point within `radius` of the center."""
    _, distance, _, valid = _polar(manifold, center, x)
    return valid & (distance <= radius)


def _polar(
    manifold: AbstractManifold, center: Point, x: Point
) -> tuple[Point, Array, Tangent, Array]:
    """Each record with its distance and direction from the center, and whether it is a point short
    of the cut locus.
    """
    batch = len(manifold._batch_shape(x))
    finite = _all_finite(batch, x)
    safe = _choose(finite, x, center)
    loose = manifold._belongs(safe, LOOSE)
    safe = _choose(loose, safe, center)
    tight = manifold._belongs(safe, TIGHT)
    # Records off by more than rounding (stored in float32, say) are projected; the branch is
    # skipped when there are none.
    safe = jax.lax.cond(
        jnp.all(tight), lambda y: y, lambda y: _choose(tight, y, manifold._project(y)), safe
    )
    v = manifold._log(center, safe)
    distance = manifold._norm(center, v)
    usable = jnp.isfinite(distance) & _all_finite(batch, v)
    if not manifold._is_geodesic:
        usable &= distance < manifold._injectivity_radius(center) * (1 - 1e-9)
    valid = finite & loose & usable
    return (
        safe,
        jnp.where(valid, distance, jnp.inf),
        _choose(usable, v, jax.tree.map(jnp.zeros_like, v)),
        valid,
    )
