"""`PriRFed`: what a federated run does, as plain public settings."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from .._errors import InvalidArgument, integer, invalid, one_of
from ..mechanisms._common import needs_log
from ..optimizers import DPRGD
from ..optimizers._plan import ADAPTIVE, AbstractOptimizer, plan_optimizer
from ..problems import Problem

NOISES = ("local", "shared")
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
            the (public) numbers of records, or "frechet-mean", the weighted Fréchet mean of the
            replies.
        participation: "uniform" (s of the eligible agents at random, secret until the round) or
            "round-robin" (in a fixed public order, so that the number of times an agent takes part
            is known and needs no randomness).
        quorum: On fewer valid replies than this a round keeps x_t.
        noise: "local": each agent adds all the noise that its own guarantee needs, and replies with
            a point. "shared": secure sums. All agents (`agents_per_round` is their number J) reply
            with the sum of their clipped gradients at x_t, each with a share of the noise and under
            masks that cancel in the sum over all of them; nobody sees a single reply. The step from
            x_t is that of `local`, a `DPRGD` with one step, on all records together. The noise in
            it is sqrt(J - tolerated) times smaller than with "local" at the same budget, where all
            agents have equally many records. A round in which an agent is missing keeps x_t, and
            is charged.
        tolerated: q, with shared noise: how many agents may be missing, or share their secrets with
            somebody, before the guarantee fails. The noise grows by sqrt(J / (J - q)). At most
            J - 1: then each agent's share is all the noise that its guarantee needs, as with
            "local".

    Guarantee:
        What `plan_federated` states, replace-one; every agent's number of records is public.
        Shared: `local` composed T times, under `Guarantee.assumes` (docs/proofs/secure-sums.md).
        Uniform: T-fold composition of (1 - rho) nothing + rho `local`, rho = invited / eligible of
        the round. Round-robin: `local` composed ceil(T s / N) times. Both hold against everyone who
        sees all messages, the server included.

    Raises:
        InvalidArgument: Naming the argument.

    Source:
        Huang2024 Algorithm 1. Its Theorem 4.2 does not hold for records and is not used.
        Proof: docs/proofs/federated.md.
    """

    problem: Problem
    local: AbstractOptimizer
    _: KW_ONLY
    rounds: int
    agents_per_round: int
    aggregate: str = "tangent-mean"
    participation: str = "uniform"
    quorum: int = 1
    noise: str = "local"
    tolerated: int = 0

    def __post_init__(self) -> None:
        problem, local = self.problem, self.local
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
        needs_log(problem.manifold, "PriRFed (averaging and checking replies)")
        s = integer("agents_per_round", self.agents_per_round)
        integer("rounds", self.rounds)
        one_of("aggregate", self.aggregate, AGGREGATES)
        one_of("participation", self.participation, PARTICIPATIONS)
        integer("quorum", self.quorum, at_most=s)
        one_of("noise", self.noise, NOISES)
        integer("tolerated", self.tolerated, at_least=0, at_most=s - 1)
        if self.noise == "shared":
            _check_shared(local, self.aggregate)
        elif self.tolerated:
            remedy = "it has a meaning for noise='shared' only"
            raise invalid("tolerated", self.tolerated, remedy)

    @property
    def clip(self) -> float:
        """The clip norm of the local step. A public number."""
        return plan_optimizer(self.problem, 1, self.local, None, noise_std=1.0).clip


def _check_shared(local: AbstractOptimizer, aggregate: str) -> None:
    """What goes with secure sums: sums of gradients, of everybody."""
    if not isinstance(local, DPRGD) or local.steps != 1:
        raise InvalidArgument(
            "argument `local` must be DPRGD(steps=1, ...) with noise='shared': what is summed is"
            " one gradient of every agent at the point of the round"
        )
    if aggregate != "tangent-mean":
        raise invalid("aggregate", aggregate, "noise='shared' sums tangent vectors: 'tangent-mean'")
