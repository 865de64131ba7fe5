"""The files that the parties of a federated run keep, each of one agreement: what a server has to
know after a restart, which rounds a site has answered, and the key of its next answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from .._errors import InvalidArgument, RiemdpError, invalid
from .._locks import locked

_SERVER = "riemdp-federated"
UNREADABLE = (ValueError, KeyError, TypeError, AttributeError)  # what parsing of a file raises
State = TypeVar("State")


def text_of(kind: str, agreement: str, facts: Mapping[str, Any]) -> str:
    """What a file of this kind holds under an agreement."""
    text: dict[str, Any] = {"format": kind, "version": 1, "agreement": agreement, **facts}
    return json.dumps(text, indent=1) + "\n"


def facts_in(kind: str, text: str | bytes) -> tuple[str, dict[str, Any]]:
    """The agreement and the facts of such a text; one of `UNREADABLE` for anything else."""
    facts = dict(json.loads(text))
    if facts.pop("format") != kind or facts.pop("version") != 1:
        raise KeyError("format")
    return str(facts.pop("agreement")), facts


class Journal:
    """What a server writes down, for another one that goes on from there: public facts, released
    numbers and names of sites; no record, no noise, no key.

    Its file is written whole or not at all, and readable by its owner only. It is of one server at
    a time: one that finds in it what it has not written itself stops before it sends anything.

    Args:
        agreement: The fingerprint of the run.
        path: The file, which is gone on from if it exists. None: in memory.
        facts: What is gone on from, where it stands in no such file.

    Raises:
        InvalidArgument: The file is none, or of a run under another agreement.
    """

    def __init__(
        self, agreement: str, path: str | Path | None = None, facts: Mapping[str, Any] | None = None
    ):
        self.agreement, self.facts = agreement, dict(facts or {})
        self.path = None if path is None else Path(path).expanduser().resolve()
        self._text = b""
        if self.path is not None and self.path.exists():
            with locked(self.path) as file:
                self._text = file.read()
            self.facts = self._read(self._text)

    def _read(self, text: bytes) -> dict[str, Any]:
        try:
            signed, facts = facts_in(_SERVER, text)
        except UNREADABLE as error:
            raise self._unfit() from error
        if signed != self.agreement:
            raise invalid(
                "state",
                str(self.path),
                "it is the state of a run under another agreement; give another file, or move this"
                " one away",
            )
        return facts

    def _unfit(self) -> InvalidArgument:
        remedy = "it holds no state of such a run; give another file"
        return invalid("state", str(self.path), remedy)

    def parsed(self, parse: Callable[[dict[str, Any]], State]) -> State:
        """What is wanted of the facts; `parse` may fail as parsing does."""
        try:
            return parse(self.facts)
        except InvalidArgument:
            raise
        except UNREADABLE as error:
            raise self._unfit() from error

    def write(self, facts: Mapping[str, Any]) -> None:
        """Write these facts down in the place of all before.

        Raises:
            RiemdpError: Another server has written meanwhile. Nothing is written then.
        """
        self.facts = dict(facts)
        if self.path is None:
            return
        text = text_of(_SERVER, self.agreement, facts)
        with locked(self.path) as file:
            if file.read() != self._text:
                raise RiemdpError(
                    f"{self.path} was written by another server meanwhile, and a run has one. This"
                    " one ends and has sent nothing more"
                )
            file.write_text(text)
        self._text = text.encode()
