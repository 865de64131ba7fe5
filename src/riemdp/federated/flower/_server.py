"""The server's side on Flower: a transport over any Grid with quick polling, and the server app."""

# pyright: reportMissingImports=false
# The extra `federated` need not be installed where the types are checked.
from __future__ import annotations

import contextlib
import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from flwr.app import Context, Message, RecordDict
from flwr.serverapp import Grid, ServerApp

from ..._errors import InvalidArgument, RiemdpError
from ...mechanisms import Release
from ...privacy import Guarantee
from ...randomness import NoiseSource, noise_source
from .._agreement import Agreement
from .._coordinator import Coordinator
from .._drive import drive, drive_search
from .._journal import Journal
from .._result import write_release, write_result
from .._search_sites import Ask
from .._sites import Timing, log, why_not_enrolled
from .._terms import SearchTerms, Setup
from ._engine import shown
from ._messages import ASKED, HELLO, TRAIN, fact, pack, unpack

_HELLO_EVERY = 2.0  # seconds between two questions to a node that has not said who it is
MakeSetup = Callable[[Mapping[str, Any]], Setup]


def _declined(reply: Message) -> str | None:
    """Why a site sends no answer: what it said, or what the engine says of it; None if it does."""
    if reply.has_error():
        return f"the engine says: {reply.error.reason}"[:300]
    said = fact(reply.content, "declined")
    return None if said is None else str(said)[:300]


@dataclasses.dataclass
class _Node:
    """What is known of a node.

    Attributes:
        name: Of its site, once it is enrolled.
        records: How many that site has, or people.
        key: The public key of its next answer, where noise is shared. A node without one is asked
            who it is again, and takes part when it has said its key.
        hello: When it was asked that.
        told: What the person who watches the run was told of it.
    """

    name: str = ""
    records: int = 0
    key: str = ""
    hello: float = -math.inf
    told: str = ""


class GridTransport:
    """`Transport` over a Flower Grid, of points or of words: noisy numbers and masked words.

    The engine's own `send_and_receive` sleeps three seconds between looks and waits for every
    reply; this one looks as often as it is told, and leaves it to the caller when to stop. Replies
    are matched by the message they answer, because the error that the engine reports for a dead
    node does not carry that node's number. Where two nodes claim one name, the first keeps it.

    An agent that says that it will add less noise than `terms.added_noise` of its records is not
    enrolled: the guarantee that the server states would not be true of it. Where the terms name
    their sites, nobody else is enrolled.

    Where noise is shared, a message has the public keys of all that were asked. An agent has a key
    for each answer: the first comes with its answer to HELLO, the next with the words.
    """

    def __init__(
        self,
        grid: Grid,
        terms: Setup | SearchTerms,
        *,
        ttl: float,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._grid, self._terms, self._ttl, self._clock = grid, terms, ttl, clock
        self._masked = terms.shares_noise
        words = self._masked or isinstance(terms, SearchTerms)  # of replies: no points
        self._like = np.zeros(1) if words else terms.place
        self._nodes: dict[int, _Node] = {}
        self._asked: dict[str, int] = {}  # HELLOs without an answer: message -> node
        self._pending: dict[str, str] = {}  # messages of the round: message -> agent

    def agents(self) -> dict[str, int]:
        if self._masked:
            for name in self._pending.values():  # whose words did not come
                self._nodes[self.node_of(name)].key = ""
            self._pending = {}  # no round is open
        there = {n: self._nodes.setdefault(n, _Node()) for n in self._grid.get_node_ids()}
        self._greet(there)
        for reply in self._grid.pull_messages(list(self._asked)) if self._asked else ():
            number = self._asked.pop(reply.metadata.reply_to_message_id, None)
            if number is not None:
                self._enrol(number, reply, there)
        # In an order that does not depend on the engine's random node numbers: a seeded run draws
        # the same agents again.
        here = [node for node in there.values() if self._takes_part(node)]
        here.sort(key=lambda node: (len(node.name), node.name))
        return {node.name: node.records for node in here}

    def _takes_part(self, node: _Node) -> bool:
        return bool(node.name) and (bool(node.key) or not self._masked)

    def _greet(self, there: Mapping[int, _Node]) -> None:
        """Ask those who they are that have not said it, and were not asked lately. A slow agent's
        answer still counts: a question is forgotten only with its node, or when the engine has
        dropped it.
        """
        now = self._clock()
        self._asked = {
            message: number
            for message, number in self._asked.items()
            if number in there and now - there[number].hello < self._ttl
        }
        waiting = set(self._asked.values())
        strangers = [
            number
            for number, node in sorted(there.items())
            if not self._takes_part(node)
            and number not in waiting
            and now - node.hello >= _HELLO_EVERY
        ]
        for number in strangers:
            there[number].hello = now
        if strangers:
            hello = pack(agreement=self._terms.fingerprint)
            self._asked |= self._pushed(hello, HELLO, "hello", {n: n for n in strangers})

    def _pushed(
        self, content: RecordDict, kind: str, group: str, to: Mapping[Any, int]
    ) -> dict[str, Any]:
        """Send a message to nodes; whose each one is, by the number that the engine gave it."""
        messages = [
            Message(content, number, kind, ttl=self._ttl, group_id=group) for number in to.values()
        ]
        sent = zip(to, self._grid.push_messages(messages), strict=False)
        return {message: whose for whose, message in sent if message is not None}

    def _enrol(self, number: int, reply: Message, there: Mapping[int, _Node]) -> None:
        """Take in a node that says who it is, if its site may take part."""
        node, reason = there[number], _declined(reply)
        if reason is not None:
            self._tell(node, f"does not take part: {reason}")
            return
        said = ("name", "records", "sigma", "key")
        name, records, sigma, key = (fact(reply.content, what) for what in said)
        known = self._terms.names
        sane = (
            isinstance(name, str)
            and name != ""
            and type(records) is int
            and records > 0
            and name not in {other.name for n, other in there.items() if n != number}
            and node.name in ("", name)
            and (known is None or name in known)
        )
        if not sane:
            self._tell(node, f"says it is {str(name)[:80]!r}, which is not expected here")
            return
        reason = why_not_enrolled(self._terms, records, sigma)
        if reason is not None:
            self._tell(node, f"of the site {name[:80]!r} {reason}")
            return
        for other in self._nodes.values():  # one that is gone had the name
            other.name = "" if other.name == name else other.name
        node.name, node.records = name, records
        node.key = key if isinstance(key, str) else ""

    def _tell(self, node: _Node, reason: str) -> None:
        """Tell the person who watches the run why a node is not enrolled, once."""
        if node.told != reason:
            node.told = reason
            log.warning("a node %s", reason)

    def node_of(self, name: str) -> int:
        """The engine's number of an enrolled agent."""
        return next(number for number, node in self._nodes.items() if node.name == name)

    def send(self, names: tuple[str, ...], question: Any, number: int) -> None:
        to = {name: self.node_of(name) for name in names}
        facts: dict[str, Any] = {"round": number, "agreement": self._terms.fingerprint}
        if self._masked:
            keys = [self._nodes[node].key for node in to.values()]
            facts |= {"members": list(names), "keys": keys}
        if isinstance(question, Ask):
            facts |= {name: getattr(question, name) for name in ASKED}
            question = question.center
        self._pending = self._pushed(pack(question, **facts), TRAIN, str(number), to)

    def replies(self) -> list[tuple[str, Any, float | None]]:
        found: list[tuple[str, Any, float | None]] = []
        for reply in self._grid.pull_messages(list(self._pending)) if self._pending else ():
            name = self._pending.pop(reply.metadata.reply_to_message_id, None)
            if name is None:
                continue
            value, records, key, reason = None, None, None, _declined(reply)
            if reason is not None:
                log.warning("agent %r sent no answer: %s", name[:80], reason)
            else:
                value, records = unpack(reply.content, self._like), fact(reply.content, "records")
                key = None if value is None else fact(reply.content, "key")
            self._nodes[self.node_of(name)].key = key if isinstance(key, str) else ""
            found.append((name, value, records))
        return found


def server_app(
    make_setup: MakeSetup | None = None,
    *,
    timing: Timing | Callable[[Mapping[str, Any]], Timing] | None = None,
    rng: int | None = None,
) -> ServerApp:
    """A Flower ServerApp that runs PriRFed, or the search of an agreement.

    It reads from the run configuration, all optional: `result-path` (an .npz with the point, and
    next to it a .json with guarantee and rounds, written whole at the end) and `state-path` (state
    for a restart of the server). A run that cannot go on ends with one line that says why.

    Args:
        make_setup: A function of the run configuration that returns the public settings, a `Setup`.
            None: they are those of the file that `agreement` in the run configuration names; where
            it has a table [search], the run is a search.
        timing: A `Timing`, or a function of the run configuration that returns one.
        rng: None draws the invited agents with the operating system's randomness. A seed makes the
            draw reproducible and the run not private.

    Guarantee:
        That of `PriRFed`, for the rounds that happened (invited / eligible of each), or that of the
        search, against everyone who sees the messages, this server included.
    """
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        run = context.run_config
        with _in_one_line():
            chosen = timing(run) if callable(timing) else timing or Timing()
            ttl = max(60.0, 2 * chosen.timeout + chosen.patience)
            terms = (make_setup or _agreed)(run)
            transport = GridTransport(grid, terms, ttl=ttl)
            names = ("state-path", "result-path")
            state, result = (str(run.get(name) or "") or None for name in names)
            journal = Journal(terms.fingerprint, state)
            if isinstance(terms, SearchTerms):
                search(terms, transport, chosen, journal, result)
            else:
                rounds(terms, transport, chosen, journal, result, source=noise_source(rng))

    return app


@contextlib.contextmanager
def _in_one_line() -> Iterator[None]:
    """Says why a run ends that cannot go on. The engine would show a traceback."""
    try:
        yield
    except RiemdpError as error:
        with shown():
            log.error("the run ends: %s", error)


def rounds(
    terms: Setup,
    transport: GridTransport,
    timing: Timing,
    journal: Journal,
    result: str | None = None,
    *,
    source: NoiseSource,
) -> Coordinator:
    """Rounds over a transport; their result is kept in this file."""
    with shown():
        log.info("the agreement of this run is %s", terms.fingerprint)
        server = drive(terms, transport, source, timing=timing, journal=journal)
        log.info("%s", _ended(server))
    if result is not None:
        write_result(result, server, reproducible=source.reproducible)
    return server


def search(
    terms: SearchTerms,
    transport: GridTransport,
    timing: Timing,
    journal: Journal,
    result: str | None = None,
) -> Release:
    """A search over a transport; its result is kept in this file."""
    with shown():
        log.info("the agreement of this search is %s", terms.fingerprint)
        release = drive_search(terms, transport, timing=timing, journal=journal)
        questions, spent = release.details["sums"], _cost(release.guarantee, terms.budget.delta)
        log.info("the search ends after %d questions; %s", questions, spent)
    if result is not None:
        write_release(result, release, terms, journal)
    return release


def _cost(guarantee: Guarantee, delta: float) -> str:
    """What a run has cost, in words."""
    if not guarantee.is_private:
        return "it had no noise and protects nobody"
    spent = guarantee.epsilon(delta)
    return f"all of it has cost a {guarantee.unit} at most epsilon {spent:.3g} at delta {delta:g}"


def _agreed(config: Mapping[str, Any]) -> Setup | SearchTerms:
    """The settings of the agreement that a run configuration names."""
    file = config.get("agreement")
    if not file:
        raise InvalidArgument(
            "the run names no agreement: add --run-config 'agreement=\"/path/to/agreement.toml\"'"
        )
    agreed = Agreement.read(str(file))
    other = agreed.differences(config)
    if other:
        raise InvalidArgument(
            f"the run was started with another {', '.join(other)} than {file} says, and every site"
            " would decline: leave it out of --run-config"
        )
    return agreed.terms


def _ended(server: Coordinator) -> str:
    """What the run has come to, in one line."""
    cost = _cost(server.guarantee(), server.plan.delta)
    return f"the run ends after {len(server.records)} of {server.prirfed.rounds} rounds; {cost}"
