"""The server's side as a state machine without an engine: invite, receive, close the round;
account; save and resume.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from .._errors import InvalidArgument, RiemdpError, integer
from .._trees import leaves, map_leaves
from ..manifolds._base import Point
from ..privacy import Budget, Guarantee
from ..randomness import NoiseSource
from ._accounting import FederatedPlan, most_rounds, realised_guarantee, worst
from ._aggregate import aggregate, moved_by_sum, validate_reply
from ._prirfed import PriRFed
from ._secure_sum import is_words, total
from ._sites import Absences, Replies, Sites


@dataclass(frozen=True)
class RoundRecord:
    """Public facts of one closed round. `accepted` < `quorum` means that x_t was kept.

    `invited` of `eligible` places were drawn. There are more places than agents that were there
    where otherwise each of them would have been drawn too often; those who were away are `missing`.
    """

    round: int
    invited: int
    eligible: int
    accepted: int
    refused: int
    missing: int
    moved: bool


class Coordinator:
    """The server of a PriRFed run: holds x_t, draws agents, refuses bad replies, averages, counts
    what was spent.

    Every invitation is charged when it is made, whether or not a reply comes back: the agent's
    noise may have been drawn and its reply seen. `may_invite` says before a round whether it still
    fits `budget`, so that dropouts (which raise the rate invited / eligible above the plan) never
    overspend it; `places` says how a round can go on with fewer agents.

    With shared noise a reply is a vector of masked words (`_secure_sum`), and a round counts when
    all that were invited have replied: otherwise masks are left in the sum.

    Agents are known by strings; their numbers of records are public. `agreement` is the fingerprint
    of the run's settings: a saved state of another run is not gone on from.
    """

    def __init__(
        self,
        prirfed: PriRFed,
        plan: FederatedPlan,
        sizes: dict[str, int],
        initial: Point,
        budget: Budget | None,
        source: NoiseSource,
        *,
        agreement: str = "",
    ):
        self.agreement = agreement
        self.prirfed, self.plan, self.budget = prirfed, plan, budget
        self.sizes = dict(sizes)
        self.value = self._confined(prirfed.problem.manifold._coerce("initial", initial))
        self.records: list[RoundRecord] = []
        self.invitations = dict.fromkeys(self.sizes, 0)
        self.open: tuple[str, ...] | None = None
        self._invited_now = self._eligible_now = 0
        self._absences = Absences()
        self._source = source

    def enrol(self, joined: Mapping[str, int], plan: FederatedPlan) -> None:
        """Take in agents that joined late, with a plan for all sizes: their invitations are counted
        from now on.
        """
        new = {agent: n for agent, n in joined.items() if agent not in self.sizes}
        self.sizes, self.plan = self.sizes | new, plan
        self.invitations = dict.fromkeys(self.sizes, 0) | self.invitations

    # ---------------------------------------------------------------- rounds
    @property
    def finished(self) -> bool:
        """Whether all planned rounds have been closed."""
        return len(self.records) >= self.prirfed.rounds

    def may_invite(self, eligible: Iterable[str]) -> bool:
        """Whether a round among `eligible` agents stays within the budget for every record.

        Who is there may depend on what came out before, and so may the rates of the rounds. The
        answer holds for every such schedule: see `places`.
        """
        names = self._known(eligible)
        if self.plan.shared is not None and len(names) < self.plan.shared.enough:
            return False  # too few shares of the noise
        if self.budget is None or not names:
            return bool(names)
        if self.prirfed.participation == "round-robin":
            count = min(self.prirfed.agents_per_round, len(names))
            most = max(self.invitations[a] + 1 for a in self._next_in_turn(names, count))
            most = max(most, *self.invitations.values())
            return all(g.repeat(most).within(self.budget) for g in self.plan.costs)
        return self._admits(min(self.prirfed.agents_per_round, len(names)), len(names))

    def places(self, eligible: Iterable[str]) -> int | None:
        """From how many places the agents of the next round must be drawn.

        As many as there are eligible agents, where that is within the budget. Otherwise more: the
        other places belong to agents that are away, and an agent that is drawn there is missing,
        so that nobody is invited at a higher rate than at the start.

        The rule: no round has a higher rate (invited / places) than the plan's, or than the first
        round's if that is higher. Both are known before anything came out. A round of a lower rate
        leaks less in the sense of all (epsilon, delta), so as many rounds of this highest rate
        bound what is leaked however the rates were chosen. A composition of the rates that happened
        would not: which of them happens may depend on the outputs.

        Args:
            eligible: The agents that are there.

        Returns:
            The number of places, or None where every round would exceed the budget.
        """
        names = self._known(eligible)
        if not names:
            return None
        if self.may_invite(names):
            return len(names)
        if self.prirfed.participation == "round-robin" or self.plan.shared is not None:
            return None
        invited, among = self._highest_rate(self.prirfed.agents_per_round, len(names))
        count = -(-self.prirfed.agents_per_round * among // invited)
        return count if self._admits(self.prirfed.agents_per_round, count) else None

    def _highest_rate(self, invited: int, eligible: int) -> tuple[int, int]:
        """The highest rate that a round may have, as (invited, places); given what the first round
        would be if there was none.
        """
        planned = (self.prirfed.agents_per_round, self.plan.planned_agents)
        first = self.records[0] if self.records else None
        other = (invited, eligible) if first is None else (first.invited, first.eligible)
        return max(planned, other, key=lambda rate: Fraction(*rate))

    def _admits(self, invited: int, eligible: int) -> bool:
        """Whether the rounds so far and one of this rate are within the budget."""
        assert self.budget is not None
        highest = self._highest_rate(invited, eligible)
        rates = [(invited, eligible), *((r.invited, r.eligible) for r in self.records)]
        if any(Fraction(*rate) > Fraction(*highest) for rate in rates):
            return False
        rounds = most_rounds(self.plan.costs, highest, self.prirfed.rounds, self.budget)
        return len(rates) <= rounds

    def invite(self, eligible: Iterable[str], *, places: int | None = None) -> tuple[str, ...]:
        """Open a round: draw agents among those that are there.

        From here on their invitation is spent, and the round counts with the rate of the draw.

        Args:
            eligible: The agents that are there.
            places: From how many places to draw, as `places` says. None: one for each of them.

        Returns:
            The agents to send x_t to; there may be none where there are more places than agents.

        Raises:
            RiemdpError: A round is open.
            InvalidArgument: Nobody is there, or a stranger.
        """
        if self.open is not None:
            raise RiemdpError("a round is open; close it before inviting for the next")
        names = self._known(eligible)
        if not names:
            raise InvalidArgument("argument `eligible` is empty: no agent is there to be invited")
        if self.plan.shared is not None:
            number, least = len(self.records), self.plan.shared.enough
            names, places = self._absences.dependable(names, number, least), None
        among = len(names) if places is None else integer("places", places, at_least=len(names))
        count = min(self.prirfed.agents_per_round, among)
        if self.prirfed.participation == "round-robin":
            chosen = self._next_in_turn(names, count)
        else:
            drawn = self._source.subsets(among, count, 1)[0]
            chosen = [names[int(i)] for i in drawn if int(i) < len(names)]
        for agent in chosen:
            self.invitations[agent] += 1
        self.open = tuple(chosen)
        self._invited_now, self._eligible_now = count, among
        return self.open

    def sound(self, agent: str, reply: object, claimed: float | None = None) -> bool:
        """Whether a reply of an agent may enter the average. Never raises on what an agent sent.

        `claimed` is what it says its number of records is; it must be the one that the server
        knows.
        """
        known = float(self.sizes[agent])
        if claimed is not None and not (
            isinstance(claimed, int | float | np.number) and float(claimed) == known
        ):
            return False
        manifold = self.prirfed.problem.manifold
        if self.plan.shared is not None:
            return is_words(reply, manifold.dim)
        return validate_reply(manifold, self.value, reply)

    @property
    def needed(self) -> int:
        """Valid replies without which the open round keeps x_t."""
        if self.plan.shared is None:
            return self.prirfed.quorum
        return max(self.plan.shared.enough, 0 if self.open is None else len(self.open))

    @property
    def fewest(self) -> int:
        """Without so many agents a round is of no use."""
        return 1 if self.plan.shared is None else self.plan.shared.enough

    def close(self, replies: Replies | None = None) -> RoundRecord:
        """Average what came (in the order of invitation) into x_{t+1}, or keep x_t below the
        quorum. With shared noise: add what came, or keep x_t where an agent is missing or has
        masks that do not cancel.

        Args:
            replies: Those of invited agents, which are `sound`. None: there are none.
        """
        if self.open is None:
            raise RiemdpError("no round is open; invite first")
        came = Replies({}) if replies is None else replies
        order = [a for a in self.open if a in came.sound]
        following = self._following([came.sound[a] for a in order], order)
        moved = following is not None
        if following is not None:
            self.value = self._confined(following)
        self._absences.note(len(self.records), self.open, order)
        refused = len(came.refused)
        missing = self._invited_now - len(order) - refused
        record = RoundRecord(
            len(self.records),
            self._invited_now,
            self._eligible_now,
            len(order),
            refused,
            missing,
            moved,
        )
        self.records.append(record)
        self.open = None
        return record

    # ---------------------------------------------------------------- what was spent
    def guarantee(self) -> Guarantee:
        """What the rounds so far (an open one included) have cost, for every record of every agent,
        against anyone.

        A composition of the rates that happened: for a run whose rates depended on its outputs, the
        budget is what holds, because `may_invite` and `places` keep it.
        """
        rates = [(r.invited, r.eligible) for r in self.records]
        if self.open is not None:
            rates.append((self._invited_now, self._eligible_now))
        most = max(self.invitations.values(), default=0)
        each = [
            realised_guarantee(g, rates, self.prirfed.participation, most) for g in self.plan.costs
        ]
        return worst(each, self.plan.delta)

    # ---------------------------------------------------------------- restart
    def state(self) -> dict[str, Any]:
        """What another server goes on from: public facts, as JSON has them."""
        opened = None
        if self.open is not None:
            opened = {"agents": list(self.open), "places": [self._invited_now, self._eligible_now]}
        return {
            "sizes": self.sizes,
            "invitations": self.invitations,
            "rounds": [asdict(r) for r in self.records],
            "open": opened,
            "value": _numbers(self.value),
        }

    def resume(self, state: Mapping[str, Any]) -> None:
        """Go on from the `state` of a server of the same agents. A round that was open then is
        closed as lost: x_t kept, all charged.

        Raises:
            ValueError, KeyError, TypeError, AttributeError: It is none.
        """
        value, records = self._point(state["value"]), [RoundRecord(**r) for r in state["rounds"]]
        invitations = {agent: int(state["invitations"][agent]) for agent in self.sizes}
        opened = state["open"]
        self.value, self.records, self.invitations = value, records, invitations
        if opened is not None:
            self.open = tuple(map(str, opened["agents"]))
            self._invited_now, self._eligible_now = map(int, opened["places"])
            self.close()

    def _point(self, numbers: Sequence[Any]) -> Point:
        """A saved point, of the structure of the present one."""
        if len(numbers) != len(leaves(self.value)):
            raise ValueError("the point has other parts")
        arrays = iter([np.asarray(x, dtype=np.float64) for x in numbers])
        return map_leaves(lambda leaf: next(arrays).reshape(np.shape(leaf)), self.value)

    # ---------------------------------------------------------------- helpers
    def _confined(self, point: Point) -> Point:
        """The point, moved into the ball where the ball bounds the noise: outside it no site
        answers. Post-processing.
        """
        ball = self.prirfed.problem.ball
        if ball is None or not self.prirfed.local.is_confined:
            return point
        return ball.on(self.prirfed.problem.manifold).clamp(point)

    def _following(self, replies: Sequence[Any], order: Sequence[str]) -> Point | None:
        """The next point from the replies of these agents; None: they are too few."""
        shared, sizes = self.plan.shared, [self.sizes[a] for a in order]
        if len(order) < self.needed:
            return None
        if shared is not None:
            return moved_by_sum(self.prirfed, shared, self.value, total(replies), sum(sizes))
        manifold = self.prirfed.problem.manifold
        return aggregate(manifold, self.value, replies, sizes, self.prirfed.aggregate)

    def _known(self, eligible: Iterable[str]) -> list[str]:
        there = set(eligible)
        unknown = there - set(self.sizes)
        if unknown:
            raise InvalidArgument(
                f"argument `eligible` names {len(unknown)} agents that are not part of this run"
            )
        return [a for a in self.sizes if a in there]  # a fixed public order

    def _next_in_turn(self, names: Sequence[str], count: int) -> list[str]:
        order = {a: i for i, a in enumerate(self.sizes)}
        return sorted(names, key=lambda a: (self.invitations[a], order[a]))[:count]


def rounds_of(
    server: Coordinator,
    sites: Sites,
    opened: Callable[[], object],
    keep: Callable[[], None],
) -> Iterator[RoundRecord]:
    """Run all rounds, and give each when it is closed. `opened` invites for the next one; None
    where there can be none. `keep` writes the server's state down: before a message is sent, so
    that a round is charged on disk first, and after the round.
    """
    while not server.finished and opened() is not None:
        keep()  # charged on disk before anything is sent
        assert server.open is not None
        replies = sites.ask(
            server.open,
            server.value,
            len(server.records),
            server.sound,
            quorum=server.needed,
        )
        record = server.close(replies)
        keep()
        yield record


def _numbers(point: Point) -> list[Any]:
    """A public point as lists of numbers."""
    return [np.asarray(leaf).tolist() for leaf in leaves(point)]
