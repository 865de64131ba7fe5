"""Drives a `Coordinator` over any transport: enrols agents, invites, waits for a quorum and a grace
period, never for ever.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from .._errors import InvalidArgument, real
from ..manifolds._base import Point
from ..randomness import NoiseSource
from ._accounting import one_answer, plan_federated, planned_guarantee
from ._coordinator import Coordinator, RoundRecord
from ._setup import Setup

Clock = Callable[[], float]
Pause = Callable[[float], None]

log = logging.getLogger("riemdp.federated")


class Transport(Protocol):
    """What a messaging engine must offer. Agents are known by names that the engine has
    authenticated, or that are local.
    """

    def agents(self) -> Mapping[str, int]:
        """Agents that can be reached now, with their (public) numbers of records, or people."""
        ...

    def send(self, names: tuple[str, ...], point: Point, round_number: int) -> None:
        """Send x_t to the invited agents."""
        ...

    def replies(self) -> list[tuple[str, object, float | None]]:
        """New replies since the last call: (agent, reply or None for an error, claimed number of
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
        agreement=setup.agreement,
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
    on_round: Callable[[RoundRecord], None] | None = None,
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
        on_round: Called with the record of each closed round.

    Returns:
        The server, with `value`, `records` and `guarantee()`.

    Guarantee:
        Within `setup.budget` for every record of every agent, against everyone who sees the
        messages: see `PriRFed` and `Coordinator.places`.

    Raises:
        InvalidArgument: No agent came within `timing.patience`, or `state` is of another run.
    """
    timing = timing or Timing()
    wanted = setup.min_agents or setup.agents
    there = _wait_for(transport, wanted, timing, clock, pause)
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
    while not server.finished:
        there = _wait_for(transport, server.fewest, timing, clock, pause)
        for name, records in there.items():
            enrol(server, setup, name, records)
        eligible = [name for name, records in there.items() if server.sizes[name] == records]
        if not eligible:
            log.warning(
                "no agent is there any more; the run ends after %d rounds", len(server.records)
            )
            break
        if len(eligible) < server.fewest:
            log.warning(
                "%d agents are there, and the noise needs %d; the run ends after %d rounds",
                len(eligible),
                server.fewest,
                len(server.records),
            )
            break
        places = server.places(eligible)
        if places is None:
            log.warning(
                "another round among %d agents would exceed the budget; the run ends here",
                len(eligible),
            )
            break
        invited = server.invite(eligible, places=places)
        if state is not None:
            server.save(state)  # charged on disk before anything is sent
        transport.send(invited, server.value, len(server.records))
        _collect(server, transport, timing, clock, pause)
        record = server.close()
        if state is not None:
            server.save(state)
        log.info("%s", in_words(record, server.prirfed.rounds))
        if on_round is not None:
            on_round(record)
    return server


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


def _wait_for(
    transport: Transport, count: int, timing: Timing, clock: Clock, pause: Pause
) -> dict[str, int]:
    end = clock() + timing.patience
    while True:
        there = dict(transport.agents())
        if len(there) >= count or clock() >= end:
            return there
        pause(timing.poll)


def _collect(
    server: Coordinator, transport: Transport, timing: Timing, clock: Clock, pause: Pause
) -> None:
    begin = clock()
    assert server.open is not None
    heard: set[str] = set()
    enough_since: float | None = None
    while True:
        for name, reply, weight in transport.replies():
            heard.add(name)
            if reply is not None and not server.receive(name, reply, weight):
                log.warning(
                    "agent %r: its reply was refused (no valid point near the current one)",
                    name[:80],
                )
        now = clock()
        if heard >= set(server.open) or now - begin >= timing.timeout:
            return
        full = server.answered >= server.prirfed.agents_per_round
        if full or server.answered >= server.needed:
            enough_since = now if enough_since is None else enough_since
            if full or now - enough_since >= timing.grace:
                return
        pause(timing.poll)
