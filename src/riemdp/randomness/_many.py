"""Many standard normals at once, from a ChaCha20 keystream of their own."""

from __future__ import annotations

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from numpy.typing import NDArray

KEY = 32  # bytes
_PAIRS = 1 << 14  # candidates at a time: they stay in the processor's cache
_WORD = np.uint64
_ONE = _WORD(0x3FF0000000000000)  # the bits of 1.0: sign and exponent of what lies in [1, 2)


def many_normals(key: bytes, count: int) -> NDArray[np.float64]:
    """`count` independent standard normals that are a function of the key: use no key twice.

    The polar method: (x, y) uniform in the disk of radius 1/2 (kept from the square about it),
    s = x^2 + y^2; then (x, y) sqrt(-2 log(4 s) / s) are two normals. Coordinates are odd multiples
    of 2^-53, all of them alike, so s is never 0, and a normal reaches 11.9. How long it takes
    depends on how many pairs fell into the disk, on no other number.

    Source:
        Marsaglia and Bray 1964.
    """
    out, have = np.empty(count), 0
    stream = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()
    pairs = min(_PAIRS, 2 * count // 3 + 1)  # 2 / pi are needed a normal
    nothing, keystream = bytes(16 * pairs), bytearray(16 * pairs)
    words = np.frombuffer(keystream, _WORD).reshape(2, pairs)
    square = np.empty((2, pairs))
    while have < count:
        stream.update_into(nothing, keystream)
        np.right_shift(words, _WORD(12), out=words)
        np.bitwise_or(words, _ONE, out=words)
        np.subtract(words.view(np.float64), 1.5, out=square)
        square += 2.0**-53
        s = square[0] ** 2 + square[1] ** 2
        (inside,) = np.nonzero(s < 0.25)
        s = s[inside]
        z = square.take(inside, axis=1)
        z *= np.sqrt(-2.0 * np.log(4.0 * s) / s)
        new = z.reshape(-1)[: count - have]
        out[have : have + new.size] = new
        have += new.size
    return out
