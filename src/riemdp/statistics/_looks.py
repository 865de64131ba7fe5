"""Which look Newton's method takes on which space, and the mean of many records in memory by it."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..domains._stream import Part, most_rows
from ..manifolds import AbstractManifold, Product, SPDAffineInvariant, SPDBuresWasserstein
from ..manifolds._base import Point
from . import _streamed_affine, _streamed_bures, _streamed_constant, _streamed_symmetric
from ._look import AbstractLook, FlatLook, Means, ProductLook, newton_of_means
from ._newton import Found
from ._streamed_affine import AffineLook
from ._streamed_bures import BuresLook
from ._streamed_constant import ConstantLook
from ._streamed_symmetric import SymmetricLook
from ._sums import pairwise
from ._threads import in_threads

ROWS = 4096  # of records in memory that are looked at together
MANY = 8192  # records in memory from which on looks cost less than the passes they save
_NUMBERS = 1 << 22  # of records in the memory of an accelerator that are looked at together


def look_for(manifold: AbstractManifold, center: Point, radius: float) -> AbstractLook[Any] | None:
    """What a pass over records of this ball looks for; None where the Hessian of all records is not
    known, or too large.
    """
    if isinstance(manifold, Product):
        looks = [
            look_for(factor, own, radius)  # no factor of a record is farther than the record
            for factor, own in zip(manifold.manifolds, center, strict=True)
        ]
        known = [look for look in looks if look is not None]
        return ProductLook(manifold, known) if len(known) == len(looks) else None
    if isinstance(manifold, SPDAffineInvariant) and _streamed_affine.suits(manifold):
        return AffineLook(manifold, center, radius)
    if _streamed_constant.suits(manifold):
        return ConstantLook(manifold, center, radius)
    return FlatLook(manifold) if manifold._is_flat else _without_ball(manifold)


def _without_ball(manifold: AbstractManifold) -> AbstractLook[Any] | None:
    """A look that finds in a pass all that its bounds take of the records, so that they may lie
    anywhere.
    """
    if _streamed_symmetric.suits(manifold):
        return SymmetricLook(manifold)
    if isinstance(manifold, SPDBuresWasserstein) and _streamed_bures.suits(manifold):
        return BuresLook(manifold)
    return None


def look_for_many(
    manifold: AbstractManifold, X: Point, n: int, ball: tuple[Point, float] | None
) -> AbstractLook[Any] | None:
    """What `mean_by_looks` looks for in n records of this space, inside the ball where one is
    given: where `_frechet_mean` has no other way to the Hessian of all on the device where the
    records are, and there are many.
    """
    if n < MANY:
        return None
    if isinstance(manifold, SPDAffineInvariant) and ball is not None and on_accelerator(X):
        return look_for(manifold, *ball)
    return _without_ball(manifold)


def on_accelerator(X: Point) -> bool:
    """Whether records are in the memory of another device than the CPU: a public fact."""
    leaves = jax.tree.leaves(X)
    return all(
        isinstance(x, jax.Array) and all(device.platform != "cpu" for device in x.devices())
        for x in leaves
    )


def mean_by_looks(
    look: AbstractLook[Any],
    X: Point,
    w: np.ndarray | None,
    some: tuple[Point, np.ndarray],
    start: Point,
    tol: float,
    most: int,
) -> Found[Any]:
    """The Frechet mean of records with weights w (None: equal ones), from `start`, near the mean of
    `some` of them with their weights.
    """
    return newton_of_means(look, _means(X, w), start, tol, most, _means(*some))


def _means(X: Point, w: np.ndarray | None) -> Means:
    """The means over records, wherever they are held."""
    entries = sum(x[0].size for x in jax.tree.leaves(X))
    if on_accelerator(X):
        rows = min(len(jax.tree.leaves(X)[0]), max(1, _NUMBERS // entries))
        rows = 1 << (rows.bit_length() - 1)  # sums are made in pairs
        return functools.partial(_means_on_device, X, w, rows)
    return functools.partial(means_in_memory, X, w, min(ROWS, most_rows(entries)))


def _means_on_device(X: Point, w: np.ndarray | None, rows: int, part: Part) -> Any:
    """The same as `means_in_memory`, of at least `rows` points in the memory of a device."""
    n = len(jax.tree.leaves(X)[0])
    found = []
    for begin in range(0, n, rows):
        first = min(begin, n - rows)  # the last part overlaps the one before it
        weights = np.ones(rows) if w is None else np.array(w[first : first + rows])
        weights[: begin - first] = 0.0
        sums = part(_slice(X, first, rows), np.zeros(rows, dtype=bool), jnp.asarray(weights))
        found.append((sums, weights.sum()))
    return _divided(found)


@functools.partial(jax.jit, static_argnums=2)
def _slice(X: Point, first: int, rows: int) -> Point:
    return jax.tree.map(lambda x: jax.lax.dynamic_slice_in_dim(x, first, rows), X)


def means_in_memory(X: Point, w: np.ndarray | None, rows: int, part: Part) -> Any:
    """The means of what `part` sums, over points in memory with weights w (None: equal ones), so
    many of them together.
    """
    points = jax.tree.map(np.asarray, X)
    n = len(jax.tree.leaves(points)[0])

    def sums(begin: int) -> Any:
        count = min(rows, n - begin)
        weights = np.zeros(rows)
        weights[:count] = 1.0 if w is None else w[begin : begin + count]
        some = jax.tree.map(lambda x: _filled_up(x[begin : begin + rows], rows), points)
        found = part(some, np.zeros(rows, dtype=bool), jnp.asarray(weights))
        return jax.tree.map(np.asarray, (found, weights.sum()))

    starts = range(0, n, rows)
    with in_threads(len(starts)) as each:
        found = list(each(sums, starts))
    return _divided(found)


def _divided(found: Sequence[Any]) -> Any:
    """The means, from the sums of each part and its weight."""
    total, weight = jax.tree.map(lambda *parts: pairwise([np.asarray(p) for p in parts]), *found)
    return jax.tree.map(lambda leaf: leaf / weight, total)


def _filled_up(x: np.ndarray, rows: int) -> np.ndarray:
    """Records, the first of them as often as `rows` need: of NaN, decompositions would take several
    times as long.
    """
    lack = rows - len(x)
    return x if lack == 0 else np.concatenate([x, np.broadcast_to(x[:1], (lack, *x.shape[1:]))])
