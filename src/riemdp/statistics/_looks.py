"""Which look Newton's method takes on which space, and the mean of many records in memory by it."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..domains._stream import Part, most_rows
from ..manifolds import AbstractManifold, Product, SPDAffineInvariant, SPDBuresWasserstein
from ..manifolds._base import Point
from . import _streamed_affine, _streamed_bures, _streamed_constant, _streamed_symmetric
from ._look import AbstractLook, FlatLook, ProductLook, newton_of_means
from ._newton import Found
from ._streamed_affine import AffineLook
from ._streamed_bures import BuresLook
from ._streamed_constant import ConstantLook
from ._streamed_symmetric import SymmetricLook
from ._sums import pairwise
from ._threads import in_threads

ROWS = 4096  # of records in memory that are looked at together
MANY = 8192  # records in memory from which on looks cost less than the passes they save


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


def suits(manifold: AbstractManifold, n: int) -> bool:
    """Whether `mean_by_looks` is for n records of this space: where `_frechet_mean` has no other
    way to the Hessian of all, and there are many.
    """
    return n >= MANY and _without_ball(manifold) is not None


def mean_by_looks(
    manifold: AbstractManifold,
    X: Point,
    w: np.ndarray | None,
    some: tuple[Point, np.ndarray],
    start: Point,
    tol: float,
    most: int,
) -> Found[Any]:
    """The Frechet mean of records in memory with weights w (None: equal ones), from `start`, near
    the mean of `some` of them with their weights.
    """
    look = _without_ball(manifold)
    assert look is not None
    rows = min(ROWS, most_rows(sum(x[0].size for x in jax.tree.leaves(X))))
    records = functools.partial(means_in_memory, X, w, rows)
    sample = functools.partial(means_in_memory, *some, rows)
    return newton_of_means(look, records, start, tol, most, sample)


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
    total, weight = jax.tree.map(lambda *parts: pairwise(parts), *found)
    return jax.tree.map(lambda leaf: leaf / weight, total)


def _filled_up(x: np.ndarray, rows: int) -> np.ndarray:
    """Records, the first of them as often as `rows` need: of NaN, decompositions would take several
    times as long.
    """
    lack = rows - len(x)
    return x if lack == 0 else np.concatenate([x, np.broadcast_to(x[:1], (lack, *x.shape[1:]))])
