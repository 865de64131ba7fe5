"""What a ledger has charged, as values, and as the JSON of its file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from .._errors import InvalidArgument, invalid
from . import _filter
from ._budget import Budget
from ._guarantee import Guarantee
from ._register import Entry
from .accounting.events import Event, GaussianEvent, once

_FORMAT = "riemdp-ledger"


@dataclass(frozen=True)
class State:
    """What was charged. Values only: a state is replaced whole, and never changed."""

    spent: Guarantee  # what was drawn
    filtered: _filter.Spent  # what counts against the budget: runs with all that they planned
    runs: tuple[tuple[Guarantee, Guarantee], ...]  # (whole, drawn so far) of planned runs
    charges: int

    def choosing(self, mixed: bool | None) -> State:
        return replace(self, filtered=replace(self.filtered, mixed=mixed))

    def after(self, guarantee: Guarantee, plans: Sequence[Guarantee] = ()) -> State:
        """The state after one more release, which may be a part of one of `plans`.

        Raises:
            InvalidArgument: It speaks of other neighbours than the releases before it.
        """
        _check_alike(self.spent, guarantee)
        total = replace(
            self,
            spent=self.spent.compose(guarantee) if guarantee.is_private else guarantee,
            charges=self.charges + 1,
        )
        if not guarantee.parts or not guarantee.is_private:
            return total
        for whole in plans:
            if not covers(whole, guarantee) or _filter.is_simple(whole):
                continue
            for i, (planned, drawn) in enumerate(self.runs):
                more = drawn.compose(guarantee)
                if planned == whole and covers(whole, more):
                    runs = (*self.runs[:i], (whole, more), *self.runs[i + 1 :])
                    return replace(total, runs=runs)
            return replace(
                total, runs=(*self.runs, (whole, guarantee)), filtered=self.filtered.with_(whole)
            )
        return replace(total, filtered=self.filtered.with_(guarantee))


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


def covers(whole: Guarantee, part: Guarantee) -> bool:
    """Whether `part` is made of some of the releases of `whole` (up to the rounding of sums)."""
    left: dict[Event, float] = {_kind(p): _amount(p) for p in whole.parts}
    alike = (whole.adjacency, whole.unit) == (part.adjacency, part.unit)
    alike = alike and set(part.assumes.split("; ")) <= {"", *whole.assumes.split("; ")}
    return alike and all(_amount(p) <= left.get(_kind(p), 0.0) * (1 + 1e-11) for p in part.parts)


def _kind(part: Event) -> Event:
    return GaussianEvent(1.0) if isinstance(part, GaussianEvent) else once(part)


def _amount(part: Event) -> float:
    return part.squared_mu if isinstance(part, GaussianEvent) else getattr(part, "count", 1)


def to_json(budget: Budget, state: State, register: tuple[Entry, ...] = ()) -> str:
    filtered = state.filtered
    record = {
        "format": _FORMAT,
        "version": 3,
        "budget": {"epsilon": budget.epsilon, "delta": budget.delta},
        "charges": state.charges,
        "spent": state.spent.to_dict(),
        "mixed": filtered.mixed,
        "simple": filtered.simple.to_dict(),
        "runs": [g.to_dict() for g in filtered.runs],
        "planned": [
            {"whole": whole.to_dict(), "drawn": drawn.to_dict()} for whole, drawn in state.runs
        ],
        "register": [entry.to_dict() for entry in register],
    }
    return json.dumps(record, indent=1, allow_nan=False) + "\n"


def is_ledger(path: Path) -> bool:
    """Whether a file holds a ledger."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))["format"] == _FORMAT
    except (OSError, ValueError, KeyError, TypeError):
        return False


def from_json(text: str) -> tuple[Budget, State, tuple[Entry, ...]]:
    try:
        state = json.loads(text)
        if state["format"] != _FORMAT or state["version"] not in (1, 2, 3):
            raise KeyError("format")
        budget = Budget(state["budget"]["epsilon"], state["budget"]["delta"])
        spent, charges = Guarantee.from_dict(state["spent"]), state["charges"]
        filtered, planned = _filter.Spent(Guarantee(spent.adjacency)), []
        register: tuple[Entry, ...] = ()
        if state["version"] == 3:
            register = tuple(Entry.from_dict(entry) for entry in state["register"])
        if state["version"] == 1:  # one total, of releases that the old rule granted one by one
            filtered = filtered.with_(spent) if spent.parts else filtered
        else:
            mixed = state["mixed"]
            if mixed is not None and not isinstance(mixed, bool):
                raise KeyError("mixed")
            filtered = _filter.Spent(
                Guarantee.from_dict(state["simple"]),
                tuple(Guarantee.from_dict(g) for g in state["runs"]),
                mixed,
            )
            planned = [
                (Guarantee.from_dict(run["whole"]), Guarantee.from_dict(run["drawn"]))
                for run in state["planned"]
            ]
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise InvalidArgument(
            "this is not the JSON of a riemdp ledger, version 1 to 3 (see Ledger.to_json)"
        ) from error
    if not isinstance(charges, int) or isinstance(charges, bool) or charges < 0:
        raise invalid("charges", charges, "a ledger's count of charges is a whole number")
    return budget, State(spent, filtered, tuple(planned), charges), register
