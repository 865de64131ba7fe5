"""What is released of pairs of records to test whether they differ: the mean of half the
differences of their tangent vectors at one centre, and how far these spread.

To check the privacy of a release, read this file, `_at_centre`, `ClassSpreads`, `BudgetedMechanism`
and `AbstractMechanism.release`: each vector is shortened to the radius, so half of a difference is
no longer than the radius either. Proof: docs/proofs/comparison.md, Lemma 8.
"""

from __future__ import annotations

import functools
from typing import Any, ClassVar

import numpy as np

from .._namespace import Floats
from ..randomness import NoiseSource
from ._at_centre import AbstractAtCentre, LabelledRecords
from ._class_sums import ClassSpreads
from ._comparison import has_moments
from ._drawn import Drawn

FIRST, SECOND = -1.0, 1.0  # what stands beside a record: with which sign it counts in a difference


class PairsNoise(AbstractAtCentre):
    """Release the mean difference of pairs of records, and how far the differences spread. The two
    records of a pair, or all pairs of one person, are one member; see `AbstractAtCentre`.

    Args:
        manifold: A space with a logarithm.
        where: A public `Ball`, or an `AdaptiveBall`.
        n: The public number of pairs, or of people.
        budget: `Budget(epsilon, delta)`; delta = 0 gives pure epsilon.

    Guarantee:
        Replace-one, of both records of a pair together, or of all pairs of one person.

    Source:
        Proof: docs/proofs/comparison.md, Lemma 8.
    """

    what: ClassVar[str] = "differences"
    noise_on: ClassVar[str] = (
        "the sum of differences of clipped tangent vectors at one centre, and of their squares"
    )

    @functools.cached_property
    def sums(self) -> ClassSpreads:
        """The vector that is released."""
        n, dim = self.n, self.manifold.dim
        return ClassSpreads(n, 1, dim, (n,), has_moments(self.noise, dim, n))

    @property
    def _coordinates(self) -> int:
        return self.sums.together

    def _beside(self, labels: Any, rows: int) -> Floats:
        return np.asarray(labels, dtype=np.float64)

    def _draw(self, value: LabelledRecords, source: NoiseSource) -> Drawn:
        found, pairs = self._found(value, source), value.members
        assert pairs is not None
        halves = pairs.means(value.labels[:, None] * found.z)  # of lengths at most 1
        joint = self.sums.joint(halves, np.zeros(self.n, dtype=np.int64))
        noisy, scale = self.sums.noisy(joint, found.purse)
        r, center = found.ball.radius, found.ball.center
        (mean, _, _), *_ = self.sums.split(noisy)
        difference = self.manifold.from_coordinates(center, 2.0 * r * mean)
        facts = found.facts | {"answers": (r * noisy,), "radius": r}
        return Drawn(difference, r * scale, r * self.sums.sensitivity, None, facts)
