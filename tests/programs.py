"""Programs of one test's own, for which the others need not be forgotten."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator

import jax

# JAX never uses what it traced under another value of this setting, which itself does nothing where
# no profile is taken: `jax.clear_caches` would make all tests after this one compile anew.
SETTING = "jax_pgle_profiling_runs"
_numbers = itertools.count(1000)


@contextlib.contextmanager
def compiled_apart(number: int | None = None) -> Iterator[None]:
    """In this block JAX knows nothing that was compiled elsewhere but in blocks of the same number;
    without a number nothing at all.
    """
    before = getattr(jax.config, SETTING)
    jax.config.update(SETTING, next(_numbers) if number is None else number)
    try:
        yield
    finally:
        jax.config.update(SETTING, before)
