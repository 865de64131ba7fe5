"""Class means as points, and a linear classifier of tangent vectors, each from one release of class
sums.

The vector of a classifier holds for each class the sum of z and, where labels are private, its
size, and behind them the sum of all z z^T. The weights are the largest at which one record changes
the whole vector by at most 2, as it does the sums of one class alone: sizes and second moments cost
no noise (docs/proofs/classifiers.md).

With pure noise and private labels (`PureSums`) the sum and the size of each class have noise of
their own, for the lengths of what one record changes in all of them together.

To check the privacy of a release, read `ClassMoments` or `PureSums` here and what `_classes` names.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .._namespace import Floats
from .._trees import map_leaves
from ..domains._ends import end_of
from ..manifolds._spectral import unpack
from ..privacy._noise import Noise
from ..statistics._membership import Membership
from ..statistics._second_moment import second_moment
from ._at_centre import MOST_COORDINATES, Found
from ._class_sums import WEIGHT, ClassSums, sensitivity_with_squares
from ._classes import AbstractClasses
from ._drawn import Drawn
from ._lattice import Purse
from ._released_means import ClassMeans

DISCRIMINANT, CLASS_MEANS = "discriminant", "class-means"
OF_PURE_SIZE = 0.5  # the weight of a size beside its sum, which has pure noise of its own


class PureSums(ClassSums):
    """The same where labels are private and noise is pure: that of each class apart, of its sum and
    of its size over 2 (docs/proofs/classifiers.md, Lemma 3).
    """

    @property
    def weight(self) -> float:
        """Of a size, beside its sum."""
        return OF_PURE_SIZE

    @property
    def sensitivity(self) -> float:
        """Of the lengths of the changes of all classes together, rounding included."""
        return math.hypot(1.0, self.weight) * super().sensitivity

    @property
    def apart(self) -> bool:
        """Whether every class has noise of its own."""
        return True

    def noisy(self, joint: Floats, purse: Purse) -> tuple[Floats, float]:
        """See `ClassSums.noisy`. A record leaves one class and enters another, and a person's
        records are in all of them.
        """
        sums, sizes = np.split(joint, [self.classes * self.dim])
        own = list(np.column_stack([sums.reshape(self.classes, self.dim), sizes]))
        each, scale, _ = purse.add_apart(own, self.sensitivity, purse.left, self.classes)
        rows = np.array(each)
        return np.concatenate([rows[:, :-1].ravel(), rows[:, -1]]), scale


def sums_for(
    noise: Noise, n: int, classes: int, dim: int, sizes: tuple[int, ...] | None
) -> ClassSums:
    """The sums of which class means follow, with the least noise."""
    kind = PureSums if noise.is_pure and sizes is None else ClassSums
    return kind(n, classes, dim, sizes)


class ClassMeansNoise(AbstractClasses):
    """Release the means of several classes as points: their tangent vectors at one centre, clipped
    at one radius, with noise, then moved towards their average by positive-part James-Stein. See
    `AbstractClasses`.

    Source:
        docs/proofs/classifiers.md; docs/proofs/private-ball.md.
    """

    what: ClassVar[str] = "class-means"
    noise_on: ClassVar[str] = "the sums of clipped tangent vectors of the classes"

    def _sums(self, classes: int, sizes: tuple[int, ...] | None) -> ClassSums:
        return sums_for(self.noise, self.n, classes, self.manifold.dim, sizes)

    def _made(self, noisy: Floats, scale: float, found: Found) -> Drawn:
        ball, (_, facts) = found.ball, self._contracted(noisy, scale, found)
        points = [end_of(self.manifold, ball.center, y) for y in facts["coordinates"]]
        stacked = map_leaves(lambda *leaves: np.stack(leaves), *points)
        sensitivity = ball.radius * self.sums.sensitivity
        return Drawn(stacked, ball.radius * scale, sensitivity, None, facts)


@dataclasses.dataclass(frozen=True)
class ClassMoments(ClassSums):
    """`ClassSums` with lighter sizes, and with the sum of all z z^T behind them."""

    @property
    def weight(self) -> float:
        """Of a size, and of second moments."""
        return WEIGHT

    @property
    def sensitivity(self) -> float:
        """Of the joint vector, rounding included."""
        return sensitivity_with_squares(self.n)

    @property
    def apart(self) -> bool:
        """Whether every class has noise of its own: all of them share the second moments."""
        return False

    @property
    def together(self) -> int:
        """How many coordinates are released with noise for the sensitivity."""
        return super().together + self.dim * (self.dim + 1) // 2

    def joint(self, z: Any, labels: NDArray[np.int64], members: Membership | None = None) -> Floats:
        """The vector that is released, without noise; see `ClassSums.joint`."""
        sums = super().joint(z, labels, members)
        rows = np.where((labels >= 0)[:, None], np.asarray(z), 0.0)
        n = len(rows) if members is None else members.n
        shares = None if members is None else members.shares / n
        return np.concatenate([sums, self.weight * n * second_moment(rows, shares)])

    def scores(self, found: ClassMeans) -> tuple[Floats, Floats]:
        """A linear classifier of vectors z, from released numbers alone: the class with the largest
        <coefficients_a, z> + intercepts_a.
        """
        means, sizes = found.means, found.sizes
        total = unpack(np.asarray(found.rest / self.weight), self.dim)
        within = (np.asarray(total) - (sizes[:, None] * means).T @ means) / self.n
        values, vectors = np.linalg.eigh(within)
        # Noise moves an eigenvalue by up to sqrt(2 dim) times that of a coordinate. Directions
        # that it drowns count alike; where it drowns all, this is the rule of the nearest mean.
        floor = math.sqrt(self.dim) * found.deviation / (self.weight * self.n)
        floor = max(floor, 1e-9 * float(np.abs(values).max(initial=0.0)))
        coefficients = (means @ vectors) / np.maximum(values, floor) @ vectors.T
        return coefficients, -0.5 * np.sum(coefficients * means, axis=1)


class DiscriminantNoise(AbstractClasses):
    """Release a linear classifier of tangent vectors at one centre, clipped at one radius: its
    coefficients, and its intercepts as a last column. See `AbstractClasses`.

    Source:
        docs/proofs/classifiers.md.
    """

    what: ClassVar[str] = "discriminant"
    noise_on: ClassVar[str] = (
        "one vector of class sums, class sizes (where labels are private) and second moments of"
        " clipped tangent vectors, from which a linear classifier follows"
    )

    @property
    def rule(self) -> str:
        """What is released, from public numbers."""
        return rule_for(self.noise, self.manifold.dim)

    def _sums(self, classes: int, sizes: tuple[int, ...] | None) -> ClassSums:
        dim = self.manifold.dim
        if self.rule == DISCRIMINANT:
            return ClassMoments(self.n, classes, dim, sizes)
        return sums_for(self.noise, self.n, classes, dim, sizes)

    def _made(self, noisy: Floats, scale: float, found: Found) -> Drawn:
        means, told = self._contracted(noisy, scale, found)
        coefficients, intercepts = means.means, -0.5 * np.sum(means.means**2, axis=1)
        if isinstance(self.sums, ClassMoments):
            coefficients, intercepts = self.sums.scores(means)
        made = np.column_stack([coefficients / found.ball.radius, intercepts])
        facts = {"rule": self.rule, "share_of_classifier": float(found.left)}
        return Drawn(made, scale, self.sums.sensitivity, None, told | facts)


def rule_for(noise: Noise, dim: int) -> str:
    """What a classifier is made of, from public numbers: second moments too where noise is Gaussian
    (there they cost the class sums nothing) and the matrix is not too large.
    """
    return CLASS_MEANS if noise.is_pure or dim > MOST_COORDINATES else DISCRIMINANT
