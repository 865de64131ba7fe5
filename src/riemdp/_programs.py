"""Where a function runs: on NumPy as it is, on JAX as one compiled program."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import sys
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar, dataclass_transform

from ._errors import check_float64
from ._namespace import is_jax

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=type)


def compiled(*static: int) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """A function that runs as it is where no argument is a JAX array, also in tuples, and else by
    `jax.jit`.

    Args:
        static: Positions of the static arguments.
    """

    def given(f: Callable[..., R]) -> Callable[..., R]:
        @functools.cache
        def program() -> Callable[..., R]:
            return _jax().jit(f, static_argnums=static)

        @functools.wraps(f)
        def call(*arguments: Any) -> R:
            if not _some_jax(arguments):
                return f(*arguments)
            return program()(*arguments)

        return call

    return given


def _some_jax(x: Any) -> bool:
    return any(map(_some_jax, x)) if isinstance(x, tuple) else is_jax(x)


@functools.cache
def _jax() -> Any:
    """JAX, which hands a program of a few microseconds to no other thread: that takes fifty. It
    reads this when it first computes; before that, a user may set it back.
    """
    import jax

    with contextlib.suppress(AttributeError):  # a version of JAX without this option
        jax.config.update("jax_cpu_enable_async_dispatch", False)
    return jax


if "jax" in sys.modules:
    _jax()


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def traced(*static: str) -> Callable[[C], C]:
    """For a class: a frozen dataclass whose fields are arguments of a compiled function.

    Args:
        static: Names of fields that are part of the program instead: hashable, no arrays.
    """

    def given(cls: C) -> C:
        made = dataclasses.dataclass(frozen=True)(cls)
        data = tuple(f.name for f in dataclasses.fields(made) if f.name not in static)

        def flatten(x: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
            return tuple(getattr(x, name) for name in data), tuple(getattr(x, n) for n in static)

        def unflatten(fixed: tuple[Any, ...], arguments: tuple[Any, ...]) -> Any:
            return made(**dict(zip((*static, *data), (*fixed, *arguments), strict=True)))

        # Not `register_dataclass`: for it two classes of equal fields are one, so that now and then
        # (where hashes share a place of a table) the program of one runs for the other.
        _jax().tree_util.register_pytree_node(made, flatten, unflatten)
        return made

    return given


def double_precision() -> contextlib.AbstractContextManager[None]:
    """A context in which this thread computes in float64, whatever another one sets meanwhile, and
    JAX looks for no NaN.

    Raises:
        PrecisionError: JAX's 64 bits are switched off.
    """
    check_float64()
    jax = sys.modules.get("jax")
    return contextlib.nullcontext() if jax is None else _in_64_bits(jax)


def _in_64_bits(jax: Any) -> contextlib.AbstractContextManager[None]:
    # a name of `jax.experimental` in older versions
    home = jax if hasattr(jax, "enable_x64") else importlib.import_module("jax.experimental")
    if jax.config.jax_debug_nans or jax.config.jax_debug_infs:
        return _undisturbed(jax, home)
    return home.enable_x64(True)


@contextlib.contextmanager
def _undisturbed(jax: Any, home: Any) -> Iterator[None]:
    """With `jax_disable_jit` these raise in the middle of a formula: one record would decide."""
    with home.enable_x64(True), jax.debug_nans(False), jax.debug_infs(False):
        yield
