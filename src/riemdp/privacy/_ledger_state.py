"""What a ledger has charged, as values: an `Entry` a charge, and the `State` of all of them."""

from __future__ import annotations

import datetime
import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .._errors import InvalidArgument
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
        told = {
            "when": self.when,
            "what": self.what,
            "guarantee": self.guarantee.to_dict(),
            "run": self.run,
        }
        part = {"part": self.part} if self.part else {}
        of = {} if self.of is None else {"of": self.of.to_dict()}
        return told | part | of


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
    charges: int = 0
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
    def all_charges(self) -> int:
        """How many charges there were, to the whole and to its parts."""
        return self.charges + sum(part.charges - self.charges for _, part in self.parts)

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
            charges=self.charges + 1,
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
