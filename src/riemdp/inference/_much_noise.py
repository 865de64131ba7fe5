"""What a user should be told about a release whose noise is as large as the ball it lies in.

Everything here is a function of public and released numbers.
"""

from __future__ import annotations

import dataclasses
import math

from ..privacy import Budget, Guarantee, gaussian, gaussian_noise_multiplier
from ..privacy._guarantee import PERSON, RECORD
from ._distributions import ErrorDistribution, TabulatedErrors, unbounded
from ._facts import Facts
from ._region import rounded_up

_LARGEST = 20.0  # an epsilon above this protects nobody, and is not proposed


@dataclasses.dataclass(frozen=True)
class MuchNoise:
    """A release whose stated error is at least the radius of its ball.

    Attributes:
        error: The error from noise, as stated.
        radius: Of the ball.
        found: Whether that ball was found privately.
        records: About the number of records (people) that would bring the error down to the radius,
            all else being equal; None where it is not known.
        epsilon: About the epsilon that would; None where it is not known, or would protect nobody.
        unit: What is counted, a record or a person.
    """

    error: float
    radius: float
    found: bool
    records: int | None = None
    epsilon: float | None = None
    unit: str = RECORD

    @property
    def noun(self) -> str:
        """What is counted, in the plural."""
        return "people" if self.unit == PERSON else "records"

    @property
    def caution(self) -> str:
        """What to be told."""
        if self.found:
            return (
                f"the error from noise ({self.error:.3g}) is not smaller than the radius of the"
                f" ball that was found ({self.radius:.3g}): the mean says little beyond where that"
                " ball is. More records or a larger epsilon are needed"
            )
        return (
            f"the error from noise ({self.error:.3g}) is not smaller than the radius of the ball"
            f" ({self.radius:.3g}): the public centre, which costs nothing, is as good an answer."
            f" {self.remedy}"
        )

    @property
    def remedy(self) -> str:
        """How many records, or which epsilon, would be enough."""
        enough = [] if self.records is None else [f"{self.records:,} {self.noun}"]
        if self.epsilon is not None:
            enough.append(f"epsilon {self.epsilon:.3g}")
        if not enough:
            return "More records or a larger epsilon are needed"
        return f"About {' or '.join(enough)} would bring the error down to the radius"


def much_noise(
    errors: ErrorDistribution | None,
    facts: Facts,
    guarantee: Guarantee,
    budget: Budget | None,
    radius: float | None = None,
) -> MuchNoise | None:
    """Whether the noise of a release of a point is as large as its ball, and what would be enough.

    The scale of the noise is the sensitivity, which is proportional to 1/n, times a number for each
    budget. The error of the noise alone is in proportion to the scale on flat spaces, and nearly so
    elsewhere: a scale that is divided by (error / radius) brings the error to about the radius.

    Args:
        errors: Distribution of the error.
        facts: Of the release.
        guarantee: Of the release.
        budget: What was given to spend; None leaves epsilon out.
        radius: Of the ball, where the release does not know it.
    """
    is_of_ball = facts.radius is not None
    radius = float(facts.radius) if facts.radius is not None else radius
    if facts.unit == "squared distance" or errors is None or radius is None:
        return None
    error, alone = errors.expected_error, unbounded(errors)
    if not error >= radius:
        return None
    # a distribution of one distance says nothing but the diameter of the ball
    is_diameter = isinstance(alone, TabulatedErrors) and len(set(alone.table)) == 1
    factor = alone.expected_error / radius * (1.0 + 1e-6)
    if not is_of_ball or facts.found or is_diameter or not math.isfinite(factor):
        return MuchNoise(error, radius, facts.found, unit=guarantee.unit)
    epsilon = None
    if budget is not None and math.isfinite(guarantee.epsilon(0.0)):
        epsilon = factor * budget.epsilon
    elif budget is not None and budget.delta > 0.0:
        stronger = gaussian(gaussian_noise_multiplier(budget) / factor)
        epsilon = float(stronger.epsilon(budget.delta))
    if epsilon is not None:
        epsilon = float(rounded_up(epsilon, 3)) if epsilon <= _LARGEST else None
    n = None if facts.weighted else facts.count
    records = None if n is None else math.ceil(float(rounded_up(n * factor, 3)))
    return MuchNoise(error, radius, False, records, epsilon, guarantee.unit)
