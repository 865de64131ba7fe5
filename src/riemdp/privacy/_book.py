"""What a ledger has charged: an `Entry` for each charge, the `State` of all of them, and the `Book`
where they stand, in memory or as lines of a file, each of which is one.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import json
import os
import re
import threading
from collections.abc import Generator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .._errors import InvalidArgument, RiemdpError
from .._locks import Lock, locked
from . import _filter
from ._budget import Budget
from ._costliest import covers, worst_of
from ._guarantee import REPLACE_ONE, Guarantee
from .accounting.events import GaussianEvent, PureEvent

_FORMAT, _VERSION = "riemdp-ledger", 5
_MARK = f'"format": "{_FORMAT}"'


@dataclass(frozen=True)
class Entry:
    """One charge, which is one line of a ledger's file.

    Attributes:
        when: When it was charged, as ISO 8601 in UTC.
        what: What was charged, in words; all that a file tells of it beside its cost.
        guarantee: What it cost.
        run: A random name: `Release.receipt.id` of what was released. The charges of a run that is
            charged block by block share one.
        part: The part of the ledger that it was charged to, "" for the whole.
        of: The guarantee of the planned run that it belongs to, or None.
    """

    when: str
    what: str
    guarantee: Guarantee
    run: str
    part: str = ""
    of: Guarantee | None = None

    @staticmethod
    def now(what: str, guarantee: Guarantee, run: str, part: str, of: Guarantee | None) -> Entry:
        """An entry of this moment."""
        when = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return Entry(when, what, guarantee, run, part, of)

    def to_dict(self) -> dict[str, Any]:
        """The entry for JSON."""
        told = {"when": self.when, "what": self.what, "guarantee": self.guarantee.to_dict()}
        part = {"part": self.part} if self.part else {}
        of = {} if self.of is None else {"of": self.of.to_dict()}
        return told | {"run": self.run} | part | of


@dataclass(frozen=True)
class State:
    """What was charged. Values only: a state is replaced whole, and never changed.

    A part has a state of its own, of all that was charged to it and to the whole, so that each is a
    filter by itself; its `runs` are those that were charged to it alone. The state of a whole
    counts what was charged to the whole.
    """

    spent: Guarantee  # what was drawn
    filtered: _filter.Spent  # what counts against the budget: runs with all that they planned
    runs: tuple[tuple[Guarantee, Guarantee], ...] = ()  # (whole, drawn so far) of planned runs
    parts: tuple[tuple[str, State], ...] = ()  # of disjoint people, by name

    @staticmethod
    def new(mixed: bool | None) -> State:
        """Nothing was charged."""
        nothing = Guarantee(REPLACE_ONE)
        return State(nothing, _filter.Spent(nothing, mixed=mixed))

    def of(self, part: str) -> State:
        """The state of a part, of the whole for "". One that was never charged has what the whole
        has spent. It is in none of the whole's runs, of which the rest is planned for other
        releases.
        """
        return dict(self.parts).get(part, replace(self, parts=(), runs=())) if part else self

    @property
    def costliest(self) -> Guarantee:
        """What was spent on the part that costs most, whatever the figure that is asked for."""
        return worst_of([part.spent for _, part in self.parts] or [self.spent])

    def is_within(self, budget: Budget) -> bool:
        """Whether every part is within the budget, with what was charged to the whole."""
        states = (self, *(part for _, part in self.parts))
        return all(
            state.spent.is_private and _filter.admits(state.filtered, budget) for state in states
        )

    def after(self, entry: Entry) -> State:
        """The state after one more charge. What is charged to a whole counts for each of its parts.

        Raises:
            InvalidArgument: It speaks of other neighbours than the charges before it.
        """
        if entry.part:
            for _, other in self.parts:
                _check_alike(other.spent, entry.guarantee)
            part = self.of(entry.part).after(replace(entry, part=""))
            return replace(
                self, parts=tuple(sorted({**dict(self.parts), entry.part: part}.items()))
            )
        runs, counted = self._in_runs(entry)
        parts = tuple((name, part._with(entry.guarantee, counted)) for name, part in self.parts)
        return replace(self._with(entry.guarantee, counted), runs=runs, parts=parts)

    def _in_runs(
        self, entry: Entry
    ) -> tuple[tuple[tuple[Guarantee, Guarantee], ...], Guarantee | None]:
        """The planned runs after one more charge, and what then counts against the budget: the
        release, the whole run that it begins, or nothing where it is in a run that was counted.
        """
        if not entry.guarantee.parts:
            return self.runs, None
        if entry.of is None or not covers(entry.of, entry.guarantee):
            return self.runs, entry.guarantee
        for i, (planned, drawn) in enumerate(self.runs):
            more = drawn.compose(entry.guarantee)
            if planned == entry.of and covers(planned, more):
                return (*self.runs[:i], (planned, more), *self.runs[i + 1 :]), None
        return (*self.runs, (entry.of, entry.guarantee)), entry.of

    def _with(self, guarantee: Guarantee, counted: Guarantee | None) -> State:
        _check_alike(self.spent, guarantee)
        return replace(
            self,
            spent=self.spent.compose(guarantee),
            filtered=self.filtered if counted is None else self.filtered.with_(counted),
        )


def plan_of(guarantee: Guarantee, run: Guarantee) -> Guarantee | None:
    """The planned run, if a release that is charged as a part of it is one; None where the release
    counts by itself.
    """
    is_part = guarantee.parts and covers(run, guarantee) and not _filter.is_simple(run)
    return run if is_part else None


def _check_alike(spent: Guarantee, guarantee: Guarantee) -> None:
    """Refuse a release whose neighbours are not those of the releases before it: their guarantees
    do not add up.
    """
    if not (spent.parts and guarantee.parts and guarantee.is_private):
        return
    if spent.unit != guarantee.unit:
        raise InvalidArgument(
            f"this release protects one {guarantee.unit}, and those that its ledger has charged"
            f" protect one {spent.unit}: together they protect no person, only single records."
            " Make all of them with `groups`, or none; or keep a ledger for each kind. Nothing was"
            " released or charged"
        )
    if spent.adjacency != guarantee.adjacency:
        raise InvalidArgument(
            f"this release is under {guarantee.adjacency}, and those that its ledger has charged"
            f" are under {spent.adjacency}: such guarantees speak of different neighbouring data"
            " sets and do not add up. Make all of them under one adjacency (for example"
            " sampling='without-replacement' instead of 'poisson'), or keep a ledger for each."
            " Nothing was released or charged"
        )


def remedy(state: State, budget: Budget, guarantee: Guarantee) -> str:
    """What else could be granted, to end the message of a refusal."""
    parts = guarantee.parts
    said = ""
    if budget.delta > 0 and parts and all(isinstance(p, PureEvent) for p in parts):
        said = (
            ". It is pure, and pure releases add up by epsilon: parts of `split_budget` fit"
            ' together for Gaussian noise alone. mechanism="auto" never looks at a ledger; give'
            ' mechanism="wrapped-gaussian" from the first part on'
        )
    if state.filtered.mixed is not False or not state.spent.parts:
        return said
    kinds = {type(part) for part in (*parts, *state.spent.parts)}
    if len(kinds) < 2 and kinds <= {GaussianEvent, PureEvent}:
        return said
    return said + (
        ". This ledger keeps the exact composition of its first kind of release, and other"
        " kinds cost more in it; Ledger(budget, mixed=True), given at the start, shares delta"
        " between the kinds"
    )


# ------------------------------------------------------------------------------ lines of a file
def first_line(budget: Budget, mixed: bool | None) -> str:
    """The line that a ledger's file begins with."""
    told = {"epsilon": budget.epsilon, "delta": budget.delta}
    return _line({"format": _FORMAT, "version": _VERSION, "budget": told, "mixed": mixed})


def line_of(entry: Entry) -> str:
    """The line of one charge."""
    return _line(entry.to_dict())


def _line(told: dict[str, Any]) -> str:
    return json.dumps(told, allow_nan=False) + "\n"


def is_ledger(path: Path) -> bool:
    """Whether a file holds a ledger, of whatever version."""
    try:
        if not path.is_file():
            return False
        with path.open(encoding="utf-8", errors="replace") as file:
            return _MARK in file.read(len(_MARK) + 10)
    except OSError:
        return False


def read_first(text: str) -> tuple[Budget, bool | None]:
    """Budget and rule from the first line of a ledger.

    Raises:
        InvalidArgument: It is none, or of another version.
    """
    line, ended, _ = text.partition("\n")
    version = re.search(r'"version": (\d{1,9})\b', text[:200]) if _MARK in text[:200] else None
    if version is not None and int(version[1]) != _VERSION:
        raise InvalidArgument(
            f"this ledger is of version {version[1]} of the format, and only version {_VERSION} is"
            " read. Make a new one, and spend in it what the old one shows as spent"
        )
    try:
        told = _told(line if ended else "")
        mixed, budget = told["mixed"], told["budget"]
        if set(told) != {"format", "version", "budget", "mixed"} or told["format"] != _FORMAT:
            raise KeyError("format")
        if told["version"] != _VERSION or not isinstance(mixed, bool | None):
            raise KeyError("version")
        return Budget(budget["epsilon"], budget["delta"]), mixed
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidArgument(
            "this is no riemdp ledger, or its first line is damaged or incomplete"
        ) from error


def read_entry(line: str) -> Entry:
    """The entry of one line.

    Raises:
        InvalidArgument: It is none.
    """
    try:
        told = _told(line)
        if not {"when", "what", "guarantee", "run"} <= set(told) <= _FIELDS:
            raise KeyError("line")
        words = [told[name] for name in ("when", "what", "run")] + [told.get("part", "")]
        if not all(isinstance(word, str) for word in words):
            raise TypeError("line")
        guarantee = Guarantee.from_dict(told["guarantee"])
        of = Guarantee.from_dict(told["of"]) if "of" in told else None
        return Entry(words[0], words[1], guarantee, words[2], words[3], of)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidArgument(
            f"a line of this ledger is damaged or incomplete: {line[:60]!r}. What was spent is not"
            " known, so nothing is released until the line is whole again. A last line that lacks"
            " its end may be of a charge whose writing was cut off; then its release was not made,"
            " and the line may go. If the file was cut afterwards, its release was made"
        ) from error


_FIELDS = {"when", "what", "guarantee", "run", "part", "of"}


def _told(line: str) -> dict[str, Any]:
    """The object that a line holds; no number in it is infinite or NaN."""
    try:
        told = json.loads(line, parse_constant=_refused)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(told, dict):
        raise TypeError("no object")
    return told


def _refused(name: str) -> float:
    raise ValueError(name)


# ------------------------------------------------------------------------------ where they stand
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
