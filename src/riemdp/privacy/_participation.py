"""The guarantee of federated rounds, of which each invites a random part of the agents."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from .._errors import integer, invalid
from ._guarantee import Guarantee
from .accounting.events import (
    Event,
    GaussianEvent,
    GroupEvent,
    MixtureEvent,
    SampledGaussianEvent,
    merge,
)

_COARSE = 0.0099  # relative, between two rates of batches that are told apart


def participation(
    local: Guarantee,
    *,
    agents: int,
    sampled: int,
    rounds: int,
) -> Guarantee:
    """The guarantee of federated rounds for one record, when each round invites a random part of
    the agents.

    A record belongs to one agent. A round in which that agent is not invited costs nothing, a round
    in which it is costs `local`. One round is therefore the mixture (1 - rho) nothing + rho
    `local`, *even against someone who sees who took part* (the server); rounds compose.

    The rate is rho = sampled / agents. Of rounds that happened count the *invited* agents of each,
    whether or not they answered, among the agents that were *eligible* in it, and compose what
    rounds of different rates cost: dropouts raise rho. The draw must be uniform
    among the eligible ones and secret until the round. For round-robin or capped participation,
    where an agent takes part exactly k times, use `local.repeat(k)` instead.

    Args:
        local: The guarantee of one invited agent's work in one round.
        agents: Number of (eligible) agents, at least 1.
        sampled: Number of agents that a round invites, from 1 to `agents`.
        rounds: Number of such rounds.

    Raises:
        InvalidArgument: An argument is out of range.

    Guarantee:
        delta(eps) of the composition over rounds of (1 - rho) identity + rho PLD(local), under the
        adjacency of `local`. Plain amplification by rho does not hold here: replacing a sampled
        agent replaces a whole data set, not one record.

    Source:
        Proof: docs/proofs/federated.md.
    """
    if not isinstance(local, Guarantee):
        raise invalid(
            "local",
            local,
            "give the Guarantee of one invited agent's local work, e.g. privacy.gaussian(z, steps)",
        )
    agents, rounds = integer("agents", agents), integer("rounds", rounds)
    sampled = integer("sampled", sampled, at_most=agents)
    if not local.parts or not local.is_private:
        return local
    if any(isinstance(p, GroupEvent) for p in local.parts):
        raise invalid(
            "local",
            local,
            "take the group of the whole run instead: participation(local, ...).group(size)",
        )
    if sampled == agents:
        return local.repeat(rounds)
    part = MixtureEvent(sampled / agents, local.parts, count=rounds)
    return replace(local, parts=merge([part]), quoted_delta=None)


def coarser(guarantee: Guarantee) -> Guarantee:
    """A guarantee that holds wherever `guarantee` does, of few: the rates of random batches are
    rounded up, by at most 1 %, and noise multipliers down, by 1e-12. So what many sizes cost is
    computed for each of a few hundred rates.

    A batch of a higher rate is one of a lower rate and more (docs/proofs/federated.md, Lemma 10).
    """
    parts = merge(_coarser(part) for part in guarantee.parts)
    return replace(guarantee, parts=parts, quoted_delta=None)


def _coarser(part: Event) -> Event:
    if isinstance(part, SampledGaussianEvent):
        steps = math.floor(math.log(part.rate) / math.log1p(-_COARSE))
        rate = max(part.rate, min(1.0, (1.0 - _COARSE) ** steps))
        multiplier = _rounded(part.noise_multiplier, math.floor)
        return replace(part, noise_multiplier=multiplier, rate=rate)
    if isinstance(part, GaussianEvent):
        return replace(part, squared_mu=_rounded(part.squared_mu, math.ceil))
    return part


def _rounded(x: float, how: Callable[[float], int]) -> float:
    """A positive number to 40 bits."""
    mantissa, exponent = math.frexp(x)
    return math.ldexp(how(math.ldexp(mantissa, 40)), exponent - 40)
