"""The public settings of a federated run, which every party makes itself, and their fingerprint:
`Setup` for rounds of PriRFed, `SearchTerms` for a search over sites.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .._errors import InvalidArgument, integer, invalid, one_of, real
from .._trees import leaves
from ..domains import AdaptiveBall, Ball
from ..domains._adaptive import SearchDomain
from ..manifolds import AbstractManifold
from ..manifolds._base import Point
from ..mechanisms._common import needs_log
from ..mechanisms._search_plan import SearchPlan, plan_search
from ..optimizers._people import refuse_public_parts
from ..privacy import Budget, Guarantee
from ..privacy._guarantee import PERSON, RECORD, UNITS
from ._accounting import (
    FederatedPlan,
    calibrate,
    most_participations,
    of_person,
    plan_federated,
    plan_shared,
)
from ._prirfed import NOISES, PriRFed
from ._search_sites import (
    KINDS,
    SCALE,
    SQUARES,
    TANGENTS,
    VALID,
    WITHIN,
    NoiseOfSites,
)
from ._shared_sum import SharedSum, check_count


@dataclass(frozen=True)
class Party:
    """One site of a run.

    Attributes:
        name: The name of its file (`Site.name`), by which the server knows it.
        key: Its long-term public key (X25519), 64 hexadecimal digits; None where none is needed.

    Raises:
        InvalidArgument: Naming the argument.
    """

    name: str
    key: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise invalid("name", self.name, "give the name by which the server knows the site")
        if self.key is not None and not (
            isinstance(self.key, str) and re.fullmatch(r"[0-9a-f]{64}", self.key)
        ):
            remedy = "give the 64 hexadecimal digits that `riemdp federated key` prints"
            raise invalid("key", self.key, remedy)


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The public settings of a federated run. Both kinds have, too: `budget` and `tolerated`, the
    `names` of the sites that may take part, `place`, a point of the structure that every question's
    point has, `numbers`, below which those of rounds or questions are, and `answers`, the most that
    a site has to give.

    Attributes:
        numbered: What a message is about, "round" or "question".
        unit: What neighbours differ in, one "record" or everything of one "person".
        document: The fingerprint of the `Agreement` that these were read from, if any.
        parties: The sites that may take part. Where noise is shared each has a key, and without
            them no site answers.
    """

    numbered: ClassVar[str]
    unit: str = RECORD
    document: str | None = None
    parties: tuple[Party, ...] = ()

    def __post_init__(self) -> None:
        one_of("unit", self.unit, UNITS)
        keys = [party.key for party in self.parties if party.key is not None]
        for what, values in (("name", [party.name for party in self.parties]), ("key", keys)):
            if len(set(values)) < len(values):
                raise InvalidArgument(
                    f"argument `parties` has two sites with one {what}; every site needs its own"
                )
        without = [party.name for party in self.parties if party.key is None]
        if self.shares_noise and without:
            raise InvalidArgument(
                f"argument `parties` has no key for the site {without[0]!r}, which noise='shared'"
                " needs; `riemdp federated key` makes one"
            )

    @property
    def shares_noise(self) -> bool:
        """Whether the sites share the noise of every answer, under masks."""
        raise NotImplementedError

    def _lines(self) -> dict[str, object]:
        """The settings by name."""
        raise NotImplementedError

    @property
    def of_people(self) -> bool:
        """Whether everything of one person is protected."""
        return self.unit == PERSON

    @property
    def counted(self) -> str:
        """What the sizes of sites count, in words."""
        return "people" if self.of_people else "records"

    @property
    def public_keys(self) -> dict[str, bytes]:
        """The long-term public keys by name."""
        return {party.name: bytes.fromhex(party.key) for party in self.parties if party.key}

    @property
    def text(self) -> str:
        """The settings as text, one a line: what the parties agree on.

        Functions appear by name: which code they stand for is a matter of the installed code.
        """
        lines = self._lines()
        if self.shares_noise:
            parties = sorted(self.parties, key=lambda party: party.name)
            lines |= {f"key of {party.name}": party.key for party in parties}
        return "".join(f"{name}: {in_words(value)}\n" for name, value in lines.items())

    @property
    def fingerprint(self) -> str:
        """That of the `Agreement` that the settings were read from, or else of `text` (SHA-256): 64
        hexadecimal digits.
        """
        if self.document is not None:
            return self.document
        return hashlib.sha256(self.text.encode()).hexdigest()


def digest_of(point: Point) -> str:
    """A short fingerprint of a public point."""
    content = hashlib.sha256()
    for leaf in leaves(point):
        array = np.ascontiguousarray(leaf, dtype=np.float64)
        content.update(f"{array.shape}".encode() + array.tobytes())
    return content.hexdigest()[:32]


def in_words(value: object) -> str:
    """A setting in words that are the same in every process: without addresses in memory."""
    if callable(value) and hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    return " ".join(re.sub(r" at 0x[0-9a-f]+", "", repr(value)).split())


@dataclass(frozen=True)
class Setup(Terms):
    """The public settings of a federated run, made at the server and at every site separately.

    Args:
        prirfed: What the run does.
        initial: The public starting point.
        budget: The total cost of the run for a record, or a person. None: a run without noise.
        agents: The number N of agents that the noise is calibrated for. A round among fewer
            eligible agents costs more and is counted so.
        min_agents: Rounds start when this many agents are there. Default: all N.
        document: The fingerprint of the `Agreement` that the settings were read from, if any.
        parties: The sites that may take part, as many as there are agents. Empty: whoever the
            engine lets in; where noise is shared, no site answers then.
        unit: What neighbours differ in: one "record", or everything of one "person". With "person"
            the sites tell their records apart by labels, which stay with them; the numbers of
            *people* take the place of the numbers of records, and every person counts once. All
            records of a person are assumed to be at one site.

    Raises:
        InvalidArgument: Naming the argument.
    """

    numbered: ClassVar[str] = "round"
    prirfed: PriRFed
    initial: Point
    budget: Budget | None
    agents: int
    min_agents: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.prirfed, PriRFed):
            raise InvalidArgument("argument `prirfed` must be a riemdp.PriRFed(...)")
        if self.budget is not None and not isinstance(self.budget, Budget):
            raise invalid("budget", self.budget, "give a riemdp.Budget(epsilon, delta), or None")
        integer("agents", self.agents)
        if self.min_agents is not None:
            integer("min_agents", self.min_agents, at_most=self.agents)
        if self.prirfed.agents_per_round > self.agents:
            most = self.prirfed.agents_per_round
            raise InvalidArgument(
                f"argument `agents` = {self.agents} is fewer than a round invites ({most})"
            )
        if self.shares_noise:
            if self.prirfed.agents_per_round != self.agents:
                raise InvalidArgument(
                    f"argument `agents` = {self.agents}, and noise='shared' asks all of them in"
                    f" every round: agents_per_round must be as many"
                )
            if self.budget is None:
                raise InvalidArgument("argument `budget` is needed with noise='shared'")
        super().__post_init__()
        if self.parties and len(self.parties) != self.agents:
            raise InvalidArgument(
                f"argument `parties` has {len(self.parties)} sites and `agents` is {self.agents}"
            )
        if self.unit == PERSON:
            try:
                refuse_public_parts(self.prirfed.problem)
            except InvalidArgument as error:
                raise invalid(
                    "unit",
                    self.unit,
                    f"this problem protects {self.prirfed.problem.protects}, and how many records"
                    " one person has would show in what is public; give 'record', or a problem that"
                    " protects whole records",
                ) from error

    @property
    def place(self) -> Point:
        """The starting point."""
        return self.initial

    @property
    def names(self) -> tuple[str, ...] | None:
        """Those of `parties`, if they are known."""
        return tuple(party.name for party in self.parties) or None

    @property
    def shares_noise(self) -> bool:
        """Whether PriRFed has noise="shared"."""
        return self.prirfed.noise == "shared"

    @property
    def tolerated(self) -> int:
        """That of PriRFed."""
        return self.prirfed.tolerated

    def added_noise(self, records: int) -> float | None:
        """`sigma`; it raises `InvalidArgument` where the plan is not for so many."""
        if self.shares_noise:
            check_count("records", records)
        return self.sigma(records)

    def sigma(self, records: int) -> float | None:
        """Noise of an agent with this many records, or people; None for a run without noise."""
        if self.budget is None:
            return None
        return calibrate(self.prirfed, records, self.agents, self.budget)

    def plan(self, sizes: Iterable[int]) -> FederatedPlan:
        """Noise and guarantees for sites with these numbers of records, or people."""
        plan = plan_federated(self.prirfed, list(sizes), self.budget, agents=self.agents)
        return plan.for_people() if self.of_people else plan

    @property
    def shared(self) -> SharedSum | None:
        """How the sites share the noise of one round; None where each adds all of its own."""
        if not self.shares_noise or self.budget is None:
            return None
        return plan_shared(self.prirfed, self.budget)

    @property
    def numbers(self) -> int:
        """As many as there are rounds."""
        return self.prirfed.rounds

    @property
    def answers(self) -> int:
        """The largest number of answers that the plan needs from one agent."""
        if self.prirfed.participation == "round-robin":
            return most_participations(self.prirfed, self.agents)
        return self.prirfed.rounds

    def _lines(self) -> dict[str, object]:
        prirfed, problem = self.prirfed, self.prirfed.problem
        ball = problem.ball
        return {
            "space": problem.manifold,
            "start": digest_of(self.initial),
            "loss": problem.loss,
            "gradient": problem.gradient,
            "constants": (
                problem.smoothness,
                problem.convexity,
                problem.lipschitz,
                problem.record_lipschitz,
            ),
            "ball": None if ball is None else (float(ball.radius), digest_of(ball.center)),
            "protects": problem.protects,
            "local": prirfed.local,
            "rounds": prirfed.rounds,
            "agents": self.agents,
            "agents per round": (prirfed.agents_per_round, prirfed.quorum),
            "participation": prirfed.participation,
            "aggregate": prirfed.aggregate,
            "noise": (prirfed.noise, prirfed.tolerated),
            "grid": None if self.shared is None else self.shared.grid,  # of every record
            "budget": self.budget,
            "unit": self.unit,
        }


RELEASES = ("ball", "mean", "variance")
_LEAST_LAST = 0.3 * 0.4 / 8  # the share of a count after the search for a ball alone is larger


@dataclass(frozen=True, eq=False)
class SearchTerms(Terms):
    """What the parties of a search agree on, made by every party itself.

    Args:
        release: "ball", "mean" (a ball, then the mean in it) or "variance" (about a public ball's
            centre).
        manifold: The space.
        search: Where the ball is searched; a `Ball` where it is public.
        budget: Of all answers together, for each record, or person.
        sizes: The public number of records, or people, of each site, by name.
        noise: "local" or "shared".
        tolerated: q, with shared noise.
        run: Names this run: another one has another fingerprint.
        variance: The share of what the search leaves that is for the variance about the mean.
        unit: As in `Terms`, and so are `document` and `parties`: the sites of `sizes`, where they
            answer messages.

    Raises:
        InvalidArgument: Naming the argument.
    """

    numbered: ClassVar[str] = "question"
    release: str
    manifold: AbstractManifold
    search: Any
    budget: Budget
    sizes: Mapping[str, int]
    noise: str = "local"
    tolerated: int = 0
    run: str = ""
    variance: float = 0.0

    def __post_init__(self) -> None:
        one_of("release", self.release, RELEASES)
        one_of("noise", self.noise, NOISES)
        super().__post_init__()
        if not self.sizes:
            raise InvalidArgument("argument `sites` is empty; give the records of each site")
        if self.tolerated and not self.shares_noise:
            raise invalid(
                "tolerated", self.tolerated, "it has a meaning for noise='shared' only; leave it 0"
            )
        real("variance", self.variance, at_least=0.0, at_most=0.5)
        if self.variance > 0.0 and self.release != "mean":
            remedy = "it has a meaning for release = 'mean' only; leave it 0"
            raise invalid("variance", self.variance, remedy)
        for n in self.sizes.values():
            check_count("sites", n)
        needs_log(self.manifold, "a search over sites")
        _ = self.noise_of_sites, self.domain  # each checks what it is made of

    @property
    def place(self) -> Point:
        """The centre of the place where the sites search."""
        return self.domain.center

    @property
    def names(self) -> tuple[str, ...]:
        """Those that have a size."""
        return tuple(self.sizes)

    @property
    def shares_noise(self) -> bool:
        """Whether `noise` is "shared"."""
        return self.noise == "shared"

    def added_noise(self, records: int) -> float:
        """The noise multiplier of all answers together, whatever the number of records."""
        return self.noise_of_sites.each.multiplier

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of questions that the agreed plan has."""
        if self.release == "variance":
            return (SQUARES,)
        return KINDS if self.variance > 0.0 else (VALID, SCALE, WITHIN, TANGENTS)

    @property
    def numbers(self) -> int:
        """As many as `answers`."""
        return self.answers

    @property
    def answers(self) -> int:
        """More questions than this a search never has: their shares would exceed the budget."""
        if self.release == "variance":
            return 1
        plan = self.plan
        shares = (
            plan.valid_share,
            plan.coarse_share,
            plan.fine_share,
            plan.centre_share,
            plan.outside_share,
            _LEAST_LAST,
        )
        return int(1.0 / min(share for share in shares if share > 0.0)) + 2

    def check_plan(self) -> None:
        """Raise `InvalidArgument` where there are too few records, or people, for a search."""
        self.plan.check(self.counted)

    @functools.cached_property
    def noise_of_sites(self) -> NoiseOfSites:
        """How the sites make the noise."""
        tolerated = self.tolerated if self.shares_noise else None
        return NoiseOfSites(self.budget, len(self.sizes), tolerated)

    @functools.cached_property
    def domain(self) -> SearchDomain:
        """Where the sites search, and measure.

        Raises:
            InvalidArgument: `search` does not fit the space.
        """
        if isinstance(self.search, AdaptiveBall):
            return self.search.on(self.manifold)
        if isinstance(self.search, Ball):  # the place where the sites measure; nothing is searched
            center = self.search.on(self.manifold).center
            return SearchDomain(AdaptiveBall(self.search), self.manifold, center)
        raise invalid("search", self.search, "give a riemdp.AdaptiveBall(...)")

    @functools.cached_property
    def plan(self) -> SearchPlan:
        """What the search does: public numbers only."""
        domain = self.domain
        return plan_search(
            self.noise_of_sites.noise,
            sum(self.sizes.values()),
            self.manifold.dim,
            scales=domain.scales,
            largest=1.0,
            smallest=domain.ratio,
        )

    @property
    def guarantee(self) -> Guarantee:
        """Of all answers together, for every record, or person, of every site."""
        whole = self.noise_of_sites.guarantee
        return of_person(whole) if self.of_people else whole

    def _lines(self) -> dict[str, object]:
        ball = self.search.outer if isinstance(self.search, AdaptiveBall) else self.search
        return {
            "release": self.release,
            "variance": self.variance,
            "space": self.manifold,
            "search": type(self.search).__name__,
            "smallest": getattr(self.search, "smallest", None),
            "ball": None if ball is None else (float(ball.radius), digest_of(ball.center)),
            "budget": self.budget,
            "sites": tuple(self.sizes.items()),
            "noise": (self.noise, self.tolerated),
            "unit": self.unit,
            "run": self.run,
        }
