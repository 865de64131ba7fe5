"""What a server writes down, for another one that goes on from there: public facts, released
numbers and names of sites; no record, no noise, no key.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from .._errors import invalid
from .._files import write_text
from ..manifolds import AbstractManifold
from ._protocol import context_of
from ._search_sites import Ask
from ._terms import SearchTerms

_FORMAT = "riemdp-federated"
State = TypeVar("State")


def write_state(path: str | Path, agreement: str, state: Mapping[str, Any]) -> None:
    """The state of a run under an agreement, whole or not at all, readable by its owner only."""
    text: dict[str, Any] = {"format": _FORMAT, "version": 1, "agreement": agreement, **state}
    write_text(path, json.dumps(text, indent=1) + "\n", 0o600)


def read_state(
    path: str | Path, agreement: str, parsed: Callable[[dict[str, Any]], State]
) -> State:
    """What `write_state` wrote.

    Args:
        path: The file.
        agreement: The fingerprint of the run that goes on from it.
        parsed: What is wanted of it; it may fail as parsing does.

    Raises:
        InvalidArgument: The file is none, or of a run under another agreement.
    """
    try:
        told = json.loads(Path(path).read_text(encoding="utf-8"))
        if told["format"] != _FORMAT or told["version"] != 1:
            raise KeyError("format")
        found, signed = parsed(told), told["agreement"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise invalid(
            "state", str(path), "it holds no state of such a run; give another file"
        ) from error
    if signed != agreement:
        raise invalid(
            "state",
            str(path),
            "it is the state of a run under another agreement; give another file, or move this one"
            " away",
        )
    return found


@dataclass(frozen=True)
class Said:
    """What came of one question: released numbers and names only.

    Attributes:
        asked: The names of the sites that were asked.
        answered: Those that gave an answer.
        values: The noisy sum over them; None where there is none.
    """

    asked: tuple[str, ...]
    answered: tuple[str, ...]
    values: tuple[float, ...] | None


def context_of_ask(manifold: AbstractManifold, ask: Ask) -> bytes:
    """A digest of a question: answers to other questions have no sum."""
    numbers = (ask.kind, ask.factor, float(ask.share), float(ask.limit), float(ask.unit))
    return context_of(manifold, ask.center, *numbers)


class Transcript:
    """What came of the questions of a server: no record, no noise, no key.

    A question that was sent when the server died has no answer: its share is lost, as for one that
    no site answers.

    Args:
        terms: The settings of the search.
        path: A file that follows every question, and is gone on from if it exists. None: in memory.
        questions: What came of questions before this server, where it stands in no file.

    Raises:
        InvalidArgument: The file is none, or of another search.
    """

    def __init__(
        self,
        terms: SearchTerms,
        path: str | Path | None = None,
        questions: Sequence[dict[str, Any]] = (),
    ):
        self.terms, self.path = terms, None if path is None else Path(path)
        self.questions = [dict(question) for question in questions]
        if self.path is not None and self.path.exists():
            self.questions = read_state(
                self.path, terms.fingerprint, lambda told: checked_questions(told["questions"])
            )
        self.before = len(self.questions)  # asked by servers before this one

    def said(self, ask: Ask, number: int) -> Said | None:
        """What came of a question before this server started; None if it has not been asked."""
        if number >= self.before:
            return None
        told = self.questions[number]
        # Another processor may round the point of a question otherwise. A server must not go on
        # there, for sites would mask another question; for the result that is computed anew its
        # value is what counts.
        if self.path is not None and told["question"] != self._digest(ask):
            raise invalid(
                "state",
                str(self.path),
                "another question stands in it: it was written by another version of riemdp or on"
                " another machine. Go on where it was written",
            )
        values = told["values"]
        return Said(
            tuple(told["asked"]),
            tuple(told["answered"]),
            None if values is None else tuple(values),
        )

    def begin(self, ask: Ask, names: tuple[str, ...]) -> None:
        """Write down that a question will be sent now."""
        told = {"question": self._digest(ask), "asked": list(names), "answered": [], "values": None}
        self.questions.append(told)
        self._write()

    def end(self, said: Said) -> None:
        """Write down what came of it."""
        self.questions[-1] |= {
            "answered": list(said.answered),
            "values": None if said.values is None else list(said.values),
        }
        self._write()

    def _digest(self, ask: Ask) -> str:
        return context_of_ask(self.terms.manifold, ask).hex()

    def _write(self) -> None:
        if self.path is not None:
            write_state(self.path, self.terms.fingerprint, {"questions": self.questions})


def checked_questions(told: Any) -> list[dict[str, Any]]:
    """The questions of a file; ValueError, KeyError or TypeError for anything else."""
    for question in told:
        if set(question) != {"question", "asked", "answered", "values"}:
            raise KeyError("questions")
        if question["values"] is not None and not np.all(np.isfinite(question["values"])):
            raise ValueError("values")
    return list(told)
