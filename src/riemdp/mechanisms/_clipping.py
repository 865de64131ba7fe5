"""How far clipping can have moved a mean, with noise.

To check the privacy of a release, read this file, `ClippingExcess`, `noisy_number`,
`BudgetedMechanism` and `AbstractMechanism.release`: each record becomes a length from 0 to R - r on
its own; replacing one moves the mean by at most (R - r) / n; the noise is made for that. Proof:
docs/proofs/clipping-bound.md.
"""

from __future__ import annotations

from typing import ClassVar

from .._errors import integer
from ..domains import Ball
from ..manifolds import AbstractManifold
from ..manifolds._base import RecordsLike
from ..privacy import Budget
from ..privacy._noise import Noise
from ..randomness import NoiseSource
from ..statistics import ClippingExcess
from ..statistics._excess import GroupedRecords
from ..statistics._query import Records
from ._base import Drawn
from ._purse import BudgetedMechanism
from ._variance import noisy_number


class ClippingBoundNoise(BudgetedMechanism[Records]):
    """Release (1/n) sum min(max(d(c, x) - r, 0), R - r) with Gaussian (delta > 0) or Laplace noise,
    moved into [0, R - r].

    Args:
        manifold: The space.
        ball: A `Ball` of centre c and radius r, public or released; the curvature does not limit
            its radius.
        n: The public number of records.
        reach: The public R, above r.
        budget: `Budget(epsilon, delta)`; delta = 0 gives pure epsilon.

    Raises:
        InvalidArgument: An argument is out of range.
        NotImplementedError: On release, where the space has no distance.

    Guarantee:
        Replace-one, sensitivity (R - r) / n. delta > 0: mu-GDP with mu = 1 /
        gaussian_noise_multiplier(budget); delta = 0: (epsilon, 0).

    Source:
        Proof: docs/proofs/clipping-bound.md.

    Examples:
        >>> import jax, riemdp
        >>> sphere = riemdp.Sphere(3)
        >>> X = sphere.random_point(jax.random.key(0), (400,))
        >>> mechanism = riemdp.mechanisms.ClippingBoundNoise(
        ...     sphere,
        ...     riemdp.Ball(sphere.origin, 0.5),
        ...     n=400,
        ...     reach=3.0,
        ...     budget=riemdp.Budget(1.0, 1e-6),
        ... )
        >>> mechanism.release(X).value.shape
        ()
    """

    name: ClassVar[str] = "clipping-bound"
    words: ClassVar[str] = (
        "Gaussian or Laplace noise on the mean of how far the records lie outside the ball, each"
        " length cut off at the reach"
    )

    def __init__(
        self,
        manifold: AbstractManifold,
        ball: Ball,
        *,
        n: int,
        reach: float,
        budget: Budget | Noise,
    ):
        super().__init__(budget)
        domain = ball.on(manifold)
        self.query = ClippingExcess(domain, integer("n", n), reach=reach)

    def _admit(self, value: RecordsLike | GroupedRecords) -> Records:
        return self.query.prepare(value)

    def _draw(self, value: Records, source: NoiseSource) -> Drawn:
        return noisy_number(self.query, value, self._purse(source), 1)
