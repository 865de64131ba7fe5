"""The one door of a site: what a server sends passes `answer`, and nothing else is used of it.

To check that a site keeps its promise whatever the server sends, read `answer` from top to bottom,
`Site.count_answer`, and the protocol that was agreed: it says what an answer costs, and draws it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .._errors import BudgetExceeded, InvalidArgument, invalid, real
from ..optimizers._account import Account
from ..privacy import Guarantee
from ..privacy._permit import Permit
from ..randomness import NoiseSource, noise_source
from ._protocol import OF_PEOPLE, Cost, Protocol
from ._rounds import LocalRounds, SharedRounds
from ._search import Search
from ._secure_sum import Keys, Question, Roster, forget, masked
from ._site import Site, declined
from ._terms import SearchTerms, Setup


@dataclass(frozen=True, eq=False)
class Message:
    """What a server sent to a site. Nothing of it has been checked.

    Attributes:
        question: In a round of PriRFed, a point.
        number: That of the round, or question.
        members: Where noise is shared, and only there: the sites of this sum by name with their
            fresh public keys as hexadecimal digits.
        agreement: The fingerprint of the server's settings. A site with an agreement demands it.
    """

    question: object
    number: object
    members: object = None
    agreement: object = None


@dataclass(frozen=True, eq=False)
class Answer:
    """What a site sends, and what is known of it.

    Attributes:
        value: A private point, noisy numbers or, where noise is shared, masked words.
        guarantee: Of this answer by itself. All answers to a search have that of its terms.
        sigma: The standard deviation of its noise; None: it has none, and protects nobody.
        records: The public number of the site's records, or people.
    """

    value: Any
    guarantee: Guarantee
    sigma: float | None
    records: int


def answer(
    site: Site,
    terms: Setup | SearchTerms,
    records: Any,
    message: Message,
    *,
    groups: object = None,
    sigma: float | None = None,
    rng: int | NoiseSource | None = None,
) -> Answer:
    """A site's answer to a message of a server, or `Refused` with nothing spent.

    Args:
        site: The site's own limits, and its key where noise is shared.
        terms: The agreed settings: those of `site.agreed`, or a `Setup` made from `site.settings`.
        records: The site's records, along the first axis.
        message: What the server sent.
        groups: Where people are protected, and only there: one label of a person for each record,
            from the site's own data. Labels do not leave the site.
        sigma: `terms.sigma(n)` for the site's n records, or people, where that is known already;
            above 0.
        rng: None draws from this machine's operating system; a seed is not private.

    Returns:
        The answer, with its guarantee.

    Guarantee:
        In rounds, `Answer.guarantee` for each answer by itself, at most `min(site.most_answers,
        terms.answers)` answers, and at most `site.ledger` for all of them. In a search,
        `terms.guarantee` for all answers together, charged once and before the first. Replace-one,
        whatever a server sends; neighbours differ in one record or, where `terms.unit` says so, in
        everything that one person has at this site. An answer is in the site's file, and charged,
        before its noise is drawn: a site that is killed at any point and started again answers no
        number of the file again. The fresh key under which an answer was masked is deleted before
        it is returned: nobody, the site included, can make its masks again.

    Raises:
        Refused: Saying which of the site's limits forbids the answer.
        InvalidArgument: The form of the site's own records, labels, noise or `rng` is wrong.
            Nothing was spent.

    Source:
        Proof: docs/proofs/federated.md, docs/proofs/secure-sums.md.
    """
    if not isinstance(message, Message):
        raise invalid("message", "given", "give a riemdp.federated.Message(question, number)")
    protocol = protocol_of(terms)
    check_agreement(site, terms, message.agreement)
    number = _number(site, terms, message.number)
    asked = protocol.asked(message.question)
    n = protocol.size(site.name, records, groups)
    keys = roster = None
    if terms.shares_noise:
        keys = keys_of(site, terms)
        roster = _roster(keys, terms, message.members, protocol.least)
    elif message.members is not None:
        raise declined("the server sent a list of members, and the settings share no noise")
    cost = protocol.cost(asked.question, n, _known(sigma))
    check_cost(site, terms, cost)
    source = noise_source(rng)
    own = protocol.own(records, groups, source)
    with declining():
        permit = site.count_answer(terms.fingerprint, number, most_answers(site, terms), cost.part)
    words = site.in_words(f"{terms.numbered} {number}", terms.fingerprint)
    account = _account(site, terms, cost, site.paid if permit is None else permit, words)
    reply = protocol.reply(asked.question, own, cost, account, source)
    if keys is not None and roster is not None:
        what = Question(terms.fingerprint, number, roster, asked.context)
        reply = masked(reply, keys, what)
        forget(_run_file(site))
    return Answer(reply, cost.guarantee, cost.sigma, n)


def admit(
    site: Site,
    terms: Setup | SearchTerms,
    records: Any,
    *,
    agreement: object = None,
    groups: object = None,
    sigma: float | None = None,
) -> int:
    """The public number of a site's records, or people, where the run could be answered at all.
    The arguments are those of `answer`. From public numbers only; nothing is spent.

    Raises:
        Refused: Saying which of the site's limits forbids it.
    """
    protocol = protocol_of(terms)
    check_agreement(site, terms, agreement)
    n = protocol.size(site.name, records, groups)
    cost = protocol.cost(None, n, _known(sigma))
    check_cost(site, terms, cost)
    if cost.part is not None and not site.is_charged(terms.fingerprint):
        with declining():
            Account(site.ledger).check(cost.part.whole)
    return n


def protocol_of(terms: Setup | SearchTerms) -> Protocol:
    """What a site does by these settings."""
    if isinstance(terms, SearchTerms):
        return Search(terms)
    return SharedRounds(terms) if terms.shares_noise else LocalRounds(terms)


def check_agreement(site: Site, terms: Setup | SearchTerms, agreement: object) -> None:
    """Refuse where the settings are not those that the site, or the server, speaks of; or where
    they protect records, and the site's own file names labels of people. A search is signed.
    """
    if isinstance(terms, SearchTerms) and site.agreed is None:
        raise declined("this site has agreed to no search")
    if site.agreement is not None and site.agreement != terms.fingerprint:
        raise declined("this site's settings are not those that it agreed to")
    if site.agreed is not None and agreement is None:
        raise declined("the server names no agreement")
    if agreement is not None and agreement != terms.fingerprint:
        raise declined("the server's settings are not this site's")
    if "groups" in site.data and not terms.of_people:
        raise declined(OF_PEOPLE)


def _number(site: Site, terms: Setup | SearchTerms, number: object) -> int:
    """A number of the agreed run that the site has not answered yet. Not one after the other: a
    site that was away, or a message that was lost, leaves a gap.
    """
    if (
        isinstance(number, bool)
        or not isinstance(number, int | np.integer)
        or not 0 <= number < terms.numbers
    ):
        raise declined(f"the agreed run has no such {terms.numbered}")
    if int(number) in site.rounds_answered():  # `count_answer` looks again, under its lock
        raise declined(f"this site has answered this {terms.numbered}")
    return int(number)


def _known(sigma: float | None) -> float | None:
    """The noise that a site knows already, if it does."""
    return None if sigma is None else real("sigma", sigma, above=0.0)


def _roster(keys: Keys, terms: Setup | SearchTerms, members: object, least: int) -> Roster:
    """The sites of this sum with their fresh public keys, which a server sent."""
    if not isinstance(members, Mapping):
        raise declined("the server sent no list of members")
    try:
        fresh = {str(name): bytes.fromhex(key) for name, key in members.items()}
    except (TypeError, ValueError) as error:
        raise declined("the server's list of members holds a key that is none") from error
    try:
        roster = Roster.of(keys, terms.public_keys, fresh, least=least)
        keys.meet(roster)
    except InvalidArgument as error:
        words = str(error).replace("argument `roster`", "the server's list of members")
        raise declined(words) from error
    return roster


def check_cost(site: Site, terms: Setup | SearchTerms, cost: Cost) -> None:
    """Refuse an answer whose cost is above the site's limits. From public numbers only."""
    if cost.sigma is None:
        if not site.without_noise:
            raise declined("the settings have no budget, so no noise")
        return
    if site.least_noise is not None and cost.multiplier < site.least_noise * (1.0 - 1e-9):
        raise declined("there would be less noise than this site allows")
    if site.one_answer is not None and not cost.guarantee.within(site.one_answer):
        raise declined("one answer would cost more than this site allows")
    if cost.part is None:  # a search is charged as a whole, when its first answer is counted
        with declining():
            _account(site, terms, cost, site.paid).check(cost.guarantee)


def _account(
    site: Site, terms: Setup | SearchTerms, cost: Cost, paid: Permit | None, words: str = ""
) -> Account:
    """Who pays for an answer. In rounds all answers cost the same, whatever came out, and there are
    no more than the site gives: to its ledger they are one run that was planned as a whole.
    """
    of = None
    if cost.part is None:
        of = cost.guarantee.repeat(min(most_answers(site, terms), terms.numbers))
    return Account(site.ledger, paid, what=words, of=of)


@contextlib.contextmanager
def declining() -> Iterator[None]:
    """Says in a word for the server why a site's ledger does not take a charge."""
    try:
        yield
    except BudgetExceeded as error:
        raise declined("this site's own ledger has not enough budget left") from error
    except InvalidArgument as error:  # records and people, or adjacencies, do not add up
        raise declined(
            "this site's own ledger counts for another unit of privacy than the agreement protects"
        ) from error


def most_answers(site: Site, terms: Setup | SearchTerms) -> int:
    """How many answers the site gives in all."""
    return terms.answers if site.most_answers is None else site.most_answers


def keys_of(site: Site, terms: Setup | SearchTerms) -> Keys:
    """The keys of a site where noise is shared: its long-term key, and a fresh one for its next
    answer, which is kept beside the file of answers until then.
    """
    if site.key is None:
        raise declined("this site's file names no key")
    return Keys.read(site.name, site.key, _run_file(site), terms.fingerprint)


def next_key(site: Site, terms: Setup | SearchTerms) -> str:
    """The public key of the site's next answer, 64 hexadecimal digits; nothing where there will be
    none, or needs none.
    """
    answered = site.rounds_answered()
    last = isinstance(terms, Setup) and terms.numbers - 1 in answered
    over = last or len(answered) >= most_answers(site, terms)
    return "" if over or not terms.shares_noise else keys_of(site, terms).fresh.hex()


def _run_file(site: Site) -> Path:
    return site.answers.with_name(site.answers.name + ".key")
