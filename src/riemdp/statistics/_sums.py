"""Sums of many terms in a fixed order: the rounding error is bounded by a public number."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from ..domains._frame import BLOCK
from ..manifolds._base import Point


def weighted_sum(weights: jax.Array, x: Point) -> Point:
    """sum_i w_i x_i over the leading axis, in blocks of at most 4096 terms.

    The relative error is at most `domains._frame.summation_error(n)`, whatever the order inside a
    block.
    """
    return jax.tree.map(lambda leaf: _weighted(weights, leaf), x)


def _weighted(weights: jax.Array, x: jax.Array) -> jax.Array:
    n = x.shape[0]
    if n <= BLOCK:
        return jnp.tensordot(weights, x, axes=1)
    whole = n // BLOCK
    cut = whole * BLOCK
    blocks = jnp.einsum(
        "bi,bi...->b...",
        weights[:cut].reshape(whole, BLOCK),
        x[:cut].reshape(whole, BLOCK, *x.shape[1:]),
    )
    rest = jnp.tensordot(weights[cut:], x[cut:], axes=1)[None]
    partial = jnp.concatenate([blocks, rest])
    return _weighted(jnp.ones(whole + 1), partial)


def pairwise(terms: Sequence[np.ndarray]) -> np.ndarray:
    """The sum of at least one term, added in pairs."""
    level = list(terms)
    while len(level) > 1:
        pairs = [a + b for a, b in zip(level[::2], level[1::2], strict=False)]
        level = pairs if len(level) % 2 == 0 else [*pairs, level[-1]]
    return level[0]
