"""How far records lie from a center, and the points on the way to them: what a clamp is made of."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, ArrayLike

from .._decompositions import lapack_alone
from ..manifolds import AbstractManifold, Lorentz, Product, SPDAffineInvariant
from ..manifolds import _spectral as sp
from ..manifolds._base import EPS, Point
from ..manifolds._lorentz import between, squared_chord
from ..manifolds._numerics import safe_sqrt
from ..manifolds._spd_affine import congruence, relative_spectrum

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
    for leaf in jax.tree.leaves(v):
        rest = tuple(range(distance.ndim, leaf.ndim))
        distance = jnp.where(jnp.all(jnp.isfinite(leaf), axis=rest), distance, jnp.inf)

    def at(share: Array) -> Point:
        def shorter(leaf: Array) -> Array:
            return share.reshape(share.shape + (1,) * (leaf.ndim - share.ndim)) * leaf

        return manifold._exp(center, jax.tree.map(shorter, v))

    return distance, at


@radially.register
def _(manifold: SPDAffineInvariant, center: Array, x: Array) -> Seen:
    if type(manifold) is not SPDAffineInvariant:  # a subclass may have another metric
        return _by_logarithm(manifold, center, x)
    # One decomposition of each matrix gives both its logarithm and what lies on the way.
    center = sp.sym(center)
    lower, _, eig = relative_spectrum(center, x)
    logs = sp.logs(eig)

    def at(share: Array) -> Array:
        t = share[..., None] * logs
        near = jnp.max(jnp.abs(t), axis=-1) < 1.0  # as in the exponential map
        values = jnp.where(near[..., None], jnp.expm1(t), jnp.exp(t))
        step = congruence(lower, (eig.q * values[..., None, :]) @ sp.transpose(eig.q))
        return sp.sym(jnp.where(near[..., None, None], center, 0.0) + step)

    return jnp.sqrt(jnp.sum(logs**2, axis=-1)), at


@radially.register
def _(manifold: Lorentz, center: Array, x: Array) -> Seen:
    if type(manifold) is not Lorentz:
        return _by_logarithm(manifold, center, x)
    chord = squared_chord(center, x)
    distance = 2.0 * jnp.arcsinh(safe_sqrt(chord) / 2.0)
    return distance, lambda share: between(center, x, chord, share)


@radially.register
def _(manifold: Product, center: Point, x: Point) -> Seen:
    """Factor by factor: a product has the points on the way that its factors have."""
    if type(manifold) is not Product:
        return _by_logarithm(manifold, center, x)
    seen = [radially(m, c, y) for m, c, y in zip(manifold.manifolds, center, x, strict=True)]
    distance = jnp.sqrt(functools.reduce(jnp.add, [jnp.square(d) for d, _ in seen]))
    return distance, lambda share: tuple(at(share) for _, at in seen)


@functools.singledispatch
def holds_ball(
    manifold: AbstractManifold, center: Point, radius: ArrayLike, slack: ArrayLike
) -> Any:
    """Whether the points that `radially` gives at distance `radius` are known to lie within `slack`
    of it: a public fact, a bool unless the ball is traced. False, the safe answer, has every such
    point measured.
    """
    return False


@holds_ball.register
def _(manifold: SPDAffineInvariant, center: Array, radius: ArrayLike, slack: ArrayLike) -> Any:
    if not lapack_alone() or type(manifold) is not SPDAffineInvariant:
        return False  # the errors below are those of LAPACK, and of this metric
    traced = any(isinstance(x, Tracer) for x in (center, radius, slack))
    numpy: Any = jnp if traced else np
    values = sp.eigenvalues(sp.sym(center)) if traced else np.linalg.eigvalsh(_symmetric(center))
    # As in the space's `_resolution`, of which errors are a tenth, times the smallest share of an
    # eigenvalue: 0 where rounding makes that of a positive definite centre negative.
    least = numpy.maximum(values[..., 0] / values[..., -1], 0.0) * numpy.exp(
        -math.sqrt(2.0) * radius
    )
    allowed = slack - EPS * manifold.k * 8.0 * (1.0 + radius)
    return EPS * manifold.k * 4.0 <= allowed * least


def _symmetric(x: Any) -> np.ndarray:
    x = np.asarray(x)
    return 0.5 * (x + x.swapaxes(-1, -2))
