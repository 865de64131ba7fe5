"""The public facts of a release, by name and with a type: they decide which theorem applies."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

from ..domains import AdaptiveBall, Ball
from ..manifolds import AbstractManifold
from ..privacy import Budget, Guarantee
from ._counts import OutsideCount, ValidCount
from ._distributions import ErrorDistribution
from ._region import Observation, rounded_up


class Query(enum.StrEnum):
    """What a release is of, where something follows from it: a region, a test."""

    MEAN = "Fréchet mean"
    TANGENTS = "mean of clipped tangent vectors"
    VARIANCE = "Fréchet variance about the centre of the ball"
    SHAPED = "mean of tangent vectors that are clipped in the shape of public records"
    MOMENT = "second moment of clipped tangent vectors"
    DIRECTION = "mean direction"


@dataclasses.dataclass(frozen=True, eq=False)
class Facts:
    """What is public about a release. None says that there is no such fact.

    Attributes:
        query: What was released: a `Query`, or other words.
        manifold: The space.
        n: The public number of records, or of people.
        n_min: Its public lower bound, where the number itself is protected.
        of_people: Whether the records are people.
        people: The public number of people.
        ball: The ball of the records: public, or released.
        radius: Of that ball.
        search: Where the ball was searched.
        share_of_search: The share of the budget that the search spent: the ball was found.
        weighted: Whether records had weights.
        sites: How many sites the records were at.
        numerics: "lattice" where the guarantee holds for the numbers as computed (noise in
            integers on a public grid, rounding within the sensitivity), "idealised" where it holds
            for real numbers.
        budget: The budget that was given.
        unit: "squared distance" where the value is one; None for a point of the space.
        error: What the stated error is: "exact", "upper bound", "estimate" or "no formula".
        outside: The `OutsideCount` of the records outside the ball.
        valid: The `ValidCount` of the records that are points.
        resultant: The mean resultant length of directions or axes, from 0 to 1.
        resultant_noise: Standard deviation of the noise along it.
        concentration: kappa of the distribution with this resultant.
        cone: Half the angle in radians of the cone about a mean direction that holds the
            population's with probability 0.95.
        public_value: What the public records of a prior say alone, without a private one.
        public_error: What that is expected to be wrong by for one more person, measured on public
            people alone: each is compared with the others. None for fewer than two.
        public_alone: What the public records are worth alone, in words.
        clipping: What was done with each record, in words.
        person_is: What stands for a person, in words.
        others: Further facts of one method.
    """

    query: str | None = None
    manifold: AbstractManifold | None = None
    n: int | None = None
    n_min: int | None = None
    of_people: bool = False
    people: int | None = None
    ball: Ball | None = None
    radius: float | None = None
    search: AdaptiveBall | None = None
    share_of_search: float | None = None
    weighted: bool | None = None
    sites: int | None = None
    numerics: str | None = None
    budget: Budget | None = None
    unit: str | None = None
    error: str | None = None
    outside: OutsideCount | None = None
    valid: ValidCount | None = None
    resultant: float | None = None
    resultant_noise: float | None = None
    concentration: float | None = None
    cone: float | None = None
    public_value: Any = None
    public_error: float | None = None
    public_alone: str | None = None
    clipping: str | None = None
    person_is: str | None = None
    others: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Facts:
        """The facts of a mapping by name."""
        return cls().told(told)

    def told(self, more: Mapping[str, Any]) -> Facts:
        """The same with other facts, or more of them, by name."""
        known = {name: fact for name, fact in more.items() if name in _TYPED}
        others = dict(self.others) | {k: fact for k, fact in more.items() if k not in _TYPED}
        if "people" in more:
            known["of_people"] = True
        return dataclasses.replace(self, **known, others=tuple(others.items()))

    @property
    def mapping(self) -> Mapping[str, Any]:
        """All of them by name, read-only; what is not known is left out."""
        typed = {name: getattr(self, name) for name in _TYPED}
        known = {name: fact for name, fact in typed.items() if fact is not None}
        if self.of_people:
            known["people"] = self.people
        return MappingProxyType(known | dict(self.others))

    @property
    def direction_in_words(self) -> str:
        """The figures of a mean direction; "" of other releases."""
        if self.resultant is None or self.concentration is None or self.cone is None:
            return ""
        told = (
            f"mean resultant length {self.resultant:.3g} (noise {self.resultant_noise:.2g}),"
            f" concentration {self.concentration:.3g}; with 95 % confidence, noise and sampling"
            " included,"
        )
        if self.cone >= math.pi / 2:
            return f"{told} no direction can be said"
        degrees = rounded_up(math.degrees(self.cone))
        return f"{told} the population's lies within {degrees} degrees"

    @property
    def found(self) -> bool:
        """Whether the ball was found privately."""
        return self.share_of_search is not None

    @property
    def count(self) -> int | None:
        """The public number of records, or its lower bound."""
        return self.n_min if self.n is None else self.n

    @property
    def is_equally_weighted(self) -> bool:
        """Whether it is about n records of equal weight, n being public."""
        return self.n is not None and not self.weighted


_TYPED = tuple(
    field.name for field in dataclasses.fields(Facts) if field.name not in ("others", "of_people")
)


@runtime_checkable
class Released(Protocol):
    """What is read of a `Release`."""

    @property
    def value(self) -> Any: ...

    @property
    def guarantee(self) -> Guarantee: ...

    @property
    def mechanism(self) -> str: ...

    @property
    def reproducible(self) -> bool: ...

    @property
    def error_distribution(self) -> ErrorDistribution | None: ...

    @property
    def observation(self) -> Observation | None: ...

    @property
    def facts(self) -> Facts: ...
