"""A search for a ball over several sites: what the server asks, and what a site does with it.

What is asked next is decided by the same code as for one party who holds all records
(`mechanisms._ball_search`), from earlier answers alone. Here each answer is a sum over sites:

1. `Terms` are the public settings. Every party makes them itself, and compares their fingerprint.
2. `SearchParty` is a site. Its `answer` is the one door for what a server sends.
3. `SumsOverSites` is the server. It sees one noisy number or word vector a site and question. Where
   noise is shared these say no more than their sum does (`_secure_sum`).

To check what leaves a site, read `SearchParty.answer`, `SearchSite.answer` and `_secure_sum`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import jax
import numpy as np

from .._errors import InvalidArgument, RiemdpError, invalid
from ..domains._adaptive import SearchDomain
from ..domains._door import admit_point
from ..manifolds._base import Point
from ..mechanisms._common import Floats
from ..mechanisms._search_answers import SearchAnswers
from ..mechanisms._search_sites import (
    SCALE,
    SQUARES,
    TANGENTS,
    VALID,
    WITHIN,
    Ask,
    SearchSite,
)
from ..privacy._permit import Permit
from ._search_terms import Terms
from ._secure_sum import NUMBERS, Keys, Question, Roster, Words, is_words, masked, total
from ._shared import context_of
from ._site import Refused

MOST_LOST = 0.15  # of the budget, for questions that had no answer


# ------------------------------------------------------------------------------------ at the site
class Book(Protocol):
    """Where a site keeps which questions it has answered."""

    def answered(self, number: int) -> bool:
        """Whether the question of this number has been answered."""
        ...

    def enter(self, ask: Ask, number: int) -> Permit | None:
        """Write an answer down, before it is computed.

        Returns:
            Of the search, where the book charged it.

        Raises:
            Refused: It may not be given. Nothing is written then.
        """
        ...


class BookInMemory:
    """The book of a site whose whole search is in this process."""

    def __init__(self) -> None:
        self.numbers: set[int] = set()

    def answered(self, number: int) -> bool:
        return number in self.numbers

    def enter(self, ask: Ask, number: int) -> Permit | None:
        self.numbers.add(number)


class SearchParty:
    """One site in a search: its own settings, its keys, and which questions it has answered.

    Args:
        name: Its name in the terms.
        terms: The settings as this site has them, never as a server sent them.
        site: Its records, and the noise of these terms.
        keys: Its keys, where noise is shared.
        agreed: The long-term public keys of all sites by name, where noise is shared.
        book: Where it writes its answers down. None: in memory.
    """

    def __init__(
        self,
        name: str,
        terms: Terms,
        site: SearchSite,
        keys: Keys | None = None,
        agreed: Mapping[str, bytes] | None = None,
        book: Book | None = None,
    ):
        self.name, self.terms, self.site = name, terms, site
        self.keys, self.agreed = keys, dict(agreed or {})
        self.fingerprint = terms.fingerprint
        self.book: Book = BookInMemory() if book is None else book
        self._center: tuple[list[Any], Point, bytes] | None = None
        if terms.sizes.get(name) != site.n:
            raise invalid("sites", name, "this site has another number of records than its terms")
        if (keys is None) != (terms.noise == "local"):
            raise invalid("keys", name, "a site needs keys where noise is shared, and only there")

    def answer(
        self, ask: Ask, number: int, fingerprint: str, members: Mapping[str, bytes]
    ) -> Floats | Words:
        """The answer to one question of a server: noisy, or masked and noisy where noise is shared.

        Args:
            ask: What is asked. Only its public numbers and its point are read.
            number: The number of the question; each is answered once.
            fingerprint: Of the server's terms.
            members: The sites of this sum with their fresh public keys, where noise is shared.

        Guarantee:
            That of `NoiseOfSites`, whatever a server asks.

        Raises:
            Refused: With nothing spent: other terms, a number that has its answer or that the book
                does not take, a question that is none, a roster that is too small, has a stranger
                or another key for this site, or the budget is spent.
        """
        if fingerprint != self.fingerprint:
            raise Refused("declined: the server's settings are not this site's. Nothing was spent")
        whole = isinstance(number, int) and not isinstance(number, bool)
        if not whole or not 0 <= number < NUMBERS:
            raise Refused("declined: this is no number of a question. Nothing was spent")
        if self.book.answered(number):
            raise Refused("declined: this site has answered this question. Nothing was spent")
        manifold = self.terms.manifold
        if not ask.is_sound(manifold):
            raise Refused("declined: this is no question of a search. Nothing was spent")
        roster = None
        try:
            center, seen = self._looked_at(ask.center)
            if self.keys is not None:
                least = self.site.noise.least
                roster = Roster.of(self.keys, self.agreed, members, least=least)
                self.keys.meet(roster)
        except InvalidArgument as error:
            raise Refused(f"declined: {error}. Nothing was spent") from error
        if not self.site.affords(ask):
            raise Refused("declined: the budget of this search is spent. Nothing was spent")
        noise = self.site.noise
        try:
            noise.deviation(ask, ask.size(manifold), noise.parties)
        except (InvalidArgument, ArithmeticError) as error:  # from public numbers of the question
            raise Refused(
                "declined: no noise is known for this question. Nothing was spent"
            ) from error
        permit = self.book.enter(ask, number)
        reply = self.site.answer(_about(ask, center), permit)
        if self.keys is None or roster is None:
            return np.asarray(reply, dtype=np.float64)
        question = Question(self.fingerprint, number, roster, context_of_ask(ask, seen))
        return masked(np.asarray(reply, dtype=np.int64), self.keys, question)

    def _looked_at(self, center: Point) -> tuple[Point, bytes]:
        """The point that a server sent, admitted, and its digest: kept until it is another one."""
        arrays = [np.asarray(leaf) for leaf in jax.tree.leaves(center)]
        sent = [(str(x.dtype), x.shape, x.tobytes()) for x in arrays]
        if self._center is None or sent != self._center[0]:
            manifold = self.terms.manifold
            point = admit_point(manifold, "center", center)
            self._center = (sent, point, context_of(manifold, point))
        return self._center[1:]


def _about(ask: Ask, center: Point) -> Ask:
    return Ask(ask.kind, ask.share, center, ask.limit, ask.unit, ask.factor)


def context_of_ask(ask: Ask, seen: bytes) -> bytes:
    """A digest of a question about a point of this digest (`context_of`). It enters the masks:
    answers to other questions have no sum.
    """
    numbers = (ask.share, ask.limit, ask.unit)
    told = f"{ask.kind} {ask.factor} {' '.join(float(x).hex() for x in numbers)} "
    return hashlib.sha256(told.encode() + seen).digest()


# ---------------------------------------------------------------------------------- at the server
class Sites(Protocol):
    """What carries questions to sites and brings their answers."""

    def there(self) -> Iterable[str]:
        """The sites that can be reached now."""
        ...

    def fresh(self) -> Mapping[str, bytes]:
        """Their public keys of this run, where noise is shared."""
        ...

    def ask(
        self, ask: Ask, number: int, fingerprint: str, members: Mapping[str, bytes]
    ) -> Mapping[str, object]:
        """What the members answer; who declines or is gone is not in it."""
        ...


@dataclass(frozen=True)
class Asked:
    """Public facts of one question: its kind and share, how many sites were asked, and how many
    answered. `heard`: whether there was a sum.
    """

    kind: str
    share: float
    asked: int
    answered: int
    heard: bool


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


class Journal(Protocol):
    """Where a server keeps what came of its questions, for another one that goes on from there."""

    def said(self, ask: Ask, number: int) -> Said | None:
        """What came of a question before this server started; None if it has not been asked."""
        ...

    def begin(self, ask: Ask, number: int, names: tuple[str, ...]) -> None:
        """Write down that a question will be sent now."""
        ...

    def end(self, said: Said) -> None:
        """Write down what came of it."""
        ...


@dataclass(frozen=True, eq=False)
class Heard:
    """The noisy mean over the records of the sites that answered.

    Attributes:
        mean: Its coordinates.
        deviation: The standard deviation of the noise in each of them.
        slack: How much longer than Gaussian noise its error can be, see `NoiseOfSites.slack`.
        records: How many records these sites have.
    """

    mean: Floats
    deviation: float
    slack: float
    records: int


class SumsOverSites(SearchAnswers):
    """The server of a search: it asks, adds what comes, and knows sums alone.

    A site that is away is left out, and one that does not answer for a while (`_names`); the counts
    of the others are scaled to the number of all records, which is public. With shared noise a
    member that does not answer, or has other masks, fails a sum: its share is lost, and the
    question is asked again without that site.

    Args:
        domain: Where the ball is searched.
        terms: The public settings.
        sites: What carries the messages.
        journal: Where what came of each question is kept. None: nowhere.
        on_question: Called with the number of each question and what came of it.
    """

    def __init__(
        self,
        domain: SearchDomain,
        terms: Terms,
        sites: Sites,
        journal: Journal | None = None,
        on_question: Callable[[int, Asked], None] | None = None,
    ):
        noise = terms.noise_of_sites
        super().__init__(domain, noise.each)
        self.terms, self.sites, self.noise_of_sites = terms, sites, noise
        self.fingerprint = terms.fingerprint
        self.journal, self.on_question = journal, on_question
        self.transcript: list[Asked] = []
        self.lost = 0.0
        self._missed: dict[str, int] = {}  # how often a site did not answer
        self._back: dict[str, int] = {}  # the first question that it is asked again

    @property
    def n(self) -> int:
        """The public number of all records."""
        return sum(self.terms.sizes.values())

    @property
    def left(self) -> Fraction:
        """What is neither spent nor was asked in vain."""
        return 1 - sum((Fraction(asked.share) for asked in self.transcript), Fraction(0))

    def take(self, center: Point) -> None:
        self.center = center

    def valid(self, share: float | Fraction) -> float:
        return self._counted(Ask(VALID, float(share), self.center, 1.0, self.unit))

    def scale_count(self, factor: int, scale: float, share: float | Fraction) -> float:
        return self._counted(Ask(SCALE, float(share), self.center, float(scale), self.unit, factor))

    def count(self, radius: float, share: float | Fraction) -> float:
        return self._counted(Ask(WITHIN, float(share), self.center, self.size(radius), self.unit))

    def noisy_mean(self, radius: float, share: float | Fraction) -> tuple[Floats, float]:
        heard = self.summed(self.tangents(radius, share))
        return heard.mean, heard.deviation

    def tangents(self, radius: float, share: float | Fraction) -> Ask:
        """The question for the sum of tangent vectors at the centre."""
        return Ask(TANGENTS, float(share), self.center, float(radius), self.unit)

    def squares(self, center: Point, radius: float, share: float) -> Ask:
        """The question for the sum of squared distances from a released point."""
        return Ask(SQUARES, share, center, float(radius), self.unit)

    def _counted(self, ask: Ask) -> float:
        return float(self.summed(ask).mean[0]) * self.n

    def summed(self, ask: Ask) -> Heard:
        """The sum that was asked for, with noise, over the number of records in it.

        Raises:
            RiemdpError: Too few sites are there, or too many questions had no answer. What was
                spent is spent.
        """
        while True:
            number = len(self.transcript)
            said = None if self.journal is None else self.journal.said(ask, number)
            if said is None:
                said = self._said(ask, number)
            heard = said.values is not None
            asked = Asked(ask.kind, ask.share, len(said.asked), len(said.answered), heard)
            self.transcript.append(asked)
            for name in set(said.asked) - set(said.answered):
                self._missed[name] = self._missed.get(name, 0) + 1
                self._back[name] = number + 2 ** self._missed[name]
            if self.on_question is not None:
                self.on_question(number, asked)
            if said.values is not None:
                return self._heard(ask, np.array(said.values), said.answered)
            self.lost += ask.share
            if self.lost > MOST_LOST:
                raise RiemdpError(
                    f"{self.failed} sums over sites failed: a site does not answer, or its settings"
                    " or keys are not those of the others. The whole budget is charged; find that"
                    " site, and start a run without it"
                )

    def _said(self, ask: Ask, number: int) -> Said:
        """Ask the sites that are there."""
        names = self._names()
        fresh = {} if self.terms.noise == "local" else self.sites.fresh()
        members = {name: fresh.get(name, b"") for name in names}
        if self.journal is not None:
            self.journal.begin(ask, number, tuple(names))
        replies = self.sites.ask(ask, number, self.fingerprint, members)
        size = ask.size(self.manifold)
        valid = {a: replies[a] for a in names if self._is_valid(replies.get(a), size)}
        found = self._added(ask, names, valid, size)
        values = None if found is None else tuple(map(float, found))
        said = Said(tuple(names), tuple(valid), values)
        if self.journal is not None:
            self.journal.end(said)
        return said

    def _heard(self, ask: Ask, values: Floats, names: tuple[str, ...]) -> Heard:
        noise, size, present = self.noise_of_sites, values.size, len(names)
        records = sum(self.terms.sizes[a] for a in names)
        deviation, slack = (f(ask, size, present) for f in (noise.deviation, noise.slack))
        return Heard(values / records, deviation / records, slack / records, records)

    @property
    def failed(self) -> int:
        """How many questions had no answer."""
        return sum(not asked.heard for asked in self.transcript)

    def _names(self) -> list[str]:
        """Who is asked: all that are there, but for those that did not answer a question lately,
        where the others are enough. A site that does not answer is left out of one question, the
        next time of three, then of seven: each question that it misses can cost its share.
        """
        there = set(self.sites.there())
        names = [name for name in self.terms.sizes if name in there]
        least = self.noise_of_sites.least
        number = len(self.transcript)
        kept = [name for name in names if self._back.get(name, 0) <= number]
        if len(kept) >= least:
            names = kept
        if len(names) < least:
            raise RiemdpError(
                f"{len(names)} sites are there, and the noise needs {least} of"
                f" {len(self.terms.sizes)}; what was asked before is charged"
            )
        return names

    def _is_valid(self, reply: object, size: int) -> bool:
        if self.terms.noise == "shared":
            return is_words(reply, size)
        return (
            isinstance(reply, np.ndarray)
            and reply.dtype == np.float64
            and reply.shape == (size,)
            and bool(np.all(np.isfinite(reply)))
        )

    def _added(
        self, ask: Ask, names: list[str], valid: Mapping[str, Any], size: int
    ) -> Floats | None:
        """The sum, or None where there is none."""
        if self.terms.noise == "local":
            return np.sum([valid[a] for a in valid], axis=0) if valid else None
        if len(valid) < len(names):
            return None
        records = sum(self.terms.sizes[a] for a in names)
        plan = self.noise_of_sites.shared(ask, size)
        return plan.value(total(valid[a] for a in names), records * ask.largest * (1.0 + 1e-9))


class InProcess:
    """All sites of a search in this process.

    Args:
        parties: The sites. Those whose terms are not the server's are refused.
        fingerprint: Of the server's terms.

    Raises:
        Refused: A site has other settings. Nothing was spent.
    """

    def __init__(self, parties: Iterable[SearchParty], fingerprint: str):
        self.parties = {party.name: party for party in parties}
        for name, party in self.parties.items():
            if party.fingerprint != fingerprint:
                raise Refused(
                    f"site {name[:80]!r} has other settings than the server. Nothing was spent"
                )

    def there(self) -> Iterable[str]:
        return self.parties

    def fresh(self) -> Mapping[str, bytes]:
        return {name: p.keys.fresh for name, p in self.parties.items() if p.keys is not None}

    def ask(
        self, ask: Ask, number: int, fingerprint: str, members: Mapping[str, bytes]
    ) -> Mapping[str, object]:
        """Every member's answer. An error of a site is an error here: nothing can be gone."""
        return {
            name: self.parties[name].answer(ask, number, fingerprint, members) for name in members
        }


def in_process(
    terms: Terms, sites: Iterable[SearchSite], domain: SearchDomain
) -> tuple[SumsOverSites, InProcess]:
    """A server and all of its sites, with new keys where noise is shared."""
    names = list(terms.sizes)
    keys: dict[str, Keys | None] = dict.fromkeys(names)
    agreed: dict[str, bytes] = {}
    if terms.noise == "shared":
        made = {name: Keys.new(name) for name in names}
        keys = dict(made)
        agreed = {name: key.long_term for name, key in made.items()}
    parties = [
        SearchParty(name, terms, site, keys[name], agreed)
        for name, site in zip(names, sites, strict=True)
    ]
    carried = InProcess(parties, terms.fingerprint)
    return SumsOverSites(domain, terms, carried), carried
