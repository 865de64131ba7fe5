"""The radial clamp that makes a sensitivity hold whatever the records are."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._isolation import isolated
from .._namespace import namespace
from .._trees import all_finite, leaves, map_leaves
from ..manifolds import AbstractManifold
from ..manifolds._base import Point

if TYPE_CHECKING:
    from .._namespace import Array

# A record this close to the equations of the space is carried onto it; anything farther is not a
# point of the space.
LOOSE, TIGHT = 1e-6, 1e-10
ENTRIES, MOST_ROWS = 1 << 15, 1 << 10  # numbers and records that are worked on at a time
INSIDE = 1.0 - 1e-12  # clamped records land a hair inside, so that rounding never puts one outside
# A clamped record whose computed distance exceeds the radius by more than this, relative and
# absolute, goes to the center.
_SLACK = 1e-6, 1e-14


def slack(radius: float) -> float:
    """How far outside the ball a point that was moved into it may seem to be."""
    return radius * _SLACK[0] + _SLACK[1]


def choose(flag: Array, yes: Point, no: Point) -> Point:
    """`yes` where the flag of a record is set, else `no`."""
    if isinstance(yes, tuple | list):
        return tuple(choose(flag, a, b) for a, b in zip(yes, no, strict=True))
    axes = max(yes.ndim, no.ndim) - flag.ndim
    return namespace(flag, yes, no).where(flag.reshape(flag.shape + (1,) * axes), yes, no)


def in_parts(manifold: AbstractManifold, f: Callable[[Point], Any], x: Point) -> Any:
    """f of the records, some of them at a time, as arrays in C order: the work space of a clamp is
    several times its input. Arrays of JAX are taken whole.

    No formula gives a record other bits at another place, in a part of another size or beside other
    records, so how the records are cut decides nothing.
    """
    batch = manifold._batch_shape(x)
    if len(batch) != 1 or namespace(x) is not np:
        return f(x)
    (n,), entries = batch, sum(leaf[:1].size for leaf in leaves(x))
    rows = max(1, min(MOST_ROWS, ENTRIES // max(1, entries)))
    found = [
        f(map_leaves(lambda leaf, s=start: np.ascontiguousarray(leaf[s : s + rows], float), x))
        for start in range(0, max(n, 1), rows)
    ]
    return found[0] if len(found) == 1 else map_leaves(lambda *parts: np.concatenate(parts), *found)


def clamp(manifold: AbstractManifold, center: Point, radius: float, x: Point) -> Point:
    """Records moved radially into the ball."""
    return in_parts(manifold, functools.partial(flagged_batch, manifold, center, radius), x)[0]


@isolated
def clamp_flagged(
    manifold: AbstractManifold, center: Point, radius: float, x: Point
) -> tuple[Point, Array]:
    """Records moved radially into the ball, and which of them lay outside or were no points: a
    private flag of each record, from that record alone.
    """
    return in_parts(manifold, functools.partial(flagged_batch, manifold, center, radius), x)


def flagged_batch(
    manifold: AbstractManifold, center: Point, radius: float, x: Point
) -> tuple[Point, Array]:
    """`clamp_flagged` of all records at once."""
    seen = _polar(manifold, center, x)
    return _clipped(manifold, center, radius, seen, radius, INSIDE * radius)


def folded(
    manifold: AbstractManifold, center: Point, radius: float, fold: float, value: Point
) -> Point:
    """A value at distance t moved to min(t, R, fold - t), R a hair less than the radius: without a
    jump, which the sensitivity would have to pay for (`Domain.fold`).
    """
    seen = _polar(manifold, center, value)
    xp, distance = namespace(seen.distance), seen.distance
    left = xp.where(xp.isfinite(distance), xp.maximum(fold - distance, 0.0), 0.0)
    goal = INSIDE * xp.minimum(radius, left)
    return _clipped(manifold, center, radius, seen, goal, goal)[0]


def _clipped(
    manifold: AbstractManifold,
    center: Point,
    radius: float,
    seen: _Polar,
    limit: float | Array,
    goal: float | Array,
) -> tuple[Point, Array]:
    """What lies farther than `limit` moved to the distance `goal`, which is in the ball, and which
    did.
    """
    safe, distance, at, valid = seen
    xp = namespace(distance)
    inside = distance <= limit
    scale = xp.where(inside, 0.0, goal / xp.where(inside, 1.0, distance))

    # Every record goes through the same operations: how long a clamp takes does not tell whether
    # one of them lay outside.
    moved = at(scale)
    usable = valid & all_finite(moved, scale.ndim)
    moved = choose(usable, moved, center)
    # Far from the center float64 may not hold the end of the geodesic, nor a matrix what its
    # decomposition says: nothing but the result itself says that it is a point, and in the ball.
    kept = choose(inside, safe, moved)
    reached = manifold._dist(center, kept) <= radius + slack(radius)
    valid = valid & reached & (inside | (usable & manifold._belongs(moved, TIGHT)))
    return choose(valid, kept, center), ~inside


def contains(manifold: AbstractManifold, center: Point, radius: float, x: Point) -> Array:
    """Whether each record is a point within `radius` of the center."""

    def within(part: Point) -> Array:
        seen = _polar(manifold, center, part)
        return seen.valid & (seen.distance <= radius)

    return in_parts(manifold, within, x)


def readable(manifold: AbstractManifold, center: Point, x: Point) -> tuple[Point, Array]:
    """(records, flags): each record carried onto the space and flagged, or the center where it is
    not finite or not a point (relative error above 1e-6).
    """
    finite = all_finite(x, len(manifold._batch_shape(x)))
    safe = choose(finite, x, center)
    defect = manifold._defect(safe)
    loose = defect <= LOOSE
    safe = choose(loose, safe, center)
    # Records off by more than rounding (stored in float32, say) are carried onto the space.
    safe = choose((defect > TIGHT) & loose, manifold._repair(safe), safe)
    return safe, finite & loose


class _Polar(NamedTuple):
    """Records as they are seen from the center.

    Attributes:
        points: Each record, or the center where it is no point.
        distance: How far it lies; infinite where it is no point short of the cut locus.
        at: Points at a share of the way to each.
        valid: Which are points short of the cut locus.
    """

    points: Point
    distance: Array
    at: Callable[[Array], Point]
    valid: Array


def _polar(manifold: AbstractManifold, center: Point, x: Point) -> _Polar:
    safe, readable_ = readable(manifold, center, x)
    distance, at = manifold._radially(center, safe)
    xp = namespace(distance)
    usable = xp.isfinite(distance)
    if not manifold._is_geodesic:
        usable = usable & (distance < manifold._injectivity_radius(center) * (1 - 1e-9))
    valid = readable_ & usable
    return _Polar(safe, xp.where(valid, distance, math.inf), at, valid)
