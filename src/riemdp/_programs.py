"""Programs that a first call does not wait long for.

XLA compiles for large arrays: half a second for what takes microseconds on one point, four times in
a first mean. Programs for one point are compiled without optimisation, those for records by XLA's
older way to fuse operations and, where a record is a matrix, with the first level of optimisation:
half as long, and the programs are no slower.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ParamSpec, TypeVar

import jax
import jax.experimental
import numpy as np
from jax.core import Tracer

from ._errors import check_float64
from ._scalars import Formula, Unsupported

# To hand a program of a few microseconds to another thread, as JAX does unless it is told not to,
# takes fifty. JAX reads this when it first computes; before that, a user may set it back.
with contextlib.suppress(AttributeError):  # a version of JAX without this option
    jax.config.update("jax_cpu_enable_async_dispatch", False)

# a name of `jax.experimental` in older versions
_home: Any = jax if hasattr(jax, "enable_x64") else jax.experimental
_enable_x64: Callable[[bool], contextlib.AbstractContextManager[None]] = _home.enable_x64

P = ParamSpec("P")
R = TypeVar("R")
_Options = tuple[tuple[str, Any], ...]
_OLDER: _Options = (("xla_cpu_use_fusion_emitters", False),)
_PLAIN: _Options = (*_OLDER, ("xla_backend_optimization_level", 0))
# Clamps of SPD(5) to SPD(50) and of subspaces take .97 to 1.04 of the time that the usual programs
# take; those of long vectors need the usual level.
_FIRST: _Options = (*_OLDER, ("xla_backend_optimization_level", 1))
# Ten thousand normals and more in the widest registers take .6 to .75 of the time of half as wide.
_WIDE: _Options = (("xla_cpu_prefer_vector_width", 512),)
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
        usual = _compiled(static, lambda _: _PLAIN, f)
        return _in_scalars(f, usual) if static == (0,) else usual

    return compiled


def for_few_points(f: Callable[..., R]) -> Callable[..., R]:
    """Compile a function of a manifold, its first argument, and of points that often are one."""
    return _in_scalars(f, jax.jit(f, static_argnums=0))


def for_records(*static: int) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Compile a function of a manifold, its first argument, and many of its points."""
    return functools.partial(
        _compiled, static, lambda manifold: _OLDER if len(manifold.shape) == 1 else _FIRST
    )


def for_normals(*static: int) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Compile a function that draws many normals."""
    return functools.partial(_compiled, static, lambda _: _WIDE)


def _in_scalars(f: Callable[..., R], usual: Callable[..., R]) -> Callable[..., R]:
    """f written out where a point is a short vector and a formula can be, else the program."""
    known: dict[Any, Formula | None] = {}
    last: tuple[Any, Any, Formula | None] = (None, None, None)  # a release asks for one again

    @functools.wraps(f)
    def call(manifold: Any, *arguments: Any) -> R:
        nonlocal last
        given = _flat(arguments) if manifold is last[0] or _is_short(manifold) else None
        if given is None:
            return usual(manifold, *arguments)
        numbers, form = given
        of, of_form, formula = last
        if of is not manifold or of_form != form:
            key = manifold, form
            if key not in known:
                known[key] = _written(f, manifold, arguments)
            formula = known[key]
            last = manifold, form, formula
        if formula is not None:
            try:
                return formula(numbers)
            except (ArithmeticError, ValueError):
                pass  # an infinity or a NaN, which Python does not give
        return usual(manifold, *arguments)

    return call


def _is_short(manifold: Any) -> bool:
    """Whether a point is a short vector."""
    shape = manifold.shape
    return len(shape) == 1 and isinstance(shape[0], int) and shape[0] <= _SHORT


def _written(f: Callable[..., Any], manifold: Any, arguments: tuple[Any, ...]) -> Formula | None:
    try:
        return Formula(functools.partial(f, manifold), arguments)
    except Unsupported:
        return None


def _flat(arguments: Sequence[Any]) -> tuple[list[Any], tuple[Any, ...]] | None:
    """The numbers in each leaf, and the form of all: shapes, and how they are nested. None where a
    leaf is traced, no array of float64, or has many numbers.
    """
    numbers: list[Any] = []
    form: list[Any] = []
    for one in arguments:
        kind = type(one)
        if kind is float or kind is np.float64:
            numbers.append((float(one),))
            form.append(())
        elif kind is np.ndarray or isinstance(one, np.ndarray | jax.Array):
            if isinstance(one, Tracer) or one.dtype != _FLOAT or one.size > _FEW:
                return None
            array = np.asarray(one)
            numbers.append(array.tolist() if array.ndim == 1 else array.ravel().tolist())
            form.append(array.shape)
        elif one is None:
            form.append(None)
        elif kind is tuple or (kind.__bases__ == (tuple,) and hasattr(kind, "_fields")):
            # what a tree of JAX's would say
            inner = _flat(one)
            if inner is None:
                return None
            numbers += inner[0]
            form.append((kind, inner[1]))
        else:
            leaves, tree = jax.tree.flatten(one)
            inner = None if leaves and leaves[0] is one else _flat(leaves)
            if inner is None:
                return None
            numbers += inner[0]
            form.append((tree, inner[1]))
    return numbers, tuple(form)


def _compiled(
    static: tuple[int, ...],
    options: Callable[[Any], _Options],
    f: Callable[..., R],
) -> Callable[..., R]:
    usual = jax.jit(f, static_argnums=static)

    @functools.cache
    def quick(wanted: _Options) -> Callable[..., R]:
        return jax.jit(f, static_argnums=static, compiler_options=_known(wanted))

    @functools.wraps(f)
    def call(*arguments: Any) -> R:
        if isinstance(arguments[-1], Tracer):
            return usual(*arguments)
        try:
            return quick(options(arguments[0]))(*arguments)
        except ValueError as error:
            # A program has options, a part of one has none: the last argument did not show that
            # this call is a part.
            if "compiler_options" not in str(error):
                raise
            return usual(*arguments)

    return call


def _known(options: _Options) -> dict[str, Any] | None:
    """Those of the options that this version of XLA has. None on an accelerator, where nobody has
    measured what they do.
    """
    if jax.default_backend() != "cpu":
        return None
    return {name: value for name, value in options if is_known(name, value)} or None


@functools.cache
def is_known(name: str, value: Any) -> bool:
    """Whether this version of XLA has an option."""
    try:
        jax.jit(lambda: 0, compiler_options={name: value}).lower().compile()
    except Exception:  # of a type of its own in each version
        return False
    return True


def double_precision() -> contextlib.AbstractContextManager[None]:
    """A context in which this thread computes in float64, whatever another one sets meanwhile, and
    JAX looks for no NaN.

    Raises:
        PrecisionError: JAX's 64 bits are switched off.
    """
    check_float64()
    told: Any = jax.config
    if told.jax_debug_nans or told.jax_debug_infs:
        return _undisturbed()
    return _enable_x64(True)


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """With `jax_disable_jit` these raise in the middle of a formula: one record would decide."""
    with _enable_x64(True), jax.debug_nans(False), jax.debug_infs(False):
        yield


def in_double_precision(function: Callable[P, R]) -> Callable[P, R]:
    """The function, computed within `double_precision`."""

    @functools.wraps(function)
    def call(*arguments: P.args, **options: P.kwargs) -> R:
        with double_precision():
            return function(*arguments, **options)

    return call


def _named(manifold: Any, name: str, *arguments: Any) -> Any:
    return getattr(manifold, name)(*arguments)


_of_few, _of_many = for_one_point(0, 1)(_named), jax.jit(_named, static_argnums=(0, 1))


def operation(manifold: Any, name: str, *arguments: Any) -> Any:
    """What the method of this name gives, compiled as for one point where there are few numbers."""
    return (_of_few if _are_small(arguments) else _of_many)(manifold, name, *arguments)


def _are_small(arguments: tuple[Any, ...]) -> bool:
    return all(
        _are_small(x) if type(x) is tuple else getattr(x, "size", 1) <= _SMALL for x in arguments
    )
