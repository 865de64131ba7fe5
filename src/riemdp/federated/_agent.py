"""An agent's round: what it admits, what it counts and charges, and the noise that it adds.

To check that a site keeps its promise whatever the server sends, read this file from top to bottom.

1. `admit_ask` is the one door for what a server sends: a fingerprint, a round number and a point.
   Nothing else of a message is read.
2. `local_update` runs the noisy local steps. Each step adds noise of `sigma` to a sum of bounded
   contributions; `optimizers` states that, and charges it before it draws.
3. `answer` puts the site's own limits before them: its own settings, floor of noise, count of
   answers and ledger. `answer_sum` is the same where noise is shared. Both take the site's own data
   by `admit_own`: where people are protected, one entry a person, and n is the number of people.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .._errors import BudgetExceeded, InvalidArgument
from ..domains._door import admit_point
from ..manifolds._base import Point, RecordsLike
from ..optimizers import OptimizationResult
from ..optimizers._account import Account, check_affordable
from ..optimizers._minimize import check_data, minimized
from ..optimizers._plan import plan_optimizer
from ..privacy import Ledger
from ..randomness import NoiseSource, noise_source
from ..statistics._membership import Membership
from ._accounting import local_guarantee
from ._aggregate import as_point
from ._prirfed import PriRFed
from ._secure_sum import Keys, Question, Roster, Words, forget
from ._setup import Setup
from ._shared import Belonging, context_of, masked_sum
from ._site import Refused, Site

_OF_PEOPLE = (
    "declined: this site's records are those of people, and the agreement protects single records."
    " Nothing was spent"
)
_NO_LABELS = (
    "declined: the agreement protects people, and this site does not say whose its records are."
    " Nothing was spent"
)
_ROUNDING = 1e-6  # how far, relatively, an honest server's point may lie outside the ball


def admit_current(prirfed: PriRFed, current: Point) -> Point:
    """The server's point, carried onto the space and, where the ball bounds the noise, into it.

    The sensitivity of a local step holds for points of the space, and under `sensitivity="domain"`
    for points of the ball. A server that sends another point must not change that.

    Args:
        prirfed: The agreed run.
        current: The point x_t, as sent.

    Returns:
        A point whose equations hold to rounding; the point itself if it was one.

    Raises:
        InvalidArgument: Not one finite point of the space to a relative error of 1e-6.
    """
    problem = prirfed.problem
    manifold = problem.manifold
    point = admit_point(manifold, "current", current)
    local = prirfed.local
    if local.is_confined:
        assert problem.ball is not None  # `sensitivity="domain"` was checked when the plan was made
        point = problem.ball.on(manifold).clamp_point(point)
    return point


def local_update(
    prirfed: PriRFed,
    records: RecordsLike | Belonging,
    current: Point,
    sigma: float | None,
    *,
    rng: int | NoiseSource | None = None,
    ledger: Ledger | None = None,
) -> OptimizationResult:
    """One invitation, on the agent's side: `prirfed.local` from `current` on its own records.

    Args:
        prirfed: The agreed run.
        records: The agent's records, along the first axis.
        current: The server's point. It passes `admit_current`.
        sigma: The noise that the plan gives to an agent of this size. None runs without noise or
            clipping (not private).
        rng: None draws from this machine's operating system; a seed is not private.
        ledger: The agent's own ledger, charged before noise is drawn. None charges the innermost
            `with Ledger(...)`.

    Returns:
        The result, its `guarantee` being that of this one invitation.

    Guarantee:
        `plan.local[len(records)]`, replace-one.

    Raises:
        InvalidArgument: The point or the records have the wrong form.
        BudgetExceeded: Before anything is drawn.
        KeyboardInterrupt: The work was interrupted. Half of it is not a reply; what was drawn
            stays charged.

    Source:
        Proof: docs/proofs/federated.md.
    """
    return updated(prirfed, records, current, sigma, Account(ledger), rng=rng)


def updated(
    prirfed: PriRFed,
    records: RecordsLike | Belonging,
    current: Point,
    sigma: float | None,
    account: Account,
    *,
    rng: int | NoiseSource | None = None,
) -> OptimizationResult:
    """`local_update`, at the cost of an `Account`."""
    point = admit_current(prirfed, current)
    noise: dict[str, Any] = {"budget": None} if sigma is None else {"noise_std": sigma}
    own: Any = records
    if isinstance(records, Belonging):  # people take the place of records, in `sigma` too
        noise |= {"groups": records.groups, "records_per_person": records.places}
        own = records.records
    done = minimized(prirfed.problem, own, point, prirfed.local, account=account, rng=rng, **noise)
    if done.status == "interrupted":
        raise KeyboardInterrupt
    return done


def answer(
    site: Site,
    setup: Setup,
    records: RecordsLike,
    current: Point,
    round_number: object,
    *,
    sigma: float | None,
    agreement: str | None = None,
    groups: object = None,
    rng: int | NoiseSource | None = None,
) -> OptimizationResult:
    """A site's answer to one message of the server, or `Refused` with nothing spent.

    Args:
        site: The site's own limits.
        setup: The agreed settings, made from `site.settings`.
        records: The site's records, along the first axis.
        current: The point that the server sent.
        round_number: The round that the server named.
        sigma: `setup.sigma(n)` for the site's n records, or people.
        agreement: The fingerprint of the server's settings, where it sent one. A site with an
            agreement of its own demands it.
        groups: Where `setup.unit` is "person", and only there: one label of a person for each
            record, from the site's own data. Labels do not leave the site.
        rng: None draws from this machine's operating system; a seed is not private.

    Returns:
        The private point to send, with its guarantee.

    Guarantee:
        The local guarantee of `sigma`, replace-one, for each answer by itself; neighbours differ in
        one record or, where `setup.unit` says so, in everything that one person has at this site.
        At most `min(site.most_answers, setup.answers)` answers and at most `site.ledger` for all of
        them, whatever the server sends. The answer is counted, and charged, in the site's files
        before its noise is drawn.

    Raises:
        Refused: Saying which of the site's limits forbids the answer.

    Source:
        Proof: docs/proofs/federated.md.
    """
    point, number = admit_ask(site, setup, current, round_number, agreement)
    if setup.prirfed.noise == "shared":
        raise Refused("declined: this site has agreed to secure sums only. Nothing was spent")
    own, n = admit_own(setup, records, groups)
    check_cost(site, setup, n, sigma)
    source = noise_source(rng)
    site.count_answer(setup.agreement, number, most_answers(site, setup))
    return local_update(setup.prirfed, own, point, sigma, rng=source, ledger=site.ledger)


def answer_sum(
    site: Site,
    setup: Setup,
    records: RecordsLike,
    current: Point,
    round_number: object,
    members: object,
    *,
    agreement: str | None = None,
    groups: object = None,
    rng: int | NoiseSource | None = None,
) -> Words:
    """A site's answer where noise is shared, or `Refused` with nothing spent.

    Args:
        site: The site's own limits, and its key.
        setup: The agreed settings, with the public keys of all sites.
        records: The site's records, along the first axis.
        current: The point that the server sent.
        round_number: The round that the server named.
        members: The sites of this round by name, with their fresh public keys as hexadecimal
            digits, as the server sent them.
        agreement: The fingerprint of the server's settings, where it sent one.
        groups: As in `answer`.
        rng: None draws from this machine's operating system; a seed is not private.

    Returns:
        Masked words: `_secure_sum` says what they are.

    Guarantee:
        `setup.shared.guarantee` for each answer, replace-one, under what it assumes, neighbours
        differing as in `answer`; as many answers as `answer` gives. The answer is counted, and
        charged, before noise is drawn. The fresh key under which an answer was masked is deleted
        before the answer is returned: nobody, the site included, can make its masks again.

    Raises:
        Refused: Saying which of the site's limits forbids the answer.

    Source:
        Proof: docs/proofs/secure-sums.md.
    """
    point, number = admit_ask(site, setup, current, round_number, agreement)
    prirfed, shared = setup.prirfed, setup.shared
    if shared is None:
        raise Refused("declined: this site has not agreed to shared noise. Nothing was spent")
    own, n = admit_own(setup, records, groups)
    sent = as_point(prirfed.problem.manifold, setup.initial, current)
    keys = keys_of(site, setup)
    try:
        agreed = {name: bytes.fromhex(key) for name, key in setup.keys}
        roster = Roster.of(keys, agreed, _fresh_keys(members), least=shared.enough)
        keys.meet(roster)
    except InvalidArgument as error:
        words = str(error).replace("argument `roster`", "the server's list of members")
        raise Refused(f"declined: {words}. Nothing was spent") from error
    context = context_of(prirfed.problem.manifold, sent)
    question = Question(setup.agreement, number, roster, context)
    check_cost(site, setup, n, shared.sigma)
    source = noise_source(rng)
    site.count_answer(setup.agreement, number, most_answers(site, setup))
    account = Account(site.ledger)
    words = masked_sum(prirfed, shared, own, point, keys, question, account, rng=source)
    forget(_run_file(site))
    return words


def admit_own(
    setup: Setup, records: RecordsLike, groups: object
) -> tuple[RecordsLike | Belonging, int]:
    """A site's own data as the agreed unit of privacy takes them, and the public number n of it.

    Which unit that is, and how many records of one person are used, the site's own settings say;
    whose a record is, its own labels. Where people are protected, all that follows (sensitivity,
    noise, charge, and the number that the server is told) is that of n people.

    Args:
        setup: The agreed settings, made at the site.
        records: The site's records, along the first axis.
        groups: One label of a person for each; None where the site has no labels.

    Raises:
        Refused: The agreement protects people and the site has no labels; or it protects single
            records, and the site's labels say that they are those of people.
        InvalidArgument: The records or the labels cannot be used. Nothing that a record holds
            decides this.
    """
    _, rows = check_data(setup.prirfed.problem, records)
    check_labels(setup.of_people, groups)
    if not setup.of_people:
        return records, rows
    n = Membership(groups, rows, of="records").n
    return Belonging(records, groups, setup.records_per_person), n


def check_labels(of_people: bool, groups: object) -> None:
    """Refuse where people are protected and a site has no labels, or records and it has labels."""
    if of_people and groups is None:
        raise Refused(_NO_LABELS)
    if not of_people and groups is not None:
        raise Refused(_OF_PEOPLE)


def next_key(site: Site, setup: Setup) -> str:
    """The public key of the site's next answer, 64 hexadecimal digits; nothing where there will be
    none.
    """
    answered = site.rounds_answered()
    over = len(answered) >= most_answers(site, setup) or setup.prirfed.rounds - 1 in answered
    return "" if over else keys_of(site, setup).fresh.hex()


def keys_of(site: Site, setup: Setup) -> Keys:
    """The keys of a site where noise is shared: its long-term key, and a fresh one for its next
    answer, which is kept beside the file of answers until then.
    """
    if site.key is None:
        raise Refused("declined: this site's file names no key. Nothing was spent")
    return Keys.read(site.name, site.key, _run_file(site), setup.agreement)


def _run_file(site: Site) -> Path:
    return site.answers.with_name(site.answers.name + ".key")


def _fresh_keys(members: object) -> dict[str, bytes]:
    """The fresh public keys that a server sent."""
    if not isinstance(members, Mapping):
        raise InvalidArgument("argument `roster` is no list of members with their keys")
    try:
        return {str(name): bytes.fromhex(key) for name, key in members.items()}
    except (TypeError, ValueError) as error:
        raise InvalidArgument("argument `roster` holds a key that is none") from error


def most_answers(site: Site, setup: Setup) -> int:
    """How many answers the site gives in all."""
    return setup.answers if site.most_answers is None else site.most_answers


def admit_ask(
    site: Site, setup: Setup, current: object, round_number: object, agreement: object = None
) -> tuple[Point, int]:
    """The door: everything that a server sends to a site passes here, and nothing else is used.

    Args:
        site: The site's own limits.
        setup: The agreed settings, made at the site.
        current: What was sent as the point x_t.
        round_number: What was sent as the number of the round.
        agreement: What was sent as the fingerprint of the run's agreement. It names the run, too:
            a second run has another agreement.

    Returns:
        The point, projected onto the space and, where the ball bounds the noise, in the ball; the
        number of a round that the site has not answered yet.

    Raises:
        Refused: Another agreement, no such round, a round that has its answer, or no finite point
            of the right shape on the space, or one outside the ball by more than rounding.
    """
    check_agreement(site, setup, agreement)
    prirfed = setup.prirfed
    if (
        isinstance(round_number, bool)
        or not isinstance(round_number, int | np.integer)
        or not 0 <= round_number < prirfed.rounds
    ):
        raise Refused("declined: the agreed run has no such round. Nothing was spent")
    if int(round_number) in site.rounds_answered():  # `count_answer` looks again, under its lock
        raise Refused("declined: this site has answered this round. Nothing was spent")
    point = as_point(prirfed.problem.manifold, setup.initial, current)
    try:
        admitted = admit_current(prirfed, point)
    except InvalidArgument as error:
        raise Refused("declined: the server sent no valid point. Nothing was spent") from error
    if is_outside(prirfed, point):
        raise Refused(
            "declined: the server sent a point outside the agreed ball. Nothing was spent"
        )
    return admitted, int(round_number)


def is_outside(prirfed: PriRFed, point: Point) -> bool:
    """Whether a point of the space lies outside the ball that bounds the noise, if one does."""
    if not prirfed.local.is_confined:
        return False
    manifold, ball = prirfed.problem.manifold, prirfed.problem.ball
    assert ball is not None
    distance = float(manifold.dist(manifold.project(point), ball.center))
    return not distance <= float(ball.radius) * (1.0 + _ROUNDING)


def check_agreement(site: Site, setup: Setup, agreement: object = None) -> None:
    """Refuse where the settings are not those that the site, or the server, speaks of; or where
    they protect records, and the site's own file names labels of people.
    """
    if site.agreement is not None and site.agreement != setup.agreement:
        raise Refused(
            "declined: this site's settings are not those that it agreed to. Nothing was spent"
        )
    if site.agreed is not None and agreement is None:
        raise Refused("declined: the server names no agreement. Nothing was spent")
    if agreement is not None and agreement != setup.agreement:
        raise Refused("declined: the server's settings are not this site's. Nothing was spent")
    if "groups" in site.data and not setup.of_people:
        raise Refused(_OF_PEOPLE)


def check_cost(site: Site, setup: Setup, n: int, sigma: float | None) -> None:
    """Refuse an answer whose cost is above the site's limits. From public numbers only: n is the
    number of records, or of people where they are protected.
    """
    if sigma is None:
        if not site.without_noise:
            raise Refused("declined: the settings have no budget, so no noise. Nothing was spent")
        return
    shared = setup.shared
    if shared is not None:
        multiplier, cost = shared.noise_multiplier, shared.guarantee
    else:
        plan = plan_optimizer(setup.prirfed.problem, n, setup.prirfed.local, None, noise_std=sigma)
        multiplier = plan.sigma / plan.sensitivity if plan.sensitivity else math.inf
        cost = local_guarantee(setup.prirfed, n, sigma)
    cost = cost.for_people() if setup.of_people else cost
    if site.least_noise is not None and multiplier < site.least_noise * (1.0 - 1e-9):
        raise Refused(
            "declined: there would be less noise than this site allows. Nothing was spent"
        )
    if site.one_answer is not None and not cost.within(site.one_answer):
        raise Refused(
            "declined: one answer would cost more than this site allows. Nothing was spent"
        )
    with declining():
        check_affordable(cost, site.ledger)


@contextlib.contextmanager
def declining() -> Iterator[None]:
    """Says in a word for the server why a site's ledger does not take a charge."""
    try:
        yield
    except BudgetExceeded as error:
        raise Refused(
            "declined: this site's own ledger has not enough budget left. Nothing was spent"
        ) from error
    except InvalidArgument as error:  # records and people, or adjacencies, do not add up
        raise Refused(
            "declined: this site's own ledger counts for another unit of privacy than the agreement"
            " protects. Nothing was spent"
        ) from error
