"""The file in which a site counts its answers, before each of them is computed."""

from __future__ import annotations

import contextlib
import datetime
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from .._errors import RiemdpError, integer, real
from .._files import Lock, locked
from ..mechanisms._search_sites import affordable
from ..privacy import Guarantee

_FORMAT = "riemdp-answers"


class Refused(RiemdpError):
    """A site declines to answer. The text goes to the server, and nothing of a record is in it."""


@dataclass(frozen=True)
class Part:
    """What an answer is of a search, which is charged as a whole before its first answer.

    Attributes:
        share: What the answer takes of the whole, above 0.
        whole: The guarantee of all answers, whose shares add up to at most 1.
    """

    share: float
    whole: Guarantee


@dataclass(frozen=True)
class Counted:
    """One answer; `share` is what it took of a search, None in a run of rounds."""

    round: int
    time: str
    share: float | None = None

    def to_dict(self) -> dict[str, Any]:
        share = {} if self.share is None else {"share": self.share}
        return {"round": self.round, "time": self.time} | share

    @staticmethod
    def from_dict(told: Mapping[str, Any]) -> Counted:
        share = told.get("share")
        if share is not None:
            real("share", share, above=0.0, at_most=1.0)
        return Counted(integer("round", told["round"], at_least=0), str(told["time"]), share)


@dataclass
class Answers:
    """What a site's file says. A file that is not there is empty; one without an answer belongs to
    nobody yet.
    """

    agreement: str = ""
    answers: list[Counted] = field(default_factory=list[Counted])
    mark: str = ""  # the random name of the charge of a search; this file's alone

    @property
    def rounds(self) -> list[int]:
        return [answer.round for answer in self.answers]

    @property
    def spent(self) -> Fraction:
        return sum((Fraction(answer.share or 0.0) for answer in self.answers), Fraction(0))

    def check_share(self, share: float) -> None:
        if not affordable(self.spent, share):
            raise Refused("declined: the budget of this search is spent. Nothing was spent")

    def enter(self, number: int, share: float | None) -> None:
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        self.answers.append(Counted(number, now, share))

    def write(self, file: Lock) -> None:
        text: dict[str, Any] = {"format": _FORMAT, "version": 1, "agreement": self.agreement}
        if self.mark:
            text["mark"] = self.mark
        text["answers"] = [answer.to_dict() for answer in self.answers]
        file.write_text(json.dumps(text, indent=1) + "\n")

    @staticmethod
    def read(target: Path) -> Answers:
        if not target.exists():
            return Answers()
        try:
            told = json.loads(target.read_text(encoding="utf-8"))
            if told["format"] != _FORMAT or told["version"] != 1:
                raise KeyError("format")
            answers = [Counted.from_dict(answer) for answer in told["answers"]]
            return Answers(str(told["agreement"]), answers, str(told.get("mark", "")))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise RiemdpError(
                f"{target} does not hold a site's answers; it is not overwritten, because what it"
                " counted would be lost"
            ) from error


@contextlib.contextmanager
def locked_answers(path: Path) -> Iterator[Lock]:
    """The file itself, behind whatever links, under a lock that its holder's end releases."""
    target = path.expanduser().resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    with locked(target) as file:
        if target.exists() and target.stat().st_nlink > 1:
            raise RiemdpError(
                f"{target} has several hard links; counts behind them would go apart. Keep one"
            )
        yield file
