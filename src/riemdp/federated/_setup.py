"""`Setup`: the settings of a federated run that all parties agree on, and their fingerprint."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from .._errors import InvalidArgument, integer, invalid, one_of
from ..manifolds._base import Point
from ..mechanisms._shared_sum import SharedSum
from ..optimizers._people import MOST, refuse_public_parts
from ..privacy import Budget
from ..privacy._guarantee import PERSON, RECORD, UNITS
from ._accounting import calibrate, most_participations
from ._prirfed import PriRFed
from ._shared import plan_shared
from ._terms import Terms, digest_of


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
        sites: The names of the sites that may take part. None: whoever the engine lets in.
        keys: (name, long-term public key) of each site, 64 hexadecimal digits, where noise is
            shared: as many as there are agents, with the names of `sites`. Without them no site
            answers.
        unit: What neighbours differ in: one "record", or everything of one "person". With "person"
            the sites tell their records apart by labels, which stay with them; the numbers of
            *people* take the place of the numbers of records, and every person counts once. All
            records of a person are assumed to be at one site.
        records_per_person: With unit "person": how many records of one person enter an answer at
            most. It decides memory and time, and not privacy.

    Raises:
        InvalidArgument: Naming the argument.
    """

    numbered: ClassVar[str] = "round"
    prirfed: PriRFed
    initial: Point
    budget: Budget | None
    agents: int
    min_agents: int | None = None
    document: str | None = None
    sites: tuple[str, ...] | None = None
    keys: tuple[tuple[str, str], ...] = ()
    unit: str = RECORD
    records_per_person: int = MOST

    def __post_init__(self) -> None:
        if not isinstance(self.prirfed, PriRFed):
            raise InvalidArgument("argument `prirfed` must be a riemdp.PriRFed(...)")
        if self.budget is not None and not isinstance(self.budget, Budget):
            raise invalid("budget", self.budget, "give a riemdp.Budget(epsilon, delta), or None")
        integer("agents", self.agents)
        if self.min_agents is not None:
            integer("min_agents", self.min_agents, at_most=self.agents)
        if self.prirfed.invited_per_round > self.agents:
            most = self.prirfed.invited_per_round
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
        if self.sites is not None and len(self.sites) != self.agents:
            raise InvalidArgument(
                f"argument `sites` names {len(self.sites)} sites and `agents` is {self.agents}"
            )
        if self.keys:
            self._check_keys()
        one_of("unit", self.unit, UNITS)
        integer("records_per_person", self.records_per_person)
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

    def _check_keys(self) -> None:
        if not self.shares_noise:
            raise InvalidArgument("argument `keys` has a meaning with noise='shared' only")
        names, keys = [name for name, _ in self.keys], [key for _, key in self.keys]
        if len(names) != self.agents:
            raise InvalidArgument(
                f"argument `keys` has {len(names)} and `agents` is {self.agents}: every agent needs"
                " a key, and nobody else may have one"
            )
        if len(set(names)) < len(names) or len(set(keys)) < len(keys):
            raise InvalidArgument("argument `keys` has a name or a key twice; each has its own")
        if self.sites is not None and set(names) != set(self.sites):
            raise InvalidArgument(
                f"argument `keys` is of {', '.join(sorted(names))} and `sites` names"
                f" {', '.join(sorted(self.sites))}: give one key for each of them"
            )
        for name, key in self.keys:
            if not isinstance(key, str) or not re.fullmatch(r"[0-9a-f]{64}", key):
                raise InvalidArgument(
                    f"argument `keys` has no public key for {name!r}; `riemdp federated key` prints"
                    " one, 64 hexadecimal digits"
                )

    @property
    def place(self) -> Point:
        """The starting point."""
        return self.initial

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names of `sites`."""
        return self.sites

    @property
    def shares_noise(self) -> bool:
        """Whether PriRFed has noise="shared"."""
        return self.prirfed.noise == "shared"

    def added_noise(self, records: int) -> float | None:
        """`sigma`."""
        return self.sigma(records)

    def sigma(self, records: int) -> float | None:
        """Noise of an agent with this many records, or people; None for a run without noise."""
        if self.budget is None:
            return None
        return calibrate(self.prirfed, records, self.agents, self.budget)

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
            "agents per round": (prirfed.agents_per_round, prirfed.over_invite, prirfed.quorum),
            "participation": prirfed.participation,
            "aggregate": (prirfed.aggregate, prirfed.output),
            "noise": (prirfed.noise, prirfed.tolerated),
            "budget": self.budget,
            "unit": (self.unit, self.records_per_person) if self.of_people else self.unit,
        }
