"""The radial clamp that makes a sensitivity hold whatever the records are."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array

from .._programs import compiled
from ..manifolds import AbstractManifold
from ..manifolds._base import Point
from ._radial import holds_ball, radially

# A record this close to the equations of the space is carried onto it; anything farther is not a
# point of the space.
LOOSE, TIGHT = 1e-6, 1e-10
ENTRIES = 1 << 21  # numbers clamped at a time
_ROWS, _ALIKE = 1 << 10, 1 << 14  # records, and numbers, that `alike` takes at a time
INSIDE = 1.0 - 1e-12  # clamped records land a hair inside, so that rounding never puts one outside
# A clamped record whose computed distance exceeds the radius by more than this, relative and
# absolute, goes to the center.
_SLACK = 1e-6, 1e-14


def slack(radius: float) -> float:
    """How far outside the ball a point that was moved into it may seem to be."""
    return radius * _SLACK[0] + _SLACK[1]


def _expand(flag: Array, leaf: Array) -> Array:
    return flag.reshape(flag.shape + (1,) * (leaf.ndim - flag.ndim))


def choose(flag: Array, yes: Point, no: Point) -> Point:
    """`yes` where the flag of a record is set, else `no`."""
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
def clamp(manifold: AbstractManifold, center: Point, radius: float | Array, x: Point) -> Point:
    """Records moved radially into the ball."""
    return in_parts(manifold, lambda part: flagged_batch(manifold, center, radius, part)[0], x)


def clamp_one(manifold: AbstractManifold, center: Point, radius: float | Array, x: Point) -> Point:
    """One point moved radially into the ball."""
    known = _known_to_hold(manifold, center, radius)
    return (_one_of_held if known else _one)(manifold, center, radius, x)


def clamp_flagged(
    manifold: AbstractManifold, center: Point, radius: float | Array, x: Point
) -> tuple[Point, Array]:
    """Records moved radially into the ball, and which of them lay outside or were no points."""
    known = _known_to_hold(manifold, center, radius)
    return (_flagged_of_held if known else _flagged)(manifold, center, radius, x)


def _known_to_hold(manifold: AbstractManifold, center: Point, radius: float | Array) -> bool:
    """Whether this is known before a program is compiled, which then needs no second half."""
    holds = holds_ball(manifold, center, radius, _SLACK[0] * radius)
    return not isinstance(holds, Tracer) and bool(holds)


@compiled(0)
def _one(manifold: AbstractManifold, center: Point, radius: float | Array, x: Point) -> Point:
    return flagged_batch(manifold, center, radius, x)[0]


@compiled(0)
def _one_of_held(
    manifold: AbstractManifold, center: Point, radius: float | Array, x: Point
) -> Point:
    return flagged_batch(manifold, center, radius, x, held=True)[0]


@compiled(0)
def _flagged(
    manifold: AbstractManifold, center: Point, radius: float | Array, x: Point
) -> tuple[Point, Array]:
    return in_parts(manifold, lambda part: flagged_batch(manifold, center, radius, part), x)


@compiled(0)
def _flagged_of_held(
    manifold: AbstractManifold, center: Point, radius: float | Array, x: Point
) -> tuple[Point, Array]:
    return in_parts(manifold, lambda part: flagged_batch(manifold, center, radius, part, True), x)


def moving(
    manifold: AbstractManifold, center: Point, radius: float, x: Point
) -> tuple[Point, Array]:
    """`clamp_flagged` as a plain function, which can be sent to another process."""
    return clamp_flagged(manifold, center, radius, x)


def in_parts(manifold: AbstractManifold, f: Callable[[Point], Any], x: Point) -> Any:
    """f of the records, one part of them at a time where they are many: the work space of a clamp
    is several times its input.
    """
    if len(manifold._batch_shape(x)) != 1:
        return f(x)
    (n,) = manifold._batch_shape(x)
    size = max(1, n // max(1, sum(leaf.size for leaf in jax.tree.leaves(x)) // ENTRIES)) if n else 0
    if size >= n:
        return f(x)

    def body(i: Array, out: Point) -> Any:
        # the last part overlaps the one before it; both read `x`
        first = jnp.minimum(i * size, n - size)
        part = jax.tree.map(lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, first, size), x)
        return jax.tree.map(
            lambda to, leaf: jax.lax.dynamic_update_slice_in_dim(to, leaf, first, 0), out, f(part)
        )

    shapes = jax.eval_shape(f, x)
    start = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    return jax.lax.fori_loop(0, -(-n // size), body, start)


def flagged_batch(
    manifold: AbstractManifold, center: Point, radius: float | Array, x: Point, held: bool = False
) -> tuple[Point, Array]:
    """Records moved radially into the ball, all at once, and which of them lay outside or were no
    points: a private flag of each record, from that record alone. `held`: the ball is known to be
    held (`holds_ball`).
    """
    safe, distance, at, valid = _polar(manifold, center, x)
    inside = distance <= radius
    scale = jnp.where(inside, 0.0, INSIDE * radius / jnp.where(inside, 1.0, distance))

    # Every record goes through the same operations: how long a clamp takes does not tell whether
    # one of them lay outside.
    moved = at(scale)
    usable = valid & _all_finite(scale.ndim, moved)
    moved = choose(usable, moved, center)
    # Far from the center float64 may not hold the end of the geodesic: nothing but the result
    # itself says that it is a point, and that the ball was reached.
    reached = manifold._belongs(moved, TIGHT)
    if not held:
        most = radius * (1.0 + _SLACK[0]) + _SLACK[1]
        reached &= jax.lax.cond(
            holds_ball(manifold, center, radius, _SLACK[0] * radius),
            lambda y: jnp.ones(scale.shape, bool),
            lambda y: manifold._dist(center, y) <= most,
            moved,
        )
    kept = choose(inside, safe, moved)
    valid &= inside | (usable & reached)
    return choose(valid, kept, center), ~inside


def alike(move: Callable[[Point], Any], x: Point) -> Any:
    """`move` of the records, by one program of one public size, whatever their number.

    A program of another size rounds in another order. Where one more record changed the size, all
    records that lie on a limit would cross it together: the edge of the ball, or the error up to
    which a record counts as a point of the space.
    """
    found, n = _by_parts(move, x)
    return jax.tree.map(lambda *parts: jnp.concatenate(parts)[:n], *found)


def alike_on_host(move: Callable[[Point], Any], x: Point) -> Any:
    """`alike`, as NumPy arrays: no program at all has a size that follows the number of records."""
    found, n = _by_parts(move, x)
    return jax.tree.map(lambda *parts: np.concatenate([np.asarray(p) for p in parts])[:n], *found)


def _by_parts(move: Callable[[Point], Any], x: Point) -> tuple[list[Any], int]:
    """`move` of parts of one public size, the last one filled up with NaN; how many are none."""
    x = jax.tree.map(np.asarray, x)
    leaves = jax.tree.leaves(x)
    n, entries = len(leaves[0]), sum(int(np.prod(leaf.shape[1:])) for leaf in leaves)
    rows = min(_ROWS, 1 << max(0, (_ALIKE // max(1, entries)).bit_length() - 1))

    def part(leaf: Any, start: int) -> np.ndarray:
        given = leaf[start : start + rows]
        filling = np.full((rows - len(given), *given.shape[1:]), np.nan)
        # No array of JAX's: with `jax_debug_nans` it refuses to make one of a NaN.
        return np.concatenate([given, filling])

    found = [
        move(jax.tree.map(functools.partial(part, start=start), x))
        for start in range(0, max(n, 1), rows)
    ]
    return found, n


@functools.partial(jax.jit, static_argnums=0)
def contains(manifold: AbstractManifold, center: Point, radius: float | Array, x: Point) -> Array:
    """Whether each record is a point within `radius` of the center."""
    _, distance, _, valid = _polar(manifold, center, x)
    return valid & (distance <= radius)


def readable(manifold: AbstractManifold, center: Point, x: Point) -> tuple[Point, Array]:
    """(records, flags): each record carried onto the space and flagged, or the center where it is
    not finite or not a point (relative error above 1e-6).
    """
    batch = len(manifold._batch_shape(x))
    finite = _all_finite(batch, x)
    safe = choose(finite, x, center)
    loose = manifold._belongs(safe, LOOSE)
    tight = ~loose | manifold._belongs(safe, TIGHT)
    safe = choose(loose, safe, center)
    # Records off by more than rounding (stored in float32, say) are projected; the branch is
    # skipped when there are none.
    safe = jax.lax.cond(
        jnp.all(tight), lambda y: y, lambda y: choose(tight, y, manifold._project(y)), safe
    )
    return safe, finite & loose


def _polar(
    manifold: AbstractManifold, center: Point, x: Point
) -> tuple[Point, Array, Callable[[Array], Point], Array]:
    """Each record with its distance from the center, the points at a share of the way to it, and
    whether it is a point short of the cut locus.
    """
    safe, readable_ = readable(manifold, center, x)
    distance, at = radially(manifold, center, safe)
    usable = jnp.isfinite(distance)
    if not manifold._is_geodesic:
        usable &= distance < manifold._injectivity_radius(center) * (1 - 1e-9)
    valid = readable_ & usable
    return safe, jnp.where(valid, distance, jnp.inf), at, valid
