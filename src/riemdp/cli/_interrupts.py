"""Ctrl-C and termination: heard at any moment, obeyed before a charge, never between a charge and
its release.

Python raises `KeyboardInterrupt` wherever it happens to be. Raised inside a callback of the garbage
collector (jax installs one) it is dropped, and the run goes on. So the handler here also notes the
signal, and the run looks at the note before it charges a ledger.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_ALARM: int | None = getattr(signal, "SIGALRM", None)  # not on every system
_MOMENT = 0.05


class Interrupts:
    """The signals that came while one command runs.

    Attributes:
        seen: how many came.
        charged: whether a ledger was charged. From then on the first signal waits until the files
            are in place, because the release has been paid for; a second one stops the run.
        raised: whether one was obeyed by raising `KeyboardInterrupt`. Compiled code on the way may
            turn that into another exception.
        placed: whether the files of the release are in place.
    """

    def __init__(self) -> None:
        self.seen = 0
        self.charged = False
        self.raised = False
        self.placed = False
        self._held = False

    def check(self) -> None:
        """Obey a signal that was noted, also one whose exception was dropped on the way."""
        if self.seen and not self.charged:
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Only note signals inside: for a step that has to be whole, such as writing a ledger."""
        before, self._held = self._held, True
        try:
            yield
        finally:
            self._held = before

    @contextlib.contextmanager
    def translated(self) -> Iterator[None]:
        """Make an interrupt again of whatever exception compiled code has made of one."""
        try:
            yield
        except Exception:
            if self.raised:
                raise KeyboardInterrupt from None
            raise

    def finished(self, kind: type[BaseException] | None, *_: object) -> None:
        """Note, on leaving a block without an error, that the files are in place."""
        self.placed = kind is None

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self.seen += 1
        self._obey(number, frame)

    def _obey(self, number: int, frame: FrameType | None) -> None:
        if self._held or (self.charged and self.seen == 1):
            return
        if self.seen == 1 and _in_jax(frame):
            if _ALARM is not None:  # look again in a moment
                signal.setitimer(signal.ITIMER_REAL, _MOMENT)
            return
        self.raised = True
        raise KeyboardInterrupt


def _in_jax(frame: FrameType | None) -> bool:
    """Whether JAX is at work. An exception that passes through its compiler may end the process by
    a segmentation fault.
    """
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] in ("jax", "jaxlib"):
            return True
        frame = frame.f_back
    return False


_current = Interrupts()


def current() -> Interrupts:
    """The signals of the command that runs now."""
    return _current


@contextlib.contextmanager
def heard(*, last: bool = False) -> Iterator[Interrupts]:
    """Listen to signals inside. A signal that the process was started to ignore stays ignored.

    `last`: the process ends afterwards. Signals that come then are ignored: all is written, and
    what they would stop is the interpreter's own shutdown.
    """
    global _current
    before, _current = _current, Interrupts()
    here = threading.current_thread() is threading.main_thread()
    kept: dict[int, Any] = {s: signal.getsignal(s) for s in _SIGNALS} if here else {}
    for number, handler in kept.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, _current._hear)
    if here and _ALARM is not None:
        kept[_ALARM] = signal.signal(_ALARM, _current._obey)
    hook, sys.unraisablehook = sys.unraisablehook, _quiet(sys.unraisablehook)
    try:
        yield _current
    finally:
        sys.unraisablehook = hook
        if here and _ALARM is not None:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
        for number, handler in kept.items():
            signal.signal(number, signal.SIG_IGN if last else handler)
        _current = before


def _quiet(hook: Callable[[sys.UnraisableHookArgs], object]) -> Any:
    """The hook for exceptions that Python drops, silent for an interrupt: it has been noted."""

    def wrapped(dropped: sys.UnraisableHookArgs) -> None:
        if not issubclass(dropped.exc_type, KeyboardInterrupt):
            hook(dropped)

    return wrapped


def leave(code: int) -> None:
    """End the process at once, with everything written.

    An interrupt inside a compilation can leave objects that the compiler's ordinary shutdown
    cannot take apart; the process would end by a segmentation fault.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            code = code or 120  # as Python's own: what was printed did not arrive
    os._exit(code)
