"""A search for a ball over several sites: what a site answers, and what the server does with it.

What is asked next is decided by the same code as for one party who holds all records
(`mechanisms._ball_search`), from earlier answers alone. Here each answer is a sum over sites:

1. `Search` is what a site does, behind its door (`_door.answer`).
2. `SumsOverSites` is the server. It sees one noisy number or word vector a site and question. Where
   noise is shared these say no more than their sum does (`_secure_sum`).

To check what leaves a site, read `Search`, `SearchSite.answer` and `_secure_sum`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from .._errors import InvalidArgument, RiemdpError, invalid
from .._namespace import Floats
from ..domains._door import admit_in_parts, admit_records
from ..domains._points import admit_point
from ..manifolds import AbstractManifold
from ..manifolds._base import Point
from ..mechanisms._ball_search import SearchAnswers
from ..privacy import Guarantee, gaussian
from ..randomness import NoiseSource
from ..statistics._membership import Membership
from ..statistics._people import people
from ._aggregate import as_point
from ._journal import Journal
from ._protocol import Admitted, Cost, Protocol, check_labels, context_of
from ._search_sites import (
    SCALE,
    SQUARES,
    TANGENTS,
    VALID,
    WITHIN,
    Ask,
    SearchSite,
)
from ._secure_sum import is_words, total
from ._shared_sum import Integers
from ._site import Part, declined
from ._sites import Absences, Sites, log
from ._terms import SearchTerms

if TYPE_CHECKING:  # a search over sites imports no optimiser
    from ..optimizers._account import Account

_WORDS = {
    VALID: "how many {} are points of the space",
    SCALE: "how many {} have a scale below a number",
    WITHIN: "how many {} are within a radius",
    TANGENTS: "the sum of all directions from the centre",
    SQUARES: "the sum of all squared distances",
}
MOST_LOST = 0.15  # of the budget, for questions that had no answer
_FIND_IT = (
    "a site does not answer, or its settings or keys are not those of the others. The whole budget"
    " is charged; find that site, and start a run without it"
)


# ------------------------------------------------------------------------------------ at the site
class Search(Protocol):
    """What a site does in a search: sums over its own records, with noise.

    Args:
        terms: The agreed settings, made at the site.
    """

    def __init__(self, terms: SearchTerms):
        self.terms, self.noise = terms, terms.noise_of_sites
        self.least = self.noise.least

    def asked(self, question: object) -> Admitted:
        """An `Ask` of the agreed plan, about a point of the space."""
        manifold = self.terms.manifold
        if not isinstance(question, Ask) or not question.is_sound(manifold):
            raise declined("this is no question of a search")
        if question.kind not in self.terms.kinds:
            raise declined("the agreed plan has no such question")
        sent = as_point(manifold, self.terms.place, question.center)
        try:
            center = admit_point(manifold, "center", sent)
        except InvalidArgument as error:
            raise declined("the server sent no valid point") from error
        return Admitted(_about(question, center), context_of_ask(manifold, question))

    def rows(self, records: Any) -> int:
        """Along the first axis."""
        if self.terms.of_people:  # a person's mean is made in memory
            return admit_records(self.terms.manifold, "X", records)[1]
        return admit_in_parts(self.terms.manifold, "X", records)[1]

    def size(self, name: str, records: Any, groups: object) -> int:
        """The number of records, or of people, which is in the terms."""
        check_labels(self.terms.of_people, groups)
        n = self.rows(records)
        if self.terms.of_people:
            n = Membership(groups, n, of="records").n
        if self.terms.sizes.get(name) != n:
            raise declined(f"this site has {n} {self.terms.counted}, which is not what was agreed")
        return n

    def cost(self, question: Any, n: int, sigma: float | None) -> Cost:
        """That of the question's share; before there is a question, nothing of the whole."""
        whole = self.terms.guarantee
        if question is None:
            return Cost(math.inf, whole.repeat(0), self.noise.each.multiplier, Part(0.0, whole))
        try:
            size = question.size(self.terms.manifold)
            sigma = self.noise.deviation(question, size, self.noise.parties)
        except (InvalidArgument, ArithmeticError) as error:  # from public numbers of the question
            raise declined("no noise is known for this question") from error
        multiplier = self.noise.multiplier(question.share)
        return Cost(multiplier, gaussian(multiplier), sigma, Part(question.share, whole))

    def whole(self, n: int) -> Guarantee:
        """That of the terms."""
        return self.terms.guarantee

    def own(self, records: Any, groups: object, source: NoiseSource) -> SearchSite:
        """The records, or one point a person in the place of them."""
        if self.terms.of_people:
            records = people(self.terms.manifold, records, groups).points
        own, _ = admit_in_parts(self.terms.manifold, "X", records)
        return SearchSite(self.terms.domain, own, self.noise, source)

    def reply(
        self, question: Any, own: Any, cost: Cost, account: Account, source: NoiseSource
    ) -> Floats | Integers:
        """The site's sum with its noise; the whole search has been charged."""
        own.permit = account.permit
        return own.answer(question)


def context_of_ask(manifold: AbstractManifold, ask: Ask) -> bytes:
    """A digest of a question: answers to other questions have no sum."""
    numbers = (ask.kind, ask.factor, float(ask.share), float(ask.limit), float(ask.unit))
    return context_of(manifold, ask.center, *numbers)


def _about(ask: Ask, center: Point) -> Ask:
    """Its numbers about an admitted point: an `Ask` itself, whatever class was sent."""
    return Ask(ask.kind, ask.share, center, ask.limit, ask.unit, ask.factor)


# ---------------------------------------------------------------------------------- at the server
def _questions(facts: dict[str, Any]) -> list[dict[str, Any]]:
    """What came of each question in a journal, of released numbers and names only: who was `asked`,
    who `answered`, and the `values` of the noisy sum over them, or None where there is none. It
    fails as parsing does for anything else.
    """
    told = [dict(question) for question in facts["questions"]] if facts else []
    for question in told:
        if set(question) != {"question", "asked", "answered", "values"}:
            raise KeyError("questions")
        if question["values"] is not None and not np.all(np.isfinite(question["values"])):
            raise ValueError("values")
    return told


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

    A site that is away is left out, and one that does not answer for a while (`Absences`); the
    counts of the others are scaled to the number of all records, which is public. With shared noise
    a member that does not answer, or has other masks, fails a sum: its share is lost, and the
    question is asked again without that site.

    Before the first question the server waits for all sites, and before each later one for as many
    as the noise needs. Where each site adds all of its own noise, half of the answers are a quorum.

    Args:
        terms: The public settings.
        sites: What carries the messages.
        journal: Where what came of each question is kept, and gone on from. None: in memory.
    """

    def __init__(
        self,
        terms: SearchTerms,
        sites: Sites,
        journal: Journal | None = None,
    ):
        noise = terms.noise_of_sites
        super().__init__(terms.domain, noise.each)
        self.terms, self.sites, self.noise_of_sites = terms, sites, noise
        self.journal = journal or Journal(terms.fingerprint)
        self.questions = self.journal.parsed(_questions)
        self.before = len(self.questions)  # asked by servers before this one
        self.asked, self.failed = 0, 0  # how many questions, and how many of them had no answer
        self.used, self.lost = Fraction(0), 0.0  # of the budget
        self._wanted = len(terms.sizes)  # sites that are waited for
        self._absences = Absences()

    @property
    def n(self) -> int:
        """The public number of all records."""
        return sum(self.terms.sizes.values())

    @property
    def left(self) -> Fraction:
        """What is neither spent nor was asked in vain."""
        return 1 - self.used

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
            number = self.asked
            told = self._recalled(ask, number) or self._told(ask, number)
            self.asked += 1
            self.used += Fraction(ask.share)
            self._absences.note(number, told["asked"], told["answered"])
            if number >= self.before:
                self._say(number, ask, told)
            if told["values"] is not None:
                return self._heard(ask, np.array(told["values"]), told["answered"])
            self.failed += 1
            self.lost += ask.share
            if self.lost > MOST_LOST:
                raise RiemdpError(f"{self.failed} sums over sites failed: {_FIND_IT}")

    def _say(self, number: int, ask: Ask, told: Mapping[str, Any]) -> None:
        """A new question in one line, for the person who watches the run."""
        words, used = _WORDS[ask.kind].format(self.terms.counted), 100.0 * self.used
        answered, asked = len(told["answered"]), len(told["asked"])
        again = "" if told["values"] is not None else ": no sum, so it is asked again"
        log.info(
            "question %d (%s): %d of %d sites answered%s; %.1f%% of the budget is used",
            number,
            words,
            answered,
            asked,
            again,
            used,
        )

    def _recalled(self, ask: Ask, number: int) -> dict[str, Any] | None:
        """What came of a question before this server started; None if it has not been asked."""
        if number >= self.before:
            return None
        told = self.questions[number]
        # Another processor may round the point of a question otherwise. A server must not go on
        # there, for sites would mask another question; for the result that is computed anew its
        # value is what counts.
        path = self.journal.path
        if path is not None and told["question"] != context_of_ask(self.manifold, ask).hex():
            raise invalid(
                "state",
                str(path),
                "another question stands in it: it was written by another version of riemdp or on"
                " another machine. Go on where it was written",
            )
        return told

    def _told(self, ask: Ask, number: int) -> dict[str, Any]:
        """Ask the sites that are there. A question that was sent when a server died has no answer:
        its share is lost, as for one that no site answers.

        Raises:
            RiemdpError: The plan has no question of this number, and every site would decline it.
        """
        if number >= self.terms.numbers:
            raise RiemdpError(
                f"{number} questions are all that this search can have, and too many had no answer:"
                f" {_FIND_IT}"
            )
        names, size = self._names(number), ask.size(self.manifold)
        told: dict[str, Any] = {"question": context_of_ask(self.manifold, ask).hex()}
        told |= {"asked": names, "answered": [], "values": None}
        self.questions.append(told)
        self.journal.write({"questions": self.questions})

        def sound(name: str, reply: object, claimed: float | None) -> bool:
            known = claimed is None or claimed == self.terms.sizes[name]
            return known and self._is_valid(reply, size)

        many = len(names)
        half = many if self.terms.shares_noise else (many + 1) // 2
        came = self.sites.ask(tuple(names), ask, number, sound, quorum=half)
        valid = {a: came.sound[a] for a in names if a in came.sound}
        found = self._added(ask, names, valid, size)
        values = None if found is None else list(map(float, found))
        told |= {"answered": list(valid), "values": values}
        self.journal.write({"questions": self.questions})
        return told

    def _heard(self, ask: Ask, values: Floats, names: Sequence[str]) -> Heard:
        noise, size, present = self.noise_of_sites, values.size, len(names)
        records = sum(self.terms.sizes[a] for a in names)
        deviation = noise.deviation(ask, size, present)
        slack = noise.slack(ask, size, present, records)
        return Heard(values / records, deviation / records, slack / records, records)

    def _names(self, number: int) -> list[str]:
        """Who is asked: all that are there, but for those that did not answer lately."""
        there = self.sites.there(self._wanted, self.terms.sizes)
        least = self._wanted = self.noise_of_sites.least
        names = [name for name in self.terms.sizes if name in there]
        if len(names) < least:
            raise RiemdpError(
                f"{len(names)} sites are there, and the noise needs {least} of"
                f" {len(self.terms.sizes)}; what was asked before is charged"
            )
        return self._absences.dependable(names, number, least)

    def _is_valid(self, reply: object, size: int) -> bool:
        if self.terms.shares_noise:
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
        if not self.terms.shares_noise:
            return np.sum([valid[a] for a in valid], axis=0) if valid else None
        if len(valid) < len(names):
            return None
        records = sum(self.terms.sizes[a] for a in names)
        plan = self.noise_of_sites.shared(ask, size)
        return plan.value(total(valid[a] for a in names), records * ask.largest * (1.0 + 1e-9))
