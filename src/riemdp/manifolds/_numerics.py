"""Elementary functions that geometry needs near their removable singularities, to full relative
accuracy.

Each one takes the *square* of its natural argument (sinc_sqrt(s) = sin(sqrt s) / sqrt s). As
functions of the square they are analytic at 0, and |v|^2 is a polynomial in v; so every derivative
of every order is finite at v = 0, where a formula in |v| gives NaN. Below a threshold a Taylor
polynomial is evaluated; it is long enough for full accuracy of value and of the first derivatives,
and the threshold is high enough that the closed form above it has nothing left to cancel. On NumPy,
which takes no derivatives, the closed form is taken everywhere where it cancels nothing. No
function here hides a NaN: a NaN argument gives a NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .._namespace import namespace, stop_gradient

if TYPE_CHECKING:
    from jaxtyping import Float

    from .._namespace import Array

_ENTIRE = 0.5  # below this, the series of sin, cos, sinh, cosh: 10 terms reach 1e-19
_ALGEBRAIC = (
    0.1  # below this, the series of atan and asinh (radius of convergence 1): 18 terms reach 1e-19
)
_LEAST = 1e-300  # the square of the least argument of a closed form, where each is its limit


def _polynomial(coefficients: list[float], s: Array) -> Array:
    total = coefficients[-1] * s + coefficients[-2]
    for c in reversed(coefficients[:-2]):
        total = total * s + c
    return total


_SINC = [(-1.0) ** k / math.factorial(2 * k + 1) for k in range(10)]
_SINHC = [1.0 / math.factorial(2 * k + 1) for k in range(10)]
_COS = [(-1.0) ** k / math.factorial(2 * k) for k in range(10)]
_COSH = [1.0 / math.factorial(2 * k) for k in range(10)]
_ATANC = [(-1.0) ** k / (2 * k + 1) for k in range(18)]
_ASINHC = [(-1.0) ** k * math.comb(2 * k, k) / (4.0**k * (2 * k + 1)) for k in range(18)]


def _split(s: Array, threshold: float) -> tuple[Array, Array, Array]:
    """(is small, argument for the series, square root for the closed form); the unused branch gets
    a harmless argument.
    """
    xp = namespace(s)
    small = s < threshold
    return small, xp.where(small, s, 0.0), xp.sqrt(xp.where(small, 1.0, s))


def _by_series(
    coefficients: list[float], threshold: float, s: Array, closed: Callable[[Any, Array], Array]
) -> Array:
    """closed(library, sqrt s), which cancels nothing, and on JAX the series in s near 0."""
    xp = namespace(s)
    if xp is np:
        return closed(np, np.sqrt(np.maximum(s, _LEAST)))
    small, t, x = _split(s, threshold)
    return xp.where(small, _polynomial(coefficients, t), closed(xp, x))


def safe_sqrt(s: Float[Array, "*b"]) -> Float[Array, "*b"]:
    """Square root whose derivative at 0 is 0 instead of infinite (a subgradient of the norm)."""
    xp = namespace(s)
    if xp is np:
        return np.sqrt(s)
    zero = s == 0.0
    return xp.where(zero, 0.0, xp.sqrt(xp.where(zero, 1.0, s)))


def root(square: Array) -> Array:
    """A square root whose derivative at 0 is 0; NaN stays NaN."""
    xp = namespace(square)
    if xp is np:
        return np.sqrt(np.maximum(square, 0.0))
    nothing = square <= 0.0
    return xp.where(nothing, 0.0, xp.sqrt(xp.where(nothing, 1.0, square)))


def safe_divide(a: Float[Array, "*b"], b: Float[Array, "*b"]) -> Float[Array, "*b"]:
    """a / b, and 0 where b = 0."""
    xp = namespace(a, b)
    zero = b == 0.0
    return xp.where(zero, 0.0, a / xp.where(zero, 1.0, b))


def dot(u: Float[Array, "*b n"], v: Float[Array, "*b n"]) -> Float[Array, "*b"]:
    """Sum of products over the last axis."""
    xp = namespace(u, v)
    return np.vecdot(u, v) if xp is np else xp.sum(u * v, axis=-1)


def safe_norm(v: Float[Array, "*b n"]) -> Float[Array, "*b"]:
    """Euclidean norm over the last axis; gradient 0 at 0."""
    return safe_sqrt(dot(v, v))


def cos_sqrt(s: Float[Array, "*b"]) -> Float[Array, "*b"]:
    """cos(sqrt s)."""
    return _by_series(_COS, _ENTIRE, s, lambda xp, x: xp.cos(x))


def cosh_sqrt(s: Float[Array, "*b"]) -> Float[Array, "*b"]:
    """cosh(sqrt s)."""
    return _by_series(_COSH, _ENTIRE, s, lambda xp, x: xp.cosh(x))


def sinc_sqrt(s: Float[Array, "*b"]) -> Float[Array, "*b"]:
    """sin(sqrt s) / sqrt s."""
    return _by_series(_SINC, _ENTIRE, s, lambda xp, x: xp.sin(x) / x)


def sinhc_sqrt(s: Float[Array, "*b"]) -> Float[Array, "*b"]:
    """sinh(sqrt s) / sqrt s."""
    return _by_series(_SINHC, _ENTIRE, s, lambda xp, x: xp.sinh(x) / x)


def tanhc_sqrt(s: Float[Array, "*b"]) -> Float[Array, "*b"]:
    """tanh(sqrt s) / sqrt s."""
    xp = namespace(s)
    small, t, x = _split(s, _ENTIRE)
    return xp.where(small, _polynomial(_SINHC, t) / _polynomial(_COSH, t), xp.tanh(x) / x)


def log_sinc_sqrt(s: Float[Array, "*b"]) -> Float[Array, "*b"]:
    """log |sin(sqrt s) / sqrt s|, with relative accuracy as s -> 0 (about -s / 6)."""
    xp = namespace(s)
    small, t, x = _split(s, _ENTIRE)
    return xp.where(small, xp.log1p(t * _polynomial(_SINC[1:], t)), xp.log(xp.abs(xp.sin(x)) / x))


def log_sinhc_sqrt(s: Float[Array, "*b"]) -> Float[Array, "*b"]:
    """log(sinh(sqrt s) / sqrt s), with relative accuracy as s -> 0 (about s / 6) and without
    overflow for large s.
    """
    xp = namespace(s)
    small, t, x = _split(s, _ENTIRE)
    large = x + xp.log(-xp.expm1(-2.0 * x) / (2.0 * x))
    return xp.where(small, xp.log1p(t * _polynomial(_SINHC[1:], t)), large)


def atanc_sqrt(s: Float[Array, "*b"]) -> Float[Array, "*b"]:
    """atan(sqrt s) / sqrt s."""
    return _by_series(_ATANC, _ALGEBRAIC, s, lambda xp, x: xp.atan(x) / x)


def asinhc_sqrt(s: Float[Array, "*b"]) -> Float[Array, "*b"]:
    """asinh(sqrt s) / sqrt s."""
    return _by_series(_ASINHC, _ALGEBRAIC, s, lambda xp, x: xp.asinh(x) / x)


def normalised(x: Float[Array, "*b n"]) -> Float[Array, "*b n"]:
    """x / |x| over the last axis without overflow or underflow; the zero vector goes to the first
    unit vector.
    """
    xp = namespace(x)
    largest = stop_gradient(xp.max(xp.abs(x), axis=-1, keepdims=True))
    zero = largest == 0.0
    scaled = x / xp.where(zero, 1.0, largest)
    pole = xp.where(xp.arange(x.shape[-1]) == 0, 1.0, 0.0)
    scaled = xp.where(zero, pole, scaled)
    return scaled / xp.sqrt(xp.sum(scaled * scaled, axis=-1, keepdims=True))
