"""A site of a federated run: what its own file allows, and the file that counts its answers.

Nothing here comes from the server or from the person who starts a run.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .._errors import InvalidArgument, RiemdpError, integer, invalid, real
from .._files import locked, write_text
from ..privacy import Budget, Ledger
from ._agreement import Agreement
from ._setup import Setup

_FORMAT = "riemdp-answers"
_TABLES: dict[str, set[str]] = {  # what a site's file may hold; settings and data are free
    "": {"name", "agreement", "limits", "files", "run", "data"},
    "limits": {"answers", "answer", "total", "noise"},
    "files": {"agreement", "answers", "ledger", "key"},
}
_KEYS = {  # where the arguments of `Site` stand in the file
    "most_answers": "[limits] answers",
    "one_answer": "[limits] answer",
    "least_noise": "[limits] noise",
    "ledger": "[limits] total",
    "settings": "[run]",
}


class Refused(RiemdpError):
    """A site declines to answer. The text goes to the server, and nothing of a record is in it."""


@dataclass(frozen=True)
class Site:
    """What one site agrees to. The server cannot change any of it.

    Args:
        name: How the server knows the site.
        answers: The file in which every answer is counted before it is sent. It belongs to one
            agreement: a run under other settings needs another file.
        settings: The agreed settings of the run, handed to `make_setup`. They decide the noise.
        most_answers: The most answers in total. None: as many as the agreed settings plan for one
            site. No round is answered twice in any case.
        one_answer: The most that one answer may cost a record, that is, the floor of the noise.
            None: what the agreed settings say.
        ledger: What all answers together may cost. None: `most_answers` alone bounds it.
        least_noise: The least noise multiplier of one answer: the standard deviation of its noise,
            divided by what one record can change. None: `one_answer` alone sets the floor.
        agreement: The fingerprint of the settings that the site has agreed to
            (`Setup.agreement`). None: it is not checked against the site's own settings.
        agreed: The site's own copy of what all parties signed. Its settings replace `settings`, its
            fingerprint must be `agreement`, and a server that names no fingerprint is refused.
        key: The file with the site's private key, where noise is shared.
        data: For the site's loader of records.
        without_noise: Whether a run without a budget, which protects nobody, is answered. For
            simulations; the file of a site cannot say so.

    Raises:
        InvalidArgument: Naming the argument.
    """

    name: str
    answers: Path
    settings: Mapping[str, Any] = field(default_factory=dict)
    most_answers: int | None = None
    one_answer: Budget | None = None
    ledger: Ledger | None = None
    least_noise: float | None = None
    agreement: str | None = None
    agreed: Agreement | None = None
    key: Path | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    without_noise: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise invalid("name", self.name, "give the name by which the server knows the site")
        object.__setattr__(self, "answers", Path(self.answers))
        if self.most_answers is not None:
            integer("most_answers", self.most_answers)
        if self.one_answer is not None and not isinstance(self.one_answer, Budget):
            raise invalid("one_answer", self.one_answer, "give a riemdp.Budget(epsilon, delta)")
        if self.ledger is not None and not isinstance(self.ledger, Ledger):
            raise invalid("ledger", self.ledger, "give a riemdp.Ledger(budget, path=...)")
        if self.agreement is not None and not re.fullmatch(r"[0-9a-f]{64}", str(self.agreement)):
            raise invalid(
                "agreement", self.agreement, "give the 64 hexadecimal digits of Setup.agreement"
            )
        if self.least_noise is not None:
            real("least_noise", self.least_noise, above=0.0)
        if self.agreed is not None:
            self._check_agreed(self.agreed)

    def _check_agreed(self, agreed: Agreement) -> None:
        if self.agreement != agreed.fingerprint:
            raise InvalidArgument(
                f"argument `agreement` = {self.agreement!r} is not the fingerprint of the agreement"
                f" that is there, {agreed.fingerprint}: it is another version than the one that"
                " this site signed. Compare it with the other parties before you sign it"
            )
        if self.name not in [party.name for party in agreed.sites]:
            raise InvalidArgument(
                f"argument `name` = {self.name!r} is no site of the agreement, which has"
                f" {', '.join(party.name for party in agreed.sites)}"
            )
        if self.settings:
            raise InvalidArgument(
                "argument `settings` is given beside an agreement, which has all settings: leave"
                " out [run]"
            )
        if self.ledger is None:
            raise InvalidArgument(
                "argument `ledger` is missing: say in [limits] total, as { epsilon = ..., delta ="
                " ... }, what all answers together may cost a record of this site"
            )

    @staticmethod
    def read(path: str | os.PathLike[str]) -> Site:
        """The site that a TOML file describes (see docs/howto/federated.md for every key).

        Paths in the file are relative to its folder. The ledger of `limits.total` is a file, too.

        Args:
            path: The file, `site.toml` by convention.

        Returns:
            The site.

        Raises:
            InvalidArgument: The file is not TOML, lacks `name`, holds a key that means nothing (a
                misspelt limit must not be overlooked), or names an agreement that is not the one
                that it has the fingerprint of.
        """
        target = Path(path).expanduser().resolve()
        try:
            told = tomllib.loads(target.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise InvalidArgument(f"the site's file {target} cannot be read: {error}") from error
        limits, files = _table(target, told, "limits"), _table(target, told, "files")
        for name, table in (("", told), ("limits", limits), ("files", files)):
            unknown = sorted(set(table) - _TABLES[name])
            if unknown:
                where = f"[{name}]" if name else "the top"
                raise InvalidArgument(
                    f"the site's file {target} has {unknown[0]!r} in {where}, which means nothing;"
                    f" known are {', '.join(sorted(_TABLES[name]))}"
                )
        total = _budget(target, limits, "total")
        if total is None and "ledger" in files:
            raise InvalidArgument(
                f"the site's file {target} names a ledger without [limits] total, its budget"
            )
        agreed = None
        if "agreement" in files:
            agreed = Agreement.read(target.parent / str(files["agreement"]))
            if told.get("agreement") is None:
                raise InvalidArgument(
                    f"the site's file {target} names an agreement and lacks the line"
                    f" `agreement`: read the agreement, then sign it with\nagreement ="
                    f' "{agreed.fingerprint}"'
                )
        ledger = target.parent / str(files.get("ledger", f"{target.stem}-ledger.json"))
        try:
            return Site(
                name=told.get("name", ""),
                answers=target.parent / str(files.get("answers", f"{target.stem}-answers.json")),
                settings=_table(target, told, "run"),
                most_answers=limits.get("answers"),
                one_answer=_budget(target, limits, "answer"),
                ledger=None if total is None else Ledger(total, path=ledger),
                least_noise=limits.get("noise"),
                agreement=told.get("agreement"),
                agreed=agreed,
                key=target.parent / str(files["key"]) if "key" in files else None,
                data=_data(target, told),
            )
        except InvalidArgument as error:
            words = str(error)
            for argument, key in _KEYS.items():
                words = words.replace(f"argument `{argument}`", key)
            raise InvalidArgument(f"the site's file {target}: {words}") from error

    def count_answer(self, agreement: str, round_number: int, most: int) -> int:
        """Write one answer into the site's file, before it is computed.

        Under a lock that other processes respect, so that two messages cannot both be the last.

        Args:
            agreement: The fingerprint of the settings under which it is given.
            round_number: The round that it answers.
            most: How many answers there may be in all.

        Returns:
            How many answers there are now.

        Raises:
            Refused: The round has an answer, there are enough answers, or the file is of another
                agreement. Nothing is written then.
        """
        with _locked(self.answers) as target:
            if target.exists():
                known, rounds, times = _read(target)
                if known != agreement:
                    raise Refused(
                        "declined: this site has answered under another agreement. Nothing was"
                        " spent"
                    )
            else:
                rounds, times = [], []
            if round_number in rounds:
                raise Refused("declined: this site has answered this round. Nothing was spent")
            if len(rounds) >= most:
                raise Refused(
                    "declined: this site has answered as often as it agreed to. Nothing was spent"
                )
            now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
            answers = zip([*rounds, round_number], [*times, now], strict=True)
            text = {
                "format": _FORMAT,
                "version": 1,
                "agreement": agreement,
                "answers": [{"round": k, "time": when} for k, when in answers],
            }
            write_text(target, json.dumps(text, indent=1) + "\n", 0o600)
            return len(rounds) + 1

    def status(self, setup: Setup | None = None) -> str:
        """How often the site has answered and what that has cost, in one line for a person.

        Args:
            setup: The agreed settings, for a site without an agreement of its own.

        Returns:
            Public facts of the run only; no record is read.
        """
        setup = self.agreed.setup if self.agreed is not None else setup
        target = self.answers.expanduser().resolve()
        _, rounds, times = _read(target) if target.exists() else ("", [], [])
        most = self.most_answers
        if most is None and setup is not None:
            most = setup.answers
        said = f"{self.name}: {len(rounds)}" + ("" if most is None else f" of {most}") + " answers"
        if rounds:
            said += f", the last to round {rounds[-1]} on {times[-1].replace('T', ' ')[:16]} UTC"
        if self.ledger is not None:
            budget = self.ledger.budget
            spent = self.ledger.spent.epsilon(budget.delta)
            said += (
                f"; all runs have cost a record at most epsilon {spent:.3g} of {budget.epsilon:g}"
                f" (delta {budget.delta:g})"
            )
        return said

    def rounds_answered(self) -> tuple[int, ...]:
        """The rounds that the site has answered, in order of time."""
        target = self.answers.expanduser().resolve()
        return tuple(_read(target)[1]) if target.exists() else ()


def _table(file: Path, told: Mapping[str, Any], name: str) -> dict[str, Any]:
    table = told.get(name, {})
    if not isinstance(table, dict):
        raise InvalidArgument(f"the site's file {file} must hold {name!r} as a table, [{name}]")
    return table


def _data(file: Path, told: Mapping[str, Any]) -> dict[str, Any]:
    """The table [data], its `file` relative to the site's own file."""
    data = _table(file, told, "data")
    return data | ({"file": str(file.parent / str(data["file"]))} if "file" in data else {})


def _budget(file: Path, limits: Mapping[str, Any], name: str) -> Budget | None:
    given = limits.get(name)
    if given is None:
        return None
    if not isinstance(given, dict) or set(given) != {"epsilon", "delta"}:
        raise InvalidArgument(
            f"the site's file {file} must give [limits] {name} as {{ epsilon = ..., delta = ... }}"
        )
    return Budget(given["epsilon"], given["delta"])


def _read(target: Path) -> tuple[str, list[int], list[str]]:
    try:
        told = json.loads(target.read_text(encoding="utf-8"))
        if told["format"] != _FORMAT or told["version"] != 1:
            raise KeyError("format")
        rounds = [integer("round", a["round"], at_least=0) for a in told["answers"]]
        return str(told["agreement"]), rounds, [str(a["time"]) for a in told["answers"]]
    except (ValueError, KeyError, TypeError) as error:
        raise RiemdpError(
            f"{target} does not hold a site's answers; it is not overwritten, because what it"
            " counted would be lost"
        ) from error


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[Path]:
    """The file itself, behind whatever links, under a lock that its holder's end releases."""
    target = path.expanduser().resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists() and target.stat().st_nlink > 1:
        raise RiemdpError(
            f"{target} has several hard links; counts behind them would go apart. Keep one"
        )
    with locked(target):
        yield target
