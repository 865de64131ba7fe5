"""The sum of clipped gradients in coordinates, for a sum over several sites (`_secure_sum`).

Each record becomes a vector of coordinates in the orthonormal frame of the point, by whatever
arithmetic, and that vector is clipped. So neighbours differ by what rounding of the *sum* and two
clipped vectors can make, on every manifold: the sensitivity is 2 C (1 + 1e-9) and twice the
rounding of a sum of n terms of length C.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray

from .._errors import invalid
from ..domains._frame import BLOCK, summation_error
from ..domains._stream import pairwise_sum
from ..manifolds._base import AbstractManifold, Point
from ..problems._problem import Batch, Problem
from ._kernels import gradient_function
from ._people import Grouped
from ._records import clamped, unfolded

MOST_ROUNDING = 1e-5  # of a sum of clipped gradients, as a part of the clip norm
_SMALLEST_BLOCK = 64


def sum_sensitivity(clip: float) -> float:
    """How far one record moves the sum, at most, for as many records as `clipped_sum` takes."""
    return 2.0 * clip * (1.0 + 1e-9 + MOST_ROUNDING)


def clipped_sum(
    problem: Problem, records: Batch, point: Point, clip: float, *, centered: bool
) -> NDArray[np.float64]:
    """Coordinates (dim,) at `point` of sum_i clip_C(gradient_i - center).

    Of people (`People`): the sum over people of the mean of each one's clipped gradients.

    Args:
        problem: What is minimised.
        records: The private records, along a leading axis; or people, as `Grouped`.
        point: An admitted point of the manifold.
        clip: C.
        centered: Move records into the problem's ball, and clip about the gradient at its centre.

    Raises:
        InvalidArgument: There are more than about 1e7 records; from their public number.

    Guarantee:
        Replacing one record, or everything of one person, moves the result by at most
        `sum_sensitivity(clip)`.

    Source:
        Proof: docs/proofs/secure-sums.md, docs/proofs/people.md.
    """
    manifold, gradient = problem.manifold, gradient_function(problem)
    n = jax.tree.leaves(records)[0].shape[0]
    places = records.shares.shape[1] if isinstance(records, Grouped) else 1
    if n * summation_error(n * places) * max(1.0, places / BLOCK) > MOST_ROUNDING:
        raise invalid("records", n, "so many records of one site round too much; use fewer")
    center = jnp.zeros(manifold.dim)
    if centered:
        assert problem.ball is not None
        records = clamped(problem.ball.on(manifold), records)
        center = jnp.asarray(center_gradient(problem, point))
    size = max(1, BLOCK // places)
    while size >= 2 * n and size > _SMALLEST_BLOCK:
        size //= 2
    parts = [
        np.asarray(_block(manifold, gradient, point, center, clip, *_cut(records, start, size, n)))
        for start in range(0, n, size)
    ]
    return pairwise_sum(np.stack(parts))


def center_gradient(problem: Problem, point: Point) -> NDArray[np.float64]:
    """Coordinates (dim,) at `point` of the gradient of the centre of the problem's ball. Public;
    0 where it is not finite.
    """
    assert problem.ball is not None
    center = problem.ball.on(problem.manifold).center
    one = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], center)
    zero, everything = jnp.zeros(problem.manifold.dim), jnp.ones(1)
    gradient = gradient_function(problem)
    return np.asarray(_block(problem.manifold, gradient, point, zero, jnp.inf, one, everything))


def _cut(records: Batch, start: int, size: int, n: int) -> tuple[Batch, NDArray[np.float64]]:
    """`size` records from `start` on; the last one again where there are no more, with weight 0."""
    places = start + np.arange(size)
    inside = np.minimum(places, n - 1)
    return jax.tree.map(lambda x: x[inside], records), (places < n).astype(np.float64)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _block(
    manifold: AbstractManifold,
    gradient: Callable[[Point, Any], Any],
    point: Point,
    center: Array,
    clip: Array | float,
    records: Batch,
    present: Array | NDArray[np.float64],
) -> Array:
    def coordinates(record: Any) -> Array:
        tangent = manifold._to_tangent(point, gradient(point, record))
        return jnp.asarray(manifold._to_coordinates(point, tangent)) - center

    records, present = unfolded(records, jnp.asarray(present))
    y = jax.vmap(coordinates)(records)
    length = jnp.sqrt(jnp.sum(y**2, axis=-1))
    factor = jnp.where(length > clip, clip / jnp.where(length > 0.0, length, 1.0), 1.0)
    weight = jnp.where(jnp.isfinite(length), factor, 0.0) * present
    # A record of weight 0 may hold NaN, and 0 * NaN is NaN.
    return jnp.sum(jnp.where(weight[:, None] != 0.0, weight[:, None] * y, 0.0), axis=0)
