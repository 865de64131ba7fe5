"""The second moment of clipped tangent vectors at a centre, with noise."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from .._errors import integer
from ..domains import Ball
from ..domains._door import admit_records
from ..inference._distributions import lengths_of
from ..manifolds import AbstractManifold
from ..manifolds._base import RecordsLike
from ..manifolds._spectral import unpack
from ..privacy import Budget
from ..privacy._noise import Noise
from ..randomness import NoiseSource
from ..statistics import Records, TangentMean
from ..statistics._second_moment import second_moment, second_moment_sensitivity
from ._base import BudgetedMechanism
from ._common import needs_log
from ._drawn import Drawn


class TangentCovarianceNoise(BudgetedMechanism[Records]):
    """Release (1/n) sum v v^T, v = log_c x in orthonormal coordinates at the centre c of a ball,
    shortened to the radius, with Gaussian (delta > 0) or Laplace noise in the Frobenius norm.

    Args:
        manifold: A space with a logarithm.
        ball: A `Ball` that is public or was released; the curvature does not limit its radius.
        n: The public number of records.
        budget: `Budget(epsilon, delta)`; delta = 0 gives pure epsilon.

    Raises:
        InvalidArgument: An argument is out of range.
        NotImplementedError: The space has no logarithm.

    Guarantee:
        Replace-one, sensitivity sqrt(2) r^2 / n. delta > 0: mu-GDP with mu = 1 /
        gaussian_noise_multiplier(budget); delta = 0: (epsilon, 0).

    Source:
        Proof: docs/proofs/second-moment.md.
    """

    name: ClassVar[str] = "tangent-covariance"
    words: ClassVar[str] = (
        "Gaussian or Laplace noise on the second moment of the tangent vectors at the centre that"
        " point to the records, each shortened to the radius"
    )

    def __init__(self, manifold: AbstractManifold, ball: Ball, *, n: int, budget: Budget | Noise):
        super().__init__(budget)
        self.query = TangentMean(ball.on(manifold), integer("n", n))
        needs_log(manifold, "a tangent covariance")

    @property
    def sensitivity(self) -> float:
        """Largest change of the matrix in the Frobenius norm, rounding included."""
        return second_moment_sensitivity(self.query.domain.radius, self.query.n)

    @property
    def _coordinates(self) -> int:
        dim = self.query.domain.manifold.dim
        return dim * (dim + 1) // 2

    def _admit(self, value: RecordsLike) -> Records:
        records, _ = admit_records(self.query.domain.manifold, "X", value)
        return self.query.prepare(records)

    def _draw(self, value: Records, source: NoiseSource) -> Drawn:
        y = second_moment(np.asarray(value.points))
        noisy, scale, _ = self._purse(source).add(y, self.sensitivity, 1)
        matrix = unpack(np.asarray(noisy), self.query.domain.manifold.dim)
        errors = lengths_of(self.noise, scale, y.size)
        return Drawn(matrix, scale, self.sensitivity, errors)
