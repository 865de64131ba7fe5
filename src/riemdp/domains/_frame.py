"""How a domain is carried to its public center, where float64 is finest; rounding of sums.

A release is as private as the distance of two means is computed well. About a center of condition
1e13, or at 1e7 on a line, that distance drowns in rounding; about the identity, or at 0, it does
not. So a private mean is computed in the frame of the center: every record is carried there by a
public isometry, on its own, and the rounding of that step never enters the sensitivity. The clamp
comes after it.
"""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp

from ..manifolds import AbstractManifold, Euclidean, Product
from ..manifolds._base import Point
from ._clamp import LOOSE, choose, flagged_batch, in_parts, readable


def _is_flat(manifold: AbstractManifold) -> bool:
    return manifold.is_hadamard and tuple(manifold.curvature_bounds) == (0.0, 0.0)


def frame_space(manifold: AbstractManifold) -> AbstractManifold:
    if _is_flat(manifold):
        return Euclidean(manifold.dim)
    if isinstance(manifold, Product):
        return Product(*(frame_space(m) for m in manifold.manifolds))
    return manifold


def frame_center(manifold: AbstractManifold, center: Point) -> Point:
    if _is_flat(manifold):
        return jnp.zeros(manifold.dim)
    if isinstance(manifold, Product):
        return tuple(frame_center(m, c) for m, c in zip(manifold.manifolds, center, strict=True))
    return manifold.origin if manifold._moves_to_origin else center


def _there(manifold: AbstractManifold, center: Point, x: Point) -> Point:
    if _is_flat(manifold):
        return manifold._log_coordinates(center, x)
    if isinstance(manifold, Product):
        parts = zip(manifold.manifolds, center, x, strict=True)
        return tuple(_there(m, c, part) for m, c, part in parts)
    return manifold._to_origin(center, x) if manifold._moves_to_origin else x


def _here(manifold: AbstractManifold, center: Point, x: Point) -> Point:
    if _is_flat(manifold):
        return manifold._exp_coordinates(center, x)
    if isinstance(manifold, Product):
        parts = zip(manifold.manifolds, center, x, strict=True)
        return tuple(_here(m, c, part) for m, c, part in parts)
    return manifold._from_origin(center, x) if manifold._moves_to_origin else x


def carried(manifold: AbstractManifold, center: Point, x: Point) -> Point:
    """Points of the space, in the frame of the center."""
    return _there(manifold, center, x)


@functools.partial(jax.jit, static_argnums=(0, 1))
def carried_and_clamped(
    manifold: AbstractManifold,
    space: AbstractManifold,
    center: Point,
    there: Point,
    radius: float,
    records: Point,
) -> tuple[Point, jax.Array]:
    """Records carried to `there` and moved into the ball, and which of them lay outside it or were
    no points.
    """

    def one_part(x: Point) -> tuple[Point, jax.Array]:
        safe, valid = readable(manifold, center, x)
        moved = choose(valid, _there(manifold, center, safe), there)
        clamped, outside = flagged_batch(space, there, radius, moved)
        return clamped, outside | ~valid

    return in_parts(manifold, one_part, records)


def carrying(
    manifold: AbstractManifold,
    space: AbstractManifold,
    center: Point,
    there: Point,
    radius: float,
    records: Point,
) -> tuple[Point, jax.Array]:
    """`carried_and_clamped` as a plain function, which can be sent to another process."""
    return carried_and_clamped(manifold, space, center, there, radius, records)


@functools.partial(jax.jit, static_argnums=0)
def carried_back(manifold: AbstractManifold, center: Point, x: Point) -> tuple[Point, jax.Array]:
    found = _here(manifold, center, x)
    finite = jnp.all(jnp.array([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(found)]))
    return found, finite & jnp.all(manifold._belongs(found, LOOSE))


BLOCK = 4096  # terms that are added at a time
MOST_TERMS = BLOCK**3  # more records than any data set has


def summation_error(n: int) -> float:
    """Bound of the relative rounding error of a sum of n terms as this package adds them: blocks of
    at most `BLOCK` terms in any order, then the sums of the blocks likewise.
    """
    levels = 1
    while n > BLOCK:
        n, levels = -(-n // BLOCK), levels + 1
    return math.ulp(1.0) / 2 * BLOCK * levels if levels > 1 else math.ulp(1.0) / 2 * n
