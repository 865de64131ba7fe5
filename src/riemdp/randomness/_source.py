"""`NoiseSource`: ChaCha20 streams that are secret, never shared between workers, and leave no
trace.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import secrets
import threading
from collections.abc import Iterator
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray
from randomgen import ChaCha

from .._errors import RiemdpError, check_float64, integer, invalid
from ._discrete import discrete_gaussians
from ._discrete_laplace import laplace_integer, laplace_vector
from ._many import KEY, many_normals
from ._rounded import rounded_normals

_ROUNDS = 20
_MANY = 1 << 10  # from how many normals on a key of their own is
_BLOCK = 1 << 22  # how many integers `subsets` handles at a time

# Counts the forks between the first process and this one.
_forks = 0


def _after_fork() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _process() -> tuple[int, int]:
    """What a source remembers of the process it was made in. The count sees a child that was given
    an ancestor's number; the number sees a fork in C, which runs none of Python's hooks.
    """
    return _forks, os.getpid()


def _refuse(*_: object) -> NoReturn:
    raise TypeError(
        "a noise source cannot be pickled or copied: its key would be written down, or its noise"
        " drawn twice. Make a new one where it is needed with riemdp.noise_source()"
    )


class _SealedChaCha(ChaCha):
    """ChaCha whose key cannot be read back or written anywhere by accident."""

    @property
    def state(self) -> NoReturn:  # type: ignore[override]
        raise TypeError("the state of a noise source is not shown: it contains the key")

    @property
    def seed_seq(self) -> NoReturn:  # type: ignore[override]
        raise TypeError("a noise source has no seed sequence: children of it would show their seed")

    def spawn(self, n_children: int) -> NoReturn:  # type: ignore[override]
        raise TypeError(
            "a noise source has no children, whose seed could be read: make a new one with"
            " riemdp.noise_source()"
        )

    __reduce__ = __reduce_ex__ = __getstate__ = __copy__ = __deepcopy__ = _refuse  # type: ignore[assignment]


class NoiseSource:
    """Random numbers for releases (keyed by the operating system) or for simulation (keyed by a
    seed).

    Make one with `noise_source(rng)`. All methods return float64 (or int64) NumPy arrays of exactly
    the given shape.

    - *Secret*: ChaCha with 20 rounds and a 256-bit key from `secrets`. The key is in no
      representation, pickle, copy or log.
    - *Never shared*: each thread has its own key; a forked child draws a new key. A seeded source
      is one stream behind a lock, and refuses to work in a forked child, where it would repeat the
      parent's noise.
    - *Never reused*: each source draws a key of its own in each thread, so that no release goes on
      with the stream of the one before, also where a snapshot of the process is resumed twice.
    - *Seeded*: `reproducible` is True; what is released with it must not be published as private.

    `rounded_normals`, `discrete_gaussians` and `laplace_integers` are exact integers. All others
    are drawn in float64: a normal reaches beyond 8 sigma. Attacks on the last bits of
    floating-point samplers (Mironov 2012; Jin et al. 2021; Haney et al. 2022) are outside what is
    proved for them.
    """

    __slots__ = ("__weakref__", "_local", "_lock", "_process", "_seeded")

    def __init__(self, seed: int | None = None):
        self._process = _process()
        self._lock = threading.RLock()
        self._local: threading.local | None = None
        self._seeded: np.random.Generator | None = (
            None if seed is None else _generator(_key_of_seed(seed))
        )

    # ---------------------------------------------------------------- streams
    @property
    def reproducible(self) -> bool:
        """True for a seeded source: simulation only."""
        return self._seeded is not None

    @property
    def generator(self) -> np.random.Generator:
        """The NumPy generator of this thread and process. Read this property in each worker; do not
        pass the generator on.
        """
        if self._seeded is not None:
            if self._process != _process():
                raise RiemdpError(
                    "a seeded noise source was made before this process was forked, and would"
                    " repeat the noise of its parent; make one in each worker, with a seed of"
                    " its own"
                )
            return self._seeded
        # Made when first used. Where two threads make one at once, the first of them draws one more
        # key.
        local, here = self._local, _process()
        if local is None:
            local = self._local = threading.local()
        if getattr(local, "process", None) != here:
            local.generator, local.process = _generator(secrets.randbits(256)), here
        return local.generator

    def _turn(self) -> contextlib.AbstractContextManager[np.random.Generator]:
        """The generator, alone: one thread at a time for a seeded stream; other threads have
        generators of their own.
        """
        # refuses before it waits: after a fork the lock may be held by a thread that is gone
        generator = self.generator
        return contextlib.nullcontext(generator) if self._seeded is None else self._alone(generator)

    @contextlib.contextmanager
    def _alone(self, generator: np.random.Generator) -> Iterator[np.random.Generator]:
        with self._lock:
            yield generator

    # ---------------------------------------------------------------- distributions
    def normals(self, shape: int | tuple[int, ...] = ()) -> NDArray[np.float64]:
        """Independent standard normals. Many of them come from a key of their own, which is faster,
        unless the source is seeded: a seed is one stream, however it is cut.
        """
        count = shape if isinstance(shape, int) else math.prod(shape)
        if count >= _MANY and not self.reproducible:
            return many_normals(secrets.token_bytes(KEY), count).reshape(shape)
        with self._turn() as generator:
            return np.asarray(generator.standard_normal(shape))

    def rounded_normals(self, scale: float, shape: int | tuple[int, ...] = ()) -> NDArray[np.int64]:
        """Independent integers with the distribution of round(scale N), N standard normal: exact up
        to a total-variation distance of 2^-125 for each, in integer arithmetic. None is beyond 13
        scales.

        Args:
            scale: From 1 to 2^41, with at most 28 significant bits.
            shape: Of the result.

        Source:
            Proof: docs/proofs/gaussian.md.

        Examples:
            >>> import riemdp
            >>> riemdp.noise_source(7).rounded_normals(2.0**32, 3).dtype
            dtype('int64')
        """
        count = shape if isinstance(shape, int) else math.prod(shape)
        with self._turn() as generator:
            return rounded_normals(generator, scale, count).reshape(shape)

    def discrete_gaussians(
        self, scale: float, shape: int | tuple[int, ...] = ()
    ) -> NDArray[np.int64]:
        """Independent integers with P(Z = j) proportional to exp(-j^2 / (2 scale^2)): exact up to a
        total-variation distance of 2^-124 for each. None is beyond 13 scales.

        Args:
            scale: From 1 to 2^41, with at most 28 significant bits.
            shape: Of the result.

        Source:
            Canonne, Kamath and Steinke 2020 (the distribution).
            Proof: docs/proofs/secure-sums.md.

        Examples:
            >>> import riemdp
            >>> riemdp.noise_source(7).discrete_gaussians(1024.0, 3).dtype
            dtype('int64')
        """
        count = shape if isinstance(shape, int) else math.prod(shape)
        with self._turn() as generator:
            return discrete_gaussians(generator, scale, count).reshape(shape)

    def laplace_integers(self, scale: int, dim: int) -> NDArray[np.int64]:
        """A vector of integers with probability proportional to exp(-|k| / scale), |k| its
        Euclidean length: exact, in integer arithmetic.

        Args:
            scale: A whole number from 1 to 2^41.
            dim: From 1 to 10. The time grows by a factor of 1.3 a dimension.

        Source:
            Proof: docs/proofs/laplace.md.

        Examples:
            >>> import riemdp
            >>> riemdp.noise_source(7).laplace_integers(2**32, 3).shape
            (3,)
        """
        with self._turn() as generator:
            return np.array(laplace_vector(generator, scale, dim), dtype=np.int64)

    def laplace_integer(self, scale: int) -> int:
        """One such integer, for a scale of any size."""
        with self._turn() as generator:
            return laplace_integer(generator, scale)

    def uniforms(self, shape: int | tuple[int, ...] = ()) -> NDArray[np.float64]:
        """Independent uniforms on the open interval (0, 1): a logarithm of one is always finite."""
        with self._turn() as generator:
            return np.maximum(generator.random(shape), 2.0**-54)

    def gammas(
        self, a: float | NDArray[np.float64], shape: int | tuple[int, ...] = ()
    ) -> NDArray[np.float64]:
        """Gamma variables of shape parameter `a` > 0 (broadcast against `shape`) and scale 1."""
        with self._turn() as generator:
            return np.asarray(generator.standard_gamma(a, shape))

    def integers(self, low: int, high: int, shape: int | tuple[int, ...] = ()) -> NDArray[np.int64]:
        """Independent integers, uniform on low, ..., high - 1."""
        with self._turn() as generator:
            return np.asarray(generator.integers(low, high, shape))

    def subsets(self, population: int, size: int, count: int) -> NDArray[np.int64]:
        """`count` independent uniformly random subsets of {0, ..., population - 1}, each of exactly
        `size` distinct members.

        Returns int64 of shape (count, size); the order inside a row means nothing. This is the
        fixed-size sampling without replacement that `privacy.subsampled_gaussian` accounts for.
        """
        population = integer("population", population)
        size = integer("size", size, at_most=population)
        count = integer("count", count, at_least=0)
        with self._turn() as generator:
            if size == 1:
                return generator.integers(0, population, (count, 1))
            if size == population:
                return np.tile(np.arange(population), (count, 1))
            rows = max(1, _BLOCK // (2 * size if 2 * size <= population else population))
            blocks = [
                _subsets(generator, population, size, min(rows, count - start))
                for start in range(0, count, rows)
            ]
        return np.concatenate(blocks) if blocks else np.empty((0, size), dtype=np.int64)

    # ---------------------------------------------------------------- no trace
    def __repr__(self) -> str:
        return f"NoiseSource({'seeded, not private' if self.reproducible else 'operating system'})"

    __reduce__ = __reduce_ex__ = __getstate__ = __copy__ = __deepcopy__ = _refuse  # type: ignore[assignment]


def noise_source(rng: int | NoiseSource | None = None) -> NoiseSource:
    """The source of randomness that an `rng` argument stands for.

    Args:
        rng: None (fresh 256-bit key from the operating system: the only choice for a release), a
            non-negative integer seed (reproducible, **not private**), or a `NoiseSource`: a seeded
            one is returned as it is, and in place of one keyed by the operating system a new one,
            so that every release has a key of its own.

    Raises:
        InvalidArgument: `rng` is something else.
        PrecisionError: JAX's float64 was switched off after riemdp was imported.

    Examples:
        >>> import riemdp
        >>> riemdp.noise_source(7).integers(0, 10, 3).shape
        (3,)
    """
    check_float64()
    if isinstance(rng, NoiseSource):
        return NoiseSource() if type(rng) is NoiseSource and not rng.reproducible else rng
    if rng is None:
        return NoiseSource()
    remedy = (
        "give None (private, from the operating system), a non-negative integer seed (reproducible,"
        " not private) or a NoiseSource"
    )
    if isinstance(rng, bool | np.bool_) or not isinstance(rng, int | np.integer) or rng < 0:
        raise invalid("rng", rng, remedy)
    return NoiseSource(int(rng))


def _generator(key: int) -> np.random.Generator:
    return np.random.Generator(_SealedChaCha(key=key, rounds=_ROUNDS))  # type: ignore[arg-type]


def _key_of_seed(seed: int) -> int:
    return int.from_bytes(hashlib.sha256(b"riemdp seed " + str(seed).encode()).digest(), "big")


def _subsets(
    generator: np.random.Generator, population: int, size: int, count: int
) -> NDArray[np.int64]:
    if 2 * size > population:  # the members left out are the smaller subset
        out = (
            _subsets(generator, population, population - size, count) if size < population else None
        )
        keep = np.ones((count, population), dtype=bool)
        if out is not None:
            np.put_along_axis(keep, out, False, axis=1)
        return np.nonzero(keep)[1].reshape(count, size)
    # Members are drawn one after another, repeats skipped, until `size` are distinct: a uniform
    # subset. All rows at once, with enough draws to spare that few rows fall short; then all rows
    # get some more (what a row has already is kept, so no bias).
    draws = generator.integers(
        0, population, (count, size + 8 + int(1.1 * size * size / population))
    )
    while True:
        first = _first_occurrences(draws)
        if np.all(first.sum(axis=1) >= size):
            break
        draws = np.concatenate(
            [draws, generator.integers(0, population, (count, max(8, size // 4)))], axis=1
        )
    chosen = first & (np.cumsum(first, axis=1) <= size)
    return draws[chosen].reshape(count, size)


def _first_occurrences(draws: NDArray[np.int64]) -> NDArray[np.bool_]:
    order = np.argsort(draws, axis=1, kind="stable")
    ranked = np.take_along_axis(draws, order, axis=1)
    fresh = np.ones_like(ranked, dtype=bool)
    fresh[:, 1:] = ranked[:, 1:] != ranked[:, :-1]
    first = np.empty_like(fresh)
    np.put_along_axis(first, order, fresh, axis=1)
    return first
