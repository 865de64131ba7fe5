"""`Ball`: the public domain of the records, and the radial clamp that makes a sensitivity hold
whatever the data are.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from .._errors import InvalidArgument, real

# A record this close to the equations of the space is carried onto it; anything farther is not a
# point of the space.
_LOOSE, _TIGHT = 1e-6, 1e-10
_ENTRIES = 1 << 21  # numbers clamped at a time
_INSIDE = 1.0 - 1e-12  # clamped records land a hair inside, so that rounding never puts one outside


class Ball:
    """The geodesic ball of `radius` > 0 about `center`, both public: chosen without looking at the
    data.

    `center` is a point of the manifold that the methods are given (a tuple of points on a
    `Product`). The radius must be smaller than the injectivity radius at the center, and must not
    be taken from the records: that would leak.
    """

    __slots__ = ("center", "radius")

    def __init__(self, center: Any, radius: float):
        if isinstance(center, tuple | list) and center and all(hasattr(c, "shape") for c in center):
            self.center: Any = tuple(jnp.asarray(c, dtype=jnp.float64) for c in center)
        else:
            self.center = jax.tree.map(
                lambda c: jnp.asarray(c, dtype=jnp.float64), center, is_leaf=_is_plain
            )
        self.radius = real(
            "radius", radius, above=0.0, remedy="give a finite public radius greater than 0"
        )

    def clamp(self, manifold: Any, x: Any) -> Any:
        """Move each record radially into the ball: x -> exp_c(min(1, r/d(c, x)) log_c x).

        **Arguments.** `x` (*batch, *manifold.shape), one record for each batch index. Records
        inside are returned as they are. A record that is not finite, does not belong to the
        manifold (relative error above 1e-6) or lies at the cut locus of the center goes to the
        center, silently: which records those are is private. In a list, a record of the wrong shape
        goes to the center too. On Bures-Wasserstein space a positive definite record at any
        distance moves along its geodesic; so far away that rounding keeps the end from being
        verified to lie in the ball, it goes to the center.

        **Returns** an array like `x` (float64), every record within `radius` of the center. Each
        output depends on its own record only.
        """
        center = self._checked_center(manifold)
        if isinstance(x, list):
            x = _stack(manifold, x)
        return _clamp(manifold, center, self.radius, manifold._coerce("x", x))

    def contains(self, manifold: Any, x: Any) -> Bool[Array, "*batch"]:
        """Whether each record belongs to the manifold and lies within `radius` of the center."""
        return _contains(
            manifold, self._checked_center(manifold), self.radius, manifold._coerce("x", x)
        )

    def _checked_center(self, manifold: Any) -> Any:
        with (
            jax.ensure_compile_time_eval()
        ):  # the center is a public constant, also inside a user's jit
            return self._check_center(manifold)

    def _check_center(self, manifold: Any) -> Any:
        center = manifold._coerce("center", self.center)
        if manifold._batch_shape(center) != ():
            raise InvalidArgument(
                f"argument `center` must be one point of {manifold!r}, not a batch of points"
            )
        if not bool(manifold.belongs(center, _LOOSE)):
            raise InvalidArgument(
                f"argument `center` is not a point of {manifold!r}; use manifold.project(center)"
            )
        limit = float(manifold.injectivity_radius(center))
        if not self.radius < limit:
            raise InvalidArgument(
                f"argument `radius` = {self.radius:g} is not below the injectivity radius {limit:g}"
                f" of {manifold!r} at the center: the ball would wrap around; choose a smaller"
                " radius"
            )
        return center

    def __repr__(self) -> str:
        return (
            f"Ball(center of shape {jax.tree.map(np.shape, self.center)}, radius={self.radius:g})"
        )


def _is_plain(node: Any) -> bool:
    return not isinstance(node, tuple)


def _stack(manifold: Any, records: list[Any]) -> Any:
    """A list of records as one array; a record without the right shape becomes NaN, hence the
    center.
    """
    shape = getattr(manifold, "shape", None)
    if (
        not isinstance(shape, tuple)
        or not all(isinstance(s, int) for s in shape)
        or isinstance(manifold.origin, tuple)
    ):
        return records
    rows = []
    for record in records:
        try:
            row = np.asarray(record, dtype=np.float64)
        except (TypeError, ValueError):
            row = np.empty(0)
        rows.append(row if row.shape == shape else np.full(shape, np.nan))
    return np.stack(rows) if rows else np.empty((0, *shape))


def _expand(flag: Array, leaf: Array) -> Array:
    return flag.reshape(flag.shape + (1,) * (leaf.ndim - flag.ndim))


def _choose(flag: Array, yes: Any, no: Any) -> Any:
    return jax.tree.map(
        lambda a, b: jnp.where(_expand(flag, jnp.broadcast_arrays(a, b)[0]), a, b), yes, no
    )


def _all_finite(batch: int, x: Any) -> Array:
    flags = [
        jnp.all(jnp.isfinite(leaf), axis=tuple(range(batch, leaf.ndim)))
        for leaf in jax.tree.leaves(x)
    ]
    return functools.reduce(jnp.logical_and, flags)


@functools.partial(jax.jit, static_argnums=0)
def _clamp(manifold: Any, center: Any, radius: Any, x: Any) -> Any:
    """`_clamp_batch`, in parts where there are many records: its work space is several times its
    input.
    """
    if len(manifold._batch_shape(x)) != 1:
        return _clamp_batch(manifold, center, radius, x)
    (n,) = manifold._batch_shape(x)
    size = (
        max(1, n // max(1, sum(leaf.size for leaf in jax.tree.leaves(x)) // _ENTRIES)) if n else 0
    )
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


def _clamp_batch(manifold: Any, center: Any, radius: Any, x: Any) -> Any:
    safe, distance, v, valid = _polar(manifold, center, x)
    inside = distance <= radius
    scale = jnp.where(inside, 0.0, _INSIDE * radius / jnp.where(inside, 1.0, distance))
    moved = manifold._exp(center, jax.tree.map(lambda leaf: _expand(scale, leaf) * leaf, v))
    valid &= inside | _all_finite(scale.ndim, moved)
    # beyond the injectivity radius nothing but the distance itself says that the ball was reached
    if manifold._is_geodesic:
        reached = _choose(valid, moved, center)
        valid &= inside | (
            manifold._belongs(reached, _TIGHT) & (manifold._dist(center, reached) <= radius)
        )
    return _choose(valid, _choose(inside, safe, moved), center)


@functools.partial(jax.jit, static_argnums=0)
def _contains(manifold: Any, center: Any, radius: Any, x: Any) -> Array:
    _, distance, _, valid = _polar(manifold, center, x)
    return valid & (distance <= radius)


def _polar(manifold: Any, center: Any, x: Any) -> tuple[Any, Array, Any, Array]:
    """Each record with its distance and direction from the center, and whether it is a point short
    of the cut locus.
    """
    batch = len(manifold._batch_shape(x))
    finite = _all_finite(batch, x)
    safe = _choose(finite, x, center)
    loose = manifold._belongs(safe, _LOOSE)
    safe = _choose(loose, safe, center)
    tight = manifold._belongs(safe, _TIGHT)
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
