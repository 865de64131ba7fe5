"""What a ledger has charged, as values, and as the JSON of its file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .._errors import InvalidArgument, invalid
from . import _filter
from ._budget import Budget
from ._costliest import covers, worst_of
from ._guarantee import Guarantee
from ._register import Entry
from .accounting.events import GaussianEvent, PureEvent

_FORMAT = "riemdp-ledger"


@dataclass(frozen=True)
class State:
    """What was charged. Values only: a state is replaced whole, and never changed.

    A part has a state of its own, of all that was charged to it and to the whole, so that each is a
    filter by itself; its `runs` are those that were charged to it alone. The state of a whole
    counts what was charged to the whole.
    """

    spent: Guarantee  # what was drawn
    filtered: _filter.Spent  # what counts against the budget: runs with all that they planned
    runs: tuple[tuple[Guarantee, Guarantee], ...]  # (whole, drawn so far) of planned runs
    charges: int
    ids: tuple[str, ...] = ()  # random, one for a release or for a run
    parts: tuple[tuple[str, State], ...] = ()  # of disjoint people, by name

    def of(self, name: str) -> State:
        """The state of a part; one that was never charged has what the whole has spent. It is in
        none of the whole's runs, of which the rest is planned for other releases.
        """
        return dict(self.parts).get(name, replace(self, parts=(), runs=()))

    def with_part(self, name: str, part: State) -> State:
        for _, other in self.parts:
            other.spent.compose(part.spent)  # unlike adjacencies and units raise
        return replace(self, parts=tuple(sorted({**dict(self.parts), name: part}.items())))

    def with_id(self, charge: str) -> State:
        return self if charge in self.ids else replace(self, ids=(*self.ids, charge))

    @property
    def all_ids(self) -> set[str]:
        return {*self.ids, *(one for _, part in self.parts for one in part.ids)}

    @property
    def all_charges(self) -> int:
        return self.charges + sum(part.charges - self.charges for _, part in self.parts)

    def has_all_of(self, other: State) -> bool:
        """Whether this state has every charge of the other one."""
        own = dict(self.parts)
        return (
            other.charges <= self.charges
            and set(other.ids) <= set(self.ids)
            and (not other.spent.parts or covers(self.spent, other.spent))
            and all(name in own and own[name].has_all_of(part) for name, part in other.parts)
        )

    def admitted(self, budget: Budget) -> bool:
        """Whether every part is within the budget, with what was charged to the whole."""
        states = (self, *(part for _, part in self.parts))
        return all(_filter.admits(state.filtered, budget) for state in states)

    @property
    def costliest(self) -> Guarantee:
        """What was spent on the part that costs most, whatever the figure that is asked for."""
        return worst_of([part.spent for _, part in self.parts] or [self.spent])

    def choosing(self, mixed: bool | None) -> State:
        return replace(self, filtered=replace(self.filtered, mixed=mixed))

    def after(self, guarantee: Guarantee, plans: Sequence[Guarantee] = ()) -> State:
        """The state after one more release, which may be a part of one of `plans`. What is charged
        to a whole counts for each of its parts.

        Raises:
            InvalidArgument: It speaks of other neighbours than the releases before it.
        """
        runs, counted = self._planned(guarantee, plans)
        parts = tuple((name, part._with(guarantee, counted)) for name, part in self.parts)
        return replace(self._with(guarantee, counted), runs=runs, parts=parts)

    def _planned(
        self, guarantee: Guarantee, plans: Sequence[Guarantee]
    ) -> tuple[tuple[tuple[Guarantee, Guarantee], ...], Guarantee | None]:
        """The planned runs after one more release, and what then counts against the budget: the
        release, the whole run that it begins, or nothing where it is in a run that was counted.
        """
        if not guarantee.parts or not guarantee.is_private:
            return self.runs, None
        for whole in plans:
            if not covers(whole, guarantee) or _filter.is_simple(whole):
                continue
            for i, (planned, drawn) in enumerate(self.runs):
                more = drawn.compose(guarantee)
                if planned == whole and covers(whole, more):
                    return (*self.runs[:i], (whole, more), *self.runs[i + 1 :]), None
            return (*self.runs, (whole, guarantee)), whole
        return self.runs, guarantee

    def _with(self, guarantee: Guarantee, counted: Guarantee | None) -> State:
        _check_alike(self.spent, guarantee)
        return replace(
            self,
            spent=self.spent.compose(guarantee) if guarantee.is_private else guarantee,
            filtered=self.filtered if counted is None else self.filtered.with_(counted),
            charges=self.charges + 1,
        )


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


def comparable(guarantee: Guarantee) -> tuple[type, float] | None:
    """(kind, cost) of a guarantee of one part whose kind is ordered by one number."""
    if len(guarantee.parts) != 1:
        return None
    part = guarantee.parts[0]
    if isinstance(part, GaussianEvent):
        return GaussianEvent, part.squared_mu
    if isinstance(part, PureEvent) and part.count == 1:
        return PureEvent, part.epsilon
    return None


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
    if (
        all(isinstance(p, GaussianEvent | PureEvent) for p in guarantee.parts)
        and len({type(p) for p in (*guarantee.parts, *state.spent.parts)}) < 2
    ):
        return said
    return said + (
        ". This ledger keeps the exact composition of its first kind of release, and other"
        " kinds cost more in it; Ledger(budget, mixed=True), given at the start, shares delta"
        " between the kinds"
    )


def to_json(budget: Budget, state: State, register: tuple[Entry, ...] = ()) -> str:
    record = {
        "format": _FORMAT,
        "version": 4 if state.parts else 3,
        "budget": {"epsilon": budget.epsilon, "delta": budget.delta},
        **_told(state),
        "register": [entry.to_dict() for entry in register],
    }
    if state.parts:
        record["parts"] = {name: _told(part) for name, part in state.parts}
    return json.dumps(record, indent=1, allow_nan=False) + "\n"


def _told(state: State) -> dict[str, Any]:
    filtered = state.filtered
    return {
        "charges": state.charges,
        "spent": state.spent.to_dict(),
        "mixed": filtered.mixed,
        "simple": filtered.simple.to_dict(),
        "runs": [g.to_dict() for g in filtered.runs],
        "planned": [
            {"whole": whole.to_dict(), "drawn": drawn.to_dict()} for whole, drawn in state.runs
        ],
        "ids": list(state.ids),
    }


def _read(told: dict[str, Any], version: int) -> State:
    spent, charges = Guarantee.from_dict(told["spent"]), told["charges"]
    if not isinstance(charges, int) or isinstance(charges, bool) or charges < 0:
        raise invalid("charges", charges, "a ledger's count of charges is a whole number")
    if version == 1:  # one total, of releases that the old rule granted one by one
        filtered = _filter.Spent(Guarantee(spent.adjacency))
        return State(spent, filtered.with_(spent) if spent.parts else filtered, (), charges)
    mixed = told["mixed"]
    if mixed is not None and not isinstance(mixed, bool):
        raise KeyError("mixed")
    filtered = _filter.Spent(
        Guarantee.from_dict(told["simple"]),
        tuple(Guarantee.from_dict(g) for g in told["runs"]),
        mixed,
    )
    planned = tuple(
        (Guarantee.from_dict(run["whole"]), Guarantee.from_dict(run["drawn"]))
        for run in told["planned"]
    )
    return State(spent, filtered, planned, charges, ids=tuple(map(str, told.get("ids", []))))


def is_ledger(path: Path) -> bool:
    """Whether a file holds a ledger."""
    try:
        return path.is_file() and json.loads(path.read_text("utf-8"))["format"] == _FORMAT
    except (OSError, ValueError, KeyError, TypeError):
        return False


def from_json(text: str) -> tuple[Budget, State, tuple[Entry, ...]]:
    try:
        told = json.loads(text)
        version = told["version"]
        if told["format"] != _FORMAT or version not in (1, 2, 3, 4):
            raise KeyError("format")
        budget = Budget(told["budget"]["epsilon"], told["budget"]["delta"])
        state, register = _read(told, version), tuple[Entry, ...]()
        if version >= 3:
            register = tuple(Entry.from_dict(entry) for entry in told["register"])
        if version == 4:
            parts = [(str(name), _read(part, 4)) for name, part in sorted(told["parts"].items())]
            state = replace(state, parts=tuple(parts))
    except (json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise InvalidArgument(
            "this is not the JSON of a riemdp ledger, version 1 to 4 (see Ledger.to_json)"
        ) from error
    return budget, state, register
