"""Class means from noisy sums alone: functions of what was released, and of public numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._namespace import Floats

_LEAST_KEPT = 1e-3  # of the classes' contrasts: their order is kept where James-Stein keeps nothing


class ClassMeans(NamedTuple):
    """Class means of z and what else was released, from noisy sums alone.

    Attributes:
        means: Shape (classes, dim); of contrasts, minus their average.
        sizes: Class sizes, public or noisy.
        rest: What the vector held behind sums and sizes.
        deviation: The standard deviation of the noise of a coordinate.
    """

    means: Floats
    sizes: Floats
    rest: Floats
    deviation: float

    @property
    def deviations(self) -> Floats:
        """The standard deviation of a coordinate of each mean; of contrasts, before the average of
        their noise is taken away.
        """
        return self.deviation / self.sizes

    def contracted(self) -> ClassMeans:
        """The same, moved towards their average by James-Stein."""
        return self._replace(means=contracted(self.means, self.deviations))


def contracted(means: Floats, deviations: Floats) -> Floats:
    """Released class means moved towards their average by positive-part James-Stein.

    Args:
        means: Shape (classes, dim).
        deviations: The standard deviation of a coordinate of each mean.
    """
    average = means.mean(axis=0)
    contrasts = means - average
    square = float(np.sum(contrasts**2))
    noise = ((len(means) - 1) * means.shape[1] - 2) * float(np.mean(deviations**2))
    kept = 1.0 - max(0.0, noise) / square if square > 0 else 1.0
    return average + max(_LEAST_KEPT, kept) * contrasts
