"""One release of class sums about one centre: that of a public ball, or one that is found privately
from all records, whatever their labels. Of it come class means or a linear
classifier (`_class_models`), or what compares samples (`_comparison`).

Guarantee, replace-one: with delta > 0 that of one Gaussian mechanism with the noise multiplier of
the budget; with delta = 0 pure epsilon. A search (the scale, the median distance, a centre and the
median distance about it) uses all records and no label, and shares the budget with the sums: the
theorem of docs/proofs/private-ball.md holds for them.

To check the privacy of a release, read this file, `_at_centre`, `_class_sums`,
`TangentMean.shorten`, `BudgetedMechanism` and `AbstractMechanism.release`.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._errors import invalid
from .._namespace import Floats
from ..domains import AdaptiveBall, Ball
from ..manifolds import AbstractManifold
from ..privacy import Budget
from ..privacy._noise import Noise
from ..randomness import NoiseSource
from ..statistics._membership import Membership
from ._at_centre import AbstractAtCentre, Found, LabelledRecords
from ._class_sums import ClassSums, public_sizes
from ._drawn import Drawn
from ._released_means import ClassMeans


class AbstractClasses(AbstractAtCentre):
    """One release of class sums, and what follows from it; see `AbstractAtCentre`.

    Args:
        manifold: A space with a logarithm.
        where: A public `Ball`, or an `AdaptiveBall`.
        n: The public number of records of all classes; where people are protected that of people.
        classes: The public number of classes.
        budget: `Budget(epsilon, delta)`; delta = 0 gives pure epsilon.
        sizes: The public number of records of each class where labels are public; None where they
            are private.

    Guarantee:
        Replace-one; the label stays where labels are public and may change where they are private.
    """

    sums: ClassSums

    def __init__(
        self,
        manifold: AbstractManifold,
        where: Ball | AdaptiveBall,
        *,
        n: int,
        classes: int,
        budget: Budget | Noise,
        sizes: Sequence[int] | None = None,
    ):
        super().__init__(manifold, where, n=n, budget=budget)
        self.sums = self._sums(classes, public_sizes(sizes))

    @abc.abstractmethod
    def _sums(self, classes: int, sizes: tuple[int, ...] | None) -> ClassSums:
        """The vector that is released."""

    @property
    def _coordinates(self) -> int:
        return self.sums.together

    def _beside(self, labels: Any, rows: int) -> NDArray[Any]:
        return positions(labels, rows)

    def _of_people(self, given: LabelledRecords, members: Membership) -> LabelledRecords:
        if self.sums.sizes is not None:
            told = "how many records a person has of a class is private"
            raise invalid("sizes", self.sums.sizes, told)
        return super()._of_people(given, members)

    def _draw(self, value: LabelledRecords, source: NoiseSource) -> Drawn:
        sums, found = self.sums, self._found(value, source)
        joint = sums.joint(found.z, value.labels, value.members)
        noisy, scale = sums.noisy(joint, found.purse)
        # the records stay here, and so does the noise
        return self._made(noisy, scale, found._replace(z=None, purse=None))

    @abc.abstractmethod
    def _made(self, noisy: Floats, scale: float, found: Found) -> Drawn:
        """What is released: a function of noisy sums and of the ball, with the facts."""

    def _contracted(
        self, noisy: Floats, scale: float, found: Found
    ) -> tuple[ClassMeans, dict[str, Any]]:
        """The class means, moved towards their average; and what is public with them."""
        means = self.sums.means(noisy, scale, self.noise).contracted()
        private = self.sums.sizes is None
        return means, found.facts | {
            "coordinates": found.ball.radius * means.means,
            "sizes": tuple(float(s) for s in means.sizes) if private else None,
        }


def positions(labels: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """Positions of classes, one for each of n records."""
    found = np.asarray(labels, dtype=np.int64)
    if found.shape != (n,):
        raise invalid("y", f"{found.shape} labels", f"give n = {n}")
    return found
