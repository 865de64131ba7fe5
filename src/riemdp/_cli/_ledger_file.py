"""A ledger kept in a file, so that a budget holds across runs: locked while a release is made, replaced whole."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._exits import InputProblem, OutputProblem

if TYPE_CHECKING:
    from ..privacy import Ledger


class LedgerFile:
    """The ledger of `path`. `save` is called after the noise was drawn and before anything is shown or put in place."""

    def __init__(self, path: Path, ledger: Ledger):
        self.path, self.ledger = path, ledger

    def save(self) -> None:
        from ..report._files import staged

        with staged(self.path) as (part,):
            part.write_text(dumped(self.ledger), encoding="utf-8")


def dumped(ledger: Ledger) -> str:
    """The ledger as indented JSON."""
    return json.dumps(json.loads(ledger.to_json()), indent=2) + "\n"


@contextlib.contextmanager
def opened(path: Path | None) -> Iterator[LedgerFile | None]:
    """Lock and read the ledger of `path` (None: no ledger). Another run that wants it waits until this one is done."""
    if path is None:
        yield None
        return
    if not path.exists():
        raise InputProblem(f"there is no ledger {path}", f"make one first: riemdp ledger create {path} --epsilon 1 --delta 1e-5")
    with _lock(path):
        ledger = read(path)
        if not os.access(path.parent, os.W_OK) or not os.access(path, os.W_OK):
            raise OutputProblem(f"the ledger {path} may not be written", "a release must be charged; check the permissions")
        yield LedgerFile(path, ledger)


def read(path: Path) -> Ledger:
    """The ledger of a file, or `InputProblem` where it is damaged (then nothing may be released)."""
    from ..privacy import Budget, Guarantee, Ledger

    try:
        state: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        epsilon, delta = state["budget"]
        ledger, spent = Ledger(Budget(epsilon, delta)), Guarantee.from_dict(state["spent"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputProblem(f"the ledger {path} cannot be read", "restore it from a backup; a new one would forget what was spent"
                           ) from error
    if spent.parts:
        ledger.spend(spent)
    return ledger


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    try:
        import fcntl
    except ImportError:  # Windows: a lock file that only one process can create
        yield from _lock_by_file(path)
        return
    folder = os.open(path.parent, os.O_RDONLY)  # the folder, because the file itself is replaced
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _lock_by_file(path: Path) -> Iterator[None]:
    lock = path.with_name(path.name + ".lock")
    try:
        os.close(os.open(lock, os.O_CREAT | os.O_EXCL))
    except FileExistsError as error:
        raise OutputProblem(f"the ledger {path} is in use by another run", f"wait for it; or remove {lock} if it "
                                                                           "crashed") from error
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)


@contextlib.contextmanager
def interrupts_held() -> Iterator[None]:
    """Hold back Ctrl-C and termination for the moment between charging the ledger and putting the output in place."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    caught: list[int] = []
    kept = {s: signal.signal(s, lambda number, frame: caught.append(number)) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
        if caught:
            os.kill(os.getpid(), caught[0])
