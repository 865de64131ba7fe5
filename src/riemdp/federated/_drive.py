"""Drives the server of rounds, or of a search, over any transport, and says in the log how it goes.
A server goes on where one before it was killed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from .._errors import InvalidArgument
from ..mechanisms import Release
from ..randomness import NoiseSource
from ._coordinator import Coordinator, RoundRecord, rounds_of
from ._journal import Journal
from ._over_sites import mechanism_of
from ._search import SumsOverSites
from ._sites import Clock, Pause, Sites, Timing, Transport, Waiting, log
from ._terms import SearchTerms, Setup


def make_coordinator(setup: Setup, sizes: Mapping[str, int], source: NoiseSource) -> Coordinator:
    """The server of a run among the agents `sizes` (name -> public number of records, or people),
    calibrated for `setup.agents`.
    """
    return Coordinator(
        setup.prirfed,
        setup.plan(sizes.values()),
        dict(sizes),
        setup.initial,
        setup.budget,
        source,
        agreement=setup.fingerprint,
    )


def resumed(setup: Setup, facts: Mapping[str, Any], source: NoiseSource) -> Coordinator:
    """The server that goes on from the state of another one; it fails as parsing does."""
    sizes = {str(agent): int(n) for agent, n in facts["sizes"].items()}
    server = make_coordinator(setup, sizes, source)
    server.resume(facts)
    return server


def drive(
    setup: Setup,
    transport: Transport,
    source: NoiseSource,
    *,
    timing: Timing | None = None,
    journal: Journal | None = None,
    clock: Clock = time.monotonic,
    pause: Pause = time.sleep,
) -> Coordinator:
    """Run all rounds that the budget allows.

    Survives agents that die, join late, answer twice, late or never, or send what is no point of
    the manifold: such a round goes on without them, and keeps x_t below the quorum. Invitations are
    charged in any case, and the server's state is in the journal before every message and after
    every round; a journal that holds one is gone on from.

    Guarantee:
        Within `setup.budget` for every record of every agent, against everyone who sees the
        messages: see `PriRFed` and `Coordinator.places`.

    Raises:
        InvalidArgument: No agent came within `timing.patience`, or the journal holds no state.
        RiemdpError: Another server writes into the journal.
    """
    timing, journal = timing or Timing(), journal or Journal(setup.fingerprint)
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
    if journal.facts:
        server = journal.parsed(lambda facts: resumed(setup, facts, source))
        log.info("resumed after %d rounds", len(server.records))
    else:
        server = make_coordinator(setup, there, source)

    def keep() -> None:
        journal.write(server.state())

    for record in rounds_of(server, sites, lambda: _invited(server, setup, sites), keep):
        log.info("%s", in_words(record, server.prirfed.rounds))
    return server


def _invited(server: Coordinator, setup: Setup, sites: Sites) -> tuple[str, ...] | None:
    """Open a round among those that are there; None, and why, where there can be none."""
    there = sites.there(server.fewest)
    joined = {name: n for name, n in there.items() if name not in server.sizes}
    if joined:
        server.enrol(joined, setup.plan((server.sizes | joined).values()))
        log.info("%d joined late; %d agents enrolled", len(joined), len(server.sizes))
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
    journal: Journal | None = None,
    reproducible: bool = False,
    clock: Clock = time.monotonic,
    pause: Pause = time.sleep,
) -> Release:
    """Ask until the agreed ball, mean or variance is found.

    A site that does not answer is left out of the next question where the others are enough. Where
    noise is shared, a question that not all answered has no sum: its share of the budget is lost,
    and it is asked again. What came of each question is in the journal, and gone on from.
    `reproducible`: whether the sites draw from a seed, in a simulation.

    Guarantee:
        That of `terms`, which every site keeps by itself. Proof: docs/proofs/secure-sums.md.

    Raises:
        RiemdpError: Too few sites are there, too many questions had no answer, or another server
            writes into the journal. What the sites have charged is charged.
        InvalidArgument: The journal holds no state of a search.
    """
    sites = Waiting(transport, timing or Timing(), clock, pause)
    server = SumsOverSites(terms, sites, journal)
    if server.before:
        log.info("goes on after %d questions", server.before)
    return mechanism_of(terms).finished(server, reproducible=reproducible)
