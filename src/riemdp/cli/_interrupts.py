"""Ctrl-C and termination: obeyed before the charge, held from the charge until the files are in
place. No charge is without a file, or a line that says so.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from types import FrameType, TracebackType
from typing import Any


class Interrupts:
    """The signals that come while one command runs.

    Attributes:
        seen: How many came.
        charged: Whether the ledger was charged. From then on the first signal waits until the files
            are in place, because the release has been paid for; a second one stops the run.
        placed: Whether the files of the release are in place.
    """

    def __init__(self) -> None:
        self.seen = 0
        self.charged = self.placed = self._whole = False
        self._before: dict[int, Any] = {}
        self._hook = sys.unraisablehook

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._hear)
            sys.unraisablehook = self._dropped
        self._token = _current.set(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        _current.reset(self._token)
        if threading.current_thread() is threading.main_thread():
            sys.unraisablehook = self._hook
            for number, handler in self._before.items():
                signal.signal(number, handler)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self.seen += 1
        if not self._whole and (self.seen > 1 or not self.charged):
            raise KeyboardInterrupt

    def _dropped(self, dropped: sys.UnraisableHookArgs) -> None:
        """Of what Python drops, show all but an interrupt: that has been noted."""
        if not issubclass(dropped.exc_type, KeyboardInterrupt):
            self._hook(dropped)

    @contextlib.contextmanager
    def whole(self) -> Iterator[None]:
        """Only note signals inside: for a step that is done or not, such as writing a ledger."""
        self._whole = True
        try:
            yield
        finally:
            self._whole = False

    def check(self) -> None:
        """Obey a signal that was noted, also one whose exception was dropped on the way: Python
        drops what is raised in a finaliser.
        """
        if self.seen and not self.charged:
            raise KeyboardInterrupt

    @property
    def in_words(self) -> str:
        """What an interrupt has stopped, and what it has not."""
        if self.placed and self.charged:
            return (
                "interrupted after the release was paid for, so it was finished: the ledger is"
                " charged and the files are written"
            )
        if self.placed:
            return "interrupted; the files had been written"
        if self.charged:
            return (
                "interrupted twice; the ledger is charged and no file was written. The release is"
                " lost"
            )
        return "interrupted; no file was written and nothing was charged"


_current: ContextVar[Interrupts] = ContextVar("interrupts")


def current() -> Interrupts:
    """The signals of the command that runs in this thread."""
    return _current.get()
