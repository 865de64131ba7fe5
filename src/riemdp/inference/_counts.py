"""Released counts of records that say how far a mean can be trusted: how many lay outside its ball,
and how many were points of the space at all. Everything here is a function of released numbers.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from .._errors import warn_with_release
from ..privacy._guarantee import PERSON, RECORD

MANY = 0.25  # of the records outside a public ball: worth a warning
HALF = 0.5  # of those outside a ball that was found, which is meant to hold half of them at least


@dataclasses.dataclass(frozen=True)
class OutsideCount:
    """How many records lay outside the ball, or were no points of the space: an answer with noise,
    which the guarantee of its release covers.

    Attributes:
        count: The noisy count, rounded to a whole number and moved into [0, n].
        deviation: Standard deviation of its noise before that.
        n: The public number of records; None where it is protected.
        share: Public share of the budget that it cost: of mu^2 for Gaussian noise, of epsilon for
            pure releases.
        unit: "record"; or "person", where people are counted of whose records more than half lay
            outside or were no points.
        found: Whether the ball was found privately.
    """

    count: int
    deviation: float
    n: int | None
    share: float
    unit: str = RECORD
    found: bool = False

    def __str__(self) -> str:
        of = "" if self.n is None else f" of {self.n:,}"
        return f"about {self.count:,} ± {math.ceil(self.deviation):,}{of} {self.noun}"

    @property
    def noun(self) -> str:
        """What was counted."""
        return "people" if self.unit == PERSON else "records"

    @property
    def lay(self) -> str:
        """What they did."""
        return "had most of their records" if self.unit == PERSON else "lay"

    def to_dict(self) -> dict[str, float | int | str | None]:
        """JSON-ready description."""
        return {
            "count": self.count,
            "standard_deviation": self.deviation,
            "of": self.n,
            "share_of_budget": self.share,
        } | ({"counted": self.noun} if self.unit == PERSON else {})

    @property
    def many(self) -> bool:
        """Whether more than a quarter of the records (of a ball that was found: than half of them)
        lay outside, with two standard deviations to spare. False where n is protected.
        """
        limit = HALF if self.found else MANY
        return self.n is not None and self.count - 2 * self.deviation >= limit * self.n

    @property
    def caution(self) -> str | None:
        """What to be told where `many` lay outside, else None."""
        if not self.many:
            return None
        if self.found:
            return (
                f"{self} {self.lay} outside the ball that was found, or were not points of the"
                " space, so the result is about the others, and its stated error is that from noise"
                f" alone. {_REMEDY}"
            )
        return (
            f"{self} {self.lay} outside the ball and were moved into it, so the result says more"
            " about the ball than about them. Choose a larger radius, another centre or other units"
            " (EEG in volts: multiply by 1e6), or give no ball: one is then found privately."
            " Matrices that are singular up to rounding (EEG after an average reference or ICA) lie"
            " outside every ball or are invalid: drop a channel, project to as many dimensions as"
            " the rank or add public shrinkage; riemdp.check_records, which is not private, finds"
            " them. This count is released under the guarantee, so a ball may be chosen by it; the"
            " next release costs again"
        )


@dataclasses.dataclass(frozen=True)
class ValidCount:
    """How many records were points of the space, as a search for a ball was told: an answer with
    noise, which the guarantee of its release covers.

    Attributes:
        count: The noisy count, rounded to a whole number and moved into [0, n].
        deviation: Standard deviation of its noise before that.
        n: The public number of records.
        need: The number of valid records that the search needs at its budget.
        share: Public share of the budget that it cost.
        unit: "record"; or "person", where people are counted of whose records at least half (of
            whose means: one) were points.
        of: What a valid record is, in words.
    """

    count: int
    deviation: float
    n: int
    need: int
    share: float
    unit: str = RECORD
    of: str = "valid points of the space"

    def __str__(self) -> str:
        noun = "people" if self.unit == PERSON else "records"
        return f"about {self.count:,} ± {math.ceil(self.deviation):,} of {self.n:,} {noun}"

    def to_dict(self) -> dict[str, float | int | str]:
        """JSON-ready description."""
        return {
            "count": self.count,
            "standard_deviation": self.deviation,
            "of": self.n,
            "needed": self.need,
            "share_of_budget": self.share,
        }

    @property
    def few(self) -> bool:
        """Whether there may be fewer valid records than a search needs, and noise alone does not
        explain that: within two standard deviations each.
        """
        room = 2 * self.deviation
        return self.count - room < self.need and self.count + room < self.n

    @property
    def caution(self) -> str | None:
        """What to be told where there may be too `few`, else None."""
        if not self.few:
            return None
        return (
            f"only {self} were {self.of}, and a private search needs about {self.need:,} at this"
            " budget. The result is not reliable: its stated error and its confidence region are"
            " about the records as they were clipped after the search, and say nothing about how"
            f" far the search went astray. {_REMEDY}"
        )


_REMEDY = (
    "Look for invalid records with riemdp.check_records(space, X), which is not private, and"
    " correct or drop them. This count is released under the guarantee; the next release costs"
    " again"
)


def told_of_people(details: Mapping[str, Any]) -> dict[str, Any]:
    """Facts of a release whose records are people: its counts are of people."""
    counts = {name: details[name] for name in ("valid", "outside") if name in details}
    told = {name: dataclasses.replace(count, unit=PERSON) for name, count in counts.items()}
    return {**details, **told}


def warn_of_counts(*counts: OutsideCount | ValidCount | None) -> None:
    """Issue the `caution` of the first released count that has one as a `RiemdpWarning`."""
    for count in counts:
        if count is not None and count.caution is not None:
            warn_with_release(count.caution)
            return
