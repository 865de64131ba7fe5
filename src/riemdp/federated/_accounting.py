"""What a federated run costs each record: the mixture over random participation, or the exact count
of a round-robin.

One round costs what ONE agent costs (agents hold disjoint records), and only when it is drawn.
Nothing is claimed for hiding who took part, so the bound holds against the server. Amplification of
epsilon by the sampling rate is not claimed: replacing a sampled agent replaces its whole data set,
and the coupling behind that amplification speaks of one record only.
"""

from __future__ import annotations

import bisect
import dataclasses
import functools
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .._errors import InvalidArgument, RiemdpError, integer, invalid, real
from ..optimizers import DPRGD
from ..optimizers._plan import check_budget, plan_optimizer
from ..privacy import (
    Budget,
    Guarantee,
    approximate,
    gaussian,
    gaussian_noise_multiplier,
    none,
    participation,
)
from ..privacy import calibrate as privacy_calibrate
from ..privacy._arithmetic import IDEALISED, LATTICE
from ..privacy._guarantee import PERSON
from ..privacy._participation import coarser
from ._prirfed import PriRFed
from ._shared_sum import SharedSum, check_count

ONE_SITE = "all records of one person are at one site"


def of_person(guarantee: Guarantee) -> Guarantee:
    """A guarantee of one site's people, for all sites: each person is at one of them."""
    return guarantee.for_people().assuming(ONE_SITE)


@functools.lru_cache(maxsize=64)
def _planned(
    sites: int, tolerated: int, dim: int, clip: float, rounds: int, budget: Budget
) -> SharedSum:
    multiplier = gaussian_noise_multiplier(budget) * math.sqrt(rounds)
    while not gaussian(multiplier, rounds).within(budget):
        multiplier *= 1.0 + 1e-12
    return SharedSum(sites, tolerated, dim, 2.0 * clip, multiplier)


def plan_shared(prirfed: PriRFed, budget: Budget) -> SharedSum:
    """Grid and noise of one round, from the agreed settings: the same at every party. With
    noise="shared" the run's `agents_per_round` is the number J of sites. `rounds` of them are
    within `budget` for every record. Proof: docs/proofs/secure-sums.md.

    Raises:
        InvalidArgument: Such a budget cannot be met by shared noise.
    """
    clip, dim = prirfed.clip, prirfed.problem.manifold.dim
    sites, tolerated = prirfed.agents_per_round, prirfed.tolerated
    return _planned(sites, tolerated, dim, clip, prirfed.rounds, budget)


def local_guarantee(prirfed: PriRFed, records: int, sigma: float) -> Guarantee:
    """The guarantee of one invitation of an agent with `records` records, when its local noise is
    `sigma`.

    `sigma` per orthonormal coordinate of the averaged gradient (DP-RSVRG: of the full gradient).
    Replace-one.
    """
    if prirfed.noise == "shared":
        raise RiemdpError("shared noise has one guarantee for all sites: see FederatedPlan.shared")
    if sigma == 0.0:
        return none()
    return plan_optimizer(
        prirfed.problem, records, prirfed.local, None, noise_std=sigma
    ).guarantee()


def most_participations(prirfed: PriRFed, agents: int) -> int:
    """How often a round-robin invites the busiest of `agents` agents: ceil(T m / N)."""
    return math.ceil(prirfed.rounds * prirfed.agents_per_round / agents)


def planned_guarantee(prirfed: PriRFed, local: Guarantee, agents: int) -> Guarantee:
    """What the whole plan costs a record of an agent whose one invitation costs `local`."""
    if prirfed.participation == "round-robin":
        return local.repeat(most_participations(prirfed, agents))
    return participation(
        local, agents=agents, sampled=prirfed.agents_per_round, rounds=prirfed.rounds
    )


@dataclasses.dataclass(frozen=True)
class FederatedPlan:
    """Noise and guarantees of a federated run, from public numbers, before any agent is invited.

    Attributes:
        sizes: The number of records of each agent.
        sigma_of: The noise of an agent's local steps, for each distinct size.
        local: What one invitation costs a record, for each distinct size.
        totals: What the whole run costs it, for each distinct size.
        guarantee: Holds for every record of every agent. Exact where all agents have the same size,
            otherwise the worst of `totals` at `delta`, as (epsilon, delta).
        delta: The budget's.
        agents: The number of agents that the noise is calibrated for; None: one for each size.
        shared: How the agents share the noise of one round; None where each adds all of its own.
            `sigma_of` is then the noise of the sum of all gradients.
    """

    sizes: tuple[int, ...]
    sigma_of: dict[int, float]
    local: dict[int, Guarantee]
    totals: dict[int, Guarantee]
    guarantee: Guarantee
    delta: float = 1e-5
    agents: int | None = None
    shared: SharedSum | None = None

    def for_people(self) -> FederatedPlan:
        """The same plan where the sizes are numbers of people: everything of one person is
        protected, provided that all records of a person are at one site.
        """
        return dataclasses.replace(
            self,
            local={n: of_person(g) for n, g in self.local.items()},
            totals={n: of_person(g) for n, g in self.totals.items()},
            guarantee=of_person(self.guarantee),
        )

    @property
    def costs(self) -> tuple[Guarantee, ...]:
        """What one invitation costs a record at most: of many sizes a few, by `coarser`."""
        return _costs(self.local)

    @property
    def planned_agents(self) -> int:
        """The number of agents that the noise is calibrated for."""
        return len(self.sizes) if self.agents is None else self.agents

    @property
    def sigmas(self) -> tuple[float, ...]:
        return tuple(self.sigma_of[n] for n in self.sizes)

    @property
    def sigma_of_a_step(self) -> float:
        """The noise of one step per orthonormal coordinate of the averaged gradient: the largest,
        where each agent adds its own.
        """
        if self.shared is None:
            return max(self.sigmas)
        return self.shared.sigma_of(self.shared.parties) / sum(self.sizes)


def _costs(local: Mapping[int, Guarantee]) -> tuple[Guarantee, ...]:
    distinct = tuple(dict.fromkeys(local.values()))
    return distinct if len(distinct) == 1 else tuple(dict.fromkeys(map(coarser, distinct)))


def plan_federated(
    prirfed: PriRFed,
    sizes: Sequence[int],
    budget: Budget | None,
    *,
    noise_std: float | None = None,
    agents: int | None = None,
) -> FederatedPlan:
    """Calibrate every agent's noise so that the whole run is within a budget for every record.

    Args:
        prirfed: The run.
        sizes: The (public) number of records of each agent.
        budget: With delta > 0. None: no noise, or the noise of `noise_std`.
        noise_std: A sigma for every agent, instead of a budget; the plan states what it gives.
        agents: The number of agents that the noise is calibrated for. None: one for each size.

    Returns:
        The plan.

    Guarantee:
        As in `PriRFed`, replace-one.

    Raises:
        InvalidArgument: Naming the argument: more agents are invited than there are, a batch is
            larger than an agent's records, ...

    Source:
        Proof: docs/proofs/federated.md.
    """
    sizes = tuple(integer("datasets", n) for n in sizes)
    if not sizes:
        raise InvalidArgument(
            "argument `datasets` is empty; a federated run needs at least one agent"
        )
    count = len(sizes) if agents is None else integer("agents", agents)
    if prirfed.agents_per_round > count:
        raise invalid(
            "agents_per_round",
            prirfed.agents_per_round,
            f"a round invites {prirfed.agents_per_round} and there are only {count} agents",
        )
    if budget is not None and noise_std is not None:
        raise InvalidArgument(
            "arguments `budget` and `noise_std` exclude each other: give one of them"
        )
    shared = None
    if prirfed.noise == "shared":
        shared = _shared_by_all(prirfed, sizes, budget, noise_std, count)
        sigma_of, local = dict.fromkeys(sizes, shared.sigma), dict.fromkeys(sizes, shared.guarantee)
    else:
        sigma_of = _noise_of(prirfed, sizes, budget, noise_std, count)
        local = {n: local_guarantee(prirfed, n, sigma) for n, sigma in sigma_of.items()}
    totals = {n: planned_guarantee(prirfed, g, count) for n, g in local.items()}
    delta = 1e-5 if budget is None else budget.delta
    total = worst([planned_guarantee(prirfed, g, count) for g in _costs(local)], delta)
    return FederatedPlan(sizes, sigma_of, local, totals, total, delta, count, shared)


def _noise_of(
    prirfed: PriRFed,
    sizes: tuple[int, ...],
    budget: Budget | None,
    noise_std: float | None,
    count: int,
) -> dict[int, float]:
    """The noise of an agent's local steps, for each distinct size."""
    if noise_std is not None:
        return dict.fromkeys(sizes, real("noise_std", noise_std, at_least=0.0))
    if budget is None:
        return dict.fromkeys(sizes, 0.0)
    check_budget(budget)
    return {n: calibrate(prirfed, n, count, budget) for n in dict.fromkeys(sizes)}


def _shared_by_all(
    prirfed: PriRFed,
    sizes: tuple[int, ...],
    budget: Budget | None,
    noise_std: float | None,
    count: int,
) -> SharedSum:
    """The noise of a round of all agents, whose sizes do not matter."""
    if prirfed.agents_per_round != count:
        raise invalid(
            "agents_per_round",
            prirfed.agents_per_round,
            f"with noise='shared' every agent takes part in every round: give {count}",
        )
    if budget is None or noise_std is not None:
        raise InvalidArgument(
            "argument `budget` is needed with noise='shared' (and no `noise_std`); for a baseline"
            " without noise use noise='local'"
        )
    for n in sizes:
        check_count("datasets", n)
    return plan_shared(prirfed, check_budget(budget))


def noise_of_a_round(prirfed: PriRFed, plan: FederatedPlan) -> float | None:
    """How far the noise of one round with `agents_per_round` equal agents moves the point: the root
    mean squared distance to first order, by the largest noise of one of them. None: no formula.
    """
    if not isinstance(prirfed.local, DPRGD) or not plan.guarantee.is_private:
        return None
    sites, sigma, records = prirfed.agents_per_round, plan.sigma_of_a_step, min(plan.sizes)
    if plan.shared is not None:  # one step along the mean over the records of all sites
        sites, records = 1, sum(plan.sizes)
    steps: Any = plan_optimizer(prirfed.problem, records, prirfed.local, None, noise_std=sigma)
    squares = sum(float(rate) ** 2 for rate in steps.rates)
    return sigma * math.sqrt(prirfed.problem.manifold.dim * squares / sites)


def numerics_of(prirfed: PriRFed, plan: FederatedPlan) -> str:
    """Whether every agent's guarantee holds for the numbers as computed; a server only computes
    functions of answers.
    """
    if plan.shared is not None:
        return LATTICE
    local = (
        plan_optimizer(prirfed.problem, n, prirfed.local, None, noise_std=sigma)
        for n, sigma in plan.sigma_of.items()
    )
    whole = all(steps.details["numerics"] == LATTICE for steps in local)
    return LATTICE if whole else IDEALISED


def worst(guarantees: Sequence[Guarantee], delta: float) -> Guarantee:
    """One guarantee that holds for all records, where each of `guarantees` holds for its own.

    The largest epsilon at `delta`, unless all are equal.
    """
    first = guarantees[0]
    if all(g == first for g in guarantees):
        return first
    if not all(g.is_private for g in guarantees):
        return none()
    figure = approximate(
        max(g.epsilon(delta) for g in guarantees), delta, adjacency=first.adjacency
    )
    for g in guarantees:
        figure = figure.assuming(g.assumes)
    return figure.for_people() if first.unit == PERSON else figure


def calibrate(prirfed: PriRFed, records: int, agents: int, budget: Budget) -> float:
    """The smallest sigma, per orthonormal coordinate of the averaged gradient, with which the
    whole plan is within a budget for an agent of `records` records among `agents`: at least 99 % of
    its epsilon is spent. Where batches are random sigma is at most 1 % more than the run needs:
    sizes whose local steps cost the same by `coarser` share one search.

    Raises:
        InvalidArgument: No noise at all would do: a delta that large protects nobody.
    """
    if prirfed.noise == "shared":
        return plan_shared(prirfed, budget).sigma
    # Of the query that sigma is stated for, so that the search works with noise multipliers.
    unit = plan_optimizer(prirfed.problem, records, prirfed.local, None, noise_std=0.0).sensitivity

    def planned(multiplier: float) -> Guarantee:
        local = local_guarantee(prirfed, records, unit * multiplier)
        return planned_guarantee(prirfed, coarser(local), agents)

    sigma = unit * _multiplier(_Cost(planned(1.0), planned), budget.epsilon, budget.delta)
    while not planned(sigma / unit).within(budget):  # may use a finer lattice than the search did
        sigma *= 1.001
    return sigma


@dataclasses.dataclass(frozen=True)
class _Cost:
    """What a run costs, by the noise multiplier of its local steps: known by the cost at 1."""

    at_one: Guarantee
    planned: Callable[[float], Guarantee] = dataclasses.field(compare=False)


@functools.lru_cache(maxsize=4096)
def _multiplier(cost: _Cost, epsilon: float, delta: float) -> float:
    budget = Budget(epsilon, delta)
    return privacy_calibrate(cost.planned, budget, guess=gaussian_noise_multiplier(budget))


@functools.lru_cache(maxsize=256)
def most_rounds(
    costs: tuple[Guarantee, ...], rate: tuple[int, int], rounds: int, budget: Budget
) -> int:
    """How many rounds of one rate (invited, eligible) are within a budget, of `rounds` at most."""

    def exceeds(count: int) -> bool:
        invited, eligible = rate
        whole = (participation(c, agents=eligible, sampled=invited, rounds=count) for c in costs)
        return not all(cost.within(budget) for cost in whole)

    if not exceeds(rounds):
        return rounds
    return bisect.bisect_left(range(1, rounds), True, key=exceeds)


def realised_guarantee(
    local: Guarantee, rates: Sequence[tuple[int, int]], how: str, invitations: int
) -> Guarantee:
    """What the rounds that happened cost a record: invited / eligible of each (uniform), or
    `invitations` times (round-robin).
    """
    if not rates:
        return local.repeat(0)
    if how == "round-robin":
        return local.repeat(invitations)
    each = [
        participation(local, agents=eligible, sampled=invited, rounds=rounds)
        for (invited, eligible), rounds in Counter(rates).items()
        if invited
    ]
    return each[0].compose(*each[1:]) if each else local.repeat(0)
