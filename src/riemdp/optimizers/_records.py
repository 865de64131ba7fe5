"""The records of a run, kept closed; and how what each contributes is clipped and added."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree
from numpy.typing import NDArray

from .._errors import SMALLEST_MAGNITUDE
from .._namespace import namespace
from .._programs import traced
from ..domains import Domain
from ..domains._clamp import clamp_flagged
from ..domains._stream import Stream
from ..domains._sums import rows_of, weighted_pairwise
from ..manifolds._base import Point
from ..problems._problem import Batch, Problem, _chunk
from ._kernels import AbstractKernel
from ._people import Grouped, each_record, flat
from ._steps import Row, prepared

AnyArray = NDArray[Any] | Array
_EXACT_ROWS = 1 << 20  # whole numbers up to 2^32 that float64 adds without rounding


@traced()
class PrivateRecords:
    """The records of a run: arrays along a leading axis, people (`Grouped`), or a `Stream`. No
    other file of this package looks into them: a rule of tests/test_architecture.py.
    """

    held: Any

    @property
    def form(self) -> Any:
        """The shape of one record, without its values."""
        if isinstance(self.held, Stream):
            return self.held.form
        return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), self.held)

    @property
    def come_in_parts(self) -> bool:
        """Whether they are read part by part."""
        return isinstance(self.held, Stream)

    @property
    def called(self) -> str:
        """What the user called them, of those that come in parts."""
        return self.held.source.called

    @property
    def entries(self) -> int:
        """Numbers of one record, of those that come in parts."""
        moved = sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(self.held.form))
        return max(1, self.held.source.entries, moved)

    def inside(self, domain: Domain) -> PrivateRecords:
        """The records, moved into a public ball."""
        if isinstance(self.held, Stream):
            step = partial(clamp_flagged, domain.manifold, domain.center, domain.radius)
            return PrivateRecords(self.held.then(step))
        return PrivateRecords(clamped(domain, self.held))

    def prepared(self, kernel: AbstractKernel) -> PrivateRecords:
        """The records in the form that the kernel takes."""
        if kernel.takes_data_as_they_are:
            return self
        if isinstance(self.held, Stream):
            return PrivateRecords(self.held.then(partial(_prepared_part, kernel)))
        return PrivateRecords(each_record(partial(prepared, kernel), self.held))

    def chunk(self, repetitions: int | None) -> int:
        """Records handled at once, so that memory does not grow with n or with the repetitions."""
        if isinstance(self.held, Stream):
            return self.held.rows
        leaves = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in jax.tree.leaves(self.held)]
        if repetitions is None:
            return _chunk(leaves)
        return _chunk(leaves, max(1 << 14, (1 << 21) // repetitions))

    def total(
        self, row: Row, chunk: int, sums: Callable[[Batch, Array], PyTree[Array]]
    ) -> PyTree[Array]:
        """`sums(records, present)` of the row's batch, or of all, at most `chunk` at a time."""

        def some(batch: Batch, present: Array) -> PyTree[Array]:
            return sums(*unfolded(batch, present))

        if row.indices is None:
            return over_chunks(self.held, chunk, some)
        present = jnp.ones(row.indices.shape[0]) if row.mask is None else row.mask
        return some(jax.tree.map(lambda x: x[row.indices], self.held), present)

    def blocks(self, chunk: int) -> Iterator[tuple[Batch, Any]]:
        """Records in memory in blocks of one public size, of `chunk` entries at most, with their
        weights; the last block is filled up, so that few sizes occur.
        """
        held = jax.tree.map(np.asarray, self.held)
        n = len(jax.tree.leaves(held)[0])
        rows = rows_of(n, chunk)
        for start in range(0, n, rows):
            part = jax.tree.map(lambda x, s=start: x[s : s + rows], held)
            yield unfolded(*filled_up(rows, part, np.ones(min(rows, n - start))))

    # ------------------------------------------------------------------ read part by part
    def total_of_parts(self, part: Any) -> PyTree[np.ndarray]:
        """The sum of part(records, _, weights) over the parts of a stream."""
        return self.held.sums(part)[0]

    def chosen(self, places: NDArray[np.int64], size: int) -> PrivateRecords:
        """The records of a stream at these places, which increase; `size`, public, decides how they
        are cut into parts. Without a place: one record that counts nothing.
        """
        if len(places) == 0:
            nothing = self.held.chosen(np.zeros(1, np.int64), size)
            return PrivateRecords(nothing.weighted(np.zeros(1), None))
        return PrivateRecords(self.held.chosen(places, size))

    def gathered(self, places: NDArray[np.int64], size: int) -> PrivateRecords:
        """The records of a stream at these places, which increase, in memory."""
        return PrivateRecords(self.held.gathered(places, size))

    # ------------------------------------------------------------------ without noise
    def objective(self, problem: Problem, w: Point) -> float:
        """`Problem.objective` over the records. NOT private."""
        if not isinstance(self.held, Stream):
            return problem.objective(w, self.held)
        total, weight = self.held.sums(partial(_summed_losses, problem.loss, w, self.held.rows))
        return float(total) / weight


def clamped(domain: Domain, records: Batch) -> Batch:
    """Records, or those of people, moved into a public ball. On NumPy, as those of a stream: of
    arrays of JAX each operation of a clamp is compiled by itself, which takes seconds.
    """
    moved = each_record(domain.clamp, jax.tree.map(np.asarray, records))
    return jax.tree.map(jnp.asarray, moved)


def _prepared_part(kernel: AbstractKernel, records: Batch) -> tuple[Any, None]:
    return prepared(kernel, records), None


def over_chunks(
    data: Batch, chunk: int, sums: Callable[[Batch, Array], PyTree[Array]]
) -> PyTree[Array]:
    """The sum of `sums(part, present)` over parts of at most `chunk` records."""
    n = jax.tree.leaves(data)[0].shape[0]
    if chunk >= n:
        return sums(data, jnp.ones(n))

    def one(i: Array) -> PyTree[Array]:
        start = jnp.minimum(i * chunk, n - chunk)
        part = jax.tree.map(lambda x: jax.lax.dynamic_slice_in_dim(x, start, chunk), data)
        # The last chunk overlaps the one before; what was counted there is not counted again.
        present = (start + jnp.arange(chunk) >= i * chunk).astype(jnp.float64)
        return sums(part, present)

    shapes = jax.eval_shape(one, jax.ShapeDtypeStruct((), jnp.int64))
    zero = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
    add = partial(jax.tree.map, jnp.add)
    return jax.lax.fori_loop(0, -(-n // chunk), lambda i, total: add(total, one(i)), zero)


def unfolded(batch: Batch, present: AnyArray) -> tuple[Batch, Any]:
    """The records of a batch, and the weight of each: of records `present` itself, of people that
    of the person times the record's share.
    """
    if not isinstance(batch, Grouped):
        return batch, present
    weights = present[:, None] * batch.shares
    return flat(batch.records), weights.reshape(-1)


def weights_of(norms: AnyArray, clip: AnyArray | float | None) -> Any:
    """min(1, clip / norm) for each record; 0 where its vector is NaN or infinite, and for all where
    the clip norm is so small that the squares in a norm above it could underflow. With None nothing
    is clipped.
    """
    xp = namespace(norms, clip)
    if clip is None:
        return xp.where(xp.isfinite(norms), 1.0, 0.0)
    shrunk = xp.where(norms > clip, clip / xp.where(norms > 0.0, norms, 1.0), 1.0)
    return xp.where(xp.isfinite(norms) & (clip >= SMALLEST_MAGNITUDE), shrunk, 0.0)


def whole_sum(
    coordinates: AnyArray,
    present: AnyArray,
    clip: AnyArray | float,
    grid: AnyArray | float,
    weights: Callable[[Any, Any], Any] = weights_of,
) -> Any:
    """The sum of per-record vectors (n, dim), each clipped and cut to whole steps of the grid,
    towards 0, before it is added: int64 (dim,). Of NumPy, or compiled.

    A record's whole numbers have length at most clip / grid times its entry of `present`, by the
    rounding of a norm and of three products within `slack`, and by truncation.
    """
    xp = namespace(coordinates)
    slack = 1e-12 + coordinates.shape[1] * 2.0**-52
    norms = xp.sqrt(xp.sum(coordinates**2, axis=1))
    w = (weights(norms, clip * (1.0 - slack)) * present)[:, None]
    # A record of weight 0 may hold NaN.
    return exact_sum(xp.where(w != 0.0, xp.trunc(w / grid * coordinates), 0.0))


def exact_sum(whole: AnyArray) -> Any:
    """The sum of rows of whole numbers up to 2^32, in float64, as int64. So many rows add without
    rounding in any order; more are added modulo 2^64, which loses nothing either.
    """
    if whole.shape[0] > _EXACT_ROWS:
        whole = whole.astype(np.int64)
    return namespace(whole).sum(whole, axis=0).astype(np.int64)


def filled_up(
    rows: int, part: Any, weights: NDArray[np.float64]
) -> tuple[Any, NDArray[np.float64]]:
    """Some records and their weights, filled up to a public number of rows with weights of 0: a
    program of another size rounds in another order, and would be compiled anew.
    """
    lack = rows - len(weights)
    if lack == 0:
        return part, weights
    more = jax.tree.map(
        lambda x: np.concatenate([x, np.broadcast_to(x[-1:], (lack, *x.shape[1:]))]), part
    )
    return more, np.concatenate([weights, np.zeros(lack)])


def _summed_losses(
    loss: Any, w: Point, rows: int, part: Any, _: Any, weights: NDArray[np.float64]
) -> Any:
    part, weights = filled_up(rows, part, weights)
    return weighted_pairwise(np.asarray(_losses(loss, w, part)), weights)


@partial(jax.jit, static_argnums=0)
def _losses(loss: Any, w: Point, part: Any) -> Array:
    return jax.vmap(loss, (None, 0))(w, part)
