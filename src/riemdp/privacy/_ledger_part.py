"""A part of a ledger: some of the people, of whom none is in another part."""

from __future__ import annotations

import contextlib
import unicodedata
from collections.abc import Generator, Sequence
from dataclasses import replace

from .._errors import invalid
from .._files import Lock
from ._guarantee import Guarantee
from ._ledger import Ledger
from ._ledger_state import State
from ._register import Entry
from .accounting.events import GaussianEvent, PureEvent


class Part(Ledger):
    """What `Ledger.part` gives: the state, file, lock and register are those of the whole.

    Args:
        whole: The ledger.
        name: The public name of the part.
    """

    def __init__(self, whole: Ledger, name: str):
        if not isinstance(name, str) or not name.strip():
            raise invalid("name", name, "give a public name of the part, such as 'S01'")
        if isinstance(whole, Part):
            raise invalid("name", name, "a part has no parts: ask the whole ledger for one")
        # One name has several encodings: a file's name may come in another than a label.
        self._whole, self._name = whole, unicodedata.normalize("NFC", name.strip())
        self._budget, self._path = whole._budget, whole._path
        self._plans: list[Guarantee] = []
        self._own_entry = None
        self._least_refused = {GaussianEvent: float("inf"), PureEvent: float("inf")}

    @property
    def _state(self) -> State:  # type: ignore[reportIncompatibleVariableOverride]
        return self._whole._state.of(self._name)

    @property
    def _holder(self) -> Ledger:
        return self._whole

    @property
    def _ids(self) -> set[str]:
        return {*self._state.ids, *self._whole._state.ids}

    def _within(self, state: State) -> State:
        return self._whole._state.with_part(self._name, state)

    @property
    def _register(self) -> tuple[Entry, ...]:  # type: ignore[reportIncompatibleVariableOverride]
        return self._whole._register

    @_register.setter
    def _register(self, entries: tuple[Entry, ...]) -> None:  # type: ignore[reportIncompatibleVariableOverride]
        self._whole._register = entries

    @contextlib.contextmanager
    def _synchronised(self) -> Generator[Lock | None]:
        with self._whole._synchronised() as file:
            yield file

    def _entered(
        self, guarantee: Guarantee, plans: Sequence[Guarantee], run: str | None
    ) -> tuple[tuple[Entry, ...], Entry]:
        register, entry = super()._entered(guarantee, plans, run)
        if register[-1] is not entry or entry.charges > 1:
            return register, entry
        entry = replace(entry, what=f"{entry.what} (part {self._name})")
        return (*register[:-1], entry), entry

    def __repr__(self) -> str:
        return f"{self._whole!r}.part({self._name!r})"


Ledger._part = Part
