"""Programs that a first call does not wait long for.

XLA compiles for large arrays: half a second for what takes microseconds on one point, four times in
a first mean. Programs for one point are compiled without optimisation, those for vectors by XLA's
older way to fuse operations, which takes half as long and makes programs that are no slower; those
for matrices, which it makes slower, in the usual way.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import jax
from jax.core import Tracer

R = TypeVar("R")
_OLDER = {"xla_cpu_use_fusion_emitters": False}
_PLAIN = {**_OLDER, "xla_backend_optimization_level": 0}


def for_one_point(*static: int) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Compile a function that the host calls with one point at a time (and that also works under a
    transformation of JAX).

    Args:
        static: Positions of the static arguments.
    """
    return functools.partial(_compiled, static, _PLAIN, lambda _: True)


def for_records(*static: int) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Compile a function of a manifold, its first argument, and many of its points."""
    return functools.partial(_compiled, static, _OLDER, lambda manifold: len(manifold.shape) == 1)


def _compiled(
    static: tuple[int, ...],
    options: dict[str, Any],
    suits: Callable[[Any], bool],
    f: Callable[..., R],
) -> Callable[..., R]:
    usual = jax.jit(f, static_argnums=static)

    @functools.cache
    def quick() -> Callable[..., R]:
        known = options if _known(tuple(options.items())) else None
        return jax.jit(f, static_argnums=static, compiler_options=known)

    @functools.wraps(f)
    def call(*arguments: Any) -> R:
        if not suits(arguments[0]) or isinstance(arguments[-1], Tracer):
            return usual(*arguments)
        try:
            return quick()(*arguments)
        except ValueError as error:
            # A program has options, a part of one has none: the last argument did not show that
            # this call is a part.
            if "compiler_options" not in str(error):
                raise
            return usual(*arguments)

    return call


@functools.cache
def _known(options: tuple[tuple[str, Any], ...]) -> bool:
    """Whether this version of XLA has these options."""
    try:
        jax.jit(lambda: 0, compiler_options=dict(options)).lower().compile()
    except Exception:  # of a type of its own in each version
        return False
    return True
