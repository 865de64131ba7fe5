"""Scalar functions with their divided differences, and symmetric matrices made of them.

Each function has values f(x; c) and divided differences f[x, y; c], which are computed without
cancellation; x are the `values` of a `Spectrum`, c is its `offset`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._namespace import namespace
from ._numerics import sinhc_sqrt

if TYPE_CHECKING:
    from typing import TypeAlias

    from jaxtyping import Float

    from .._namespace import Array

    Matrix: TypeAlias = Float[Array, "*batch k k"]


def sym(x: Matrix) -> Matrix:
    """Symmetric part; bitwise the identity on symmetric input."""
    return 0.5 * (x + x.mT)


def transpose(x: Matrix) -> Matrix:
    # NumPy multiplies small matrices in that order three times as fast
    return np.ascontiguousarray(x.mT) if namespace(x) is np else x.mT


def _log_values(x: Array, c: Any, _: float) -> Array:
    xp = namespace(x)
    return xp.where(c == 1.0, xp.log1p(x), xp.log(x + c))


def _log_first(x: Array, y: Any, c: Any, _: float) -> Array:
    # 2 artanh((x - y)/(x + y)) / (x - y) where the ratio is moderate; plain difference of
    # logarithms beyond.
    xp = namespace(x, y)
    total = x + y + 2.0 * c
    t = (x - y) / total
    near = xp.abs(t) < 0.5
    tiny = xp.abs(t) < 1e-3
    t2 = t * t
    series = 1.0 + t2 * (1.0 / 3.0 + t2 * (1.0 / 5.0 + t2 / 7.0))
    safe = xp.where(near & ~tiny, t, 0.25)
    close = 2.0 / total * xp.where(tiny, series, xp.atanh(safe) / safe)
    gap = xp.where(near, 1.0, x - y)
    return xp.where(near, close, (xp.log(x + c) - xp.log(y + c)) / gap)


def _exp_values(x: Array, c: Any, _: float) -> Array:
    xp = namespace(x)
    return xp.where(c == 1.0, xp.expm1(x), xp.exp(x) - c)


def _exp_first(x: Array, y: Any, c: Any, _: float) -> Array:
    xp = namespace(x, y)
    half = 0.5 * (x - y)
    far = xp.abs(half) > 300.0
    close = xp.exp(0.5 * (x + y)) * sinhc_sqrt(xp.where(far, 0.0, half) ** 2)
    return xp.where(far, (xp.exp(x) - xp.exp(y)) / xp.where(far, 2.0 * half, 1.0), close)


def exp_slopes(values: Array) -> Array:
    """(..., k, k): the divided differences of exp at all pairs of these (..., k) values."""
    return _exp_first(values[..., :, None], values[..., None, :], 0.0, 0.0)


def _power_values(x: Array, c: Any, t: float) -> Array:
    return namespace(x).sqrt(x + c) if t == 0.5 else (x + c) ** t


def _power_first(x: Array, y: Any, c: Any, t: float) -> Array:
    xp = namespace(x, y)
    if t == 0.5:
        return 1.0 / (xp.sqrt(x + c) + xp.sqrt(y + c))
    if t == -0.5:
        a, b = xp.sqrt(x + c), xp.sqrt(y + c)
        return -1.0 / (a * b * (a + b))
    top = xp.maximum(x, y) + c
    r = -xp.abs(x - y) / top
    safe = xp.where(r == 0.0, -0.5, r)
    return top ** (t - 1.0) * xp.where(r == 0.0, t, xp.expm1(t * xp.log1p(safe)) / safe)


def _floor_values(x: Array, c: Any, _: float) -> Array:
    return namespace(x).maximum(x, c)


def _floor_first(x: Array, y: Any, c: Any, _: float) -> Array:
    xp = namespace(x, y)
    equal = x == y
    slope = (xp.maximum(x, c) - xp.maximum(y, c)) / xp.where(equal, 1.0, x - y)
    return xp.where(equal, xp.where(x > c, 1.0, 0.0), slope)


class _Function(NamedTuple):
    values: Callable[[Array, Any, float], Array]
    first: Callable[[Array, Any, Any, float], Array]


FUNCTIONS = {
    "log": _Function(_log_values, _log_first),
    "exp": _Function(_exp_values, _exp_first),
    "power": _Function(_power_values, _power_first),
    "floor": _Function(_floor_values, _floor_first),
}


def evaluated(
    kind: str, t: float, q: Matrix, values: Array, offset: Array, *directions: Matrix
) -> Matrix:
    """The function, or its derivative in one direction, as it stands above."""
    function, back = FUNCTIONS[kind], transpose(q)
    if not directions:
        return sym((q * function.values(values, offset[..., None], t)[..., None, :]) @ back)
    (h,) = directions
    weights = function.first(values[..., :, None], values[..., None, :], offset[..., None, None], t)
    return sym(q @ (weights * (back @ h @ q)) @ back)
