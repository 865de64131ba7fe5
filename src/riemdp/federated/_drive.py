"""Drives the server of rounds, or of a search, over any transport, and says in the log how it goes.
A server goes on where one before it was killed.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping
from pathlib import Path

from .._errors import InvalidArgument
from ..mechanisms import Release
from ..randomness import NoiseSource
from ._accounting import plan_federated
from ._coordinator import Coordinator, RoundRecord, rounds_of
from ._journal import Said, Transcript
from ._over_sites import mechanism_of
from ._search import SumsOverSites
from ._search_sites import SCALE, SQUARES, TANGENTS, VALID, WITHIN, Ask
from ._sites import Clock, Pause, Sites, Timing, Transport, Waiting, log
from ._terms import SearchTerms, Setup

_WORDS = {
    VALID: "how many {} are points of the space",
    SCALE: "how many {} have a scale below a number",
    WITHIN: "how many {} are within a radius",
    TANGENTS: "the sum of all directions from the centre",
    SQUARES: "the sum of all squared distances",
}


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
    keep = functools.partial(_kept, server, state)
    for record in rounds_of(server, sites, lambda: _invited(server, setup, sites), keep):
        log.info("%s", in_words(record, server.prirfed.rounds))
    return server


def _kept(server: Coordinator, state: str | Path | None) -> None:
    if state is not None:
        server.save(state)


def _invited(server: Coordinator, setup: Setup, sites: Sites) -> tuple[str, ...] | None:
    """Open a round among those that are there; None, and why, where there can be none."""
    there = sites.there(server.fewest)
    for name, records in there.items():
        if name not in server.sizes:
            server.enrol(name, records, setup.sigma(records) or 0.0)
            log.info("agent joined late; %d agents enrolled", len(server.sizes))
    eligible = [name for name, records in there.items() if server.sizes[name] == records]
    many, done = len(eligible), len(server.records)
    places = server.places(eligible) if many >= server.fewest else None
    if places is not None:
        return server.invite(eligible, places=places)
    if not eligible:
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
    return None


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
    sites = Waiting(transport, timing or Timing(), clock, pause)
    journal = transcript or Transcript(terms)
    if journal.before:
        log.info("goes on after %d questions", journal.before)
    server = SumsOverSites(terms, sites, journal, _Progress(terms.counted, journal.before))
    return mechanism_of(terms).finished(server, reproducible=reproducible)


class _Progress:
    """Each new question in one line, for the person who watches the run."""

    def __init__(self, counted: str, before: int):
        self.counted, self.before, self.used = counted, before, 0.0

    def __call__(self, number: int, ask: Ask, said: Said) -> None:
        used = self.used = self.used + ask.share
        if number < self.before:
            return
        words = _WORDS[ask.kind].format(self.counted)
        asked, answered = len(said.asked), len(said.answered)
        again = "" if said.values is not None else ": no sum, so it is asked again"
        log.info(
            "question %d (%s): %d of %d sites answered%s; %.1f%% of the budget is used",
            number,
            words,
            answered,
            asked,
            again,
            100.0 * used,
        )
