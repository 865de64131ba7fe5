"""`PriRFed`: what a federated run does, as plain public settings."""

from __future__ import annotations

from dataclasses import dataclass

from .._errors import InvalidArgument, integer, invalid, one_of
from ..mechanisms._common import needs_log
from ..optimizers._plan import ADAPTIVE, AbstractOptimizer
from ..problems import Problem

AGGREGATES = ("tangent-mean", "frechet-mean")
PARTICIPATIONS = ("uniform", "round-robin")
OUTPUTS = ("last", "uniform")


@dataclass(frozen=True)
class PriRFed:
    """Private Riemannian federated learning: rounds of noisy local work, and an average of the
    results on the manifold.

    In round t the server draws `agents_per_round` s of the eligible agents, sends them x_t, each
    runs `local` on its own records from x_t and replies with a point; the server keeps the valid
    replies and averages them into x_{t+1}. Every reply is private by itself (its noise is drawn by
    the agent, from the agent's operating system), so the server need not be trusted.

    Args:
        problem: A `Problem` whose manifold has a logarithm.
        local: `DPRSGD`, `DPRSVRG` or `DPRGD` with explicit steps: the K inner steps. Its `output`
            is "last" or "uniform".
        rounds: T >= 1.
        agents_per_round: s >= 1.
        aggregate: "tangent-mean", Exp_{x_t}(sum_i p_i Log_{x_t} x_i) with p_i the agent's share of
            the (public) numbers of records, or "frechet-mean", the weighted Frechet mean of the
            replies.
        participation: "uniform" (s of the eligible agents at random, secret until the round) or
            "round-robin" (in a fixed public order, so that the number of times an agent takes part
            is known and needs no randomness).
        output: "last", or "uniform": one of x_1..x_T drawn at random.
        over_invite: Invite this many more than s, so that a round can close when s have replied.
            They are charged all the same.
        quorum: On fewer valid replies than this a round keeps x_t.

    Guarantee:
        What `plan_federated` states, replace-one; every agent's number of records is public.
        Uniform: T-fold composition of (1 - rho) nothing + rho `local`, rho = invited / eligible of
        the round. Round-robin: `local` composed ceil(T s / N) times. Both hold against everyone who
        sees all messages, the server included.

    Raises:
        InvalidArgument: Naming the argument.

    Source:
        Huang2024 Algorithm 1. Its Theorem 4.2 does not hold for records and is not used (see
        `published_guarantee`).
        Proof: docs/proofs/federated.md.
    """

    problem: Problem
    local: AbstractOptimizer
    rounds: int
    agents_per_round: int
    aggregate: str = "tangent-mean"
    participation: str = "uniform"
    output: str = "last"
    over_invite: int = 0
    quorum: int = 1

    def __init__(
        self,
        problem: Problem,
        local: AbstractOptimizer,
        *,
        rounds: int,
        agents_per_round: int,
        aggregate: str = "tangent-mean",
        participation: str = "uniform",
        output: str = "last",
        over_invite: int = 0,
        quorum: int = 1,
    ):
        if not isinstance(problem, Problem):
            raise invalid(
                "problem",
                problem,
                "give a riemdp.Problem, for example problems.principal_eigenvector(n)",
            )
        if not isinstance(local, AbstractOptimizer):
            raise invalid(
                "local", local, "give the settings of the local optimiser, such as DPRSGD(...)"
            )
        if local.planned_length is None:
            raise InvalidArgument(
                "argument `local` leaves its number of steps open: a federated run needs it stated "
                "(steps=..., or epochs=... and inner_steps=...)"
            )
        if local.clip_norm == ADAPTIVE:
            raise InvalidArgument(
                f"argument `local` has clip_norm={ADAPTIVE!r}, which is carried from step to step:"
                " an agent that takes part now and then would search it anew each time. Give a"
                " number, or sensitivity='domain'"
            )
        if local.counts_are_private:
            raise InvalidArgument(
                "argument `local` has a sampling that is accounted for adding or removing a"
                " record, while a federated run is accounted for replacing one; use"
                " sampling='without-replacement'"
            )
        if local.output not in OUTPUTS:
            raise InvalidArgument(
                "argument `local` has output='geodesic-average'; a local step replies with 'last'"
                " or 'uniform'"
            )
        needs_log(
            problem.manifold, problem.manifold.origin, "PriRFed (averaging and checking replies)"
        )
        s = integer("agents_per_round", agents_per_round)
        settings = {
            "problem": problem,
            "local": local,
            "rounds": integer("rounds", rounds),
            "agents_per_round": s,
            "aggregate": one_of("aggregate", aggregate, AGGREGATES),
            "participation": one_of("participation", participation, PARTICIPATIONS),
            "output": one_of("output", output, OUTPUTS),
            "over_invite": integer("over_invite", over_invite, at_least=0),
            "quorum": integer("quorum", quorum, at_most=s),
        }
        for name, value in settings.items():
            object.__setattr__(self, name, value)

    @property
    def invited_per_round(self) -> int:
        """How many agents a round invites, answered or not."""
        return self.agents_per_round + self.over_invite

    def with_local(self, local: AbstractOptimizer) -> PriRFed:
        """The same run with another local optimiser."""
        return PriRFed(
            self.problem,
            local,
            rounds=self.rounds,
            agents_per_round=self.agents_per_round,
            aggregate=self.aggregate,
            participation=self.participation,
            output=self.output,
            over_invite=self.over_invite,
            quorum=self.quorum,
        )
