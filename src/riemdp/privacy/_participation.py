"""The guarantee of federated rounds, of which each invites a random part of the agents."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace

from .._errors import InvalidArgument, integer, invalid
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
    agents: int | None = None,
    sampled: int | None = None,
    rounds: int | None = None,
    invited: int | Iterable[int] | None = None,
    eligible: int | Iterable[int] | None = None,
) -> Guarantee:
    """The guarantee of federated rounds for one record, when each round invites a random part of
    the agents.

    A record belongs to one agent. A round in which that agent is not invited costs nothing, a round
    in which it is costs `local`. One round is therefore the mixture (1 - rho) nothing + rho
    `local`, *even against someone who sees who took part* (the server); rounds compose.

    Give either the plan (`agents`, `sampled`, `rounds`; rho = sampled / agents) or what happened
    (`invited`, `eligible`; rho = invited / eligible). Count the *invited* agents of a round,
    whether or not they answered, among the agents that were *eligible* in it: dropouts and
    over-invitation raise rho. The draw must be uniform among the eligible ones and secret until the
    round. For round-robin or capped participation, where an agent takes part exactly k times, use
    `local.repeat(k)` instead.

    Args:
        local: The guarantee of one invited agent's work in one round.
        agents: Number of agents, at least 1.
        sampled: Number of agents that a round invites, from 1 to `agents`.
        rounds: Number of rounds.
        invited: Number of agents that were invited, one count or one a round.
        eligible: Number of agents that could have been invited, one count or one a round.

    Raises:
        InvalidArgument: An argument is out of range, or neither or both of the two forms are given.

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
    if not local.parts or not local.is_private:
        return local
    if any(isinstance(p, GroupEvent) for p in local.parts):
        raise invalid(
            "local",
            local,
            "take the group of the whole run instead: participation(local, ...).group(size)",
        )
    shares: dict[float, int] = {}
    for rho in _invitation_rates(agents, sampled, rounds, invited, eligible):
        shares[rho] = shares.get(rho, 0) + 1
    parts: list[Event] = []
    for rho, count in shares.items():
        if rho >= 1.0:
            parts.extend(p.repeat(count) for p in local.parts)
        else:
            parts.append(MixtureEvent(rho, local.parts, count=count))
    return replace(local, parts=merge(parts), quoted_delta=None)


def _invitation_rates(
    agents: int | None,
    sampled: int | None,
    rounds: int | None,
    invited: int | Iterable[int] | None,
    eligible: int | Iterable[int] | None,
) -> list[float]:
    if (invited is None) != (eligible is None):
        raise InvalidArgument(
            "arguments `invited` and `eligible` go together: give one count, or one count a round,"
            " for each"
        )
    if invited is None:
        for name, value in (("agents", agents), ("sampled", sampled), ("rounds", rounds)):
            if value is None:
                raise invalid(
                    name, value, "give agents, sampled and rounds, or else invited and eligible"
                )
        total = integer("agents", agents)
        return [integer("sampled", sampled, at_most=total) / total] * integer("rounds", rounds)
    if agents is not None or sampled is not None:
        raise InvalidArgument(
            "arguments `agents`, `sampled` describe the plan and `invited`, `eligible` what"
            " happened: give one pair"
        )
    length = rounds if rounds is None else integer("rounds", rounds)
    lists = [_as_list(value) for value in (invited, eligible)]
    if length is None:
        length = max(map(len, lists))
    for name, column in zip(("invited", "eligible"), lists, strict=True):
        if len(column) == 1:
            column *= length
        if len(column) != length:
            raise InvalidArgument(
                f"argument `{name}` has {len(column)} entries; give one count, or one for each of"
                f" {length} rounds"
            )
    rates = []
    for few, many in zip(*lists, strict=True):
        total = integer("eligible", many)
        taken = integer("invited", few, at_least=0, at_most=total)
        if taken:
            rates.append(taken / total)
    return rates


def _as_list(value: int | Iterable[int] | None) -> list[int | None]:
    return list(value) if isinstance(value, Iterable) else [value]


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
