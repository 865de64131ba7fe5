"""The mean of unit vectors, or of the matrices x x^T of axes, with noise; and what it says.

To check the privacy of a release, read this file, `TangentMean` or `SecondMoment`,
`BudgetedMechanism` and `AbstractMechanism.release`. Each record separately becomes a vector of
length 1, or 0 if it is not a point. Replacing one moves the mean by at most 2 / n, and the mean of
the matrices by at most sqrt(2) / n, for which the noise is calibrated.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from .._errors import integer
from .._namespace import Floats
from ..domains import Ball
from ..domains._clamp import in_parts, readable
from ..domains._door import admit_records
from ..inference._direction import MeanDirection
from ..inference._distributions import ErrorDistribution, lengths_of
from ..inference._region import Observation
from ..manifolds import AbstractManifold, Euclidean, Grassmann
from ..manifolds._base import Point, RecordsLike
from ..privacy import Budget
from ..privacy._noise import Noise
from ..randomness import NoiseSource
from ..statistics import Records, TangentMean
from ..statistics._second_moment import SecondMoment, of_rows
from ._base import EITHER, BudgetedMechanism
from ._drawn import Drawn
from ._lattice import scale_for, slack_of

_PLACE = "the noisy mean that the direction was taken from"


class MeanDirectionNoise(BudgetedMechanism[Records]):
    """Release the mean of unit vectors, or of the matrices x x^T of axes, with Gaussian (delta > 0)
    or Laplace noise; the value is its direction.

    Args:
        manifold: `Sphere(p)`, or `Grassmann(p, 1)` for axes.
        n: The public number of records; with `people` of people.
        budget: `Budget(epsilon, delta)`; delta = 0 gives pure epsilon.
        people: Whether each person's records count as one. `release` takes the records and whose
            they are, a `Membership` or None.

    Guarantee:
        Replace-one, sensitivity 2 / n, for axes sqrt(2) / n. delta > 0: mu-GDP with mu = 1 /
        gaussian_noise_multiplier(budget); delta = 0: (epsilon, 0).

    Source:
        Proof: docs/proofs/confidence-region.md.
    """

    name: ClassVar[str] = "mean-direction"
    words: ClassVar[str] = (
        f"{EITHER} on the mean of the unit vectors (for axes, of the matrices x x^T), from which"
        " direction, concentration and cone follow"
    )
    query: TangentMean | SecondMoment

    def __init__(
        self,
        manifold: AbstractManifold,
        *,
        n: int,
        budget: Budget | Noise,
        people: bool = False,
    ):
        # what follows the noise needs it, and nothing is imported after a charge
        from scipy import special as special

        super().__init__(budget)
        self.manifold = manifold
        columns, n = manifold.shape[0], integer("n", n)
        if isinstance(manifold, Grassmann):
            self.query = of_rows(columns, n, 1.0, people=people)
        else:
            self.query = TangentMean(Ball(np.zeros(columns), 1.0).on(Euclidean(columns)), n)

    @property
    def _widest(self) -> int:
        query = self.query
        return query.size if isinstance(query, SecondMoment) else query.domain.manifold.dim

    @property
    def lengths(self) -> ErrorDistribution:
        """Distribution of the length of the noise."""
        scale = scale_for(self.noise, self.query.sensitivity, self._widest)
        return lengths_of(self.noise, scale, self._widest)

    def _admit(self, value: Any) -> Records:
        records, members = value
        rows = unit_rows(self.manifold, records)
        if isinstance(self.query, SecondMoment):
            return self.query.prepare(rows, members)
        return self.query.prepare(rows if members is None else members.means(rows))

    def _draw(self, value: Records, source: NoiseSource) -> Drawn:
        query, size = self.query, self._widest
        noisy, scale, _ = self._purse(source).add(query.value(value), query.sensitivity, 1)
        slack = slack_of(scale, size, pure=self.noise.is_pure)
        space, subject = Euclidean(size), "the mean of the records"
        seen = Observation(
            space, np.zeros(size), noisy, self.lengths, slack, place=_PLACE, subject=subject
        )
        found = MeanDirection(self.manifold, noisy, self.lengths, query.n, slack)
        facts = {**found.facts, "manifold": self.manifold, "n": query.n}
        return Drawn(found.direction, scale, query.sensitivity, None, facts, seen)


def unit_rows(manifold: AbstractManifold, X: RecordsLike) -> Floats:
    """Records as rows (n, p) of length 1; zeros for a record that is no point of the space."""
    records, _ = admit_records(manifold, "X", X)

    def some(part: Point) -> Floats:
        safe, valid = readable(manifold, manifold.origin, part)
        return np.where(valid[:, None], safe.reshape(len(safe), -1), 0.0)

    return in_parts(manifold, some, records)
