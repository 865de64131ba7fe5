"""`Frame`: a domain as it is seen from its public center, where float64 resolves it best.

A release is as private as the distance of two means is computed well. About a center of condition
1e13, or at 1e7 on a line, that distance drowns in rounding; about the identity, or at 0, it does
not. So a private mean is computed in the frame of the center: every record is carried there by a
public isometry, on its own, and the rounding of that step never enters the sensitivity. The clamp
comes after it.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from ..manifolds import AbstractManifold, Euclidean, Product
from ..manifolds._base import Point
from ._clamp import LOOSE, choose, clamp_batch, in_parts, readable

if TYPE_CHECKING:
    from ._domain import Domain


@dataclasses.dataclass(frozen=True, eq=False)
class Frame:
    """A domain carried to a well-conditioned place by a public isometry.

    Flat Hadamard spaces (Euclidean, log-Euclidean) are seen in the orthonormal coordinates of the
    logarithm at the center, affine-invariant and hyperbolic spaces with the center carried to the
    origin, products factor by factor. Other spaces stay where they are.

    Args:
        domain: The domain in the user's space.
    """

    domain: Domain

    @functools.cached_property
    def local(self) -> Domain:
        """The domain in the frame: same radius, same constants."""
        if self.is_identity:
            return self.domain
        manifold, center = self.domain.manifold, self.domain.center
        return dataclasses.replace(
            self.domain, manifold=_space(manifold), center=_center(manifold, center)
        )

    @functools.cached_property
    def is_identity(self) -> bool:
        """Whether the domain stays where it is."""
        manifold, center = self.domain.manifold, self.domain.center
        if _space(manifold) != manifold:
            return False
        there = _center(manifold, center)
        return all(
            np.array_equal(np.asarray(a), np.asarray(b))
            for a, b in zip(jax.tree.leaves(center), jax.tree.leaves(there), strict=True)
        )

    def clamp(self, records: Point) -> Point:
        """Records (n, *shape) of the user's space, carried into the frame and moved into the ball.

        Returns:
            Records of `local.manifold`, every one within the radius of the center. Each depends on
            its own record only.
        """
        if self.is_identity:
            return self.domain.clamp(records)
        d = self.domain
        return _carried_and_clamped(
            d.manifold, self.local.manifold, d.center, self.local.center, d.radius, records
        )

    def back(self, point: Point) -> Point:
        """A released point of the frame, in the user's space: post-processing.

        A point that float64 cannot hold there is drawn towards the center by powers of two, which
        looks at the released point only.
        """
        if self.is_identity:
            return point
        space, manifold = self.local.manifold, self.domain.manifold
        v = space.log(self.local.center, point)
        for power in range(80):
            share = 0.5**power
            near = (
                point
                if power == 0
                else space.exp(self.local.center, jax.tree.map(lambda leaf, s=share: s * leaf, v))
            )
            found, valid = _carried_back(manifold, self.domain.center, near)
            if bool(valid):
                return found
        return self.domain.center


def _is_flat(manifold: AbstractManifold) -> bool:
    return manifold.is_hadamard and tuple(manifold.curvature_bounds) == (0.0, 0.0)


def _space(manifold: AbstractManifold) -> AbstractManifold:
    if _is_flat(manifold):
        return Euclidean(manifold.dim)
    if isinstance(manifold, Product):
        return Product(*(_space(m) for m in manifold.manifolds))
    return manifold


def _center(manifold: AbstractManifold, center: Point) -> Point:
    if _is_flat(manifold):
        return jnp.zeros(manifold.dim)
    if isinstance(manifold, Product):
        return tuple(_center(m, c) for m, c in zip(manifold.manifolds, center, strict=True))
    return manifold.origin if manifold._moves_to_origin else center


def _there(manifold: AbstractManifold, center: Point, x: Point) -> Point:
    if _is_flat(manifold):
        return manifold._to_coordinates(center, manifold._log(center, x))
    if isinstance(manifold, Product):
        parts = zip(manifold.manifolds, center, x, strict=True)
        return tuple(_there(m, c, part) for m, c, part in parts)
    return manifold._to_origin(center, x) if manifold._moves_to_origin else x


def _here(manifold: AbstractManifold, center: Point, x: Point) -> Point:
    if _is_flat(manifold):
        return manifold._exp(center, manifold._from_coordinates(center, x))
    if isinstance(manifold, Product):
        parts = zip(manifold.manifolds, center, x, strict=True)
        return tuple(_here(m, c, part) for m, c, part in parts)
    return manifold._from_origin(center, x) if manifold._moves_to_origin else x


@functools.partial(jax.jit, static_argnums=(0, 1))
def _carried_and_clamped(
    manifold: AbstractManifold,
    space: AbstractManifold,
    center: Point,
    there: Point,
    radius: float,
    records: Point,
) -> Point:
    def one_part(x: Point) -> Point:
        safe, valid = readable(manifold, center, x)
        moved = choose(valid, _there(manifold, center, safe), there)
        return clamp_batch(space, there, radius, moved)

    return in_parts(manifold, one_part, records)


@functools.partial(jax.jit, static_argnums=0)
def _carried_back(manifold: AbstractManifold, center: Point, x: Point) -> tuple[Point, jax.Array]:
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
