"""Follows one call through the package: which files hold records, noise or a permission to draw.

A function is *inside* where it is given, holds or returns the records or an array derived from
them, a `NoiseSource` or a `Permit`, or where it calls `charge`. An array is derived from the
records where a function that was given some hands it on, unless it was seen before outside: so a
mistake of this test names a file too many, not one too few. A `Release` and what is in it is
public, as is what the functions of `public` return. `PrivateRecords` are closed but in the one file
that may open them, which `opened_records` of tests/test_architecture.py holds; there, and in what
is called from there, their arrays are records.
"""

from __future__ import annotations

import functools
import inspect
import sys
import threading
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from types import CodeType, FrameType, MethodType
from typing import Any

import jax
import numpy as np

import riemdp
from riemdp import NoiseSource, Release
from riemdp.privacy import charge
from tests.seam import Accounts, Gradients

PACKAGE = Path(riemdp.__file__).parent
OPENS = "optimizers/_records.py"
DEPTH = 5  # how far into fields, lists and dictionaries it looks
Reasons = dict[str, dict[str, set[str]]]


class Tracer:
    """Watches every call of the package while it is entered, in this thread and in new ones.

    Args:
        records: What is private.
        known: What is public: arrays in it are no records, whoever hands them on.
        public: Qualified names of functions whose results are public.
        every: Note every function that runs, whatever it holds.

    Attributes:
        found: File -> reason -> functions.
    """

    def __init__(
        self, records: Any, known: Any = (), public: Collection[str] = (), *, every: bool = False
    ):
        self.found: Reasons = {}
        self._public, self._every = set(public), every
        self._known: dict[int, tuple[Any, bool]] = {}  # the array is kept, so that no id comes back
        self._frames = threading.local()
        self._lock = threading.RLock()
        for array in arrays(known):
            self._known[id(array)] = (array, False)
        for array in arrays(records):
            self._known[id(array)] = (array, True)

    def __enter__(self) -> Tracer:
        threading.setprofile(self._watch)
        sys.setprofile(self._watch)
        return self

    def __exit__(self, *exception: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _watch(self, frame: FrameType, event: str, arg: Any) -> None:
        if event not in ("call", "return") or _place(frame.f_code) is None:
            return
        stack: list[tuple[FrameType, bool]] = self._frames.__dict__.setdefault("stack", [])
        with self._lock:
            if event == "call":
                holder = stack[-1] if stack else None
                stack.append((frame, self._called(frame, holder)))
            elif stack and stack[-1][0] is frame:
                _, inside = stack.pop()
                self._returned(frame.f_code, arg, inside)

    def _called(self, frame: FrameType, holder: tuple[FrameType, bool] | None) -> bool:
        """Notes what a function is given; whether it holds records."""
        if self._every:
            self._note(frame.f_code, "runs")
            return False
        if frame.f_code is charge.__code__ and holder is not None:
            self._note(holder[0].f_code, "charge")
        given, inside = list(frame.f_locals.values()), False
        if _place(frame.f_code) == OPENS:
            for records in given:
                if isinstance(records, Gradients.PrivateRecords):
                    given.append(records.held)
                    for array in arrays(records.held):
                        self._known[id(array)] = (array, True)
        for thing in things(given):
            if isinstance(thing, NoiseSource):
                self._note(frame.f_code, "noise")
            elif isinstance(thing, Accounts.Permit):
                self._note(frame.f_code, "permit")
            elif self._derived(thing, holder is not None and holder[1]):
                inside = True
        if inside:
            self._note(frame.f_code, "records")
        return inside

    def _returned(self, code: CodeType, result: Any, inside: bool) -> None:
        if code.co_qualname in self._public:
            for array in arrays(result):
                self._known[id(array)] = (array, False)
            return
        derived = [self._derived(array, inside) for array in arrays(result)]  # notes all of them
        if any(derived):
            self._note(code, "records")

    def _derived(self, array: Any, by_default: bool) -> bool:
        """Whether an array is known to come from the records; `by_default`, where it is new."""
        base = array
        while base is not None:
            known = self._known.get(id(base))
            if known is not None:
                by_default = known[1]
                break
            base = getattr(base, "base", None)
        self._known[id(array)] = (array, by_default)
        return by_default

    def _note(self, code: CodeType, reason: str) -> None:
        place = _place(code)
        assert place is not None
        self.found.setdefault(place, {}).setdefault(reason, set()).add(code.co_qualname)


def arrays(thing: Any) -> Iterator[Any]:
    """All arrays in it."""
    return (t for t in things(thing) if isinstance(t, np.ndarray | jax.Array))


def things(thing: Any, depth: int = DEPTH) -> Iterator[Any]:
    """All arrays, sources of noise and permits in it; nothing of a `Release` or what is closed."""
    if isinstance(thing, np.ndarray | jax.Array):
        if thing.ndim and thing.dtype != object:
            yield thing
        elif isinstance(thing, np.ndarray) and thing.ndim:
            yield from things(list(thing.ravel()), depth)
        return
    if isinstance(thing, NoiseSource | Accounts.Permit):
        yield thing
        return
    closed = Release, Gradients.PrivateRecords, str, bytes, int, float, type(None)
    if depth == 0 or isinstance(thing, closed):
        return
    for part in _parts(thing):
        yield from things(part, depth - 1)


def _parts(thing: Any) -> list[Any]:
    """What a container, a closure or an object of the package holds."""
    if isinstance(thing, list | tuple | set | frozenset):
        return list(thing)[:1000]
    if isinstance(thing, Mapping):
        return list(thing.values())
    if isinstance(thing, functools.partial):
        return [thing.func, thing.args, thing.keywords]
    if isinstance(thing, MethodType):
        return [thing.__self__]
    if inspect.isfunction(thing):
        cells = thing.__closure__ or ()
        return [cell.cell_contents for cell in cells if _is_filled(cell)]
    if type(thing).__module__.partition(".")[0] == "riemdp":
        return list(getattr(thing, "__dict__", {}).values())
    return []


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _place(code: CodeType) -> str | None:
    """The file of a function within the package, or None."""
    return _within(code.co_filename)


@functools.cache
def _within(filename: str) -> str | None:
    path = Path(filename)
    return path.relative_to(PACKAGE).as_posix() if path.is_relative_to(PACKAGE) else None
