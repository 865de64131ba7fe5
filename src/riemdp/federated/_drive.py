"""Drives the server of rounds, or of a search, over any transport: it asks, waits for a quorum and
a grace period, never for ever, and goes on where one before it was killed.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from .._errors import InvalidArgument, RiemdpError, real
from ..mechanisms import Release
from ..randomness import NoiseSource
from ._accounting import one_answer, plan_federated, planned_guarantee
from ._coordinator import Coordinator, RoundRecord
from ._journal import Transcript
from ._over_sites import mechanism_of
from ._search import Asked, SumsOverSites
from ._search_sites import SCALE, SQUARES, TANGENTS, VALID, WITHIN, Ask
from ._terms import SearchTerms, Setup

Clock = Callable[[], float]
Pause = Callable[[float], None]

log = logging.getLogger("riemdp.federated")
_WORDS = {
    VALID: "how many {} are points of the space",
    SCALE: "how many {} have a scale below a number",
    WITHIN: "how many {} are within a radius",
    TANGENTS: "the sum of all directions from the centre",
    SQUARES: "the sum of all squared distances",
}


class Transport(Protocol):
    """What a messaging engine must offer. Sites are known by names that the engine has
    authenticated, or that are local.
    """

    def agents(self) -> Mapping[str, int]:
        """Sites that can be reached now, with their (public) numbers of records, or people."""
        ...

    def send(self, names: tuple[str, ...], question: Any, number: int) -> None:
        """Send a question to these sites, with the fingerprint of the settings and, where noise is
        shared, the keys of all of them: a point, or an `Ask` of a search.
        """
        ...

    def replies(self) -> list[tuple[str, object, float | None]]:
        """New replies since the last call: (site, reply or None for an error, claimed number of
        records).
        """
        ...


@dataclass(frozen=True)
class Timing:
    """How long a round waits, in seconds.

    A round closes when every invited agent has answered; or, once `agents_per_round` valid replies
    (over-invitation) or the `quorum` are there, `grace` seconds after that; or after `timeout` in
    any case. `poll` is the pause between looks. `patience`: how long to wait, before a round, for
    enough agents to be there.
    """

    timeout: float = 60.0
    grace: float = 20.0
    poll: float = 0.1
    patience: float = 600.0

    def __post_init__(self) -> None:
        for name in ("timeout", "grace", "patience"):
            real(name, getattr(self, name), at_least=0.0)
        real("poll", self.poll, above=0.0)


class Waiting:
    """Sites over a transport, which are waited for, and never for ever.

    Args:
        transport: Carries the messages.
        timing: How long to wait.
        clock: Seconds, for tests.
        pause: Waits, for tests.
    """

    def __init__(
        self,
        transport: Transport,
        timing: Timing,
        clock: Clock = time.monotonic,
        pause: Pause = time.sleep,
    ):
        self.transport, self.timing, self.clock, self.pause = transport, timing, clock, pause

    def there(self, count: int, sizes: Mapping[str, int] | None = None) -> dict[str, int]:
        """The sites that are there, once there are so many, or after `timing.patience` seconds.

        Args:
            count: How many are wanted.
            sizes: The agreed number of records of each site, where that is agreed; a site with
                another one is not asked.
        """
        end, said = self.clock() + self.timing.patience, ""
        while True:
            here = dict(self.transport.agents())
            if sizes is not None:
                here = {name: n for name, n in here.items() if sizes.get(name) == n}
            missing = _few([name for name in sizes or () if name not in here])
            if len(here) >= count:
                return here
            if self.clock() >= end:
                if missing:
                    log.warning("nothing was heard of %s in time", missing)
                return here
            if missing != said:
                log.info("waiting for %s", missing)
                said = missing
            self.pause(self.timing.poll)

    def ask(
        self,
        names: tuple[str, ...],
        question: Any,
        number: int,
        take: Callable[[str, Any, float | None], bool],
        *,
        quorum: int,
        full: int,
    ) -> None:
        """Send a question, and hand on what comes in time.

        It ends when all that were asked have answered or declined, when `full` answers were taken,
        `timing.grace` seconds after `quorum` of them were, or after `timing.timeout` in any case.

        Args:
            names: Who is asked.
            question: A point, or an `Ask`.
            number: That of the round, or question.
            take: Takes (site, reply, claimed number of records); False if it is of no use.
            quorum: As above.
            full: As above.
        """
        self.transport.send(names, question, number)
        begin, heard, taken = self.clock(), set[str](), 0
        enough: float | None = None
        while True:
            for name, reply, claimed in self.transport.replies():
                if reply is not None and name not in heard:
                    taken += take(name, reply, claimed)
                heard.add(name)
            now = self.clock()
            late = now - begin >= self.timing.timeout
            if heard >= set(names) or late or taken >= full:
                return
            if taken >= quorum:
                enough = now if enough is None else enough
                if now - enough >= self.timing.grace:
                    return
            self.pause(self.timing.poll)


def make_coordinator(setup: Setup, sizes: Mapping[str, int], source: NoiseSource) -> Coordinator:
    """The server of a run among the agents `sizes` (name -> public number of records, or people),
    calibrated for `setup.agents`.
    """
    plan = plan_federated(setup.prirfed, [*sizes.values(), *_others(setup, sizes)], setup.budget)
    return Coordinator(
        setup.prirfed,
        plan.for_people() if setup.of_people else plan,
        dict(sizes),
        setup.initial,
        setup.budget,
        source,
        agreement=setup.fingerprint,
    )


def _others(setup: Setup, sizes: Mapping[str, int]) -> list[int]:
    """Agents of the plan that have not come yet: counted with the size of one that has."""
    return [next(iter(sizes.values()))] * max(0, setup.agents - len(sizes))


def enrol(server: Coordinator, setup: Setup, name: str, records: int) -> None:
    """Take in an agent that joined late: its noise is calibrated for its size, its invitations
    counted from now on.
    """
    if name in server.sizes:
        return
    server.sizes[name] = records
    server.invitations[name] = 0
    plan = server.plan
    if records not in plan.sigma_of:
        sigma = setup.sigma(records) or 0.0
        plan.sigma_of[records] = sigma
        plan.local[records] = one_answer(plan, setup.prirfed, records, sigma)
        plan.totals[records] = planned_guarantee(setup.prirfed, plan.local[records], setup.agents)
    server.plan = dataclasses.replace(
        plan, sizes=(*plan.sizes, records), agents=plan.planned_agents
    )
    log.info("agent joined late; %d agents enrolled", len(server.sizes))


def drive(
    setup: Setup,
    transport: Transport,
    source: NoiseSource,
    *,
    timing: Timing | None = None,
    state: str | Path | None = None,
    clock: Clock = time.monotonic,
    pause: Pause = time.sleep,
) -> Coordinator:
    """Run all rounds that the budget allows.

    Survives agents that die, join late, answer twice, late or never, or send what is no point of
    the manifold: such a round goes on without them, and keeps x_t below the quorum. Invitations are
    charged in any case.

    Args:
        setup: The settings.
        transport: Carries the messages.
        source: Draws the agents.
        timing: How long a round waits.
        state: A file. The server's state is written there before every message and after every
            round, and a run that finds one goes on from it.
        clock: Seconds, for tests.
        pause: Waits, for tests.

    Returns:
        The server, with `value`, `records` and `guarantee()`.

    Guarantee:
        Within `setup.budget` for every record of every agent, against everyone who sees the
        messages: see `PriRFed` and `Coordinator.places`.

    Raises:
        InvalidArgument: No agent came within `timing.patience`, or `state` is of another run.
    """
    timing = timing or Timing()
    sites = Waiting(transport, timing, clock, pause)
    wanted = setup.min_agents or setup.agents
    there = sites.there(wanted)
    if not there:
        raise InvalidArgument(
            f"no agent was there after {timing.patience:g} s; start the agents, or give a longer"
            " `patience`"
        )
    if len(there) < wanted:
        log.warning(
            "%d agents are there and %d were wanted; going on with them", len(there), wanted
        )
    server = make_coordinator(setup, there, source)
    if state is not None and Path(state).exists():
        server.load(state)
        log.info("resumed after %d rounds", len(server.records))
    while not server.finished and _invited(server, setup, sites):
        if state is not None:
            server.save(state)  # charged on disk before anything is sent
        sites.ask(
            server.open or (),
            server.value,
            len(server.records),
            _taking(server),
            quorum=server.needed,
            full=setup.prirfed.agents_per_round,
        )
        record = server.close()
        if state is not None:
            server.save(state)
        log.info("%s", in_words(record, server.prirfed.rounds))
    return server


def _invited(server: Coordinator, setup: Setup, sites: Waiting) -> bool:
    """Open a round among those that are there; False, and why, where there can be none."""
    there = sites.there(server.fewest)
    for name, records in there.items():
        enrol(server, setup, name, records)
    eligible = [name for name, records in there.items() if server.sizes[name] == records]
    many, done = len(eligible), len(server.records)
    places = server.places(eligible) if many >= server.fewest else None
    if places is not None:
        server.invite(eligible, places=places)
    elif not eligible:
        log.warning("no agent is there any more; the run ends after %d rounds", done)
    elif many < server.fewest:
        log.warning(
            "%d agents are there, and the noise needs %d; the run ends after %d rounds",
            many,
            server.fewest,
            done,
        )
    else:
        log.warning(
            "another round among %d agents would exceed the budget; the run ends here", many
        )
    return places is not None


def in_words(record: RoundRecord, rounds: int) -> str:
    """A closed round, in one line for the person who watches the run."""
    said = [f"{record.accepted} answered"]
    word = "reply" if record.refused == 1 else "replies"
    said += [f"{record.refused} {word} refused"] if record.refused else []
    said += [f"{record.missing} missing"] if record.missing else []
    kept = "" if record.moved else "; too few, so the result stays where it was"
    return (
        f"round {record.round} ({record.round + 1} of {rounds}): {record.invited} asked,"
        f" {', '.join(said)}{kept}"
    )


def _taking(server: Coordinator) -> Callable[[str, Any, float | None], bool]:
    def take(name: str, reply: Any, claimed: float | None) -> bool:
        taken = server.receive(name, reply, claimed)
        if not taken:
            log.warning(
                "agent %r: its reply was refused (no valid point near the current one)", name[:80]
            )
        return taken

    return take


def _few(names: Sequence[str]) -> str:
    """The names of sites, in a line that is read at a glance."""
    more = len(names) - 5
    return ", ".join(names[:5]) + (f" and {more} others" if more > 0 else "")


# --------------------------------------------------------------------------------- searches
class SearchSites:
    """`Sites` of a search over a transport.

    Before the first question the server waits for all sites, and before each later one for as many
    as the noise needs. Where each site adds all of its own noise, half of the answers are a quorum.

    Args:
        terms: What all parties agreed on. A site with another number of records is not asked.
        waiting: Carries the messages.
    """

    def __init__(self, terms: SearchTerms, waiting: Waiting):
        self.terms, self.waiting, self._wanted = terms, waiting, len(terms.sizes)

    def there(self) -> Iterable[str]:
        here = self.waiting.there(self._wanted, self.terms.sizes)
        self._wanted = self.terms.noise_of_sites.least
        return here

    def ask(self, names: tuple[str, ...], question: Ask, number: int) -> Mapping[str, object]:
        """What came in time. A reply of a site that was not asked, or a second one, is dropped.

        Raises:
            RiemdpError: The plan has no question of this number, and every site would decline it.
        """
        if number >= self.terms.numbers:
            raise RiemdpError(
                f"{number} questions are all that this search can have, and too many had no answer:"
                " a site does not answer, or its settings or keys are not those of the others. The"
                " whole budget is charged; find that site, and start a run without it"
            )
        heard: dict[str, object] = {}

        def take(name: str, reply: Any, claimed: float | None) -> bool:
            if name not in names or not (claimed is None or claimed == self.terms.sizes[name]):
                return False
            heard[name] = reply
            return True

        half = len(names) if self.terms.shares_noise else (len(names) + 1) // 2
        self.waiting.ask(names, question, number, take, quorum=half, full=len(names))
        return heard


def drive_search(
    terms: SearchTerms,
    transport: Transport,
    *,
    timing: Timing | None = None,
    transcript: Transcript | None = None,
    reproducible: bool = False,
    clock: Clock = time.monotonic,
    pause: Pause = time.sleep,
) -> Release:
    """Ask until the agreed ball, mean or variance is found.

    A site that does not answer is left out of the next question where the others are enough. Where
    noise is shared, a question that not all answered has no sum: its share of the budget is lost,
    and it is asked again.

    Args:
        terms: What all parties agreed on.
        transport: Carries the messages.
        timing: How long to wait.
        transcript: Where what came of each question is written down, and gone on from. None: in
            memory.
        reproducible: Whether the sites draw from a seed, in a simulation.
        clock: Seconds, for tests.
        pause: Waits, for tests.

    Returns:
        The `Release`, as `private_ball`, `private_frechet_mean` or `private_frechet_variance` give.

    Guarantee:
        That of `terms`, which every site keeps by itself.

    Raises:
        RiemdpError: Too few sites are there, or too many questions had no answer. What the sites
            have charged is charged.
        InvalidArgument: The transcript is of another run.

    Source:
        Proof: docs/proofs/secure-sums.md.
    """
    sites = SearchSites(terms, Waiting(transport, timing or Timing(), clock, pause))
    journal = transcript or Transcript(terms)
    if journal.before:
        log.info("goes on after %d questions", journal.before)
    say = _Progress(terms.counted, journal.before)
    server = SumsOverSites(terms.domain, terms, sites, journal, say)
    return mechanism_of(terms).finished(server, reproducible=reproducible)


class _Progress:
    """Each new question in one line, for the person who watches the run."""

    def __init__(self, counted: str, before: int):
        self.counted, self.before, self.used = counted, before, 0.0

    def __call__(self, number: int, asked: Asked) -> None:
        used = self.used = self.used + asked.share
        if number < self.before:
            return
        words = _WORDS[asked.kind].format(self.counted)
        log.info(
            "question %d (%s): %d of %d sites answered%s; %.1f%% of the budget is used",
            number,
            words,
            asked.answered,
            asked.asked,
            "" if asked.heard else ": no sum, so it is asked again",
            100.0 * used,
        )
