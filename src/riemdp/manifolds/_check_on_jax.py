"""What the properties behind `check` ask of JAX: derivatives, and compiled formulas."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

if TYPE_CHECKING:
    from ._base import AbstractManifold as Manifold
    from ._base import Point, Tangent


@functools.cache
def compiled(f: Callable[..., Any], *static: int) -> Callable[..., Any]:
    """f of JAX arrays, compiled."""
    program = jax.jit(f, static_argnums=static)

    def call(*arguments: Any) -> Any:
        return program(
            *(x if i in static else jax.tree.map(jnp.asarray, x) for i, x in enumerate(arguments))
        )

    return call


def squared_dist_gradients(m: Manifold, p: Point, q: Point) -> tuple[Any, Any]:
    return jax.grad(lambda x, y: m._squared_dist(x, y).sum(), argnums=(0, 1))(p, q)


def derivatives(
    m: Manifold, arguments: dict[str, tuple[Any, ...]], u: Tangent
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Of each formula: all gradients of the sum of its entries; of exp and log also the derivative
    along u.
    """
    reverse: dict[str, Any] = {}
    forward: dict[str, Any] = {}
    for operation, at in arguments.items():
        f = getattr(m, operation)
        try:
            out, pull = jax.vjp(f, *at)
        except NotImplementedError:
            continue
        reverse[operation] = pull(jax.tree.map(jnp.ones_like, out))
        if operation in ("_exp", "_log"):
            forward[operation] = jax.jvp(f, at, (jax.tree.map(jnp.zeros_like, at[0]), u))[1]
    return reverse, forward
