"""What is released of several samples to compare them: of each the mean and the spread of its
tangent vectors at one centre.

Guarantee, replace-one, a record stays in its sample: that of `AbstractClasses` with public labels.
Proof: docs/proofs/comparison.md.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from .._namespace import Floats
from .._trees import map_leaves
from ..domains._ends import end_of
from ..domains._sums import MOST_TERMS, summation_error
from ..inference._comparison import SampleMean, covariance_above, variance_above
from ..inference._distributions import gaussian_errors, laplace_errors
from ..privacy._noise import Noise
from ._at_centre import Found
from ._class_sums import SQUARES, ClassSpreads
from ._classes import AbstractClasses
from ._drawn import Drawn
from ._lattice import slack_of

MOST_COORDINATES = 256  # of a tangent vector, for which second moments are released


class SamplesNoise(AbstractClasses):
    """Release the means of several samples as points, and how far the samples spread: the sums of
    tangent vectors at one centre, clipped at one radius, and of their squares, with noise. See
    `AbstractClasses`; `sizes` are those of the samples, which are public.

    Source:
        Proof: docs/proofs/comparison.md.
    """

    what: ClassVar[str] = "comparison"
    noise_on: ClassVar[str] = (
        "the sums of clipped tangent vectors of the samples and of their squares"
    )

    def _sums(self, classes: int, sizes: tuple[int, ...] | None) -> ClassSpreads:
        dim, least = self.manifold.dim, min(sizes or (self.n,))
        return ClassSpreads(self.n, classes, dim, sizes, has_moments(self.noise, dim, least))

    @property
    def spreads(self) -> ClassSpreads:
        """The vector that is released."""
        assert isinstance(self.sums, ClassSpreads)
        return self.sums

    def _made(self, noisy: Floats, scale: float, found: Found) -> Drawn:
        r, center = found.ball.radius, found.ball.center
        means = [mean for mean, _, _ in self.spreads.split(noisy)]
        points = [end_of(self.manifold, center, r * mean) for mean in means]
        stacked = map_leaves(lambda *leaves: np.stack(leaves), *points)
        answers = tuple(r * noisy.reshape(self.sums.classes, -1))
        facts = found.facts | {"answers": answers, "sample_sizes": self.sums.sizes, "radius": r}
        return Drawn(stacked, r * scale, r * self.sums.sensitivity, None, facts)


def has_moments(noise: Noise, dim: int, least: int) -> bool:
    """Whether second moments are released, for samples of at least `least` records: where they cost
    nothing (Gaussian noise), and the noise of the matrix is at most 1 / dim, what its eigenvalues
    are at most on average. Public numbers decide.
    """
    if noise.is_pure or not 1 < dim <= MOST_COORDINATES:
        return False
    return 2.0 * math.sqrt(dim) * 2.0 * noise.multiplier / least <= 1.0 / dim


def sample_means(sums: ClassSpreads, noisy: Floats, scale: float, noise: Noise) -> list[SampleMean]:
    """The noisy mean of each sample, with bounds of its noise and of its sampling error, in units
    of the radius: from noisy sums alone.

    Args:
        sums: What was summed.
        noisy: The noisy vectors, one after the other.
        scale: Of their noise.
        noise: The noise of the budget.
    """
    assert sums.sizes is not None
    dim, width, deviation = sums.dim, sums.together, noise.deviation(scale, sums.together)
    rounding = slack_of(scale, width, pure=noise.is_pure)
    found = []
    for n, (mean, square, moment) in zip(sums.sizes, sums.split(noisy), strict=True):
        own = deviation / n
        lengths = gaussian_errors(dim, own, exact=True)
        if noise.is_pure:  # a part of a vector is no longer than the whole
            lengths = laplace_errors(width, scale / n, exact=False)
        # |mean|^2 is larger by dim own^2 on average, and varies by this
        away = float(mean @ mean) - dim * own**2
        varies = math.sqrt(4.0 * float(mean @ mean) * own**2 + 2.0 * dim * own**4)
        told = math.hypot(own / SQUARES, varies)
        most = variance_above(square - away, told, n, 1.0)
        covariance = None
        if moment is not None:
            told_matrix = moment - np.outer(mean, mean) + own**2 * np.eye(dim)
            covariance = covariance_above(told_matrix, 2.0 * math.sqrt(dim) * own, n, most) / n
        slack = rounding / n + summation_error(MOST_TERMS)
        found.append(SampleMean(mean, lengths, slack, most / n, covariance))
    return found
