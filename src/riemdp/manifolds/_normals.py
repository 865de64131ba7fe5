"""Standard normals of a JAX key, for simulation: a tenth of the time that `jax.random.normal`
takes, which hashes in a loop and inverts the distribution function.

The words are those of `jax.random.bits`, so that keys mean what they mean in JAX. Two of them make
two normals (Box and Muller): the first a radius sqrt(-2 log u), the second an angle. Logarithm,
sine and cosine are power series on short intervals, to a rounding of float64, which XLA computes
for several numbers at once.

Nothing here is for a release: a key has 64 bits.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray, UInt32, UInt64

from .._programs import for_normals

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))  # Threefry-2x32 of Salmon et al. 2011
_PARITY = np.uint32(0x1BD11BDA)
_MANTISSA = np.uint64(12)  # a word without so many bits is a mantissa
_BELOW = np.uint64(0x000FFFFFFFFFFFFF)  # the bits of a mantissa
_ONE = np.uint64(0x3FF0000000000000)  # the bits of 1.0,
_ROOT_HALF = np.uint64(0x3FE6A09E667F3BCD)  # of sqrt(1/2),
_INTEGER = np.uint64(0x4330000000000000)  # and of 2**52, whose last bit counts 1
_QUARTER = np.uint64(1 << 62)  # of a turn of 2**64
_FEW = 1 << 16  # normals that are worth hashing twice


@for_normals(0, 1)
def tangent_normals(
    manifold: Any, shape: tuple[int, ...], p: Any, sigma: float | Array, key: PRNGKeyArray
) -> Any:
    """Isotropic Gaussian tangent vectors at points p of a manifold; see its `tangent_normal`."""
    z = normals(key, (*shape, *manifold._batch_shape(p), manifold.noise_size), sigma)
    return manifold._tangent_from_normals(p, z)


def normals(key: PRNGKeyArray, shape: tuple[int, ...], sigma: float | Array = 1.0) -> Array:
    """Independent normals with mean 0; none is larger than 8.6 sigma."""
    count = math.prod(shape)
    half = (count + 1) // 2

    def drawn() -> Array:
        radii, angles = _words(key, half, count <= _FEW)
        return (sigma * _radii(radii) * _cosine(angles)).reshape(-1)

    # Always drawn. XLA stores what comes out of a branch, where it would otherwise work the normals
    # out once more in each thing that is made of them. A vector, which it computes faster than an
    # array of short rows.
    z = jax.lax.cond(jnp.asarray(sigma) >= 0, drawn, lambda: jnp.zeros(2 * half))
    return z[:count].reshape(shape)


def _words(
    key: PRNGKeyArray, half: int, few: bool
) -> tuple[UInt64[Array, "..."], UInt64[Array, "..."]]:
    """Words that give 2 `half` normals: those of the radii (half) and of the angles (2, half). Of
    `few` both are vectors (2 half), a radius twice: more to hash, but by one kernel in place of
    four, at the end of each of which XLA waits for its threads.
    """
    data = jax.random.key_data(key)
    if jax.random.key_impl(key) != "threefry2x32" or data.shape != (2,):
        words = jax.random.bits(key, (2 * half,), jnp.uint64)
        return words[:half], _both(words[half:])
    if not few:
        place = jax.lax.iota(np.uint64, half)
        return _hashed(data, place), _both(_hashed(data, place + np.uint64(half)))
    number = jax.lax.iota(np.uint64, 2 * half)
    second = number >= np.uint64(half)
    place = jnp.where(second, number - np.uint64(half), number)
    angles = _hashed(data, place + np.uint64(half))
    return _hashed(data, place), jnp.where(second, angles - _QUARTER, angles)


def _both(angles: UInt64[Array, " half"]) -> UInt64[Array, "2 half"]:
    return jnp.stack([angles, angles - _QUARTER])


def _hashed(key: UInt32[Array, "2"], place: UInt64[Array, " n"]) -> UInt64[Array, " n"]:
    """Threefry-2x32 with 20 rounds of the halves of each number."""
    keys = (key[0], key[1], key[0] ^ key[1] ^ _PARITY)
    a = (place >> np.uint64(32)).astype(jnp.uint32) + keys[0]
    b = place.astype(jnp.uint32) + keys[1]
    for block in range(5):
        for turn in _ROTATIONS[block % 2]:
            a = a + b
            b = (b << np.uint32(turn)) | (b >> np.uint32(32 - turn))
            b = b ^ a
        a = a + keys[(block + 1) % 3]
        b = b + keys[(block + 2) % 3] + np.uint32(block + 1)
    return (a.astype(jnp.uint64) << np.uint64(32)) | b.astype(jnp.uint64)


def _float(bits: Array) -> Array:
    return jax.lax.bitcast_convert_type(bits, jnp.float64)


def _radii(words: Array) -> Array:
    """sqrt(-2 log u), u = (m + 1/2) / 2**52 of the first 52 bits m of a word."""
    u = _float((words >> _MANTISSA) | _ONE) - (1.0 - 2.0**-53)
    # u = 2**e m with m between sqrt(1/2) and sqrt(2), and log m = 2 artanh((m - 1) / (m + 1))
    shifted = jax.lax.bitcast_convert_type(u, jnp.uint64) + (_ONE - _ROOT_HALF)
    e = _float((shifted >> np.uint64(52)) | _INTEGER) - (2.0**52 + 1023.0)
    m = _float((shifted & _BELOW) + _ROOT_HALF)
    s = (m - 1.0) / (m + 1.0)
    series = _polynomial([1.0 / k for k in range(1, 23, 2)], s * s)
    return jnp.sqrt(-2.0 * (e * math.log(2.0) + 2.0 * s * series))


def _cosine(words: Array) -> Array:
    """cos(2 pi (m + 1/2) / 2**54 - pi/4) of the first 54 bits m of a word."""
    quarter = words >> np.uint64(62)
    # the place in this quarter of a turn, from -1/2 to 1/2
    f = _float(((words << np.uint64(2)) >> _MANTISSA) | _ONE) - (1.5 - 2.0**-53)
    x = 0.5 * math.pi * f
    x2 = x * x
    cosine = _polynomial([(-1) ** k / math.factorial(2 * k) for k in range(9)], x2)
    sine = x * _polynomial([(-1) ** k / math.factorial(2 * k + 1) for k in range(8)], x2)
    size = jnp.where((quarter & np.uint64(1)) != 0, sine, cosine)
    return jnp.where((quarter == 1) | (quarter == 2), -size, size)


def _polynomial(coefficients: list[float], x: Array) -> Array:
    value = jnp.full_like(x, coefficients[-1])
    for a in reversed(coefficients[:-1]):
        value = value * x + a
    return value
