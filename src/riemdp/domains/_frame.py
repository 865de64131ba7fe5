"""How a domain is carried to its public center, where float64 is finest.

A release is as private as the distance of two means is computed well. About a center of condition
1e13, or at 1e7 on a line, that distance drowns in rounding; about the identity, or at 0, it does
not. So a private mean is computed in the frame of the center: every record is carried there by a
public isometry, on its own, and the rounding of that step never enters the sensitivity. The clamp
comes after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .._isolation import isolated
from .._trees import all_finite
from ..manifolds import AbstractManifold, Euclidean, Product
from ..manifolds._base import Point
from ._clamp import LOOSE, choose, flagged_batch, in_parts, readable

if TYPE_CHECKING:
    from .._namespace import Array


def framed(manifold: AbstractManifold, center: Point) -> tuple[AbstractManifold, Point]:
    """The space that the frame of a center is, and the center in it."""
    if manifold._is_flat:
        return Euclidean(manifold.dim), np.zeros(manifold.dim)
    if isinstance(manifold, Product):
        parts = map(framed, manifold.manifolds, center)
        spaces, centers = zip(*parts, strict=True)
        return Product(*spaces), centers
    return manifold, manifold.origin if manifold._moves_to_origin else center


def carried(manifold: AbstractManifold, center: Point, x: Point) -> Point:
    """Points of the space, in the frame of the center."""
    if manifold._is_flat:
        return manifold._log_coordinates(center, x)
    if isinstance(manifold, Product):
        parts = zip(manifold.manifolds, center, x, strict=True)
        return tuple(carried(m, c, part) for m, c, part in parts)
    return manifold._to_origin(center, x) if manifold._moves_to_origin else x


def _here(manifold: AbstractManifold, center: Point, x: Point) -> Point:
    if manifold._is_flat:
        return manifold._exp_coordinates(center, x)
    if isinstance(manifold, Product):
        parts = zip(manifold.manifolds, center, x, strict=True)
        return tuple(_here(m, c, part) for m, c, part in parts)
    return manifold._from_origin(center, x) if manifold._moves_to_origin else x


@isolated
def carried_and_clamped(
    manifold: AbstractManifold,
    center: Point,
    space: AbstractManifold,
    there: Point,
    radius: float,
    records: Point,
) -> tuple[Point, Array]:
    """Records carried to the frame, the `space` in which the center is `there`, and moved into the
    ball; and which of them lay outside it or were no points.
    """

    def one_part(x: Point) -> tuple[Point, Array]:
        safe, valid = readable(manifold, center, x)
        moved = choose(valid, carried(manifold, center, safe), there)
        clamped, outside = flagged_batch(space, there, radius, moved)
        return clamped, outside | ~valid

    return in_parts(manifold, one_part, records)


def carried_back(manifold: AbstractManifold, center: Point, x: Point) -> tuple[Point, Array]:
    """Points of the frame in the space, and which of them float64 holds there."""
    found = _here(manifold, center, x)
    belongs = manifold._belongs(found, LOOSE)
    return found, belongs & all_finite(found, belongs.ndim)
