"""A site of a federated run: what its own file allows, and the file in which it counts its answers,
before each of them is computed. Nothing here comes from the server or from the person who starts a
run.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import re
import secrets
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from .._errors import InvalidArgument, RiemdpError, integer, invalid, real
from .._locks import Lock, locked
from ..privacy import Budget, Guarantee, Ledger, charge
from ..privacy._permit import Permit, Receipt
from ._agreement import Agreement
from ._journal import UNREADABLE, facts_in, text_of
from ._search_sites import affordable
from ._tables import Tables
from ._terms import SearchTerms, Setup

_FORMAT = "riemdp-answers"


class Refused(RiemdpError):
    """A site declines to answer. The text goes to the server, and nothing of a record is in it."""


def declined(why: str) -> Refused:
    """The refusal before anything was spent, in a sentence about this site or the server."""
    return Refused(f"declined: {why}. Nothing was spent")


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

    def __post_init__(self) -> None:
        integer("round", self.round, at_least=0)
        if self.share is not None:
            real("share", self.share, above=0.0, at_most=1.0)


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
            raise declined("the budget of this search is spent")

    def enter(self, number: int, share: float | None) -> None:
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        self.answers.append(Counted(number, now, share))

    def write(self, file: Lock) -> None:
        facts = {"mark": self.mark, "answers": [asdict(answer) for answer in self.answers]}
        file.write_text(text_of(_FORMAT, self.agreement, facts))

    @staticmethod
    def read(target: Path) -> Answers:
        if not target.exists():
            return Answers()
        try:
            agreement, told = facts_in(_FORMAT, target.read_text(encoding="utf-8"))
            answers = [Counted(**answer) for answer in told["answers"]]
            return Answers(agreement, answers, str(told["mark"]))
        except UNREADABLE as error:
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
            (`Setup.fingerprint`). None: it is not checked against the site's own settings.
        agreed: The site's own copy of what all parties signed. Its settings replace `settings`, its
            fingerprint must be `agreement`, and a server that names no fingerprint is refused.
        key: The file with the site's private key, where noise is shared.
        data: For the site's loaders of records, and of the labels of their people.
        without_noise: Whether a run without a budget, which protects nobody, is answered. For
            simulations; the file of a site cannot say so.
        paid: Of a run that was charged as a whole, what this site may give away: then its answers
            are taken from it, and no ledger is charged. For simulations, as above.

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
    paid: Permit | None = None

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
                "agreement", self.agreement, "give the 64 hexadecimal digits of Setup.fingerprint"
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
                "argument `settings` is given with an agreement, which has all settings: leave"
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
                misspelt limit must not be overlooked), or names an agreement with another digest
                than the one it has signed.
        """
        target = Path(path).expanduser().resolve()
        file = f"the site's file {target}"
        try:
            told = tomllib.loads(target.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise InvalidArgument(f"{file} cannot be read: {error}") from error
        try:
            return _site_of(_SiteTables(file), told, target)
        except InvalidArgument as error:
            words = str(error).removeprefix(f"{file} ")
            if words != str(error):
                raise
            for argument, key in _KEYS.items():
                words = words.replace(f"argument `{argument}`", key)
            raise InvalidArgument(f"{file}: {words}") from error

    def count_answer(
        self, agreement: str, round_number: int, most: int, part: Part | None = None
    ) -> Permit | None:
        """Write one answer into the site's file, before it is computed.

        Under a lock that other processes respect, so that two messages cannot both be the last.

        Args:
            agreement: The fingerprint of the settings under which it is given.
            round_number: The round, or the question, that it answers.
            most: How many answers there may be in all.
            part: For a question of a search. The shares of all answers add up to at most 1; and
                the first answer charges the whole to the ledger, once also where the site dies
                between that charge and the end of this function.

        Returns:
            For a question of a search: that the whole of it has been charged, now or earlier.

        Raises:
            Refused: The round has an answer, there are enough answers, or the file is of another
                agreement. Nothing is written then.
            BudgetExceeded: The ledger refuses the whole of a search. No answer is written then.
        """
        with locked_answers(self.answers) as file:
            book = Answers.read(file.path)
            if book.answers and book.agreement != agreement:
                raise declined("this site has answered under another agreement")
            if round_number in book.rounds:
                word = "round" if part is None else "question"
                raise declined(f"this site has answered this {word}")
            if len(book.answers) >= most:
                raise declined("this site has answered as often as it agreed to")
            permit = None
            if part is not None:
                book.check_share(part.share)
                # Of an earlier answer: the file says that the charge was made.
                permit = Permit(part.whole, Receipt(book.mark, self.ledger is not None))
                if not book.answers:
                    permit = self._charge_once(book, agreement, part.whole, file)
            book.agreement = agreement
            book.enter(round_number, None if part is None else part.share)
            book.write(file)
            return permit

    def _charge_once(self, book: Answers, agreement: str, whole: Guarantee, file: Lock) -> Permit:
        """Charge a whole search before its first answer.

        The file first holds the random name that the charge will have. Where the ledger has such a
        charge, the site died after it: that charge is the one. An answers file that was deleted has
        no name, and another file of the same site has another one: both are charged.
        """
        if book.agreement != agreement or not book.mark:
            book.agreement, book.mark = agreement, secrets.token_hex(16)
            book.write(file)
        if self._is_paid(book):
            return Permit(whole, Receipt(book.mark, True))
        words = self.in_words("a search over sites", agreement)
        return charge(whole, self.ledger, run=book.mark, what=words)

    def in_words(self, what: str, agreement: str) -> str:
        """What the site answers, for a line of its ledger: with the run and what was signed."""
        run = "" if self.agreed is None else f" of the run {self.agreed.run!r}"
        return f"{what}{run}, as {self.name}, under the agreement {agreement}"

    def _is_paid(self, book: Answers) -> bool:
        """Whether the ledger has the charge for the search of this file."""
        return self.ledger is not None and bool(book.mark) and self.ledger.holds(book.mark)

    def _book(self) -> Answers:
        """What the site's file says now."""
        return Answers.read(self.answers.expanduser().resolve())

    def share_spent(self) -> Fraction:
        """The exact sum of the shares of all answers in a search."""
        return self._book().spent

    def is_charged(self, agreement: str) -> bool:
        """Whether a search under this agreement has been charged: it has an answer here, or the
        site died between its charge and that answer.
        """
        book = self._book()
        return book.agreement == agreement and (bool(book.answers) or self._is_paid(book))

    def status(self, terms: Setup | SearchTerms | None = None) -> str:
        """How often the site has answered and what that has cost, in one line for a person.

        Args:
            terms: The agreed settings, for a site without an agreement of its own.

        Returns:
            Public facts of the run only; no record is read.
        """
        planned = terms if self.agreed is None else self.agreed.terms
        book = self._book()
        rounds, times = book.rounds, [answer.time for answer in book.answers]
        searches = isinstance(planned, SearchTerms)
        most = self.most_answers
        if most is None and planned is not None and not searches:
            most = planned.answers
        said = f"{self.name}: {len(rounds)}" + ("" if most is None else f" of {most}") + " answers"
        if most is None and len(rounds) == 1:
            said = said.removesuffix("s")
        if rounds:
            last = "question" if book.answers[-1].share is not None else "round"
            said += f", the last to {last} {rounds[-1]} on {times[-1].replace('T', ' ')[:16]} UTC"
        if searches:
            said += f"; {float(book.spent):.1%} of the search is used"
        if self.ledger is not None:
            budget = self.ledger.budget
            total = self.ledger.spent
            agreed = total.unit if planned is None else planned.unit
            unit = total.unit if total.parts else agreed
            said += (
                f"; all runs have cost a {unit} at most epsilon {total.epsilon(budget.delta):.3g}"
                f" of {budget.epsilon:g} (delta {budget.delta:g})"
            )
        return said

    def rounds_answered(self) -> tuple[int, ...]:
        """The rounds that the site has answered, in order of time."""
        return tuple(self._book().rounds)


class _SiteTables(Tables):
    """Turns the tables of a site's file into settings."""

    def budget(self, limits: Mapping[str, Any], name: str) -> Budget | None:
        given = limits.get(name)
        if given is None:
            return None
        if not isinstance(given, dict) or set(given) != {"epsilon", "delta"}:
            self.wrong(f"must give [limits] {name} as {{ epsilon = ..., delta = ... }}")
        return Budget(given["epsilon"], given["delta"])


def _site_of(tables: _SiteTables, told: Mapping[str, Any], target: Path) -> Site:
    """The site of a file; paths in it are relative to its folder."""
    limits, files, data = (tables.table(told, name) for name in ("limits", "files", "data"))
    for name, table in (("", told), ("limits", limits), ("files", files)):
        tables.known(_TABLES, name, table)
    total = tables.budget(limits, "total")
    if total is None and "ledger" in files:
        tables.wrong("names a ledger without [limits] total, its budget")
    agreed, folder = None, target.parent
    if "agreement" in files:
        agreed = Agreement.read(folder / str(files["agreement"]))
        if told.get("agreement") is None:
            tables.wrong(
                "names an agreement and lacks the line `agreement`: read the agreement, then sign"
                f' it with\nagreement = "{agreed.fingerprint}"'
            )
    ledger = folder / str(files.get("ledger", f"{target.stem}-ledger.json"))
    return Site(
        name=told.get("name", ""),
        answers=folder / str(files.get("answers", f"{target.stem}-answers.json")),
        settings=tables.table(told, "run"),
        most_answers=limits.get("answers"),
        one_answer=tables.budget(limits, "answer"),
        ledger=None if total is None else Ledger(total, path=ledger),
        least_noise=limits.get("noise"),
        agreement=told.get("agreement"),
        agreed=agreed,
        key=folder / str(files["key"]) if "key" in files else None,
        data=data | {k: str(folder / str(data[k])) for k in ("file", "groups") if k in data},
    )
