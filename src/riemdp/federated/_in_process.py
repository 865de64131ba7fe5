"""A whole federated run in one process: the reference that every engine must agree with."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .._errors import InvalidArgument, NotPrivateWarning, integer, invalid, warn
from ..manifolds._base import Point
from ..optimizers import OptimizationResult
from ..optimizers._account import Account
from ..optimizers._checks import check_data, check_initial
from ..optimizers._people import MOST, PERSON_IS, refuse_public_parts, weighted_loss
from ..optimizers._result import History, HistoryRow
from ..privacy import Budget, Guarantee, Ledger, charge
from ..privacy._guarantee import PERSON
from ..privacy._ledger import refuse_sent
from ..privacy._permit import Permit
from ..problems import Problem
from ..randomness import NoiseSource, noise_source
from ..statistics._membership import Membership
from ._accounting import FederatedPlan, noise_of_a_round, numerics_of, plan_federated, worst
from ._coordinator import Coordinator, RoundRecord, rounds_of
from ._prirfed import PriRFed
from ._protocol import Admitted, check_lists_of_labels, context_of, named
from ._rounds import Belonging, admit_current, noisy_sum, updated
from ._secure_sum import Keys, Question, Roster, masked
from ._sites import Replies, Sound


@dataclass(frozen=True, eq=False, repr=False)
class FederatedResult(OptimizationResult):
    """An `OptimizationResult` of a federated run.

    `guarantee`: holds for every record of every agent, against everyone who sees the messages, the
    server included. `sigma`: noise of one local step per orthonormal coordinate of the averaged
    gradient (the largest, where sizes differ). `rounds`: a `RoundRecord` for each round.
    `invitations`: how often each agent was invited.
    """

    rounds: tuple[RoundRecord, ...] = ()
    invitations: dict[str, int] = field(default_factory=dict)
    plan: FederatedPlan | None = None

    def participation_guarantee(self, k: int) -> Guarantee:
        """What an agent that took part exactly `k` times can state for its records: `k` local
        releases composed.

        For a Gaussian local step mu * sqrt(k). Replace-one; valid because the agent knows how often
        it took part.
        """
        k = integer("k", k, at_least=0)
        assert self.plan is not None
        return worst([g.repeat(k) for g in self.plan.costs], self.plan.delta)

    def site_guarantee(self, name: str) -> Guarantee:
        """What the site of this name can state for its own records: one local release for each
        time that it was asked. Replace-one.
        """
        assert self.plan is not None
        return self.plan.local[self.details["sizes"][name]].repeat(self.invitations[name])

    def __str__(self) -> str:
        most = max(self.invitations.values(), default=0)
        if self.plan is None or most == 0:
            return OptimizationResult.__str__(self)
        return (
            f"{OptimizationResult.__str__(self)}\n  agents took part"
            f" {min(self.invitations.values())} to {most} times; given that an agent took part"
            f" {most} times, it can state: {self.participation_guarantee(most)}"
        )

    __repr__ = __str__


def run_in_process(
    prirfed: PriRFed,
    datasets: Sequence[Any],
    initial: Point,
    budget: Budget | None = None,
    rng: int | NoiseSource | None = None,
    *,
    noise_std: float | None = None,
    ledger: Ledger | None = None,
    record_every: int = 0,
    groups: Sequence[object] | None = None,
) -> FederatedResult:
    """Run PriRFed with every agent in this process.

    Ctrl-C ends the run with the last x_t and the guarantee of the rounds that took place, the open
    one included.

    Args:
        prirfed: The run.
        datasets: One data set (array with records along the first axis, or a pytree of such) for
            each agent; the lengths are public.
        initial: A public point.
        budget: With delta > 0, for each record of each agent. None runs without noise or clipping
            (not private), or with `noise_std`.
        rng: None (operating system) or a seed (reproducible, not private).
        noise_std: A sigma for every agent, instead of a budget; the result states what it gives.
        ledger: Charged the whole plan before anything is drawn. None charges the innermost
            `with Ledger(...)`.
        record_every: Record the objective every so many rounds, NOT private: the mean loss of all
            records, or over all people of the mean loss of each one's records.
        groups: For each agent one label of a person for each of its records. Then everything of one
            person is protected, every person counts once, and the numbers of *people* take the
            place of the numbers of records, as in `private_minimize`. Labels of different agents
            are different persons: that all records of a person are at one site is assumed, and
            stands in `result.guarantee.assumes`. A person with records at k sites has the guarantee
            of a group of k, `result.guarantee.for_records().group(k)`; with local noise and
            "round-robin" also that of k such runs, `.repeat(k)`.

    Returns:
        The result.

    Guarantee:
        `result.guarantee` is within `budget`, replace-one, for every record, against everyone who
        sees the messages: see `PriRFed`.

    Raises:
        InvalidArgument: Naming the argument.
        BudgetExceeded: Before anything is drawn.

    Source:
        Proof: docs/proofs/federated.md, docs/proofs/people.md (`groups`).
    """
    if not isinstance(prirfed, PriRFed):
        raise invalid(
            "prirfed", prirfed, "give a PriRFed(problem, local, rounds=..., agents_per_round=...)"
        )
    refuse_sent(budget, ledger)
    problem = prirfed.problem
    point = check_initial(problem, initial)
    record_every = integer("record_every", record_every, at_least=0)
    data = AgentsData(problem, datasets, groups)
    plan = plan_federated(prirfed, data.sizes, budget, noise_std=noise_std)
    plan = plan if groups is None else plan.for_people()
    source = noise_source(rng)
    names = [f"agent-{i}" for i in range(len(plan.sizes))]
    sizes = dict(zip(names, plan.sizes, strict=True))
    server = Coordinator(prirfed, plan, sizes, point, budget, source)
    Account(ledger).check(plan.guarantee)
    if record_every:
        warn(
            "record_every computes objectives from the private records without noise: the history"
            " is NOT private",
            NotPrivateWarning,
        )
    permit = charge(plan.guarantee, ledger)
    without_noise = budget is None and noise_std is None
    held = dict(zip(names, data.held, strict=True))
    agents = _Agents(server, held, source, without_noise, permit)
    least = None if plan.shared is None else plan.shared.enough
    sites = Parties(server.sizes, agents.asked, agents.reply, least)
    rows: list[HistoryRow] = []
    status = "completed"
    try:
        for record in rounds_of(server, sites, lambda: server.invite(names), lambda: None):
            t = record.round + 1
            if record_every and t % record_every == 0:
                seen = data.objective(server.value)
                rows.append(HistoryRow(t, agents.gradients, seen, server.value))
    except KeyboardInterrupt:
        status = "interrupted"
    finally:
        permit.close()
    result = result_of(
        server,
        reproducible=source.reproducible,
        status=status,
        history=History(rows),
        gradient_calls=agents.gradients,
    )
    return replace(result, receipt=permit.receipt)


def result_of(
    server: Coordinator,
    *,
    reproducible: bool,
    status: str,
    history: History | None = None,
    gradient_calls: int = 0,
    engine: str = "",
) -> FederatedResult:
    """What a run that a server has ended, or was interrupted in, gives back; `engine` names what
    carried its messages.
    """
    prirfed, plan = server.prirfed, server.plan
    facts: dict[str, Any] = {}
    if plan.guarantee.unit == PERSON:
        people = sum(server.sizes.values())
        facts = {"people": people, "records_per_person": MOST, "person_is": PERSON_IS}
    return FederatedResult(
        value=server.value,
        guarantee=server.guarantee(),
        sigma=plan.sigma_of_a_step,
        history=History([]) if history is None else history,
        gradient_calls=gradient_calls,
        steps=len(server.records),
        reproducible=reproducible,
        method=f"PriRFed{engine} ({type(prirfed.local).__name__}, {prirfed.participation})",
        status=status,
        details={
            "n": sum(server.sizes.values()),
            "manifold": prirfed.problem.manifold,
            "agents": len(server.sizes),
            "sizes": dict(server.sizes),
            "agents_per_round": prirfed.agents_per_round,
            "rounds": prirfed.rounds,
            "aggregate": prirfed.aggregate,
            "participation": prirfed.participation,
            "protects": prirfed.problem.protects,
            "noise": prirfed.noise,
            "numerics": numerics_of(prirfed, plan),
            "noise_of_a_round": noise_of_a_round(prirfed, plan),
            **({"tolerated": prirfed.tolerated} if plan.shared is not None else {}),
            **facts,
        },
        rounds=tuple(server.records),
        invitations=dict(server.invitations),
        plan=plan,
    )


def permits_of(permit: Permit, plan: FederatedPlan, rounds: int) -> list[Permit]:
    """One for each agent of a plan that was charged as a whole (docs/proofs/federated.md). An agent
    answers at most once a round, so it may give away as many local answers as there are rounds, and
    no more.
    """
    return permit.for_parties([plan.local[n].repeat(rounds) for n in plan.sizes])


class Parties:
    """`Sites` in this process, with keys of their own. There is no door between them
    and the server, and what their answers cost has been charged for all of them.

    Args:
        sizes: Their public numbers of records, or people, by name.
        asked: Admits a question, as `Protocol.asked` does.
        reply: What the site of a name answers to an admitted question, with its noise.
        least: The fewest sites in a sum under masks; None: each adds all of its own noise.
    """

    def __init__(
        self,
        sizes: Mapping[str, int],
        asked: Callable[[Any], Admitted],
        reply: Callable[[str, Any], Any],
        least: int | None,
    ):
        self.sizes, self.asked, self.reply, self.least = dict(sizes), asked, reply, least
        self.agreement = secrets.token_hex(32)  # names this run, for masks
        self.keys = {} if least is None else {name: Keys.new(name) for name in self.sizes}

    def there(self, count: int, sizes: Mapping[str, int] | None = None) -> Mapping[str, int]:
        """All of them."""
        return self.sizes

    def ask(
        self,
        names: tuple[str, ...],
        question: Any,
        number: int,
        sound: Sound,
        *,
        quorum: int,
    ) -> Replies:
        """Every answer. An error of a site is an error here: nothing can be gone."""
        asked = self.asked(question)
        replies = {name: self.reply(name, asked.question) for name in names}
        if self.least is not None:
            agreed = {name: keys.long_term for name, keys in self.keys.items()}
            fresh = {name: self.keys[name].fresh for name in names}
            roster = Roster.of(None, agreed, fresh, least=self.least)
            sum_of = Question(self.agreement, number, roster, asked.context)
            replies = {a: masked(reply, self.keys[a], sum_of) for a, reply in replies.items()}
        kept = {name: reply for name, reply in replies.items() if sound(name, reply, None)}
        return Replies(kept, frozenset(set(replies) - set(kept)))


class _Agents:
    """The data of all agents of a run in one process, and what they answer."""

    def __init__(
        self,
        server: Coordinator,
        data: dict[str, Any],
        source: NoiseSource,
        without_noise: bool,
        permit: Permit,
    ):
        self.server, self.data, self.without_noise = server, data, without_noise
        # Agents draw from the operating system, each for itself, but for a simulation.
        self.rng = source if source.reproducible else None
        permits = permits_of(permit, server.plan, server.prirfed.rounds)
        self.permits = dict(zip(server.sizes, permits, strict=True))
        self.gradients = 0

    def asked(self, point: Point) -> Admitted:
        """The point of a round."""
        prirfed = self.server.prirfed
        return Admitted(admit_current(prirfed, point), context_of(prirfed.problem.manifold, point))

    def reply(self, name: str, point: Point) -> Any:
        """An agent's answer, before masks."""
        prirfed, plan = self.server.prirfed, self.server.plan
        data, n = self.data[name], self.server.sizes[name]
        account = Account(permit=self.permits[name])
        if plan.shared is not None:
            self.gradients += n * data.places if isinstance(data, Belonging) else n
            return noisy_sum(prirfed, plan.shared, data, point, account, noise_source(self.rng))
        sigma = None if self.without_noise else plan.sigma_of[n]
        done = updated(prirfed, data, point, sigma, account, rng=self.rng)
        self.gradients += done.gradient_calls
        return done.value


class AgentsData:
    """The records of each agent, admitted, with the people whose they are.

    Attributes:
        records: Of each agent.
        held: The same as an answer takes them, with labels where people are protected.
        sizes: How many records, or people, each has: public.
    """

    def __init__(self, problem: Problem, datasets: Any, groups: Any):
        if isinstance(datasets, str | bytes) or not hasattr(datasets, "__len__"):
            raise InvalidArgument(
                "argument `datasets` must be a sequence with one data set per agent"
            )
        self.problem = problem
        checked: list[tuple[Any, int]] = []
        for i, data in enumerate(datasets):
            with named("datasets", "agent", i):
                checked.append(check_data(problem, data))
        self.records, self.sizes = [data for data, _ in checked], [n for _, n in checked]
        self.held: list[Any] = self.records
        self._people: list[Membership] | None = None
        if groups is not None:
            refuse_public_parts(problem)
            check_lists_of_labels(groups, len(checked), "agent")
            self._people = []
            for i, (labels, n) in enumerate(zip(groups, self.sizes, strict=True)):
                with named("groups", "agent", i):
                    self._people.append(Membership(labels, n, of="datasets"))
            labelled = zip(self.records, groups, strict=True)
            self.held = [Belonging(data, labels) for data, labels in labelled]
            self.sizes = [people.n for people in self._people]

    def objective(self, w: Point) -> float:
        """The mean loss of all records, or over all people of the mean loss of each one's."""
        total = sum(self.sizes)
        if self._people is None:
            each = zip(self.records, self.sizes, strict=True)
            return sum(n * self.problem.objective(w, data) for data, n in each) / total
        own = zip(self.records, self._people, strict=True)
        return sum(weighted_loss(self.problem, w, data, p.shares) for data, p in own) / total
