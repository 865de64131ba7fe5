"""The pieces a `Guarantee` is made of: one frozen record for each kind of mechanism, with how often
it was applied.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from .._errors import InvalidArgument, integer, invalid, one_of, real


@dataclass(frozen=True)
class GaussianPart:
    """Any number of full-batch Gaussian releases: together one of mu^2 = sum of 1/z^2."""

    squared_mu: float

    def repeat(self, times: int) -> GaussianPart:
        return GaussianPart(self.squared_mu * times)

    def describe(self) -> str:
        return f"Gaussian noise with total noise multiplier {self.squared_mu**-0.5:.6g}"

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "gaussian", **asdict(self)}


@dataclass(frozen=True)
class PurePart:
    epsilon: float
    count: int = 1

    def repeat(self, times: int) -> PurePart:
        return replace(self, count=self.count * times)

    def describe(self) -> str:
        return _times(self.count) + f"a pure release of epsilon {self.epsilon:.6g}"

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "pure", **asdict(self)}


@dataclass(frozen=True)
class ApproximatePart:
    epsilon: float
    delta: float
    count: int = 1

    def repeat(self, times: int) -> ApproximatePart:
        return replace(self, count=self.count * times)

    def describe(self) -> str:
        return _times(self.count) + f"an ({self.epsilon:.6g}, {self.delta:.6g}) release"

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "approximate", **asdict(self)}


@dataclass(frozen=True)
class SampledGaussianPart:
    """Gaussian noise on a random share `rate` of the records, fresh in each of `count` steps."""

    noise_multiplier: float
    rate: float
    sampling: str
    count: int = 1

    def repeat(self, times: int) -> SampledGaussianPart:
        return replace(self, count=self.count * times)

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

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "sampled-gaussian", **asdict(self)}


@dataclass(frozen=True)
class MixturePart:
    """With probability `rate` the releases `local`, else nothing; independently in each of `count`
    rounds.
    """

    rate: float
    local: tuple[Part, ...]
    count: int = 1

    def repeat(self, times: int) -> MixturePart:
        return replace(self, count=self.count * times)

    def describe(self) -> str:
        inner = " and ".join(p.describe() for p in self.local)
        rounds = f"{self.count} round{'s' if self.count > 1 else ''}"
        return (
            f"{rounds}, each reaching a given agent with probability {self.rate:.6g} and then:"
            f" {inner}"
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": "mixture",
            "rate": self.rate,
            "local": [p.to_dict() for p in self.local],
            "count": self.count,
        }


@dataclass(frozen=True)
class NoPrivacyPart:
    def repeat(self, times: int) -> NoPrivacyPart:
        return self

    def describe(self) -> str:
        return "a release without any privacy"

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "none"}


@dataclass(frozen=True)
class GroupPart:
    """The releases `inner`, seen by `size` records that change together."""

    size: int
    inner: tuple[Part, ...]

    def repeat(self, times: int) -> GroupPart:
        return GroupPart(self.size, merge(p.repeat(times) for p in self.inner))

    def describe(self) -> str:
        inner = " and ".join(p.describe() for p in self.inner)
        return f"for {self.size} records of one person together: {inner}"

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "group", "size": self.size, "inner": [p.to_dict() for p in self.inner]}


Part = (
    GaussianPart
    | PurePart
    | ApproximatePart
    | SampledGaussianPart
    | MixturePart
    | GroupPart
    | NoPrivacyPart
)
_ORDER = (
    GaussianPart,
    PurePart,
    ApproximatePart,
    SampledGaussianPart,
    MixturePart,
    GroupPart,
    NoPrivacyPart,
)


def _times(count: int) -> str:
    return "" if count == 1 else f"{count} times "


def merge(parts: Iterable[Part]) -> tuple[Part, ...]:
    """Normal form: what costs nothing dropped, like added to like, in a fixed order; `none` absorbs
    the rest.
    """
    squared_mu = 0.0
    counts: dict[Part, int] = {}
    groups: dict[int, list[Part]] = {}
    for part in parts:
        if isinstance(part, NoPrivacyPart):
            return (part,)
        if isinstance(part, GaussianPart):
            squared_mu += part.squared_mu
            continue
        if isinstance(part, GroupPart):  # a composition for a group is the group's composition
            groups.setdefault(part.size, []).extend(part.inner)
            continue
        if isinstance(part, ApproximatePart) and part.delta == 0.0:
            part = PurePart(part.epsilon, part.count)
        if isinstance(part, PurePart) and part.epsilon == 0.0:
            continue
        one = part if part.count == 1 else replace(part, count=1)
        counts[one] = counts.get(one, 0) + part.count
    merged: list[Part] = [
        one if count == 1 else replace(one, count=count) for one, count in counts.items() if count
    ]  # type: ignore[call-arg]
    merged += [GroupPart(size, merge(inner)) for size, inner in groups.items()]
    merged.sort(key=_sort_key)
    return ((GaussianPart(squared_mu),) if squared_mu > 0.0 else ()) + tuple(merged)


def once(part: Part) -> Part:
    """One application of a part."""
    return (
        part
        if isinstance(part, GaussianPart | GroupPart | NoPrivacyPart)
        else replace(part, count=1)
    )


def _sort_key(part: Part) -> tuple[int, float, float, str]:
    kind = _ORDER.index(type(part))
    if isinstance(part, PurePart):
        return kind, part.epsilon, 0.0, ""
    if isinstance(part, ApproximatePart):
        return kind, part.epsilon, part.delta, ""
    return kind, 0.0, 0.0, repr(part)


def part_from_dict(state: Mapping[str, Any]) -> Part:
    """Inverse of `to_dict`; every number is checked: a ledger file can be edited by hand."""
    try:
        kind = state["kind"]
        if kind == "gaussian":
            return GaussianPart(real("squared_mu", state["squared_mu"], at_least=0.0))
        if kind == "none":
            return NoPrivacyPart()
        if kind == "group":
            size = integer("size", state["size"])
            return GroupPart(size, merge(part_from_dict(p) for p in state["inner"]))
        count = integer("count", state["count"])
        if kind == "pure":
            return PurePart(real("epsilon", state["epsilon"], at_least=0.0), count)
        if kind == "approximate":
            return ApproximatePart(
                real("epsilon", state["epsilon"], at_least=0.0),
                real("delta", state["delta"], at_least=0.0, below=1.0),
                count,
            )
        rate = real("rate", state["rate"], above=0.0, below=1.0)
        if kind == "sampled-gaussian":
            sampling = one_of("sampling", state["sampling"], ("without-replacement", "poisson"))
            return SampledGaussianPart(
                real("noise_multiplier", state["noise_multiplier"], above=0.0),
                rate,
                sampling,
                count,
            )
        if kind == "mixture":
            return MixturePart(rate, merge(part_from_dict(p) for p in state["local"]), count)
    except (KeyError, TypeError) as error:
        raise InvalidArgument(
            "argument `parts` is not the description of a Guarantee's parts (see Guarantee.to_dict)"
        ) from error
    raise invalid(
        "kind",
        kind,
        "this version of riemdp knows gaussian, pure, approximate, sampled-gaussian, mixture and"
        " none",
    )
