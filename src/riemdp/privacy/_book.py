"""Where a ledger's charges stand: in memory, or as lines of a file, each of which is one."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Generator
from pathlib import Path

from .._errors import InvalidArgument, RiemdpError
from .._files import Lock, locked
from ._budget import Budget
from ._ledger_state import Entry, State, first_line, line_of, read_entry, read_first


class Book:
    """The charges of one ledger, which its parts share.

    With a `path`, the charges are those of the file's lines, and no others: they are read at every
    operation, under the file's lock, and a charge is made by its line being on the disk. A last
    line without its end is a charge if it is whole; else the file is refused.

    Args:
        budget: Of the ledger; None for that of the file, which must exist.
        path: The file, which is made if there is none; None for memory.
        mixed: The rule of a new ledger.
    """

    def __init__(self, budget: Budget | None, path: Path | None, mixed: bool | None):
        self.path, self.state, self.entries = path, State.new(mixed), list[Entry]()
        self._lock, self._process = threading.RLock(), os.getpid()
        self._read = b""  # what of the file is in `state` and `entries`
        self._budget = budget
        if path is not None:
            with locked(path) as file:
                if budget is not None and not path.exists():
                    file.write_text(first_line(budget, mixed))
                self._follow(file, path)

    @property
    def budget(self) -> Budget:
        """What may be spent in total."""
        assert self._budget is not None
        return self._budget

    @contextlib.contextmanager
    def held(self) -> Generator[Lock | None]:
        """Hold what is charged, as the file has it now; and the file, if there is one."""
        self._check_process()
        with self._lock:
            if self.path is None:
                yield None
                return
            with locked(self.path) as file:
                self._follow(file, self.path)
                yield file

    def add(self, entry: Entry, before: State, after: State, file: Lock | None) -> bool:
        """Make one charge, where it is held: that of the file's new line, else the state `after`
        it. False, and no charge, where the state is no longer that `before` it.
        """
        if file is None:
            # A signal handler may have charged since; nothing runs between these two lines.
            if self.state is before:
                self.state = after
                self.entries.append(entry)
                return True
            return False
        # a whole last line without its end is a charge, too
        start = "" if self._read.endswith(b"\n") else "\n"
        try:
            file.append((start + line_of(entry)).encode())
        except OSError as error:
            raise OSError(
                error.errno,
                f"{error.strerror or error}. The ledger could not be written, so nothing is"
                " released",
                str(self.path),
            ) from error
        return True

    def _follow(self, file: Lock, path: Path) -> None:
        """Read what the file has had added; all of it, where it is not what it was.

        Raises:
            InvalidArgument: It has another name, another budget, or is damaged.
            FileNotFoundError: There is none.
        """
        if file.names == 0:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        if file.names > 1:
            raise InvalidArgument(
                f"argument `path`: the ledger {path} has more than one name (a hard link). Each"
                " name could spend the whole budget; keep one and delete the others"
            )
        content = file.read()
        state, entries, new = self.state, self.entries, content[len(self._read) :]
        if not (self._read and content.startswith(self._read)):
            first, _, _ = content.partition(b"\n")
            mixed = self._check_first(_decoded(content))
            state, entries, new = State.new(mixed), [], content[len(first) + 1 :]
        found = [read_entry(line) for line in _decoded(new).split("\n") if line]
        for entry in found:
            state = state.after(entry)
        if content != self._read:
            self.state, self.entries, self._read = state, [*entries, *found], content

    def _check_first(self, text: str) -> bool | None:
        """The rule that a file begins with, whose budget has to be this one's."""
        budget, mixed = read_first(text)
        self._budget = budget if self._budget is None else self._budget
        if budget != self._budget:
            raise InvalidArgument(
                f"argument `budget` = {self._budget} differs from the budget {budget} of the ledger"
                " in `path`; a budget is not changed once spending has begun (Ledger.open takes"
                " the file's)"
            )
        return mixed

    def _check_process(self) -> None:
        """In a forked child: refuse a ledger in memory, and renew the lock of one that follows its
        file (another thread may have held it at the fork).
        """
        if os.getpid() == self._process:
            return
        if self.path is None:
            raise RiemdpError(
                f"this ledger is in the memory of process {self._process}, and process"
                f" {os.getpid()} has only a copy of it: each copy could spend the whole budget."
                " Share one in a file: Ledger(budget, path=...)"
            )
        self._lock, self._process = threading.RLock(), os.getpid()


def _decoded(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise InvalidArgument("this is no riemdp ledger: it is no text in UTF-8") from error
