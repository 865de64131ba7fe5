"""Ledgers that are open: which one is charged where none is given (that of the innermost `with`
block of this thread or task, else the session's), and those that this thread does not see, in
another thread or in the process that sent the work. Those can only make a release refuse.

Three things tell. A process counts the ledgers that it has open, for its threads, and knows which
of them ran meanwhile. What is pickled
meanwhile (an estimator, a `Budget`) carries a mark, for the process that it is sent to. And a
locked file tells the worker processes that it has started, and those that these have started: they
know its name by a setting that multiprocessing hands down.
"""

from __future__ import annotations

import contextvars
import hashlib
import multiprocessing
import multiprocessing.util
import os
import secrets
import tempfile
import threading
import weakref
from pathlib import Path
from typing import IO, Any

from .._errors import InvalidArgument, RiemdpError, warn
from .._locks import hold, is_held, is_same, let_go

_HANDED_DOWN = "riemdp"
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
        self.token = secrets.token_hex(16)  # a random name of this process
        # Blocks entered and not left, in any thread, and the session's. One that an interrupt kept
        # from being entered is nobody's, and vanishes from here.
        self.open: weakref.WeakSet[object] = weakref.WeakSet()
        # Threads that ran while another one had a ledger open: they may do work of its block.
        self.beside: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
        self.place = Path()  # see `_place_of`: it stays what it was at first
        self.shown: IO[bytes] | None = None  # that file, whose lock says that a ledger is open
        self.forked_beside: set[Path] = set()  # the places of whom this is a forked child of


_own = _Process()
if hasattr(os, "register_at_fork"):

    def _in_child() -> None:
        _own.lock = threading.RLock()  # a thread may have held it at the fork
        _own.token = secrets.token_hex(16)
        if _own.open:
            _own.forked_beside = {*_own.forked_beside, _own.place}
        _own.open, _own.shown = weakref.WeakSet(), None
        _note_self()

    os.register_at_fork(after_in_child=_in_child)


# ------------------------------------------------------------------ said by who opens a ledger
def opened(block: object) -> None:
    """A ledger is open in this process, in one place more, for as long as `block` lives or until it
    is closed. It is said before it is counted: an interrupt in between lets no worker release.
    """
    with _own.lock:
        if _own.shown is None:
            _own.shown = _held()
        _own.open.add(block)


def closed(block: object) -> None:
    """A ledger is open in one place less; one that was opened before a fork is the parent's."""
    with _own.lock:
        if block not in _own.open:
            return
        here = {threading.current_thread(), threading.main_thread()}
        _own.beside.update(thread for thread in threading.enumerate() if thread not in here)
        _own.open.discard(block)
        if not _own.open and _own.shown is not None:
            let_go(_own.shown, _own.place)
            _own.shown = None


def keep_telling() -> None:
    """Before a charge: make the file that tells workers anew where it was deleted, and warn."""
    with _own.lock:
        if _own.shown is None or is_same(_own.shown, _own.place):
            return
        _own.shown = _held()
    warn(
        f"{_own.place}, which tells worker processes of an open ledger, was deleted. What they"
        " released meanwhile without ledger=... was charged to nothing: add it by hand. Keep"
        " programs that clean up from that folder, or set TMPDIR to another one"
    )


def _held() -> IO[bytes]:
    try:
        return hold(_own.place)
    except OSError as error:
        raise RiemdpError(
            "no ledger can be opened for a block or a session: the file that tells worker processes"
            f" of it cannot be made ({error}). Set TMPDIR to a folder that may be written to and"
            " start Python again, or give ledger=... to each release. Nothing was charged"
        ) from error


def _place_of(pid: int) -> Path:
    """The file that a process holds while it has a ledger open. The operating system lets go of it
    where the process is killed.

    Its name is made of the random key that every process of multiprocessing has from the one that
    started it: who is no relative cannot guess it, and so cannot be there first.
    """
    try:
        folder = tempfile.gettempdir()
    except OSError:
        folder = os.devnull  # nothing can be made there, or looked at
    key = bytes(multiprocessing.current_process().authkey)
    name = hashlib.sha256(b"riemdp %d " % pid + key).hexdigest()[:32]
    return Path(folder, f"riemdp-open-ledger-{name}.lock")


def _settings() -> dict[str, Any]:
    """What multiprocessing hands down from a process to those that it starts, and to theirs, also
    where a process in between knows nothing of this library.
    """
    return getattr(multiprocessing.current_process(), "_config", {})


def _above() -> set[Path]:
    """The places of the processes that this one comes from, as far as it knows."""
    parent = multiprocessing.parent_process()
    if parent is None or parent.pid is None:
        return _own.forked_beside
    handed = {*_own.forked_beside, *_settings().get(_HANDED_DOWN, ())} - {_own.place}
    return {*handed, _place_of(parent.pid)}


def _note_self(_: object = None) -> None:
    """Whatever this process starts looks at it, and at whom it comes from."""
    _own.place = _place_of(os.getpid())
    _settings()[_HANDED_DOWN] = (*_above(), _own.place)


_note_self()
multiprocessing.util.register_after_fork(_own, _note_self)  # when any kind of worker begins


# ------------------------------------------------------------------ carried by what is pickled
def marked(state: dict[str, Any]) -> dict[str, Any]:
    """The state of an object that is pickled now: with the mark that it had, else with this
    process's while a ledger is open in it. So what comes back has no other mark.
    """
    return {MARK: _own.token, **state} if _own.open else dict(state)


def received(state: dict[str, Any]) -> dict[str, Any]:
    """The state of an object that was pickled, or copied: what never left this process has no mark
    of it.
    """
    return {key: value for key, value in state.items() if key != MARK or value != _own.token}


def passed_on(of: Any, to: Any) -> None:
    """What was made of a marked object has its mark."""
    if MARK in of.__dict__:
        to.__dict__[MARK] = of.__dict__[MARK]


# ------------------------------------------------------------------ asked before a charge
def refuse_sent(what: object, name: str) -> None:
    """Raise for a thing that was pickled beside a ledger of another process; to be called where no
    ledger is open here.
    """
    if getattr(what, "__dict__", {}).get(MARK) not in (None, _own.token):
        raise InvalidArgument(
            f"{name} was pickled while a ledger was open in another process, and none is open"
            " here: a worker process would not charge the ledger of the process that sent it."
            f" {REMEDY}. Where no ledger is meant, make it anew. Nothing was spent"
        )


def refuse_unseen() -> None:
    """Raise where a ledger is open that a release without one may belong to."""
    if _own.open:
        raise InvalidArgument(
            "argument `ledger` is not given, and a ledger is open in another thread of this"
            " process, which this thread does not see: the release would be charged to nothing."
            " Give ledger=..., make it the ledger of all threads by riemdp.session_ledger(...), or"
            " work in one thread (n_jobs=1). What belongs to no ledger waits until that one is"
            " closed, or gets one of its own. Nothing was released or charged"
        )
    if threading.current_thread() in _own.beside:
        raise InvalidArgument(
            "argument `ledger` is not given, and this thread ran while another one had a ledger"
            " open: what it does may have been begun there, and would be charged to nothing. Give"
            " ledger=..., or wait inside the block for what was begun there. What belongs to no"
            " ledger gets a thread that is started now, or one of its own. Nothing was released or"
            " charged"
        )
    above, depth = _above(), len(getattr(multiprocessing.current_process(), "_identity", ()))
    if len(above) < depth:
        raise InvalidArgument(
            f"argument `ledger` is not given, and this worker cannot see whether all {depth}"
            " processes that it comes from have a ledger open: one of them started it, or a worker"
            f" in between, before it imported riemdp; import it first. {REMEDY}. Nothing was"
            " released or charged"
        )
    if any(is_held(place) for place in above):
        raise InvalidArgument(
            "argument `ledger` is not given, and a process that this worker process comes from has"
            " a ledger open, which this process does not see: the release would be charged to"
            f" nothing. {REMEDY}. What belongs to no ledger waits until that one is closed. Nothing"
            " was released or charged"
        )


# ------------------------------------------------------------------ which one is charged here
class Block:
    """One use of a ledger for whatever runs: a `with` block, or a session. A copy of the context (a
    task, a thread) may keep it when it is over.
    """

    def __init__(self, ledger: object):
        self.ledger, self.over = ledger, False
        opened(self)

    def end(self) -> None:
        """It is over for whoever keeps it."""
        self.over = True
        closed(self)


_entered: contextvars.ContextVar[tuple[Block, ...]] = contextvars.ContextVar(
    "riemdp_ledgers", default=()
)  # `with` blocks of this thread or task, the innermost last
_blocks: list[Block] = []  # those of this process that are not over
_session: Block | None = None  # of this process, for what is in no `with Ledger`


def enter(ledger: object) -> None:
    """A `with` block begins."""
    block = Block(ledger)
    _entered.set((*_entered.get(), block))
    _blocks.append(block)


def leave(ledger: object) -> None:
    """The innermost `with` block of this ledger ends: one of this context, or else the only one
    that was entered in another (a thread, a task).
    """
    entered = _entered.get()
    own = [each for each in entered if each.ledger is ledger and not each.over]
    found = own or [each for each in _blocks if each.ledger is ledger]
    if not own and len(found) > 1:
        raise RiemdpError(
            "leave a block where it was entered: several other threads or tasks are in `with`"
            " blocks of this ledger, and which is meant is not known. None has ended"
        )
    for block in found[-1:]:
        _entered.set(tuple(each for each in entered if each is not block))
        if block in _blocks:
            _blocks.remove(block)
        block.end()


def begin_session(ledger: object) -> None:
    """The session's ledger from now on; None ends it."""
    global _session
    block = None if ledger is None else Block(ledger)
    was, _session = _session, block
    if was is not None:
        was.end()


def current() -> object:
    """The ledger, or None; see `Ledger.current`."""
    entered = _entered.get()
    if entered and entered[-1].over:
        raise InvalidArgument(
            "argument `ledger` is not given, and this task or thread was started inside a `with"
            " Ledger(...)` that is closed by now. Release inside that block (wait there for what"
            " it has started), or give ledger=... . Nothing was released or charged"
        )
    block = entered[-1] if entered else _session
    return None if block is None else block.ledger
