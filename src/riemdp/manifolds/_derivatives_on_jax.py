"""Formulas that a space without closed forms takes from derivatives, by JAX."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp


def gradient(manifold: Any, p: Any, g: Any) -> Any:
    """The Riemannian gradient: its coordinates are derivatives along the orthonormal frame."""
    zero = jnp.zeros((*manifold._batch_shape(p), manifold.dim))
    _, pull_back = jax.vjp(lambda c: manifold._from_coordinates(p, c), zero)
    return manifold._from_coordinates(p, pull_back(g)[0])


def log_volume_density(manifold: Any, p: Any, v: Any) -> Any:
    """log |det D exp_p(v)| of each pair."""

    def at(p: Any, v: Any) -> Any:
        frame = manifold._from_coordinates(p, jnp.eye(manifold.dim))
        moved = jax.vmap(lambda e: jax.jvp(lambda w: manifold._exp(p, w), (v,), (e,))[1])(frame)
        return jnp.linalg.slogdet(manifold._to_coordinates(manifold._exp(p, v), moved))[1]

    core = "(" + ",".join(f"d{i}" for i in range(len(manifold.shape))) + ")"
    each = jnp.vectorize(at, signature=f"{core},{core}->()")
    return each(jnp.asarray(p), jnp.asarray(v))
