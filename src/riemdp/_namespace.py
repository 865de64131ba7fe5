"""One formula for any array: which library computes it, and what is not the same call in all.

A formula asks `namespace(p, v)` and calls functions of the array API on what it gets: NumPy where
every argument is NumPy's (or a number), JAX where one is JAX's, also inside its transformations,
and else the library that the arrays come from. JAX is imported where an array of it was given, and
nowhere else.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import jax

    Array: TypeAlias = np.ndarray | jax.Array

Floats: TypeAlias = NDArray[np.float64]

P = ParamSpec("P")
R = TypeVar("R")
_HOST = (np.ndarray, np.generic, float, int)


def namespace(*arrays: Any) -> Any:
    """The library that computes with these arrays; tuples are looked into, None is passed over."""
    for x in arrays:
        if isinstance(x, _HOST) or x is None:
            continue
        found = namespace(*x) if isinstance(x, tuple) else _other(x)
        if found is not np:
            return found
    return np


def _other(x: Any) -> Any:
    if is_jax(x):
        import jax.numpy

        return jax.numpy
    from array_api_compat import array_namespace

    return array_namespace(x)


def is_jax(x: Any) -> bool:
    """Whether x is an array of JAX's, a traced one too."""
    return "jax" in sys.modules and isinstance(x, sys.modules["jax"].Array)


def is_traced(x: Any) -> bool:
    """Whether x has no value yet, inside a transformation of JAX."""
    return is_jax(x) and isinstance(x, sys.modules["jax"].core.Tracer)


def stop_gradient(x: Any) -> Any:
    """x, through which JAX takes no derivative."""
    if namespace(x) is not sys.modules.get("jax.numpy"):
        return x
    import jax

    return jax.lax.stop_gradient(x)


def with_derivative(
    rule: Callable[..., Any], static: tuple[int, ...] = ()
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Give a formula a rule of its own for JAX's derivatives: `rule(*statics, primals, tangents)`,
    as of `jax.custom_jvp`. Other libraries run the formula as it is.

    Args:
        rule: Gives the value and its derivative.
        static: Positions of arguments without a derivative.
    """

    def given(f: Callable[P, R]) -> Callable[P, R]:
        @functools.cache
        def differentiable() -> Callable[..., R]:
            import jax

            known = jax.custom_jvp(f, nondiff_argnums=static)
            known.defjvp(rule)
            return known

        @functools.wraps(f)
        def call(*arguments: P.args, **named: P.kwargs) -> R:
            xp = namespace(*(x for i, x in enumerate(arguments) if i not in static))
            if xp is not sys.modules.get("jax.numpy"):
                return f(*arguments, **named)
            return differentiable()(*arguments, **named)

        return call

    return given
