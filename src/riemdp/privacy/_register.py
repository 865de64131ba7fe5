"""The register of a ledger's file: who released what, and when. It decides nothing."""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import datetime
import functools
import getpass
from collections.abc import Generator, Sequence
from typing import Any

from .. import _html
from .._errors import counted
from ._budget import Budget
from ._guarantee import Guarantee

_words: contextvars.ContextVar[str] = contextvars.ContextVar("riemdp_described", default="")
_SHOWN = 10  # releases in a notebook
_HEAD = ("when (UTC)", "who", "what", "epsilon", "file", "SHA-256")
_TEXTS = ("id", "when", "who", "what", "file", "sha256")


@dataclasses.dataclass(frozen=True)
class Entry:
    """One release in the register of a ledger's file.

    Attributes:
        id: The random name of the charge, or of the run: `Release.receipt.id` of what was released.
        when: When it was charged (for a run, its first charge), as ISO 8601 in UTC.
        who: Name of the user whose process charged it, "unknown" where the system has none.
        what: What was released, in words.
        guarantee: What was charged.
        charges: Number of charges; above 1 for a run that is charged block by block.
        file: Name of the file that the released value was written to, "" if it is not known.
        sha256: SHA-256 of that file, "" if it is not known. Files of records are never hashed:
            such a hash would confirm a guess of all of them.
    """

    id: str
    when: str
    who: str
    what: str
    guarantee: Guarantee
    charges: int = 1
    file: str = ""
    sha256: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The entry for JSON."""
        return {name: getattr(self, name) for name in (*_TEXTS, "charges")} | {
            "guarantee": self.guarantee.to_dict()
        }

    @staticmethod
    def from_dict(told: dict[str, Any]) -> Entry:
        """The entry that `to_dict` described; KeyError or TypeError for anything else."""
        texts = {name: told[name] for name in _TEXTS}
        charges = told["charges"]
        if not all(isinstance(text, str) for text in texts.values()):
            raise TypeError("register")
        if not isinstance(charges, int) or isinstance(charges, bool) or charges < 1:
            raise TypeError("charges")
        return Entry(guarantee=Guarantee.from_dict(told["guarantee"]), charges=charges, **texts)


def new_entry(guarantee: Guarantee, id: str) -> Entry:
    """An entry for a release that is charged now, by this user, in the words of `described`."""
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Entry(id, now, _user(), _words.get() or "a release", guarantee)


@contextlib.contextmanager
def described(words: str) -> Generator[None]:
    """Releases charged inside are entered with these words, unless an outer block has some."""
    token = _words.set(_words.get() or words)
    try:
        yield
    finally:
        _words.reset(token)


def html(budget: Budget, spent: Guarantee, charges: int, register: Sequence[Entry]) -> str:
    """A ledger as tables for notebooks: what is spent, what is left, and its last releases."""
    delta = budget.delta
    used = spent.epsilon(delta)
    rows = [
        ("budget", f"epsilon {budget.epsilon:g} at delta {delta:g}"),
        ("spent", f"epsilon {used:.6g} in {charges} charges"),
        ("left", f"epsilon {max(0.0, budget.epsilon - used):.6g}"),
        ("neighbours", spent.neighbours.replace(" neighbours", "")),
        *([("assumes", spent.assumes)] if spent.assumes else []),
    ]
    table = _html.facts("Ledger", rows)
    if not register:
        return table
    last = register[-_SHOWN:]
    cells = [
        [e.when, e.who, e.what, f"{e.guarantee.epsilon(delta):.4g}", e.file, e.sha256[:16]]
        for e in last
    ]
    caption = f"Last {len(last)} of {counted(len(register), 'release')}"
    return table + _html.grid(caption, _HEAD, cells)


@functools.cache
def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return "unknown"
