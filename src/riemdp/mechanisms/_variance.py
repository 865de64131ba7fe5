"""The Fréchet variance about a public centre, or about one found privately, with noise.

To check the privacy of a release, read this file, `FrechetVariance`, `BudgetedMechanism` and
`AbstractMechanism.release`: each record becomes its squared distance from the centre, cut off at
the squared radius, on its own; replacing one moves the mean by at most r^2 / n; the noise is made
for that.
"""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from .._errors import integer
from ..domains import Ball, Domain
from ..inference._distributions import capped, lengths_of
from ..inference._region import Observation
from ..manifolds import AbstractManifold, Euclidean
from ..manifolds._base import RecordsLike
from ..privacy import Budget
from ..privacy._noise import Noise
from ..randomness import NoiseSource
from ..statistics import FrechetVariance
from ..statistics._query import Records
from ._base import BudgetedMechanism
from ._drawn import Drawn
from ._lattice import Purse
from ._private_ball import OfRecords
from ._search_records import outside_of

_LINE = Euclidean()
_ORIGIN = np.zeros(())
_PLACE = "the noisy number that was released"
_STRETCHED = (
    "the mean squared distance from the centre of the ball, cut off at its edge, times n over the"
    " released count of valid records,"
)


class VarianceNoise(BudgetedMechanism[Records]):
    """Release (1/n) sum min(d(c, x), r)^2 about the public centre c of a ball, with Gaussian (delta
    > 0) or Laplace noise, moved into [0, r^2].

    Args:
        manifold: The space.
        ball: The public `Ball`; the curvature does not limit its radius.
        n: The public number of records.
        budget: `Budget(epsilon, delta)`; delta = 0 gives pure epsilon.

    Raises:
        InvalidArgument: An argument is out of range.
        NotImplementedError: On release, where the space has no distance.

    Guarantee:
        Replace-one. delta > 0: mu-GDP with mu = 1 / gaussian_noise_multiplier(budget); delta = 0:
        (epsilon, 0).

    Source:
        Proof: docs/proofs/second-moment.md.
    """

    name: ClassVar[str] = "frechet-variance"
    words: ClassVar[str] = (
        "Gaussian or Laplace noise on the mean squared distance from the centre, each distance cut"
        " off at the radius"
    )

    def __init__(
        self,
        manifold: AbstractManifold,
        ball: Ball,
        *,
        n: int,
        budget: Budget | Noise,
    ):
        super().__init__(budget)
        self.query = FrechetVariance(ball.on(manifold), integer("n", n))

    @property
    def _widest(self) -> int:
        return 1

    def _admit(self, value: RecordsLike) -> Records:
        return self.query.prepare(value)

    def _draw(self, value: Records, source: NoiseSource) -> Drawn:
        return noisy_number(self.query, value, self._purse(source), 1)


class AdaptiveVariance(OfRecords):
    """Release the Fréchet variance about the centre of a ball that is found on the way.
    See `OfRecords`.

    Source:
        Proof: docs/proofs/second-moment.md.
    """

    name: ClassVar[str] = "adaptive-variance"
    words: ClassVar[str] = (
        "a search for a ball by noisy counts of records and noisy means of clipped tangent vectors,"
        " then Gaussian or Laplace noise on the mean squared distance from its centre"
    )

    def _draw(self, value: Any, source: NoiseSource) -> Drawn:
        records, found = self._searched(value, source)
        r = records.size(found.radius)
        domain = Domain(self.manifold, records.center, r)
        query = FrechetVariance(domain, self.n)
        terms = records.cut(query)
        facts = self.searching.facts(records, found) | {"ball": Ball(records.center, r)}
        stretch = found.plan.stretch
        drawn = noisy_number(query, terms, records.purse, found.left, facts, stretch)
        outside = outside_of(records, found, found.radius)
        return dataclasses.replace(drawn, details={**drawn.details, "outside": outside})


def noisy_number(
    query: FrechetVariance,
    terms: Records,
    purse: Purse,
    share: Fraction | int,
    facts: dict[str, Any] | None = None,
    stretch: float = 1.0,
) -> Drawn:
    """The value with the noise of this share of the budget, both times `stretch`; what follows
    looks at the sum alone.
    """
    noisy, scale, slack = purse.add(np.reshape(query.value(terms), 1), query.sensitivity, share)
    noisy, scale, slack = stretch * noisy, stretch * scale, stretch * (query.error_bound + slack)
    lengths = lengths_of(purse.noise, scale, 1)
    subject = "" if stretch == 1.0 else _STRETCHED
    seen = Observation(_LINE, _ORIGIN, noisy, lengths, slack, place=_PLACE, subject=subject)
    value = np.asarray(min(max(float(noisy[0]), 0.0), query.largest))
    bounded = capped(lengths, query.largest)
    return Drawn(value, scale, stretch * query.sensitivity, bounded, {**(facts or {})}, seen)
