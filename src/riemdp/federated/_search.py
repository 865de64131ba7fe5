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
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import jax
import numpy as np

from .._errors import InvalidArgument, RiemdpError, invalid, one_of
from ..domains import AdaptiveBall
from ..domains._adaptive import SearchDomain
from ..domains._door import admit_point
from ..manifolds import AbstractManifold
from ..manifolds._base import Point
from ..mechanisms._budgeted import Floats
from ..mechanisms._search_answers import SearchAnswers
from ..mechanisms._search_sites import (
    SCALE,
    SQUARES,
    TANGENTS,
    WITHIN,
    Ask,
    NoiseOfSites,
    SearchSite,
)
from ..privacy import Budget
from ._prirfed import NOISES
from ._secure_sum import Keys, Question, Roster, Words, is_words, masked, total
from ._setup import digest_of, in_words
from ._shared import context_of
from ._site import Refused

MOST_LOST = 0.15  # of the budget, for questions that had no answer


@dataclass(frozen=True, eq=False)
class Terms:
    """What the parties of a search agree on, made by every party itself.

    Args:
        what: What is released, such as "private-ball".
        manifold: The space.
        search: Where the ball is searched; a `Ball` where it is public.
        budget: Of all answers together, for each record.
        sizes: The public number of records of each site, by name.
        noise: "local" or "shared".
        tolerated: q, with shared noise.
        unit: What neighbours differ in, "record" or "person".
        run: Names this run: another one has another fingerprint.

    Raises:
        InvalidArgument: Naming the argument.
    """

    what: str
    manifold: AbstractManifold
    search: Any
    budget: Budget
    sizes: Mapping[str, int]
    noise: str = "local"
    tolerated: int = 0
    unit: str = "record"
    run: str = ""

    def __post_init__(self) -> None:
        one_of("noise", self.noise, NOISES)
        if not self.sizes:
            raise InvalidArgument("argument `sites` is empty; give the records of each site")
        if self.noise == "local" and self.tolerated:
            raise invalid(
                "tolerated", self.tolerated, "it has a meaning for noise='shared' only; leave it 0"
            )
        self.noise_of_sites  # noqa: B018 - checks budget and tolerated

    @property
    def noise_of_sites(self) -> NoiseOfSites:
        """How the sites make the noise."""
        tolerated = self.tolerated if self.noise == "shared" else None
        return NoiseOfSites(self.budget, len(self.sizes), tolerated)

    @property
    def text(self) -> str:
        """The settings as text, one a line."""
        ball = self.search.outer if isinstance(self.search, AdaptiveBall) else self.search
        lines = {
            "what": self.what,
            "space": self.manifold,
            "search": type(self.search).__name__,
            "smallest": getattr(self.search, "smallest", None),
            "ball": None if ball is None else (float(ball.radius), digest_of(ball.center)),
            "budget": self.budget,
            "sites": tuple(self.sizes.items()),
            "noise": (self.noise, self.tolerated),
            "unit": self.unit,
            "run": self.run,
        }
        return "".join(f"{name}: {in_words(value)}\n" for name, value in lines.items())

    @property
    def fingerprint(self) -> str:
        """SHA-256 of `text`."""
        return hashlib.sha256(self.text.encode()).hexdigest()


# ------------------------------------------------------------------------------------ at the site
class SearchParty:
    """One site in a search: its own settings, its keys, and which questions it has answered.

    Args:
        name: Its name in the terms.
        terms: The settings as this site has them, never as a server sent them.
        site: Its records, and the noise of these terms.
        keys: Its keys, where noise is shared.
        agreed: The long-term public keys of all sites by name, where noise is shared.
    """

    def __init__(
        self,
        name: str,
        terms: Terms,
        site: SearchSite,
        keys: Keys | None = None,
        agreed: Mapping[str, bytes] | None = None,
    ):
        self.name, self.terms, self.site = name, terms, site
        self.keys, self.agreed = keys, dict(agreed or {})
        self.fingerprint = terms.fingerprint
        self._answered: set[int] = set()
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
            Refused: With nothing spent: other terms, a number that was answered, a question that is
                none, a roster that is too small, has a stranger or another key for this site, or
                the budget is spent.
        """
        if fingerprint != self.fingerprint:
            raise Refused("declined: the server's settings are not this site's. Nothing was spent")
        if isinstance(number, bool) or not isinstance(number, int) or number < 0:
            raise Refused("declined: this is no number of a question. Nothing was spent")
        if number in self._answered:
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
        self._answered.add(number)
        reply = self.site.answer(_about(ask, center))
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

    A site that is away is left out; the counts of the others are scaled to the number of all
    records, which is public. With shared noise a member that does not answer, or has other masks,
    fails a sum: its share is lost, and the question is asked again without that site.

    Args:
        domain: Where the ball is searched.
        terms: The public settings.
        sites: What carries the messages.
    """

    def __init__(self, domain: SearchDomain, terms: Terms, sites: Sites):
        noise = terms.noise_of_sites
        super().__init__(domain, noise.each)
        self.terms, self.sites, self.noise_of_sites = terms, sites, noise
        self.fingerprint = terms.fingerprint
        self.transcript: list[Asked] = []
        self.lost = 0.0
        self._late: set[str] = set()

    @property
    def n(self) -> int:
        """The public number of all records."""
        return sum(self.terms.sizes.values())

    def take(self, center: Point) -> None:
        self.center = center

    def scale_count(self, factor: int, scale: float, share: float) -> float:
        return self._counted(Ask(SCALE, share, self.center, float(scale), self.unit, factor))

    def count(self, radius: float, share: float) -> float:
        return self._counted(Ask(WITHIN, share, self.center, self.size(radius), self.unit))

    def noisy_mean(self, radius: float, share: float) -> tuple[Floats, float]:
        heard = self.summed(self.tangents(radius, share))
        return heard.mean, heard.deviation

    def tangents(self, radius: float, share: float) -> Ask:
        """The question for the sum of tangent vectors at the centre."""
        return Ask(TANGENTS, share, self.center, float(radius), self.unit)

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
            names = self._names()
            members = {name: self._fresh(name) for name in names}
            number = len(self.transcript)
            replies = self.sites.ask(ask, number, self.fingerprint, members)
            size = ask.size(self.manifold)
            valid = {a: replies[a] for a in names if self._is_valid(replies.get(a), size)}
            found = self._added(ask, names, valid, size)
            self.transcript.append(
                Asked(ask.kind, ask.share, len(names), len(valid), found is not None)
            )
            self._late = set(names) - set(valid)
            if found is not None:
                return self._heard(ask, found, valid)
            self.lost += ask.share
            if self.lost > MOST_LOST:
                raise RiemdpError(
                    f"{self.failed} sums over sites failed: a site does not answer, or its settings"
                    " or keys are not those of the others. The whole budget is charged; find that"
                    " site, and start a run without it"
                )

    def _heard(self, ask: Ask, values: Floats, valid: Mapping[str, Any]) -> Heard:
        noise, size, present = self.noise_of_sites, values.size, len(valid)
        records = sum(self.terms.sizes[a] for a in valid)
        deviation, slack = (f(ask, size, present) for f in (noise.deviation, noise.slack))
        return Heard(values / records, deviation / records, slack / records, records)

    @property
    def failed(self) -> int:
        """How many questions had no answer."""
        return sum(not asked.heard for asked in self.transcript)

    def _names(self) -> list[str]:
        """Who is asked: all that are there, but for those that did not answer the last question
        where the others are enough.
        """
        there = set(self.sites.there())
        names = [name for name in self.terms.sizes if name in there]
        least = self.noise_of_sites.least
        kept = [name for name in names if name not in self._late]
        if len(kept) >= least:
            names = kept
        if len(names) < least:
            raise RiemdpError(
                f"{len(names)} sites are there, and the noise needs {least} of"
                f" {len(self.terms.sizes)}; what was asked before is charged"
            )
        return names

    def _fresh(self, name: str) -> bytes:
        return b"" if self.terms.noise == "local" else self.sites.fresh()[name]

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
