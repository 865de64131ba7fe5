"""How a domain is carried to its public center, where float64 is finest.

A release is as private as the distance of two means is computed well. About a center of condition
1e13, or at 1e7 on a line, that distance drowns in rounding; about the identity, or at 0, it does
not. So a private mean is computed in the frame of the center: every record is carried there by a
public isometry, on its own, and the rounding of that step never enters the sensitivity. The clamp
comes after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .._trees import all_finite
from ..manifolds import AbstractManifold, Euclidean, Product
from ..manifolds._base import Point
from ._clamp import LOOSE, choose, flagged_batch, in_parts, readable

if TYPE_CHECKING:
    from .._namespace import Array


def frame_space(manifold: AbstractManifold) -> AbstractManifold:
    if manifold._is_flat:
        return Euclidean(manifold.dim)
    if isinstance(manifold, Product):
        return Product(*(frame_space(m) for m in manifold.manifolds))
    return manifold


def frame_center(manifold: AbstractManifold, center: Point) -> Point:
    if manifold._is_flat:
        return np.zeros(manifold.dim)
    if isinstance(manifold, Product):
        return tuple(frame_center(m, c) for m, c in zip(manifold.manifolds, center, strict=True))
    return manifold.origin if manifold._moves_to_origin else center


def seen_from(manifold: AbstractManifold, center: Point) -> Any:
    """What is needed of the center to carry points, worked out once."""
    if manifold._is_flat:
        return manifold._prepared(center)
    if isinstance(manifold, Product):
        return tuple(seen_from(m, c) for m, c in zip(manifold.manifolds, center, strict=True))
    return center


def _there(manifold: AbstractManifold, at: Any, x: Point) -> Point:
    if manifold._is_flat:
        return manifold._log_coordinates_from(at, x)
    if isinstance(manifold, Product):
        parts = zip(manifold.manifolds, at, x, strict=True)
        return tuple(_there(m, c, part) for m, c, part in parts)
    return manifold._to_origin(at, x) if manifold._moves_to_origin else x


def _here(manifold: AbstractManifold, at: Any, x: Point) -> Point:
    if manifold._is_flat:
        return manifold._exp_coordinates_from(at, x)
    if isinstance(manifold, Product):
        parts = zip(manifold.manifolds, at, x, strict=True)
        return tuple(_here(m, c, part) for m, c, part in parts)
    return manifold._from_origin(at, x) if manifold._moves_to_origin else x


def carried(manifold: AbstractManifold, center: Point, x: Point) -> Point:
    """Points of the space, in the frame of the center."""
    return _there(manifold, seen_from(manifold, center), x)


def carried_and_clamped(
    manifold: AbstractManifold,
    space: AbstractManifold,
    center: Point,
    at: Any,
    there: Point,
    radius: float,
    records: Point,
) -> tuple[Point, Array]:
    """Records carried to `there` and moved into the ball, and which of them lay outside it or were
    no points; `at` is the center as `seen_from`.
    """

    def one_part(x: Point) -> tuple[Point, Array]:
        safe, valid = readable(manifold, center, x)
        moved = choose(valid, _there(manifold, at, safe), there)
        clamped, outside = flagged_batch(space, there, radius, moved)
        return clamped, outside | ~valid

    return in_parts(manifold, one_part, records)


def carried_back(manifold: AbstractManifold, at: Any, x: Point) -> tuple[Point, Array]:
    """Points of the frame in the space, and which of them float64 holds there; `at` is the center
    as `seen_from`.
    """
    found = _here(manifold, at, x)
    belongs = manifold._belongs(found, LOOSE)
    return found, belongs & all_finite(found, belongs.ndim)
