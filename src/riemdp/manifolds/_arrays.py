"""What users give as arrays, as float64 arrays of a known trailing shape."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._errors import HERMITIAN, InvalidArgument, shape_hint


def standard_normals(rng: Any, shape: tuple[int, ...]) -> Any:
    """Independent standard normals of a NumPy generator, or of a key of JAX's."""
    if isinstance(rng, np.random.Generator):
        return rng.standard_normal(shape)
    return jax.random.normal(rng, shape, dtype=jnp.float64)


def split(rng: Any, count: int) -> list[Any]:
    """What as many independent draws come from: the generator itself, which goes on, or keys."""
    if isinstance(rng, np.random.Generator):
        return [rng] * count
    return list(jax.random.split(rng, count))


def coerce_array(
    name: str, x: Any, trailing: tuple[int, ...], owner: object, what: str = ""
) -> Float[Array, "*batch *shape"]:
    if isinstance(x, jax.Array) and x.dtype == jnp.float64:
        array = x
    elif type(x) is np.ndarray and x.dtype == np.float64:
        array = jnp.asarray(x)
    else:
        if isinstance(x, np.ndarray) and not x.dtype.isnative:  # as files of other machines hold it
            x = x.astype(x.dtype.newbyteorder("="))
        try:
            array = jnp.asarray(x)
        except (TypeError, ValueError, OverflowError):
            # Without the cause: its message may quote an entry of a private record.
            raise InvalidArgument(
                f"argument `{name}` is a {type(x).__name__} that is not an array of real numbers;"
                f" {owner}{what} needs one with trailing shape {trailing}"
            ) from None
        is_complex = jnp.issubdtype(array.dtype, jnp.complexfloating)
        if is_complex or not jnp.issubdtype(array.dtype, jnp.number):
            raise InvalidArgument(
                f"argument `{name}` has dtype {array.dtype}; {owner}{what} needs real numbers"
                " (float64)" + (f"; {HERMITIAN}" if is_complex else "")
            )
        array = array.astype(jnp.float64)
    n = len(trailing)
    if array.ndim < n or array.shape[array.ndim - n :] != trailing:
        raise InvalidArgument(
            f"argument `{name}` has shape {array.shape}; {owner}{what} needs trailing shape"
            f" {trailing} (leading axes are batch axes)"
            + shape_hint(name, array.shape, trailing, type(x).__name__)
        )
    return array
