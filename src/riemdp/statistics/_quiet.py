"""Work on records in which nothing is raised or warned of because of one of them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import jax
import numpy as np

from .._errors import interrupts
from .._parallel import in_turn
from .._programs import double_precision

F = TypeVar("F", bound=Callable[..., Any])


def whatever_is_set(function: F) -> F:
    """The function, in which nothing is raised or warned of that NumPy was told to (an underflow in
    one record would decide about it), and which computes in float64 whatever another thread sets.
    Not more threads compute at once than XLA can serve.
    """

    @functools.wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        with double_precision(), np.errstate(all="ignore"), interrupts():
            return _done(function(*arguments, **options))

    return cast(F, in_turn(call))


def _done(found: Any) -> Any:
    """What was found, when XLA has computed it: who gives back a turn leaves nothing behind."""
    records = hasattr(found, "points") and hasattr(found, "outside")
    jax.block_until_ready((found.points, found.outside) if records else found)
    return found
