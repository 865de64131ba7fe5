"""`Guarantee`: what a release, or any composition of releases, leaks about one record."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .._errors import InvalidArgument, integer, invalid, one_of, real
from ._budget import Budget
from .accounting import bounds
from .accounting.dp_events import event_of, parts_of
from .accounting.events import (
    ApproximateEvent,
    Event,
    GroupEvent,
    NoPrivacyEvent,
    PureEvent,
    event_from_dict,
    in_words,
    merge,
)
from .accounting.trade_off import TradeOff

REPLACE_ONE = "replace-one"
ADD_REMOVE = "add-or-remove-one"
ADJACENCIES = (REPLACE_ONE, ADD_REMOVE)
RECORD, PERSON = "record", "person"
UNITS = (RECORD, PERSON)


@dataclass(frozen=True)
class Guarantee:
    """A privacy guarantee: a composition of known mechanisms, kept symbolic, with exact or
    upper-bounded figures.

    Make one with `pure`, `approximate`, `gaussian`, `subsampled_gaussian`, `participation` or
    `none`, and combine several with `compose`. Two guarantees made of the same parts are equal and
    have the same hash.

    Attributes:
        adjacency: Which data sets are neighbours: "replace-one" (same public size n, one record
            different) or "add-or-remove-one".
        parts: The mechanisms that are composed.
        quoted_delta: The delta at which `str()` states epsilon, or None.
        unit: What neighbours differ in: one "record", or everything of one "person", however many
            records that is.
        assumes: What the guarantee rests on beyond the code that ran, in words, clauses divided by
            "; "; "" for nothing. A composition assumes what any of its parts does.

    Guarantee:
        For all neighbouring data sets D, D' and every event S, P(M(D) in S) <= e^epsilon P(M(D') in
        S) + delta(epsilon), for every epsilon at once, for adaptively chosen mechanisms too.

    Source:
        Proof: docs/proofs/composition.md.

    Examples:
        >>> import riemdp
        >>> both = riemdp.privacy.gaussian(4.0).compose(riemdp.privacy.gaussian(4.0))
        >>> both == riemdp.privacy.gaussian(4.0, 2), both.within(riemdp.Budget(2.0, 1e-5))
        (True, True)
    """

    adjacency: str
    parts: tuple[Event, ...] = ()
    quoted_delta: float | None = field(default=None, compare=False, repr=False)
    unit: str = RECORD
    assumes: str = ""

    # ---------------------------------------------------------------- figures
    def epsilon(self, delta: float) -> float:
        """The epsilon that holds at this `delta` in [0, 1) (an upper bound; `math.inf` where there
        is none).

        Of batches that are drawn at random, what happens with a probability of 1e-26 a step and
        less is counted as a failure: for a delta near that and below, the bound is much larger.
        """
        return bounds.epsilon(self.parts, real("delta", delta, at_least=0.0, below=1.0))

    def delta(self, epsilon: float) -> float:
        """The delta that holds at this `epsilon` >= 0 (an upper bound in [0, 1])."""
        forever = isinstance(epsilon, float) and epsilon == math.inf
        return bounds.delta(
            self.parts, math.inf if forever else real("epsilon", epsilon, at_least=0.0)
        )

    def within(self, budget: Budget) -> bool:
        """Whether this guarantee costs no more than `budget` (a `Budget`)."""
        return bounds.within(self.parts, budget.epsilon, budget.delta)

    def trade_off(self) -> TradeOff:
        """What an attacker who guesses from the releases which of two neighbouring data sets was
        used can do at best: `trade_off().rate(f)` bounds the rate of true positives at the rate f
        of false ones.

        Examples:
            >>> from riemdp.privacy import gaussian
            >>> round(gaussian(1.0).trade_off().rate(0.01), 4)
            0.0924
        """
        return bounds.trade_off(self.parts)

    @property
    def is_private(self) -> bool:
        """False for `none()` and whatever was composed with it."""
        return not any(isinstance(p, NoPrivacyEvent) for p in self.parts)

    # ---------------------------------------------------------------- composition
    def compose(self, *others: Guarantee) -> Guarantee:
        """This guarantee and `others` together: what all the releases leak about one record that is
        in every data set.

        Closed form where there is one (Gaussians add 1/z^2, pure epsilons add), privacy-loss
        distributions otherwise. A guarantee that costs nothing composes with anything; otherwise
        unlike adjacencies and unlike units raise `InvalidArgument`.
        """
        everything = (self, *(as_guarantee(other, "others") for other in others))
        if not all(g.is_private for g in everything):
            return none()
        adjacencies = {g.adjacency for g in everything if g.parts}
        if len(adjacencies) > 1:
            raise InvalidArgument(
                "argument `others` mixes the adjacencies "
                + " and ".join(sorted(adjacencies))
                + ": such guarantees speak of different neighbouring data sets and do not add up;"
                " account for both releases under one adjacency (for example"
                " sampling='without-replacement' instead of 'poisson')"
            )
        units = {g.unit for g in everything if g.parts}
        if len(units) > 1:
            raise InvalidArgument(
                "argument `others` mixes guarantees for one person with guarantees for one record:"
                " together they protect no person, only single records. Make all releases with"
                " `groups`; or keep a ledger for each; or restate those for one person by"
                " `Guarantee.for_records()`, and compose for one record"
            )
        return Guarantee(
            adjacencies.pop() if adjacencies else self.adjacency,
            merge(p for g in everything for p in g.parts),
            unit=units.pop() if units else self.unit,
            assumes=_together(*everything),
        )

    def assuming(self, what: str) -> Guarantee:
        """The same guarantee, which also rests on `what`, in words."""
        return replace(self, assumes=_together(self, replace(self, assumes=what)))

    def for_people(self) -> Guarantee:
        """The same guarantee of a function of one value a person, about the people: neighbours then
        differ in everything of one person.

        True only where the person's value was made of that person's records alone, and where the
        number of people took the place of the number of records; `groups=` of the releases does
        both, and then charges this.

        Source:
            Proof: docs/proofs/people.md.
        """
        return replace(self, unit=PERSON)

    def for_records(self) -> Guarantee:
        """What a guarantee for one person says of each single record: the same figures, for
        neighbours that differ in one record. It composes with guarantees for records.

        Source:
            Proof: docs/proofs/people.md.
        """
        return replace(self, unit=RECORD)

    def repeat(self, times: int) -> Guarantee:
        """This guarantee `times` times over (0 gives a guarantee that costs nothing); same as
        composing it with itself: several releases, one record.

        For one release and several records of one person see `group`, which costs more.
        """
        times = integer("times", times, at_least=0)
        return Guarantee(
            self.adjacency,
            merge(p.repeat(times) for p in self.parts) if times else (),
            unit=self.unit,
            assumes=self.assumes,
        )

    def group(self, size: int) -> Guarantee:
        """What these releases leak about `size` records that change together: all records of one
        person, who has at most that many.

        Not to be confused with `repeat`, which is about one record and several releases. A group
        costs much more: noise is made for one record, and `size` records move the result `size`
        times as far.

        Args:
            size: The largest number of records of one person, >= 1.

        Returns:
            A guarantee whose neighbouring data sets differ in `size` records.

        Guarantee:
            Gaussian releases: exactly `size` times mu. Pure releases: `size` times epsilon.
            (epsilon, delta) releases: (size epsilon, delta (1 + e^epsilon + ... + e^((size-1)
            epsilon))). All others: the trade-off function applied `size` times, which is at most
            the rule for (epsilon, delta) at every epsilon.

        Raises:
            InvalidArgument: `size` is no whole number >= 1, or the guarantee is for one person.

        Source:
            Dong, Roth and Su 2022, Theorem 2.14; Vadhan 2017, Lemma 2.2.
            Proof: docs/proofs/composition.md.

        Examples:
            >>> from riemdp.privacy import gaussian
            >>> alone = gaussian(10.0)
            >>> alone.group(10) == gaussian(1.0)
            True
        """
        size = integer("size", size)
        if self.unit == PERSON:
            raise InvalidArgument(
                "this guarantee is about one person already, however many records that person has;"
                " for several people, say a household, take `for_records().group(size)`"
            )
        if size == 1 or not self.parts or not self.is_private:
            return self
        alone = [bounds.group_of(p, size) for p in self.parts]
        known = [p for p in alone if p is not None]
        if len(known) == len(alone) and (
            len(known) == 1 or not any(isinstance(p, ApproximateEvent) for p in known)
        ):
            return replace(self, parts=merge(known), quoted_delta=None)
        return replace(self, parts=merge([GroupEvent(size, self.parts)]), quoted_delta=None)

    # ---------------------------------------------------------------- other libraries
    def to_dp_event(self) -> Any:
        """A `DpEvent` of dp-accounting that costs at least as much, for its accountants.

        The noise multiplier of a Gaussian event here is that of this guarantee: noise over the
        sensitivity under its own `adjacency`. dp-accounting's `RdpAccountant` reads it so under
        each relation. `PLDAccountant` does under ADD_OR_REMOVE_ONE, and doubles the sensitivity
        once more under REPLACE_ONE: there the figure is larger than need be, and never smaller.

        Returns:
            An event of Gaussian, pure and batched Gaussian releases. Unit, adjacency and what it
            `assumes` do not go into the event.

        Raises:
            InvalidArgument: dp-accounting has no event for a part of this guarantee.
            MissingExtra: dp-accounting is not installed.

        Source:
            Proof: docs/proofs/composition.md.
        """
        return event_of(self.parts, self.adjacency == REPLACE_ONE)

    @staticmethod
    def from_dp_event(event: Any, *, adjacency: str, unit: str) -> Guarantee:
        """What a `DpEvent` of dp-accounting costs, at most.

        An event of dp-accounting adds up values that are clipped to C, and its noise multiplier is
        noise over C. Two values differ where a record is replaced, so such an event costs twice the
        mu (Gaussian) or epsilon (Laplace) under replace-one.

        Args:
            event: Gaussian, Laplace, discrete Laplace and randomised response; Poisson samples and
                samples without replacement of Gaussian or of pure releases; compositions.
            adjacency: "replace-one" or "add-or-remove-one".
            unit: What one record of the event's data set is: a "record", or all of a "person".

        Raises:
            InvalidArgument: The event, named, has no upper bound here, or not under this adjacency.

        Source:
            Proof: docs/proofs/composition.md.
        """
        adjacency, unit = one_of("adjacency", adjacency, ADJACENCIES), one_of("unit", unit, UNITS)
        return Guarantee(adjacency, parts_of(event, adjacency == REPLACE_ONE), unit=unit)

    # ---------------------------------------------------------------- words and JSON
    def quoted_at(self, delta: float) -> Guarantee:
        """The same guarantee, whose `str()` quotes epsilon at this delta (at 0: at 1e-5, unless it
        is pure).
        """
        quoted = delta if delta > 0 else None
        return self if quoted == self.quoted_delta else replace(self, quoted_delta=quoted)

    def __str__(self) -> str:
        if not self.parts:
            return f"Costs no privacy at all, {self.adjacency}."
        if not self.is_private:
            return "No privacy guarantee (epsilon is infinite): a non-private baseline."
        if all(isinstance(p, PureEvent) for p in self.parts):
            figure = f"{self.epsilon(0.0):.4g}-differentially private"
        else:
            delta = 1e-5 if self.quoted_delta is None else self.quoted_delta
            figure = f"({self.epsilon(delta):.4g}, {delta:.4g})-differentially private"
        rests = f" It assumes: {self.assumes}." if self.assumes else ""
        return f"{figure}, {self.neighbours}: {in_words(self.parts, self.unit == PERSON)}.{rests}"

    @property
    def neighbours(self) -> str:
        """Which data sets are neighbours, in a few words."""
        if self.unit == PERSON:
            return f"{self.adjacency} neighbours that differ in all records of one person"
        return f"{self.adjacency} neighbours"

    def __repr__(self) -> str:
        return (
            f"Guarantee({self.adjacency!r}{', one person' if self.unit == PERSON else ''}:"
            f" {in_words(self.parts, self.unit == PERSON) or 'costs nothing'}"
            f"{f', assuming {self.assumes}' if self.assumes else ''})"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-ready description; `Guarantee.from_dict` gives an equal guarantee back."""
        told = {"adjacency": self.adjacency, "parts": [p.to_dict() for p in self.parts]}
        return (
            told
            | ({} if self.unit == RECORD else {"unit": self.unit})
            | ({"assumes": self.assumes} if self.assumes else {})
        )

    @staticmethod
    def from_dict(state: Mapping[str, Any]) -> Guarantee:
        """The guarantee that `to_dict` described.

        Raises:
            InvalidArgument: `state` is no such description.
        """
        try:
            adjacency, parts = state["adjacency"], list(state["parts"])
            assumes = state.get("assumes", "")
            if not isinstance(assumes, str):
                raise TypeError("assumes")
        except (TypeError, KeyError) as error:
            raise InvalidArgument(
                "argument `state` is not the description of a Guarantee (see Guarantee.to_dict)"
            ) from error
        return Guarantee(
            one_of("adjacency", adjacency, ADJACENCIES),
            merge(event_from_dict(p) for p in parts),
            unit=one_of("unit", state.get("unit", RECORD), UNITS),
            assumes=assumes,
        )


def _together(*guarantees: Guarantee) -> str:
    """The assumptions of several guarantees, each clause once, in one order."""
    return "; ".join(sorted({c for g in guarantees for c in g.assumes.split("; ") if c}))


def none() -> Guarantee:
    """No privacy at all: epsilon is infinite and delta is 1. For non-private baselines; absorbs
    whatever it is composed with.

    Source:
        Proof: docs/proofs/composition.md.
    """
    return Guarantee(REPLACE_ONE, (NoPrivacyEvent(),))


def as_guarantee(value: object, name: str = "guarantee") -> Guarantee:
    """Accept a Guarantee where one is expected, and name the mistake otherwise."""
    if isinstance(value, Guarantee):
        return value
    remedy = "give a Guarantee (riemdp.privacy.pure, gaussian, subsampled_gaussian, ...)"
    raise invalid(name, value, remedy)
