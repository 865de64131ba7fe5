"""What a mechanism has drawn, and the `Release` made of it: released numbers and public facts."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Protocol

from ..inference._counts import told_of_people
from ..inference._distributions import ErrorDistribution
from ..inference._facts import Facts
from ..inference._region import Observation
from ..privacy import Budget, Guarantee
from ..privacy._guarantee import PERSON
from ..privacy._permit import Receipt
from ._release import Release


@dataclasses.dataclass(frozen=True)
class Drawn:
    """A noisy value, and the public facts of the draw that made it.

    Attributes:
        value: What may be published.
        scale: sigma of a Gaussian, s of a Laplace or K-norm distribution.
        sensitivity: The sensitivity that the scale was made from.
        error_distribution: Of the distance between the noisy and the admitted value, or None.
        details: Further public facts.
        observation: The noisy vector itself, with the distribution of its error, for confidence
            regions; None where that distribution is not known. It is published with the value.
    """

    value: Any
    scale: float
    sensitivity: float | None = None
    error_distribution: ErrorDistribution | None = None
    details: Mapping[str, Any] = dataclasses.field(default_factory=dict[str, Any])
    observation: Observation | None = None


class Told(Protocol):
    """What a release is told of the mechanism that made it: public facts."""

    @property
    def _called(self) -> tuple[str, str]: ...
    @property
    def arithmetic(self) -> str: ...
    @property
    def quoted_budget(self) -> Budget | None: ...


def told(
    mechanism: Told,
    drawn: Drawn,
    guarantee: Guarantee,
    *,
    reproducible: bool,
    receipt: Receipt | None = None,
) -> Release:
    """What was drawn, with all that is public of it."""
    name, words = mechanism._called
    details = drawn.details
    if guarantee.unit == PERSON:  # what was counted are people
        details = told_of_people(details)
    return Release(
        value=drawn.value,
        guarantee=guarantee,
        scale=drawn.scale,
        mechanism=name,
        reproducible=reproducible,
        sensitivity=drawn.sensitivity,
        error_distribution=drawn.error_distribution,
        facts=Facts.of({**details, "numerics": mechanism.arithmetic}),
        budget=mechanism.quoted_budget,
        words=words,
        observation=drawn.observation,
        receipt=receipt,
    )
