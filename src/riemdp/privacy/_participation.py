"""The guarantee of federated rounds, of which each invites a random part of the agents."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction

from .._errors import InvalidArgument, integer, invalid, real
from ._guarantee import Guarantee
from .accounting.events import Event, GroupEvent, MixtureEvent, merge

_UNDECIDED = 1e-12  # two logarithms and a quotient have a much smaller relative error
_MOST_EXACT = 1000  # powers up to here are compared without rounding


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
            parts.append(MixtureEvent(rho, local.parts, count))
    return replace(local, parts=merge(parts), quoted_delta=None)


def equivalent_rounds(rate: float, planned_rate: float) -> int:
    """How many planned rounds dominate one round that invited a share `rate` of the agents.

    A run whose rates depend on what happened before (who is there, who dropped out) is within its
    plan, whatever the dependence, as long as these numbers add up to at most the planned rounds: k
    planned rounds reach a given agent at least once with probability 1 - (1 - planned_rate)^k, and
    one round at a smaller rate is a function of whether they did and of the first answer.

    Args:
        rate: Invited over eligible agents of the round, in [0, 1].
        planned_rate: The same in the plan, in (0, 1].

    Returns:
        0 where nobody was invited, 1 up to the planned rate, and more above it: the smallest k with
        (1 - planned_rate)^k <= 1 - rate, of the two floats as they are, decided exactly. Above k =
        1000 it may be one too large.

    Raises:
        InvalidArgument: A rate is out of range, or is 1 where the plan's is not: no number of
            planned rounds reaches everybody.

    Source:
        Proof: docs/proofs/federated.md.

    Examples:
        >>> [equivalent_rounds(rate, 0.05) for rate in (0.0, 0.03, 0.05, 0.06, 0.2)]
        [0, 1, 1, 2, 5]
    """
    planned = real("planned_rate", planned_rate, above=0.0, at_most=1.0)
    rate = real("rate", rate, at_least=0.0, at_most=1.0)
    if rate <= planned:
        return int(rate > 0.0)
    if rate == 1.0:
        raise invalid("rate", rate, f"a plan at rate {planned:g} never reaches every agent")
    rounds = math.log1p(-rate) / math.log1p(-planned)
    near = round(rounds)
    if near <= _MOST_EXACT and abs(rounds - near) <= _UNDECIDED * rounds:
        return near if (1 - Fraction(planned)) ** near <= 1 - Fraction(rate) else near + 1
    return math.ceil(rounds * (1 + _UNDECIDED))


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
