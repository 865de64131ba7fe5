"""`TangentMeanNoise`: the mean of clipped tangent vectors at a public centre, with noise.

To check the privacy of a release, read this file, `TangentMean`, `BudgetedMechanism` and
`AbstractMechanism.release`:
each record becomes a tangent vector at the public centre, shortened to the radius, on its own;
replacing one moves the mean by at most 2 r / n on every manifold; the noise is made for that.
"""

from __future__ import annotations

import functools
from typing import Any, ClassVar

from .._errors import integer
from ..domains import Ball
from ..domains._ends import end_of
from ..inference._distributions import ErrorDistribution, capped, lengths_of, wrapped_errors
from ..inference._region import Observation
from ..manifolds import AbstractManifold
from ..manifolds._base import RecordsLike
from ..privacy import Budget
from ..privacy._noise import Noise
from ..randomness import NoiseSource
from ..statistics import TangentMean
from ..statistics._query import Records
from ._base import BudgetedMechanism
from ._common import needs_log
from ._drawn import Drawn
from ._lattice import scale_for
from ._shrinking import james_stein, worth_shrinking


class TangentMeanNoise(BudgetedMechanism[Records]):
    """Release exp_c of the mean of log_c x, shortened to the radius, at the public centre c, with
    Gaussian (delta > 0) or Laplace noise.

    It is one pass over the records, and its sensitivity 2 r / n needs no limit on the radius, which
    the Fréchet mean has where curvature is positive. The value is another mean than Fréchet's: on
    flat spaces the same, elsewhere the first step of its iteration from c, so the two differ by
    terms of third order in the distances of the records from c.

    The noisy vector is shortened to the radius, which brings it no farther from the mean. In
    dimension 3 and more Gaussian noise is also followed by James-Stein shrinking towards c, which
    does not increase the expected squared error in the tangent space: where curvature is not
    negative, and elsewhere if the planned length of the noise exceeds 0.2 radii.

    Args:
        manifold: A space with a logarithm.
        ball: The public `Ball`; its radius need not respect the curvature.
        n: The public number of records.
        budget: `Budget(epsilon, delta)`; delta = 0 gives pure epsilon.

    Raises:
        InvalidArgument: An argument is out of range.
        NotImplementedError: The space has no logarithm.

    Guarantee:
        Replace-one. delta > 0: mu-GDP with mu = 1 / gaussian_noise_multiplier(budget); delta = 0:
        (epsilon, 0).

    Source:
        docs/proofs/private-ball.md (clipped tangent means).
    """

    name: ClassVar[str] = "tangent-mean"
    words: ClassVar[str] = (
        "Gaussian or Laplace noise on the mean of clipped tangent vectors at the public centre,"
        " carried back to the space"
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
        self.manifold, self.ball = manifold, ball
        domain = ball.on(manifold)
        needs_log(manifold, "a tangent mean")
        self.query = TangentMean(domain, integer("n", n))
        self.sensitivity = self.query.sensitivity
        self.scale = scale_for(self.noise, self.sensitivity, manifold.dim)

    @property
    def _widest(self) -> int:
        return self.manifold.dim

    @property
    def shrinks(self) -> bool:
        """Whether noise is followed by James-Stein shrinking: a function of public numbers."""
        radius = self.query.domain.radius
        return not self.noise.is_pure and worth_shrinking(self.manifold, self.scale, radius)

    @functools.cached_property
    def error_distribution(self) -> ErrorDistribution | None:
        """Distribution of the distance between the release and the mean before noise, an upper
        bound; None where curvature is unbounded below.
        """
        lengths = lengths_of(self.noise, self.scale, self.manifold.dim)
        # The noisy vector is shortened to the radius. That is a projection onto a convex set: on
        # Hadamard spaces of points, elsewhere of the vectors whose distance the distribution
        # bounds.
        radius = self.query.domain.radius
        errors = wrapped_errors(self.manifold, radius, lengths, shrunk=self.shrinks)
        return capped(errors, 2.0 * radius)

    def _admit(self, value: RecordsLike) -> Records:
        return self.query.prepare(value)

    def _draw(self, value: Records, source: NoiseSource) -> Drawn:
        domain = self.query.domain
        purse = self._purse(source)
        noisy, _, slack = purse.add(self.query.coordinates(value), self.sensitivity, 1)
        y = james_stein(noisy, self.scale if self.shrinks else 0.0, domain.radius)
        released = end_of(self.manifold, domain.center, y)
        lengths = lengths_of(self.noise, self.scale, self.manifold.dim)
        slack += self.query.error_bound
        seen = Observation(self.manifold, domain.center, noisy, lengths, slack)
        errors = self.error_distribution
        return Drawn(released, self.scale, self.sensitivity, errors, self._details, seen)

    @property
    def _details(self) -> dict[str, Any]:
        errors = self.error_distribution
        shrunk = {"shrunk": "James-Stein, towards the centre"} if self.shrinks else {}
        return {"error": "no formula" if errors is None else errors.kind, **shrunk}
