"""Ledgers that are open where this thread does not see them: in another thread, or in the process
that sent the work. What is known here can only make a release refuse.

Three things tell. A process counts the ledgers that it has open, for its threads. What is pickled
meanwhile (an estimator, a `Budget`) carries a mark, for the process that it is sent to. And an
environment variable and a lock tell the processes that the process has started.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import secrets
import tempfile
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

from .._errors import InvalidArgument
from .._files import hold, is_held, let_go

VARIABLE = "RIEMDP_OPEN_LEDGER"  # while a ledger is open: the token of the process
MARK = "_pickled_beside_ledger_of"  # in the state of what was pickled meanwhile: such a token
REMEDY = (
    "Open the ledger's file where the work is done, `with riemdp.Ledger.open(path):`, or for"
    " everything in that process by riemdp.session_ledger(riemdp.Ledger.open(path)); or do the"
    " work in one thread of one process (n_jobs=1)"
)


class _Process:
    """What this process knows. A forked child begins with a copy, whose token is then new."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # a handler of a signal may open a ledger, too
        self.pid, self.token = 0, ""
        self.open = 0  # blocks entered and not left, in any thread, and the session's ledger
        self.before: str | None = None  # what the variable said before this process set it
        self.shown: IO[bytes] | None = None  # the file whose lock says that a ledger is open
        self.was_sent_marked = False  # a worker that received something that is marked


_own = _Process()
if hasattr(os, "register_at_fork"):

    def _in_child() -> None:
        _own.lock, _own.shown = threading.RLock(), None  # a thread may have held it at the fork

    os.register_at_fork(after_in_child=_in_child)


def token() -> str:
    """A random name of this process; a forked child makes one of its own."""
    with _own.lock:
        if _own.pid != os.getpid():
            _own.pid, _own.token = os.getpid(), f"{os.getpid()}-{secrets.token_hex(16)}"
        return _own.token


token()  # made at import


# ------------------------------------------------------------------ said by who opens a ledger
def opened() -> None:
    """A ledger is open in this process, in one place more."""
    with _own.lock:
        _own.open += 1
        if _own.open == 1:
            _own.before = os.environ.get(VARIABLE)
            os.environ[VARIABLE] = token()
            with contextlib.suppress(OSError):  # without a folder for it the other two tell
                _own.shown = hold(_shown_by(os.getpid()))


def closed() -> None:
    """A ledger is open in one place less."""
    with _own.lock:
        _own.open -= 1
        if _own.open > 0:
            return
        if _own.before is None:
            os.environ.pop(VARIABLE, None)
        else:
            os.environ[VARIABLE] = _own.before
        if _own.shown is not None:
            let_go(_own.shown, _shown_by(os.getpid()))
            _own.shown = None


def _shown_by(pid: int) -> Path:
    """The file that a process holds while it has a ledger open. The operating system lets go of it
    where the process is killed.
    """
    return Path(tempfile.gettempdir()) / f"riemdp-open-ledger-{pid}.lock"


# ------------------------------------------------------------------ carried by what is pickled
def marked(state: dict[str, Any]) -> dict[str, Any]:
    """The state of an object that is pickled now: with this process's mark while a ledger is open
    in it, else with the mark that it had.
    """
    return {**state, MARK: token()} if _own.open > 0 else dict(state)


def arrived(state: dict[str, Any]) -> None:
    """Such a state is unpickled here."""
    if is_from_elsewhere(state) and is_worker():
        _own.was_sent_marked = True


def passed_on(of: Any, to: Iterable[Any]) -> None:
    """What was made of a marked object has its mark."""
    if MARK in of.__dict__:
        for one in to:
            one.__dict__[MARK] = of.__dict__[MARK]


def is_from_elsewhere(state: dict[str, Any]) -> bool:
    """Whether it was pickled in another process, while a ledger was open there."""
    return state.get(MARK) not in (None, token())


def is_worker() -> bool:
    """Whether another process of Python started this one for its work: multiprocessing by any
    method, concurrent.futures, joblib and loky, Dask's nannies.
    """
    return multiprocessing.parent_process() is not None


# ------------------------------------------------------------------ asked before a charge
def refuse_sent(what: object, name: str) -> None:
    """Raise for a thing that was pickled beside a ledger of another process; to be called where no
    ledger is open here.
    """
    if is_from_elsewhere(getattr(what, "__dict__", {})):
        raise InvalidArgument(
            f"{name} was pickled while a ledger was open in another process, and none is open"
            " here: a worker process would not charge the ledger of the process that sent it."
            f" {REMEDY}. Where no ledger is meant, make it anew. Nothing was spent"
        )


def refuse_unseen() -> None:
    """Raise where a ledger is open that a release without one may belong to."""
    if _own.open > 0:
        raise InvalidArgument(
            "argument `ledger` is not given, and a ledger is open in another thread of this process"
            " (or of the one that it was forked from), which this thread does not see: the release"
            " would be charged to nothing. Give ledger=..., make it the ledger of all threads by"
            " riemdp.session_ledger(...), or work in one thread (n_jobs=1). What belongs to no"
            " ledger waits until that one is closed, or gets one of its own. Nothing was released"
            " or charged"
        )
    if is_worker() and (_own.was_sent_marked or _said_by_environment() or _shown_by_parent()):
        raise InvalidArgument(
            "argument `ledger` is not given, and this worker process was started, or was sent work,"
            " by a process with a ledger open, which this process does not see: the release would"
            f" be charged to nothing. {REMEDY}. If that ledger is closed by now, start new worker"
            " processes. Nothing was released or charged"
        )


def _said_by_environment() -> bool:
    return os.environ.get(VARIABLE, "") not in ("", token())


def _shown_by_parent() -> bool:
    parent = multiprocessing.parent_process()
    try:
        return parent is not None and parent.pid is not None and is_held(_shown_by(parent.pid))
    except OSError:
        return False
