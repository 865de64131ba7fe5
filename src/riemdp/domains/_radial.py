"""How far records lie from a center, and the points on the way to them: what a clamp is made of."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from .._namespace import namespace
from .._trees import all_finite, map_leaves
from ..manifolds import AbstractManifold, Lorentz, Product, SPDAffineInvariant
from ..manifolds import _spectral as sp
from ..manifolds._base import Point
from ..manifolds._lorentz import between, squared_chord
from ..manifolds._numerics import safe_sqrt
from ..manifolds._spd_affine import congruence, relative_spectrum

if TYPE_CHECKING:
    from .._namespace import Array

    Seen = tuple[Array, Callable[[Array], Point]]


@functools.singledispatch
def radially(manifold: AbstractManifold, center: Point, x: Point) -> Seen:
    """(distances, at): the distance of each point from the one center, not finite where its
    logarithm is not, and at(shares), the points at these shares of the way to them.
    """
    return _by_logarithm(manifold, center, x)


def _by_logarithm(manifold: AbstractManifold, center: Point, x: Point) -> Seen:
    v = manifold._log(center, x)
    distance = manifold._norm(center, v)
    distance = namespace(distance).where(all_finite(v, distance.ndim), distance, math.inf)

    def at(share: Array) -> Point:
        def shorter(leaf: Array) -> Array:
            return share.reshape(share.shape + (1,) * (leaf.ndim - share.ndim)) * leaf

        return manifold._exp(center, map_leaves(shorter, v))

    return distance, at


@radially.register(SPDAffineInvariant)
def _(manifold: SPDAffineInvariant, center: Array, x: Array) -> Seen:
    if type(manifold) is not SPDAffineInvariant:  # a subclass may have another metric
        return _by_logarithm(manifold, center, x)
    # One decomposition of each matrix gives both its logarithm and what lies on the way.
    xp, center = namespace(center, x), sp.sym(center)
    lower, _, eig = relative_spectrum(center, x)
    logs = sp.logs(eig)

    def at(share: Array) -> Array:
        t = share[..., None] * logs
        near = xp.max(xp.abs(t), axis=-1) < 1.0  # as in the exponential map
        values = xp.where(near[..., None], xp.expm1(t), xp.exp(t))
        step = congruence(lower, (eig.q * values[..., None, :]) @ sp.transpose(eig.q))
        return sp.sym(xp.where(near[..., None, None], center, 0.0) + step)

    return xp.sqrt(xp.sum(logs**2, axis=-1)), at


@radially.register(Lorentz)
def _(manifold: Lorentz, center: Array, x: Array) -> Seen:
    if type(manifold) is not Lorentz:
        return _by_logarithm(manifold, center, x)
    chord = squared_chord(center, x)
    distance = 2.0 * namespace(chord).asinh(safe_sqrt(chord) / 2.0)
    return distance, lambda share: between(center, x, chord, share)


@radially.register(Product)
def _(manifold: Product, center: Point, x: Point) -> Seen:
    """Factor by factor: a product has the points on the way that its factors have."""
    if type(manifold) is not Product:
        return _by_logarithm(manifold, center, x)
    seen = [radially(m, c, y) for m, c, y in zip(manifold.manifolds, center, x, strict=True)]
    square = sum(d**2 for d, _ in seen)
    return namespace(square).sqrt(square), lambda share: tuple(at(share) for _, at in seen)
