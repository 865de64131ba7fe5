"""Which of several guarantees costs most: one that dominates the others, or the largest figure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ._budget import Budget
from ._guarantee import Guarantee
from .accounting.events import Event, GaussianEvent, merge, once
from .accounting.trade_off import TradeOff


def covers(whole: Guarantee, part: Guarantee) -> bool:
    """Whether `part` is made of some of the releases of `whole` (up to the rounding of sums)."""
    left: dict[Event, float] = {_kind(p): _amount(p) for p in whole.parts}
    return are_alike(whole, part) and all(
        _amount(p) <= left.get(_kind(p), 0.0) * (1 + 1e-11) for p in part.parts
    )


def are_alike(whole: Guarantee, part: Guarantee) -> bool:
    """Whether both protect the same, and the part rests on nothing that the whole does not say."""
    assumed = set(part.assumes.split("; ")) <= {"", *whole.assumes.split("; ")}
    return (part.adjacency, part.unit) == (whole.adjacency, whole.unit) and assumed


def _kind(part: Event) -> Event:
    return GaussianEvent(1.0) if isinstance(part, GaussianEvent) else once(part)


def _amount(part: Event) -> float:
    return part.squared_mu if isinstance(part, GaussianEvent) else getattr(part, "count", 1)


@dataclass(frozen=True, repr=False)
class WorstOf(Guarantee):
    """What several guarantees say of a person (or record) who is under one of them, whichever it
    is: each figure is the largest of theirs. `parts` cover those of each, so what is made of them
    (a composition, a group) is an upper bound.
    """

    of: tuple[Guarantee, ...] = ()

    def epsilon(self, delta: float) -> float:
        return max(one.epsilon(delta) for one in self.of)

    def delta(self, epsilon: float) -> float:
        return max(one.delta(epsilon) for one in self.of)

    def within(self, budget: Budget) -> bool:
        return all(one.within(budget) for one in self.of)

    def trade_off(self) -> TradeOff:
        curves = [one.trade_off() for one in self.of]
        return TradeOff(
            self.delta,
            self.epsilon(min(0.5, 1.01 * self.delta(math.inf) + 1e-15)),
            lambda rate: max(curve.rate(rate) for curve in curves),
            self.epsilon(0.0),
        )

    def __str__(self) -> str:
        said, _, _ = super().__str__().partition(f", {self.neighbours}: ")
        rests = f" It assumes: {self.assumes}." if self.assumes else ""
        return f"{said}, {self.neighbours}: the most that any of {len(self.of)} parts costs.{rests}"

    def group(self, size: int) -> Guarantee:
        return worst_of([one.group(size) for one in self.of])

    def for_people(self) -> Guarantee:
        return worst_of([one.for_people() for one in self.of])

    def for_records(self) -> Guarantee:
        return worst_of([one.for_records() for one in self.of])


def worst_of(guarantees: Sequence[Guarantee]) -> Guarantee:
    """One guarantee with the largest of all figures: one of them if it covers the others."""
    some = list(dict.fromkeys(one for one in guarantees if one.parts)) or list(guarantees[:1])
    one = max(some, key=lambda each: sum(map(_amount, each.parts)))  # none else can cover it
    if all(covers(one, other) for other in some):
        return one
    amounts: dict[Event, float] = {}
    for part in (part for one in some for part in one.parts):
        kind = _kind(part)
        amounts[kind] = max(amounts.get(kind, 0.0), _amount(part))
    together = some[0].compose(*some[1:])  # unlike adjacencies and units raise; what they assume
    return WorstOf(
        together.adjacency,
        merge(_of_amount(kind, amount) for kind, amount in amounts.items()),
        unit=together.unit,
        assumes=together.assumes,
        of=tuple(some),
    )


def _of_amount(kind: Event, amount: float) -> Event:
    return GaussianEvent(amount) if isinstance(kind, GaussianEvent) else kind.repeat(int(amount))
