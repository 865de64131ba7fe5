"""The pieces a `Guarantee` is made of: one frozen record for each kind of mechanism, with how often
it was applied.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Self

from ..._errors import InvalidArgument, integer, invalid, one_of, real


@dataclass(frozen=True)
class GaussianEvent:
    """Any number of full-batch Gaussian releases: together one of mu^2 = sum of 1/z^2."""

    squared_mu: float

    def repeat(self, times: int) -> GaussianEvent:
        return GaussianEvent(self.squared_mu * times)

    def describe(self) -> str:
        return f"Gaussian noise with total noise multiplier {self.squared_mu**-0.5:.6g}"

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "gaussian", **asdict(self)}


@dataclass(frozen=True)
class CountedEvent:
    """So many applications of one mechanism, each with noise of its own."""

    kind: ClassVar[str]
    count: int = field(default=1, kw_only=True)

    def repeat(self, times: int) -> Self:
        return replace(self, count=self.count * times)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, **asdict(self)}


@dataclass(frozen=True)
class PureEvent(CountedEvent):
    kind: ClassVar[str] = "pure"
    epsilon: float

    def describe(self) -> str:
        return _times(self.count) + f"a pure release of epsilon {self.epsilon:.6g}"


@dataclass(frozen=True)
class ApproximateEvent(CountedEvent):
    kind: ClassVar[str] = "approximate"
    epsilon: float
    delta: float

    def describe(self) -> str:
        return _times(self.count) + f"an ({self.epsilon:.6g}, {self.delta:.6g}) release"


@dataclass(frozen=True)
class SampledGaussianEvent(CountedEvent):
    """Gaussian noise on a random share `rate` of the records, fresh in each of `count` steps."""

    kind: ClassVar[str] = "sampled-gaussian"
    noise_multiplier: float
    rate: float
    sampling: str

    def describe(self) -> str:
        how = (
            "without replacement"
            if self.sampling == "without-replacement"
            else "by Poisson sampling"
        )
        return (
            f"{self.count} step{'s' if self.count > 1 else ''} of Gaussian noise with noise"
            f" multiplier {self.noise_multiplier:.6g} on a fresh secret share {self.rate:.6g} of"
            f" the records drawn {how}"
        )


@dataclass(frozen=True)
class AllocatedGaussianEvent(CountedEvent):
    """Gaussian noise in each of `steps` steps, one of which uses the record; `count` epochs."""

    kind: ClassVar[str] = "allocated-gaussian"
    noise_multiplier: float
    steps: int

    def describe(self) -> str:
        epochs = f"{self.count} epoch{'s' if self.count > 1 else ''}"
        return (
            f"{epochs} of {self.steps} steps of Gaussian noise with noise multiplier"
            f" {self.noise_multiplier:.6g}, every record in one secret random step of each epoch"
        )


class CoarselyAllocatedEvent(AllocatedGaussianEvent):
    """The same with larger figures that take less time, for a search; in no guarantee."""


@dataclass(frozen=True)
class MixtureEvent(CountedEvent):
    """With probability `rate` the releases `local`, else nothing; independently in each of `count`
    rounds.
    """

    kind: ClassVar[str] = "mixture"
    rate: float
    local: tuple[Event, ...]

    def describe(self) -> str:
        inner = " and ".join(p.describe() for p in self.local)
        rounds = f"{self.count} round{'s' if self.count > 1 else ''}"
        return (
            f"{rounds}, each reaching a given agent with probability {self.rate:.6g} and then:"
            f" {inner}"
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "rate": self.rate,
            "local": [p.to_dict() for p in self.local],
            "count": self.count,
        }


@dataclass(frozen=True)
class SelectedGaussianEvent(CountedEvent):
    """The best of a secret number of runs, Poisson with mean `runs`; each is a Gaussian release."""

    kind: ClassVar[str] = "selected-gaussian"
    noise_multiplier: float
    runs: int

    def describe(self) -> str:
        return _times(self.count) + (
            f"the best of a secret number of runs, Poisson with mean {self.runs}, each with"
            f" Gaussian noise of noise multiplier {self.noise_multiplier:.6g}"
        )


@dataclass(frozen=True)
class NoPrivacyEvent:
    def repeat(self, times: int) -> NoPrivacyEvent:
        return self

    def describe(self) -> str:
        return "a release without any privacy"

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "none"}


@dataclass(frozen=True)
class GroupEvent:
    """The releases `inner`, seen by `size` records that change together: those of one person, or
    one that goes and one that comes.
    """

    size: int
    inner: tuple[Event, ...]

    def repeat(self, times: int) -> GroupEvent:
        return GroupEvent(self.size, merge(p.repeat(times) for p in self.inner))

    def describe(self) -> str:
        inner = " and ".join(p.describe() for p in self.inner)
        who = "records that change together, such as the records of one person"
        return f"for {self.size} {who}: {inner}"

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "group", "size": self.size, "inner": [p.to_dict() for p in self.inner]}


Event = (
    GaussianEvent
    | PureEvent
    | ApproximateEvent
    | SampledGaussianEvent
    | AllocatedGaussianEvent
    | MixtureEvent
    | SelectedGaussianEvent
    | GroupEvent
    | NoPrivacyEvent
)
_ORDER = (
    GaussianEvent,
    PureEvent,
    ApproximateEvent,
    SampledGaussianEvent,
    AllocatedGaussianEvent,
    MixtureEvent,
    SelectedGaussianEvent,
    GroupEvent,
    NoPrivacyEvent,
)


_MOST = 10**15  # of what a file says that it counts


def _times(count: int) -> str:
    return "" if count == 1 else f"{count} times "


def merge(parts: Iterable[Event]) -> tuple[Event, ...]:
    """Normal form: what costs nothing dropped, like added to like, in a fixed order; `none` absorbs
    the rest.
    """
    squared_mu = 0.0
    counts: dict[Event, int] = {}
    groups: dict[int, list[Event]] = {}
    for part in parts:
        if isinstance(part, NoPrivacyEvent):
            return (part,)
        if isinstance(part, GaussianEvent):
            squared_mu += part.squared_mu
            continue
        if isinstance(part, GroupEvent):  # a composition for a group is the group's composition
            groups.setdefault(part.size, []).extend(part.inner)
            continue
        if isinstance(part, ApproximateEvent) and part.delta == 0.0:
            part = PureEvent(part.epsilon, count=part.count)
        if isinstance(part, PureEvent) and part.epsilon == 0.0:
            continue
        one = part if part.count == 1 else replace(part, count=1)
        counts[one] = counts.get(one, 0) + part.count
    merged: list[Event] = [
        one if count == 1 else replace(one, count=count) for one, count in counts.items() if count
    ]  # type: ignore[call-arg]
    merged += [GroupEvent(size, merge(inner)) for size, inner in groups.items()]
    merged.sort(key=_sort_key)
    return ((GaussianEvent(squared_mu),) if squared_mu > 0.0 else ()) + tuple(merged)


def once(part: Event) -> Event:
    """One application of a part."""
    return (
        part
        if isinstance(part, GaussianEvent | GroupEvent | NoPrivacyEvent)
        else replace(part, count=1)
    )


def _sort_key(part: Event) -> tuple[int, float, float, str]:
    kind = _ORDER.index(type(part))
    if isinstance(part, PureEvent):
        return kind, part.epsilon, 0.0, ""
    if isinstance(part, ApproximateEvent):
        return kind, part.epsilon, part.delta, ""
    return kind, 0.0, 0.0, repr(once(part))


def event_from_dict(state: Mapping[str, Any]) -> Event:
    """Inverse of `to_dict`; every number is checked: a ledger file can be edited by hand."""
    try:
        kind = state["kind"]
        if kind == "gaussian":
            return GaussianEvent(real("squared_mu", state["squared_mu"], at_least=0.0))
        if kind == "none":
            return NoPrivacyEvent()
        if kind == "group":
            size = integer("size", state["size"], at_most=_MOST)
            return GroupEvent(size, merge(event_from_dict(p) for p in state["inner"]))
        count = integer("count", state["count"], at_most=_MOST)
        if kind == "pure":
            return PureEvent(real("epsilon", state["epsilon"], at_least=0.0), count=count)
        if kind == "approximate":
            return ApproximateEvent(
                real("epsilon", state["epsilon"], at_least=0.0),
                real("delta", state["delta"], at_least=0.0, below=1.0),
                count=count,
            )
        if kind == "allocated-gaussian":
            return AllocatedGaussianEvent(
                real("noise_multiplier", state["noise_multiplier"], above=0.0),
                integer("steps", state["steps"], at_least=2, at_most=_MOST),
                count=count,
            )
        if kind == "selected-gaussian":
            return SelectedGaussianEvent(
                real("noise_multiplier", state["noise_multiplier"], above=0.0),
                integer("runs", state["runs"], at_most=_MOST),
                count=count,
            )
        rate = real("rate", state["rate"], above=0.0, below=1.0)
        if kind == "sampled-gaussian":
            sampling = one_of("sampling", state["sampling"], ("without-replacement", "poisson"))
            return SampledGaussianEvent(
                real("noise_multiplier", state["noise_multiplier"], above=0.0),
                rate,
                sampling,
                count=count,
            )
        if kind == "mixture":
            return MixtureEvent(
                rate, merge(event_from_dict(p) for p in state["local"]), count=count
            )
    except (KeyError, TypeError) as error:
        raise InvalidArgument(
            "argument `parts` is not the description of a Guarantee's parts (see Guarantee.to_dict)"
        ) from error
    raise invalid(
        "kind",
        kind,
        "this version of riemdp knows gaussian, pure, approximate, sampled-gaussian,"
        " allocated-gaussian, selected-gaussian, mixture, group and none",
    )


def in_words(parts: Iterable[Event], of_people: bool) -> str:
    """What mechanisms are, one after the other, about people or about records."""
    words = "; ".join(part.describe() for part in parts)
    if not of_people:
        return words
    return words.replace("of the records", "of the people").replace("every record", "every person")
