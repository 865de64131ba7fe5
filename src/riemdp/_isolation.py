"""Work in which nothing is raised or warned of because of one record, in float64."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar

import numpy as np

from ._errors import interrupts

P = ParamSpec("P")
R = TypeVar("R")


@contextlib.contextmanager
def isolation() -> Iterator[None]:
    """Inside, NumPy raises and warns of nothing that it was told to (an underflow in one record
    would decide about it), and JAX, where it is used, computes in float64 and looks for no NaN,
    whatever another thread sets.
    """
    with np.errstate(all="ignore"), _double_precision(), interrupts():
        yield


def isolated(function: Callable[P, R]) -> Callable[P, R]:
    """The function, within `isolation`."""

    @functools.wraps(function)
    def call(*arguments: P.args, **named: P.kwargs) -> R:
        with isolation():
            return function(*arguments, **named)

    return call


def _double_precision() -> contextlib.AbstractContextManager[None]:
    if "jax" not in sys.modules:
        return contextlib.nullcontext()
    from ._programs import double_precision

    return double_precision()
