"""A ledger kept in a file, so that a budget holds across runs: locked while a release is made,
replaced whole.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ._exits import InputProblem, OutputProblem

if TYPE_CHECKING:
    from ..privacy import Ledger


class LedgerFile:
    """The ledger of `path`, held in memory. `save` is called after the noise was drawn and before
    anything is shown or put in place: a run that fails or is interrupted before that has shown
    nothing, and costs nothing.
    """

    def __init__(self, path: Path, ledger: Ledger):
        self.path, self.ledger = path, ledger

    def save(self) -> None:
        self.ledger.save(self.path)


@contextlib.contextmanager
def opened(path: Path | None) -> Iterator[LedgerFile | None]:
    """Lock and read the ledger of `path` (None: no ledger). Another run that wants it waits until
    this one is done.
    """
    if path is None:
        yield None
        return
    holder = read(path, following=True)
    if not os.access(path, os.W_OK) or not os.access(path.parent, os.W_OK):
        raise OutputProblem(
            f"the ledger {path} may not be written",
            "a release must be charged; check the permissions",
        )
    with holder._locked_file():  # the same lock that `Ledger(path=...)` takes in other programs
        yield LedgerFile(path, read(path))


def read(path: Path, *, following: bool = False) -> Ledger:
    """The ledger of a file, or `InputProblem` where there is none or it is damaged (then nothing
    may be released).
    """
    from .._errors import InvalidArgument
    from ..privacy import Ledger

    if not path.exists():
        raise InputProblem(
            f"there is no ledger {path}",
            f"make one first: riemdp ledger create {path} --epsilon 1 --delta 1e-5",
        )
    try:
        return Ledger.open(path) if following else Ledger.load(path)
    except (InvalidArgument, UnicodeDecodeError) as error:
        raise InputProblem(
            f"the ledger {path} cannot be read: it is damaged or another file",
            "restore it from a backup; a new one would forget what was spent",
        ) from error


@contextlib.contextmanager
def interrupts_held() -> Iterator[None]:
    """Hold back Ctrl-C and termination for the moment between charging the ledger and putting the
    output in place.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    caught: list[int] = []
    kept = {
        s: signal.signal(s, lambda number, frame: caught.append(number))
        for s in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
        if caught:
            os.kill(os.getpid(), caught[0])
