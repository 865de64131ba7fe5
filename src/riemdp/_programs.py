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
import numpy as np
from jax.core import Tracer

from ._scalars import Formula, Unsupported

R = TypeVar("R")
_OLDER = {"xla_cpu_use_fusion_emitters": False}
_PLAIN = {**_OLDER, "xla_backend_optimization_level": 0}
_SHORT = 16  # entries of a vector, and
_FEW = 96  # numbers in all, with which a formula is written out
_SMALL = 256  # numbers in each argument with which an operation is compiled as for one point
_FLOAT = np.dtype(np.float64)


def for_one_point(*static: int) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Compile a function that the host calls with one point at a time (and that also works under a
    transformation of JAX).

    Args:
        static: Positions of the static arguments.
    """

    def compiled(f: Callable[..., R]) -> Callable[..., R]:
        usual = _compiled(static, _PLAIN, lambda _: True, f)
        return _in_scalars(f, usual) if static == (0,) else usual

    return compiled


def for_few_points(f: Callable[..., R]) -> Callable[..., R]:
    """Compile a function of a manifold, its first argument, and of points that often are one."""
    return _in_scalars(f, jax.jit(f, static_argnums=0))


def for_records(*static: int) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Compile a function of a manifold, its first argument, and many of its points."""
    return functools.partial(_compiled, static, _OLDER, lambda manifold: len(manifold.shape) == 1)


def _in_scalars(f: Callable[..., R], usual: Callable[..., R]) -> Callable[..., R]:
    """f written out where a point is a short vector and a formula can be, else the program."""
    known: dict[Any, Formula | None] = {}

    @functools.wraps(f)
    def call(*arguments: Any) -> R:
        manifold = arguments[0]
        shape = manifold.shape
        if len(shape) != 1 or not isinstance(shape[0], int) or shape[0] > _SHORT:
            return usual(*arguments)
        leaves, tree = jax.tree.flatten(arguments[1:])
        given = _flat(leaves)
        if given is None:
            return usual(*arguments)
        numbers, shapes = given
        key = (manifold, tree, shapes)
        if key not in known:
            try:
                known[key] = Formula(functools.partial(f, manifold), arguments[1:])
            except Unsupported:
                known[key] = None
        formula = known[key]
        if formula is not None:
            try:
                return formula(numbers)
            except (ArithmeticError, ValueError):
                pass  # an infinity or a NaN, which Python does not give
        return usual(*arguments)

    return call


def _flat(leaves: list[Any]) -> tuple[list[Any], tuple[Any, ...]] | None:
    """The numbers in each leaf, and its shape; None where one is traced, no array of float64, or
    where they are many.
    """
    numbers: list[Any] = []
    shapes: list[Any] = []
    for leaf in leaves:
        if type(leaf) is float:
            numbers.append((leaf,))
            shapes.append(())
            continue
        if isinstance(leaf, Tracer) or getattr(leaf, "dtype", None) != _FLOAT:
            return None
        array = np.asarray(leaf)
        if array.size > _FEW:
            return None
        numbers.append(array.ravel().tolist())
        shapes.append(array.shape)
    return numbers, tuple(shapes)


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


@functools.partial(jax.jit, static_argnums=(0, 1))
def _operation(manifold: Any, name: str, *arguments: Any) -> Any:
    return getattr(manifold, name)(*arguments)


@for_one_point(0, 1)
def _small_operation(manifold: Any, name: str, *arguments: Any) -> Any:
    return getattr(manifold, name)(*arguments)


def operation(manifold: Any, name: str, *arguments: Any) -> Any:
    """What the method of this name gives, compiled as for one point where there are few numbers."""
    return (_small_operation if _are_small(arguments) else _operation)(manifold, name, *arguments)


def _are_small(arguments: tuple[Any, ...]) -> bool:
    return all(
        _are_small(x) if type(x) is tuple else getattr(x, "size", 1) <= _SMALL for x in arguments
    )
