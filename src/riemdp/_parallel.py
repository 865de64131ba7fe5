"""One thread at a time computes with many records on JAX."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_turn = threading.RLock()


def _anew() -> None:
    """A fork copies a lock that a thread holds, but not the thread that would give it back."""
    global _turn
    _turn = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_anew)


def in_turn(function: Callable[P, R]) -> Callable[P, R]:
    """The function, which computes with many records and returns when XLA has computed, by one
    thread at a time. What is computed within it, also by a handler of a signal, needs no other
    turn.

    To decompose many matrices XLA takes a thread that waits for others: as many programs at once as
    there are threads wait for each other, without end.
    """

    @functools.wraps(function)
    def call(*arguments: P.args, **options: P.kwargs) -> R:
        # No interrupt comes between the lock's own code and the block: both are one step of C.
        with _turn:
            return function(*arguments, **options)

    return call
