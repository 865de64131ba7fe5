"""The sites of a run as its server has them. Over a transport it waits for a quorum and a grace
period, never for ever; `_in_process` has those of a run in one process.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from .._errors import InvalidArgument, real
from ._terms import SearchTerms, Setup

Clock = Callable[[], float]
Pause = Callable[[float], None]
Sound = Callable[[str, Any, float | None], bool]  # (site, reply, its claimed number of records)

log = logging.getLogger("riemdp.federated")


class Replies(NamedTuple):
    """What came of one question: sound answers by site, and the sites whose reply was refused."""

    sound: dict[str, Any]
    refused: frozenset[str] = frozenset()


class Sites(Protocol):
    """What carries questions to sites and brings their answers, as `Waiting` does."""

    def there(self, count: int, sizes: Mapping[str, int] | None = None) -> Mapping[str, int]:
        """As `Waiting.there`."""
        ...

    def ask(
        self,
        names: tuple[str, ...],
        question: Any,
        number: int,
        sound: Sound,
        *,
        quorum: int,
    ) -> Replies:
        """As `Waiting.ask`."""
        ...


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


def why_not_enrolled(terms: Setup | SearchTerms, records: int, sigma: object) -> str | None:
    """Why a site is left out by what it says of itself; None where it is not: the plan is for its
    size, and it adds the noise of the plan.
    """
    try:
        planned = terms.added_noise(records)
    except InvalidArgument:
        return f"says it has {records} {terms.counted}, which the plan is not for"
    if planned is None or (isinstance(sigma, float) and planned * (1 - 1e-9) <= sigma < math.inf):
        return None
    return (
        f"says it would add noise of {sigma!r:.40} and the plan needs {planned:.6g}: its settings"
        " or its version of riemdp differ from the server's"
    )


@dataclass(frozen=True)
class Timing:
    """How long a round waits, in seconds.

    A round closes when every invited agent has answered; or `grace` seconds after the `quorum` of
    valid replies is there; or after `timeout` in any case. `poll` is the pause between looks.
    `patience`: how long to wait, before a round, for enough agents to be there.
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
    """`Sites` over a transport, which are waited for, and never for ever.

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

    def there(self, count: int, sizes: Mapping[str, int] | None = None) -> Mapping[str, int]:
        """The sites that can be reached, with their (public) numbers of records, or people: once
        there are so many, or after `timing.patience` seconds.

        Args:
            count: How many are wanted.
            sizes: The agreed number of each site, where that is agreed; a site with another one is
                not asked.
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
        sound: Sound,
        *,
        quorum: int,
    ) -> Replies:
        """What these sites answer; who declines, or does not answer in time, is not in it.

        It ends when all that were asked have answered or declined, `timing.grace` seconds after
        `quorum` sound answers were taken, or after `timing.timeout` in any case.
        The first reply of a site counts, and no reply of one that was not asked.

        Args:
            names: Who is asked.
            question: A point, or an `Ask` of a search.
            number: That of the round, or question.
            sound: Whether a reply is of use.
            quorum: With so many sound answers the others are not waited for long.
        """
        self.transport.send(names, question, number)
        begin, waited, taken, refused = self.clock(), set(names), dict[str, Any](), set[str]()
        enough: float | None = None
        while True:
            for name, reply, claimed in self.transport.replies():
                if name not in waited:
                    continue
                waited.discard(name)
                if reply is None:
                    continue
                if sound(name, reply, claimed):
                    taken[name] = reply
                else:
                    refused.add(name)
                    log.warning("agent %r: its reply was refused (it is not valid)", name[:80])
            now = self.clock()
            late = now - begin >= self.timing.timeout
            if not waited or late:
                break
            if len(taken) >= quorum:
                enough = now if enough is None else enough
                if now - enough >= self.timing.grace:
                    break
            self.pause(self.timing.poll)
        return Replies(taken, frozenset(refused))


def _few(names: Sequence[str]) -> str:
    """The names of sites, in a line that is read at a glance."""
    more = len(names) - 5
    return ", ".join(names[:5]) + (f" and {more} others" if more > 0 else "")


class Absences:
    """Who did not answer lately. A site that does not answer is left out of one question, the next
    time of three, then of seven, where the others are enough: a question that it misses may be
    lost.
    """

    def __init__(self) -> None:
        self._missed: dict[str, int] = {}  # how often a site did not answer
        self._back: dict[str, int] = {}  # the first question that it is asked again

    def note(self, number: int, asked: Iterable[str], answered: Iterable[str]) -> None:
        """Who was asked a question, and who answered it."""
        for name in set(asked) - set(answered):
            self._missed[name] = self._missed.get(name, 0) + 1
            self._back[name] = number + 2 ** self._missed[name]

    def dependable(self, names: Sequence[str], number: int, least: int) -> list[str]:
        """Those of `names` to ask question `number`: all of them, where too few would be left."""
        kept = [name for name in names if self._back.get(name, 0) <= number]
        return kept if len(kept) >= least else list(names)
