"""A site of a search that is asked by messages: its own files decide what it answers, and count it.

To check that a site keeps its promise whatever the server sends, read `answer_question` here, then
`SearchParty.answer` (the door), `FileBook.enter` (the limits), `Site.count_answer` (the file, and
the one charge) and `SearchSite.answer` (the noise).
"""

from __future__ import annotations

from typing import Any

from .._errors import InvalidArgument
from ..domains._door import admit_in_parts, admit_records
from ..mechanisms._common import Floats
from ..mechanisms._search_sites import Ask, SearchSite
from ..optimizers._account import check_affordable
from ..privacy import gaussian
from ..privacy._permit import Permit
from ..randomness import NoiseSource, noise_source
from ..statistics._membership import Membership
from ..statistics._people import people
from ._agent import _OF_PEOPLE, _fresh_keys, _run_file, check_labels, declining
from ._search import SearchParty
from ._search_agreement import SearchAgreement
from ._secure_sum import Keys, Words, forget
from ._site import Part, Refused, Site


class FileBook:
    """The answers of a site, in the file that `Site.count_answer` keeps.

    Args:
        site: The site's own limits.
        agreed: What it has signed.
    """

    def __init__(self, site: Site, agreed: SearchAgreement):
        self.site, self.agreed = site, agreed

    def answered(self, number: int) -> bool:
        """Whether the file has an answer to this question, from before a restart or after."""
        return number in self.site.rounds_answered()

    def enter(self, ask: Ask, number: int) -> Permit | None:
        """Hold an answer to the site's limits, and write it down.

        Raises:
            Refused: It is none of the agreed plan, would cost more or have less noise than the
                site's file allows, or the answers, the shares or the ledger are used up.
        """
        terms = self.agreed.terms
        # Not one after the other: a site that was away, or a message that was lost, leaves a gap.
        if number >= self.agreed.answers:
            raise Refused(
                "declined: the agreed plan has no question of this number. Nothing was spent"
            )
        if ask.kind not in self.agreed.kinds:
            raise Refused("declined: the agreed plan has no such question. Nothing was spent")
        multiplier = terms.noise_of_sites.multiplier(ask.share)
        least, most = self.site.least_noise, self.site.one_answer
        if least is not None and multiplier < least * (1.0 - 1e-9):
            raise Refused(
                "declined: there would be less noise than this site allows. Nothing was spent"
            )
        if most is not None and not gaussian(multiplier).within(most):
            raise Refused(
                "declined: one answer would cost more than this site allows. Nothing was spent"
            )
        part = Part(ask.share, terms.guarantee)
        most = most_answers(self.site, self.agreed)
        with declining():
            return self.site.count_answer(self.agreed.fingerprint, number, most, part)


def agreed_search(site: Site) -> SearchAgreement:
    """The search that a site has signed.

    Raises:
        Refused: It has signed none, or one that protects records, while its own file names labels
            of people.
    """
    if not isinstance(site.agreed, SearchAgreement):
        raise Refused("declined: this site has agreed to no search. Nothing was spent")
    if "groups" in site.data and not site.agreed.terms.of_people:
        raise Refused(_OF_PEOPLE)
    return site.agreed


def most_answers(site: Site, agreed: SearchAgreement) -> int:
    """How many answers the site gives in all."""
    return agreed.answers if site.most_answers is None else site.most_answers


def own_size(agreed: SearchAgreement, records: Any, groups: object) -> int:
    """The public number of a site's records, or of its people where they are protected.

    Args:
        agreed: What the site has signed.
        records: Its records, along the first axis.
        groups: One label of a person for each of them; None where the site has no labels.

    Raises:
        Refused: People are protected and there are no labels, or records, and there are labels.
        InvalidArgument: The form of the records or of the labels is wrong. Nothing that a record
            holds decides this.
    """
    terms = agreed.terms
    check_labels(terms.of_people, groups)
    if not terms.of_people:
        return admit_in_parts(terms.manifold, "X", records)[1]
    _, rows = admit_records(terms.manifold, "X", records)  # a person's mean is made in memory
    return Membership(groups, rows, of="records").n


def _check_size(site: Site, agreed: SearchAgreement, n: int) -> None:
    if agreed.terms.sizes.get(site.name) != n:
        raise Refused(
            f"declined: this site has {n} {agreed.terms.counted}, which is not what was agreed."
            " Nothing was spent"
        )


def check_search(site: Site, agreed: SearchAgreement, n: int, agreement: object) -> None:
    """Refuse where a search could not be answered. From public numbers only; nothing is spent.

    Args:
        site: The site's own limits.
        agreed: What it has signed.
        n: How many records, or people, it has (`own_size`).
        agreement: The fingerprint that the server sent.

    Raises:
        Refused: Another agreement, another number of records or people, or a ledger that has no
            room for all of the search, which has not been charged yet, or is about another unit.
    """
    if agreement != agreed.fingerprint:
        raise Refused("declined: the server's settings are not this site's. Nothing was spent")
    _check_size(site, agreed, n)
    if not site.is_charged(agreed.fingerprint):
        with declining():
            check_affordable(agreed.terms.guarantee, site.ledger)


def search_keys(site: Site, agreed: SearchAgreement) -> Keys | None:
    """The keys of a site: its long-term key, and a fresh one for its next answer, which is kept
    beside the file of answers until then. None where each site adds all of its own noise.

    Raises:
        Refused: The site's file names no key.
    """
    if agreed.terms.noise == "local":
        return None
    if site.key is None:
        raise Refused("declined: this site's file names no key. Nothing was spent")
    return Keys.read(site.name, site.key, _run_file(site), agreed.fingerprint)


def next_search_key(site: Site, agreed: SearchAgreement) -> str:
    """The public key of the site's next answer, 64 hexadecimal digits; nothing where there will be
    none, or needs none.
    """
    over = len(site.rounds_answered()) >= most_answers(site, agreed)
    keys = None if over else search_keys(site, agreed)
    return "" if keys is None else keys.fresh.hex()


def answer_question(
    site: Site,
    records: Any,
    ask: Ask,
    number: object,
    members: object,
    *,
    agreement: object,
    groups: object = None,
    rng: int | NoiseSource | None = None,
) -> Floats | Words:
    """A site's answer to one question of a search, or `Refused` with nothing spent.

    Args:
        site: The site's own limits, what it has signed, and its key where noise is shared.
        records: Its records, along the first axis.
        ask: The question, as the server sent it. Nothing of it has been checked.
        number: The number of the question that the server named.
        members: Where noise is shared, the sites of this sum by name with their fresh public keys
            as hexadecimal digits, as the server sent them.
        agreement: The fingerprint that the server sent.
        groups: Where people are protected, and only there: one label of a person for each record,
            from the site's own data. Labels do not leave the site.
        rng: None draws from this machine's operating system; a seed is not private.

    Returns:
        Numbers with noise, or masked words with noise where it is shared.

    Guarantee:
        `site.agreed.terms.guarantee` for all answers together, replace-one, whatever a server
        sends; neighbours differ in one record or, where the agreement says so, in everything that
        one person has at this site. The shares of all answers add up to at most 1. The whole is
        charged to `site.ledger` before the first draw, once; each answer is in the site's file
        before its noise is drawn. A site that is killed at any point and started again does not
        answer a question again that is in the file. The fresh key under which an answer was masked
        is deleted before the answer is returned.

    Raises:
        Refused: Saying which limit forbids the answer.

    Source:
        Proof: docs/proofs/secure-sums.md.
    """
    agreed = agreed_search(site)
    if agreement != agreed.fingerprint:
        raise Refused("declined: the server's settings are not this site's. Nothing was spent")
    terms = agreed.terms
    keys = search_keys(site, agreed)
    _check_size(site, agreed, own_size(agreed, records, groups))
    fresh: dict[str, bytes] = {}
    if keys is not None:
        try:
            fresh = _fresh_keys(members)
        except InvalidArgument as error:
            raise Refused(f"declined: {error}. Nothing was spent") from error
    if terms.of_people:  # one point a person takes the place of the records
        records = people(terms.manifold, records, groups).points
    own, _ = admit_in_parts(terms.manifold, "X", records)
    part = SearchSite(terms.domain, own, terms.noise_of_sites, noise_source(rng))
    part.spent = site.share_spent()
    book = FileBook(site, agreed)
    party = SearchParty(site.name, terms, part, keys, agreed.keys, book)
    # the whole search is charged by the book
    reply = party.answer(ask, number, str(agreement), fresh)  # type: ignore[arg-type]
    if keys is not None:
        forget(_run_file(site))
    return reply
