"""The server's side on Flower: a transport over any Grid with quick polling, and the server app."""

# pyright: reportMissingImports=false
# The extra `federated` need not be installed where the types are checked.
from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from flwr.app import Context, Message, RecordDict
from flwr.serverapp import Grid, ServerApp

from ..._errors import InvalidArgument
from ...mechanisms import Release
from ...randomness import NoiseSource, noise_source
from .._agreement import Agreement
from .._coordinator import Coordinator
from .._drive import drive, drive_search
from .._journal import Transcript
from .._result import write_release, write_result
from .._search_sites import Ask
from .._sites import Timing, log
from .._terms import SearchTerms, Setup
from ._engine import shown
from ._messages import ASKED, HELLO, TRAIN, fact, pack, question, unpack, unpack_words

_HELLO_EVERY = 2.0  # seconds between two questions to a node that has not said who it is
MakeSetup = Callable[[Mapping[str, Any]], Setup]


def _message(content: RecordDict, node: int, kind: str, group: str, ttl: float) -> Message:
    return Message(content, node, kind, ttl=ttl, group_id=group)


def _declined(reply: Message) -> str | None:
    """Why a site sends no answer: what it said, or what the engine says of it; None if it does."""
    if reply.has_error():
        return f"the engine says: {reply.error.reason}"[:300]
    said = fact(reply.content, "declined")
    return None if said is None else str(said)[:300]


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
    for each answer: the first comes with its answer to HELLO, the next with the words. One whose
    words did not come is asked again by HELLO, and takes part when it has said its key.
    """

    def __init__(
        self,
        grid: Grid,
        terms: Setup | SearchTerms,
        *,
        ttl: float,
        make_message: Callable[..., Any] = _message,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._grid, self._terms, self._ttl = grid, terms, ttl
        self._make, self._clock = make_message, clock
        self._masked = terms.shares_noise
        self._words = self._masked or isinstance(terms, SearchTerms)  # of replies: no points
        self._facts = {"agreement": terms.fingerprint}
        self._keys: dict[str, str] = {}
        self._names: dict[int, str] = {}
        self._stale: set[int] = set()  # nodes of `_names` that must say their key again
        self._records: dict[str, int] = {}
        self._asked: dict[str, tuple[int, float]] = {}  # pending HELLOs: message -> (node, when)
        self._last_hello: dict[int, float] = {}
        self._said: dict[int, str] = {}  # what was said of a node last
        self._pending: dict[str, str] = {}  # messages of the round: message -> agent

    def agents(self) -> dict[str, int]:
        if self._masked:
            self._ask_again(self._pending.values())
            self._pending = {}  # no round is open
        nodes = set(self._grid.get_node_ids())
        now = self._clock()
        # A slow agent's answer still counts: a question is forgotten only with its node, or when
        # the engine has dropped it.
        self._asked = {
            m: (n, t) for m, (n, t) in self._asked.items() if n in nodes and now - t < self._ttl
        }
        waiting = {n for n, _ in self._asked.values()}
        lately = {n for n, t in self._last_hello.items() if now - t < _HELLO_EVERY}
        known = set(self._names) - self._stale
        strangers = sorted(nodes - known - waiting - lately)
        if strangers:
            messages = [
                self._make(question(**self._facts), node, HELLO, "hello", self._ttl)
                for node in strangers
            ]
            for node, message_id in zip(
                strangers, self._grid.push_messages(messages), strict=False
            ):
                self._last_hello[node] = now
                if message_id is not None:
                    self._asked[message_id] = (node, now)
        if self._asked:
            for reply in self._grid.pull_messages(list(self._asked)):
                node, _ = self._asked.pop(reply.metadata.reply_to_message_id, (None, 0.0))
                if node is None:
                    continue
                reason = _declined(reply)
                if reason is not None:
                    self._say(node, f"does not take part: {reason}")
                    continue
                name, records = fact(reply.content, "name"), fact(reply.content, "records")
                taken = {n for k, n in self._names.items() if k in nodes and k != node}
                sane = (
                    isinstance(name, str)
                    and type(records) is int
                    and records > 0
                    and name not in taken
                    and name == self._names.get(node, name)
                    and (self._terms.names is None or name in self._terms.names)
                )
                if not sane:
                    self._say(node, f"says it is {str(name)[:80]!r}, which is not expected here")
                elif self._adds_enough(name, records, fact(reply.content, "sigma")):
                    key = fact(reply.content, "key")
                    if self._masked and not isinstance(key, str):
                        continue
                    self._names[node] = name
                    self._records[name] = records
                    self._keys[name] = str(key)
                    self._stale.discard(node)
        # In an order that does not depend on the engine's random node numbers: a seeded run draws
        # the same agents again.
        here = sorted(
            (self._names[n] for n in nodes if n in self._names and n not in self._stale),
            key=lambda name: (len(name), name),
        )
        return {name: self._records[name] for name in here}

    def _say(self, node: int, reason: str) -> None:
        """Tell the person who watches the run why a node is not enrolled, once."""
        if self._said.get(node) != reason:
            self._said[node] = reason
            log.warning("a node %s", reason)

    def _adds_enough(self, name: str, records: int, sigma: object) -> bool:
        planned = self._terms.added_noise(records)
        if planned is None or (
            isinstance(sigma, float) and planned * (1 - 1e-9) <= sigma < math.inf
        ):
            return True
        log.warning(
            "agent %r says it would add noise of %r and the plan needs %.6g: not enrolled. Its"
            " settings or its version of riemdp differ from the server's",
            name[:80],
            sigma,
            planned,
        )
        return False

    def send(self, names: tuple[str, ...], question: Any, number: int) -> None:
        node_of = {name: node for node, name in self._names.items()}
        facts: dict[str, Any] = {"round": number, **self._facts}
        if self._masked:
            facts |= {"members": list(names), "keys": [self._keys[name] for name in names]}
        if isinstance(question, Ask):
            facts |= {name: getattr(question, name) for name in ASKED}
            question = question.center
        content = pack(question, **facts)
        messages = [
            self._make(content, node_of[name], TRAIN, str(number), self._ttl) for name in names
        ]
        self._pending = {}
        for name, message_id in zip(names, self._grid.push_messages(messages), strict=False):
            if message_id is not None:
                self._pending[message_id] = name

    def replies(self) -> list[tuple[str, Any, float | None]]:
        if not self._pending:
            return []
        found: list[tuple[str, Any, float | None]] = []
        for reply in self._grid.pull_messages(list(self._pending)):
            name = self._pending.pop(reply.metadata.reply_to_message_id, None)
            if name is None:
                continue
            value, records, reason = None, None, _declined(reply)
            if reason is not None:
                log.warning("agent %r sent no answer: %s", name[:80], reason)
            else:
                sent, records = reply.content, fact(reply.content, "records")
                value = unpack_words(sent) if self._words else unpack(sent, self._terms.place)
            found.append((name, value, records))
            if self._masked:
                key = None if value is None else fact(reply.content, "key")
                self._keys[name] = key if isinstance(key, str) else ""
                if not self._keys[name]:
                    self._ask_again([name])
        return found

    def _ask_again(self, names: Iterable[str]) -> None:
        gone = set(names)
        self._stale |= {node for node, name in self._names.items() if name in gone}


def server_app(
    make_setup: MakeSetup | None = None,
    *,
    timing: Timing | Callable[[Mapping[str, Any]], Timing] | None = None,
    rng: int | None = None,
    on_done: Callable[[Coordinator], None] | None = None,
) -> ServerApp:
    """A Flower ServerApp that runs PriRFed, or the search of an agreement.

    It reads from the run configuration, all optional: `result-path` (an .npz with the point, and
    next to it a .json with guarantee and rounds, written whole at the end) and `state-path` (state
    for a restart of the server).

    Args:
        make_setup: A function of the run configuration that returns the public settings, a `Setup`.
            None: they are those of the file that `agreement` in the run configuration names; where
            it has a table [search], the run is a search.
        timing: A `Timing`, or a function of the run configuration that returns one.
        rng: None draws the invited agents with the operating system's randomness. A seed makes the
            draw reproducible and the run not private.
        on_done: Called with the `Coordinator` at the end of a run of PriRFed.

    Guarantee:
        That of `PriRFed`, for the rounds that happened (invited / eligible of each), or that of the
        search, against everyone who sees the messages, this server included.
    """
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        run = context.run_config
        chosen = timing(run) if callable(timing) else timing or Timing()
        ttl = max(60.0, 2 * chosen.timeout + chosen.patience)
        terms = (make_setup or _agreed)(run)
        transport = GridTransport(grid, terms, ttl=ttl)
        files = (str(run.get(key) or "") or None for key in ("state-path", "result-path"))
        if isinstance(terms, SearchTerms):
            search(terms, transport, chosen, *files)
        else:
            done = rounds(terms, transport, chosen, *files, source=noise_source(rng))
            if on_done is not None:
                on_done(done)

    return app


def rounds(
    terms: Setup,
    transport: GridTransport,
    timing: Timing,
    state: str | None = None,
    result: str | None = None,
    *,
    source: NoiseSource,
) -> Coordinator:
    """Rounds over a transport; their state and result are kept in these files."""
    with shown():
        log.info("the agreement of this run is %s", terms.fingerprint)
        server = drive(terms, transport, source, timing=timing, state=state)
        log.info("%s", _ended(server))
    if result is not None:
        write_result(result, server, reproducible=source.reproducible)
    return server


def search(
    terms: SearchTerms,
    transport: GridTransport,
    timing: Timing,
    state: str | None = None,
    result: str | None = None,
) -> Release:
    """A search over a transport; its state and result are kept in these files."""
    transcript, delta = Transcript(terms, state), terms.budget.delta
    with shown():
        log.info("the agreement of this search is %s", terms.fingerprint)
        release = drive_search(terms, transport, timing=timing, transcript=transcript)
        questions, unit = release.details["sums"], release.guarantee.unit
        spent = release.guarantee.epsilon(delta)
        log.info(
            "the search ends after %d questions; all of it has cost a %s at most epsilon %.3g at"
            " delta %g",
            questions,
            unit,
            spent,
            delta,
        )
    if result is not None:
        write_release(result, release, terms, transcript)
    return release


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
    done, planned = len(server.records), server.prirfed.rounds
    guarantee = server.guarantee()
    cost = guarantee.epsilon(server.plan.delta)
    return f"the run ends after {done} of {planned} rounds; " + (
        f"all of it has cost a {server.plan.guarantee.unit} at most epsilon {cost:.3g} at delta"
        f" {server.plan.delta:g}"
        if guarantee.is_private
        else "it had no noise and protects nobody"
    )
