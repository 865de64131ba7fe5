"""How a plan prints what it has to say below its table."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Protocol

_WIDTH = 110


class Row(Protocol):
    """A mechanism, and what there is to say of it."""

    @property
    def mechanism(self) -> str: ...

    @property
    def note(self) -> str: ...


def wrapped(text: str) -> list[str]:
    """The text in lines of a terminal's width, all but the first indented."""
    return textwrap.wrap(text, _WIDTH, subsequent_indent="    ", break_on_hyphens=False)


def by_reason(rows: Sequence[Row]) -> dict[str, list[str]]:
    """The notes of the rows, each with the mechanisms that it belongs to (once each, in order)."""
    reasons: dict[str, list[str]] = {}
    for row in rows:
        names = reasons.setdefault(row.note or "no formula for its error", [])
        if row.mechanism not in names:
            names.append(row.mechanism)
    return reasons
