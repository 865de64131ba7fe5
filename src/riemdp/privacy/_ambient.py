"""Which ledger is charged where none is given: that of the innermost `with` block of this thread or
task, else the session's.
"""

from __future__ import annotations

import contextvars

from .._errors import InvalidArgument, RiemdpError
from . import _elsewhere


class Block:
    """One use of a ledger for whatever runs: a `with` block, or a session. A copy of the context (a
    task, a thread) may keep it when it is over.
    """

    def __init__(self, ledger: object):
        self.ledger, self.over = ledger, False
        _elsewhere.opened(self)

    def end(self) -> None:
        """It is over for whoever keeps it."""
        self.over = True
        _elsewhere.closed(self)


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
