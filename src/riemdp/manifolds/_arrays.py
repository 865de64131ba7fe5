"""What users give as arrays, as float64 arrays of a known trailing shape; tuples of arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .._errors import HERMITIAN, InvalidArgument, invalid, shape_hint
from .._namespace import is_jax, namespace

if TYPE_CHECKING:
    from jaxtyping import Float

    from .._namespace import Array


def draws_from(name: str, rng: Any) -> Any:
    """A NumPy generator, also for a seed, or the key of JAX that was given."""
    if is_jax(rng) or isinstance(rng, np.random.Generator):
        return rng
    if isinstance(rng, int | np.integer) and not isinstance(rng, bool) and rng >= 0:
        return np.random.default_rng(rng)
    raise invalid(
        name, rng, "give a numpy.random.Generator, a whole number (a seed) or a key of JAX"
    )


def standard_normals(rng: Any, shape: tuple[int, ...]) -> Any:
    """Independent standard normals of a NumPy generator, or of a key of JAX."""
    if isinstance(rng, np.random.Generator):
        return rng.standard_normal(shape)
    import jax

    return jax.random.normal(rng, shape, dtype=np.float64)


def split(rng: Any, count: int) -> list[Any]:
    """What as many independent draws come from: the generator itself, which goes on, or keys."""
    if isinstance(rng, np.random.Generator):
        return [rng] * count
    import jax

    return list(jax.random.split(rng, count))


def coerce_array(
    name: str, x: Any, trailing: tuple[int, ...], owner: object, what: str = ""
) -> Float[Array, "*batch *shape"]:
    """x as a float64 array in C order: JAX's for a JAX array (or a list of such), NumPy's for a
    NumPy array, a list or a number, and else what follows the array API as it comes.

    Raises:
        InvalidArgument: It is no array of real numbers, or has another trailing shape.
    """
    # In another order, a sum over the last axis would round otherwise.
    if type(x) is np.ndarray and x.dtype == np.float64 and x.flags.c_contiguous:
        array = x if x.dtype.isnative else x.astype(np.float64)
    else:
        array = _converted(name, x, trailing, owner, what)
    n = len(trailing)
    if array.ndim < n or tuple(array.shape[array.ndim - n :]) != trailing:
        raise InvalidArgument(
            f"argument `{name}` has shape {tuple(array.shape)}; {owner}{what} needs trailing shape"
            f" {trailing} (leading axes are batch axes)"
            + shape_hint(name, array.shape, trailing, type(x).__name__)
        )
    return array


def _converted(name: str, x: Any, trailing: tuple[int, ...], owner: object, what: str) -> Any:
    try:
        if isinstance(x, list | tuple) and any(map(is_jax, x)):
            import jax.numpy as jnp

            array = jnp.asarray(x)
        elif is_jax(x) or (not isinstance(x, np.ndarray) and hasattr(x, "__array_namespace__")):
            array: Any = x
        else:
            array = np.asarray(x)
            if array.dtype.kind in "OSUT" and not isinstance(x, np.ndarray):
                raise TypeError
    except (TypeError, ValueError, OverflowError):
        # Without the cause: its message may quote an entry of a private record.
        raise InvalidArgument(
            f"argument `{name}` is a {type(x).__name__} that is not an array of real numbers;"
            f" {owner}{what} needs one with trailing shape {trailing}"
        ) from None
    xp = namespace(array)
    is_complex = xp.isdtype(array.dtype, "complex floating")
    if is_complex or not xp.isdtype(array.dtype, ("integral", "real floating")):
        raise InvalidArgument(
            f"argument `{name}` has dtype {array.dtype}; {owner}{what} needs real numbers"
            " (float64)" + (f"; {HERMITIAN}" if is_complex else "")
        )
    if xp is np:
        return np.asarray(array, dtype=np.float64, order="C")
    return array if array.dtype == xp.float64 else xp.astype(array, xp.float64)
