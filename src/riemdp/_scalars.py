"""Formulas for one point, written out as arithmetic of Python's own floats.

A formula for one point of the sphere is a few hundred operations on single numbers: microseconds of
work, for which a compiled program takes tens of microseconds to be called, most of them because
what calls it has left the processor's caches meanwhile, and a fifth of a second to be compiled. So
a formula that JAX has traced is written out here, operation by operation, as a function of Python.

Not every formula can be (`Unsupported`), and not every value: where Python raises (a quotient by
zero, a root of a negative number, an overflow), float64 has a value all the same, and the compiled
program finds it. All else is IEEE arithmetic in the order of the formula; the elementary functions
are those of the C library.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

Atom = Any  # the name of a variable, or a number
Array = np.ndarray  # of atoms
Function = Callable[..., tuple[Any, ...]]

MOST = 3000  # operations with which Python is still faster
_FLOAT, _BOOL = np.dtype(np.float64), np.dtype(np.bool_)

_FUNCTIONS = (
    *("sqrt", "exp", "log", "expm1", "log1p", "sin", "cos", "tan", "asin", "acos", "atan"),
    *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
)
_TEXTS = {
    "add": "{} + {}",
    "add_any": "{} + {}",
    "sub": "{} - {}",
    "mul": "{} * {}",
    "div": "{} / {}",
    "neg": "-{}",
    "abs": "abs({})",
    "lt": "{} < {}",
    "le": "{} <= {}",
    "gt": "{} > {}",
    "ge": "{} >= {}",
    "eq": "{} == {}",
    "ne": "{} != {}",
    # NaN wins, as in XLA
    "max": "{0} if {0} >= {1} or {0} != {0} else {1}",
    "min": "{0} if {0} <= {1} or {0} != {0} else {1}",
    "square": "{0} * {0}",
    "is_finite": "isfinite({})",
    "rsqrt": "1.0 / sqrt({})",
    "atan2": "atan2({}, {})",
    **{name: f"{name}({{}})" for name in _FUNCTIONS},
}
_LOGICAL = {"and": "{} and {}", "or": "{} or {}", "not": "not {}"}
_INLINED = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
}
_SAME = ("stop_gradient", "copy", "copy_p", "optimization_barrier")


class Unsupported(Exception):
    """A formula has an operation that is not written out here, or too many of them."""


def _shorter(x: float, bits: int) -> float:
    """x to so many bits behind the leading one, ties to even."""
    if x == 0.0 or not math.isfinite(x):
        return x
    mantissa, exponent = math.frexp(x)
    return math.ldexp(round(math.ldexp(mantissa, bits + 1)), exponent - bits - 1)


_GLOBALS: dict[str, Any] = {
    **{name: getattr(math, name) for name in (*_FUNCTIONS, "atan2", "isfinite", "inf", "nan")},
    "shorter": _shorter,
}


class Formula:
    """A function of arrays and floats, as one of flat lists of floats.

    Args:
        f: A formula that JAX can trace.
        arguments: Its arguments, with arrays of float64 and floats as leaves.

    Raises:
        Unsupported: It cannot be written out.
    """

    def __init__(self, f: Callable[..., Any], arguments: Sequence[Any]):
        leaves, tree = jax.tree.flatten(tuple(arguments))
        shapes = [jax.ShapeDtypeStruct(np.shape(leaf), np.float64) for leaf in leaves]
        traced, out = jax.make_jaxpr(f, return_shape=True)(*jax.tree.unflatten(tree, shapes))
        self._run = _Writer().function(traced, [one.shape for one in jax.tree.leaves(shapes)])
        found, tree = jax.tree.flatten(out)
        self._forms = [(one.dtype, one.shape) for one in found]
        one, some = jax.tree.structure(0), jax.tree.structure(tuple(found))
        known: dict[Any, Callable[[list[Any]], Any]] = {one: lambda made: made[0], some: tuple}
        self._made = known.get(tree, functools.partial(jax.tree.unflatten, tree))

    def __call__(self, given: Sequence[Any]) -> Any:
        """The value, with arrays of NumPy's, for flat lists of floats, one a leaf.

        Raises:
            ArithmeticError, ValueError: Python has no value where float64 may have one.
        """
        made = [
            np.array(value, dtype) if len(shape) == 1 else np.array(value, dtype).reshape(shape)
            for value, (dtype, shape) in zip(self._run(*given), self._forms, strict=True)
        ]
        return self._made(made)


class _Writer:
    """Lines of Python, each operation once."""

    def __init__(self) -> None:
        self._count = itertools.count()
        self._lines: list[_Line] = []
        self._known: dict[str, str] = {}
        self._size = 0

    def function(self, traced: ClosedJaxpr, shapes: Sequence[tuple[int, ...]]) -> Function:
        head: list[str] = []
        given: list[Array] = []
        for i, shape in enumerate(shapes):
            names = [self._name() for _ in range(math.prod(shape))]
            if names:
                head.append(f"    ({', '.join(names)},) = a{i}")
            given.append(_atoms(names, shape))
        found = self._values(traced.jaxpr, traced.consts, given)
        flat = [atom for one in found for atom in one.ravel()]
        body = _kept(self._lines, {atom for atom in flat if isinstance(atom, str)})
        end = ", ".join(f"({''.join(_text(a) + ', ' for a in one.ravel())})" for one in found)
        text = "\n".join(
            [
                f"def formula({', '.join(f'a{i}' for i in range(len(given)))}):",
                *head,
                *itertools.chain.from_iterable(line.texts("    ") for line in body),
                f"    return ({end},)",
            ]
        )
        space: dict[str, Any] = dict(_GLOBALS)
        exec(compile(text, "<a formula for one point>", "exec"), space)
        return space["formula"]

    # ---------------------------------------------------------------- one expression after another
    def _name(self) -> str:
        return f"x{next(self._count)}"

    def _put(self, text: str, uses: Sequence[Atom]) -> str:
        """The variable that holds an expression."""
        if text not in self._known:
            name = self._known[text] = self._name()
            self._lines.append(_Assigned(name, text, {u for u in uses if isinstance(u, str)}))
            self._size += 1
            if self._size > MOST:
                raise Unsupported(f"more than {MOST} operations")
        return self._known[text]

    def _apply(self, pattern: str, *operands: Atom) -> Atom:
        text = pattern.format(*map(_text, operands))
        if not any(isinstance(a, str) for a in operands):
            try:
                return eval(text, dict(_GLOBALS))
            except (ArithmeticError, ValueError):
                pass  # where it is used, the compiled program finds its value
        return self._put(text, operands)

    def _each(self, pattern: str, *operands: Array) -> Array:
        wide = np.broadcast_arrays(*operands)
        found = [
            self._apply(pattern, *atoms) for atoms in zip(*(a.ravel() for a in wide), strict=True)
        ]
        return _atoms(found, wide[0].shape)

    def _folded(self, pattern: str, a: Array, axes: tuple[int, ...], nothing: Atom) -> Array:
        """What a pattern makes of the entries along some axes, one after another."""
        axes = tuple(sorted(axes))
        rest = [i for i in range(a.ndim) if i not in axes]
        shape, size = [a.shape[i] for i in rest], math.prod(a.shape[i] for i in axes)
        rows = a.transpose([*rest, *axes]).reshape(*shape, size)
        if size == 0:
            return _atoms([nothing] * math.prod(shape), shape)
        total = rows[..., 0]
        for j in range(1, size):
            total = self._each(pattern, total, rows[..., j])
        return total

    # ---------------------------------------------------------------- operations of JAX
    def _values(self, jaxpr: Jaxpr, consts: Sequence[Any], given: Sequence[Array]) -> list[Array]:
        held: dict[Any, Array] = {}
        for var, value in zip(jaxpr.constvars, consts, strict=True):
            held[var] = _constant(np.asarray(value))
        held.update(zip(jaxpr.invars, given, strict=True))

        def read(var: Any) -> Array:
            return _constant(np.asarray(var.val)) if isinstance(var, Literal) else held[var]

        for equation in jaxpr.eqns:
            if not equation.outvars:
                continue
            operands = [read(var) for var in equation.invars]
            found = self._equation(equation, operands)
            for var, value in zip(equation.outvars, found, strict=True):
                if value.shape != getattr(var.aval, "shape", ()):
                    raise Unsupported(f"{equation.primitive.name}: a shape")
                held[var] = value
        return [read(var) for var in jaxpr.outvars]

    def _equation(self, equation: Any, a: list[Array]) -> list[Array]:
        name, params = equation.primitive.name, equation.params
        kind = equation.outvars[0].aval.dtype
        shape = equation.outvars[0].aval.shape
        if any(
            var.aval.dtype.kind in "fc" and var.aval.dtype != _FLOAT for var in equation.outvars
        ):
            raise Unsupported(f"numbers of type {kind}")
        if name in _INLINED:
            inner = params[_INLINED[name]]
            return self._values(inner.jaxpr, inner.consts, a)
        if name == "cond":
            return self._branches(params["branches"], a[0], a[1:])
        if name in _SAME:
            return a
        if (name in _LOGICAL and kind != _BOOL) or (name == "div" and kind != _FLOAT):
            raise Unsupported(f"{name} of {kind}")
        if name in _TEXTS or name in _LOGICAL:
            return [self._each((_TEXTS | _LOGICAL)[name], *a)]
        method = getattr(self, f"_on_{name}", None)
        if method is None:
            raise Unsupported(name)
        form = {"shape": shape, "kind": kind, "source": [var.aval.dtype for var in equation.invars]}
        return [method(*a, **(params | form))]

    def _branches(self, branches: Any, which: Array, given: list[Array]) -> list[Array]:
        (index,) = which.ravel()
        if not isinstance(index, str):
            chosen = branches[min(max(int(index), 0), len(branches) - 1)]
            return self._values(chosen.jaxpr, chosen.consts, given)
        if len(branches) != 2:
            raise Unsupported("a choice of several")
        outer, known = self._lines, self._known
        sides: list[tuple[list[_Line], list[Array]]] = []
        for branch in branches:
            self._lines, self._known = [], dict(known)
            found = self._values(branch.jaxpr, branch.consts, given)
            sides.append((self._lines, found))
        self._lines, self._known = outer, known
        (no, otherwise), (yes, then) = sides
        names = [_atoms([self._name() for _ in range(v.size)], v.shape) for v in then]
        flat = [
            [atom for value in values for atom in value.ravel()]
            for values in (names, then, otherwise)
        ]
        self._lines.append(_Chosen(index, flat[0], yes, flat[1], no, flat[2]))
        return names

    def _on_integer_pow(self, x: Array, *, y: int, **_: Any) -> Array:
        if y == 0:
            raise Unsupported("a power of 0")
        power, square, left = None, x, abs(y)
        while left:
            if left & 1:
                power = square if power is None else self._each("{} * {}", power, square)
            left >>= 1
            if left:
                square = self._each("{0} * {0}", square)
        assert power is not None
        return power if y > 0 else self._each("1.0 / {}", power)

    def _on_select_n(self, which: Array, *cases: Array, shape: Any, **_: Any) -> Array:
        if len(cases) != 2:
            raise Unsupported("a choice of several")
        flags, no, yes = (np.broadcast_to(one, shape).ravel() for one in (which, *cases))
        found = [
            (y if f else n)
            if not isinstance(f, str)
            else n
            if _text(n) == _text(y)
            else self._apply("{1} if {0} else {2}", f, y, n)
            for f, n, y in zip(flags, no, yes, strict=True)
        ]
        return _atoms(found, shape)

    def _on_sign(self, x: Array, **_: Any) -> Array:
        return self._each("1.0 if {0} > 0.0 else -1.0 if {0} < 0.0 else {0}", x)

    def _on_clamp(self, low: Array, x: Array, high: Array, **_: Any) -> Array:
        return self._each(_TEXTS["min"], self._each(_TEXTS["max"], low, x), high)

    def _on_convert_element_type(self, x: Array, *, kind: Any, source: Any, **_: Any) -> Array:
        (was,) = source
        if kind == was or (kind.kind in "iu" and was == _BOOL):  # Python's True is its 1
            return x
        if kind == _FLOAT:
            return self._each("{} * 1.0", x)
        if kind == _BOOL:
            return self._each("{} != 0", x)
        raise Unsupported(f"{was} as {kind}")

    def _on_reduce_precision(
        self, x: Array, *, exponent_bits: int, mantissa_bits: int, **_: Any
    ) -> Array:
        if exponent_bits < 11:
            raise Unsupported("fewer exponents")
        return x if mantissa_bits >= 52 else self._each(f"shorter({{}}, {mantissa_bits})", x)

    # ---------------------------------------------------------------- sums and products
    def _on_reduce_sum(self, x: Array, *, axes: Any, **_: Any) -> Array:
        return self._folded("{} + {}", x, axes, 0.0)

    def _on_reduce_prod(self, x: Array, *, axes: Any, **_: Any) -> Array:
        return self._folded("{} * {}", x, axes, 1.0)

    def _on_reduce_max(self, x: Array, *, axes: Any, **_: Any) -> Array:
        return self._folded(_TEXTS["max"], x, axes, -math.inf)

    def _on_reduce_min(self, x: Array, *, axes: Any, **_: Any) -> Array:
        return self._folded(_TEXTS["min"], x, axes, math.inf)

    def _on_reduce_and(self, x: Array, *, axes: Any, **_: Any) -> Array:
        return self._folded("{} and {}", x, axes, True)

    def _on_reduce_or(self, x: Array, *, axes: Any, **_: Any) -> Array:
        return self._folded("{} or {}", x, axes, False)

    def _on_dot_general(self, a: Array, b: Array, *, dimension_numbers: Any, **_: Any) -> Array:
        (over_a, over_b), (batch_a, batch_b) = dimension_numbers
        if batch_a or batch_b:
            raise Unsupported("a batch of products")
        free_a, free_b = (
            [i for i in range(x.ndim) if i not in over] for x, over in ((a, over_a), (b, over_b))
        )
        size = math.prod(a.shape[i] for i in over_a)
        left = a.transpose([*free_a, *over_a]).reshape(-1, size)
        right = b.transpose([*free_b, *over_b]).reshape(-1, size)
        products = self._each("{} * {}", left[:, None], right[None])
        shape = [a.shape[i] for i in free_a] + [b.shape[i] for i in free_b]
        return self._folded("{} + {}", products, (2,), 0.0).reshape(shape)

    # ---------------------------------------------------------------- places of entries
    def _on_broadcast_in_dim(
        self, x: Array, *, shape: Any, broadcast_dimensions: Any, **_: Any
    ) -> Array:
        sizes = [1] * len(shape)
        for place, size in zip(broadcast_dimensions, x.shape, strict=True):
            sizes[place] = size
        return np.broadcast_to(x.reshape(sizes), shape)

    def _on_reshape(self, x: Array, *, shape: Any, dimensions: Any = None, **_: Any) -> Array:
        if dimensions is not None:
            raise Unsupported("an order of axes")
        return x.reshape(shape)

    def _on_squeeze(self, x: Array, *, shape: Any, **_: Any) -> Array:
        return x.reshape(shape)

    _on_expand_dims = _on_squeeze

    def _on_transpose(self, x: Array, *, permutation: Any, **_: Any) -> Array:
        return x.transpose(permutation)

    def _on_rev(self, x: Array, *, dimensions: Any, **_: Any) -> Array:
        return np.flip(x, dimensions)

    def _on_slice(
        self, x: Array, *, start_indices: Any, limit_indices: Any, strides: Any, **_: Any
    ) -> Array:
        steps = strides or [1] * x.ndim
        return x[tuple(map(slice, start_indices, limit_indices, steps))]

    def _on_concatenate(self, *parts: Array, dimension: int, **_: Any) -> Array:
        return np.concatenate(parts, axis=dimension)

    def _on_stack(self, *parts: Array, axis: int, **_: Any) -> Array:
        return np.stack(parts, axis=axis)

    def _on_iota(self, *_a: Array, shape: Any, dimension: int, kind: Any, **_: Any) -> Array:
        return _constant(np.indices(shape)[dimension].astype(kind) if shape else np.zeros((), kind))


class _Line:
    """A statement: what it needs of others, and its text."""

    def kept(self, wanted: set[str]) -> _Line | None:
        """What of it gives a wanted variable; what that needs is wanted too."""
        raise NotImplementedError

    def texts(self, indent: str) -> Iterator[str]:
        raise NotImplementedError


class _Assigned(_Line):
    def __init__(self, name: str, text: str, uses: set[str]):
        self._name, self._text, self._uses = name, text, uses

    def kept(self, wanted: set[str]) -> _Line | None:
        if self._name not in wanted:
            return None
        wanted |= self._uses
        return self

    def texts(self, indent: str) -> Iterator[str]:
        yield f"{indent}{self._name} = {self._text}"


class _Chosen(_Line):
    def __init__(
        self,
        flag: str,
        names: list[str],
        yes: list[_Line],
        then: list[Atom],
        no: list[_Line],
        otherwise: list[Atom],
    ):
        self._flag, self._names = flag, names
        self._sides = (yes, then), (no, otherwise)

    def kept(self, wanted: set[str]) -> _Line | None:
        places = [i for i, name in enumerate(self._names) if name in wanted]
        if not places:
            return None
        sides: list[Any] = []
        for lines, values in self._sides:
            chosen = [values[i] for i in places]
            inside = {a for a in chosen if isinstance(a, str)}
            sides += [_kept(lines, inside), chosen]
            wanted |= inside
        wanted.add(self._flag)
        return _Chosen(self._flag, [self._names[i] for i in places], *sides)

    def texts(self, indent: str) -> Iterator[str]:
        for word, (lines, values) in zip((f"if {self._flag}:", "else:"), self._sides, strict=True):
            yield indent + word
            for line in lines:
                yield from line.texts(indent + "    ")
            for name, value in zip(self._names, values, strict=True):
                yield f"{indent}    {name} = {_text(value)}"


def _kept(lines: list[_Line], wanted: set[str]) -> list[_Line]:
    """The lines that the wanted variables need; all that they need is wanted afterwards."""
    found = [one for line in reversed(lines) if (one := line.kept(wanted)) is not None]
    return found[::-1]


def _atoms(flat: Sequence[Atom], shape: Sequence[int]) -> Array:
    found = np.empty(len(flat), dtype=object)
    found[:] = flat
    return found.reshape(tuple(shape))


def _constant(value: np.ndarray) -> Array:
    if value.dtype.kind == "f" and value.dtype != _FLOAT:
        raise Unsupported(f"numbers of type {value.dtype}")
    return _atoms(value.ravel().tolist(), value.shape)


def _text(atom: Atom) -> str:
    if isinstance(atom, str):
        return atom
    text = repr(atom)
    return f"({text})" if text.startswith("-") else text
