"""Class means in one ball that is found privately from all records, whatever their labels.

Guarantee, replace-one: with delta > 0 that of one Gaussian mechanism with the noise multiplier of
the budget; with delta = 0 pure epsilon. The search and the sums share the budget, and the theorem
of docs/proofs/private-ball.md holds for them. Let z = log_c(x) shortened to length r, c and r being
released, and S_a = sum of z / r over class a, N_a the number of its records.

Public labels: replacing a record changes one S_a by at most 2. The classes are released with their
own noise for 2 each (parallel composition).

Private labels: replacing (x, a) by (x', b), a != b, changes S_a and S_b by at most 1 each and N_a,
N_b by 1 each, so the vector of all sums and counts by at most sqrt(4) = 2; with a = b it changes
S_a by at most 2 and no count. So sums and counts together get the noise of public labels. A label
that is no class belongs to no sum: less changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .._trees import map_leaves
from ..domains._ends import end_of
from ..domains._frame import MOST_TERMS, summation_error
from ..manifolds import AbstractManifold
from ..privacy._noise import Noise
from ..randomness import NoiseSource
from ..statistics._membership import Membership
from ._base import Drawn
from ._common import Floats
from ._labelled import (
    Found,
    Labelled,
    LabelledInBall,
    LabelledSearch,
    class_sums,
    contracted,
)


class _ClassMeans:
    """The release of class means, wherever they are seen from."""

    manifold: AbstractManifold
    noise: Noise
    n: int
    classes: int
    sizes: tuple[int, ...] | None
    _found: Callable[[Labelled, NoiseSource], Found]

    @property
    def sensitivity(self) -> float:
        """Of the vector of all sums, in units of the radius, and counts; rounding included."""
        return 2.0 * (1.0 + 1e-12) + 2.0 * self.n * summation_error(MOST_TERMS)

    def sums(self, z: Any, labels: NDArray[np.int64], members: Membership | None = None) -> Floats:
        """The sum of each class's vectors of length at most 1, shape (classes, dim); a last column
        holds the number of its records where labels are private. With `members` a person's records
        count as one.
        """
        sums, counts = class_sums(z, labels, self.classes, members)
        return np.stack(sums) if self.sizes is not None else np.column_stack([sums, counts])

    @property
    def _coordinates(self) -> int:
        dim = self.manifold.dim
        return dim if self.sizes is not None else self.classes * (dim + 1)

    def _draw(self, value: Labelled, source: NoiseSource) -> Drawn:
        found = self._found(value, source)
        center, r = found.ball.center, found.ball.radius
        joint = self.sums(found.z, value.labels, value.members)
        left = found.purse.left
        if self.sizes is None:
            made, scale, _ = found.purse.add(joint.ravel(), self.sensitivity, left)
            noisy = made.reshape(joint.shape)
            sums, sizes = noisy[:, :-1], np.maximum(noisy[:, -1], self.n / (4.0 * self.classes))
        else:
            each, scale, _ = found.purse.add_apart(list(joint), self.sensitivity, left)
            sums, sizes = np.stack(each), np.array(self.sizes, dtype=np.float64)
        # the noise of a K-norm mechanism is treated as if it were Gaussian
        deviation = self.noise.deviation(scale, self._coordinates)
        coordinates = r * contracted(sums / sizes[:, None], deviation / sizes)
        points = [end_of(self.manifold, center, y) for y in coordinates]
        facts = found.facts | {
            "coordinates": coordinates,
            "sizes": None if self.sizes is not None else tuple(float(s) for s in sizes),
        }
        stacked = map_leaves(lambda *leaves: np.stack(leaves), *points)
        return Drawn(stacked, r * scale, r * self.sensitivity, None, facts)


class AdaptiveClassMeans(_ClassMeans, LabelledSearch):
    """Release the means of several classes, about one centre and clipped at one radius.

    The search (the scale, the median distance, a centre and the median distance about it) uses all
    records and no label. A class mean is the mean of its records' tangent vectors at the centre,
    clipped at the radius, with noise; all class means are then moved towards their average by
    positive-part James-Stein, which uses released numbers only.

    Args:
        manifold: A space with a logarithm.
        search: An `AdaptiveBall`.
        n: The public number of records of all classes.
        classes: The public number of classes.
        budget: `Budget(epsilon, delta)`; delta = 0 gives pure epsilon.
        sizes: The public number of records of each class where labels are public; None where they
            are private.

    Raises:
        InvalidArgument: On release, naming `ball`, where n is too small; from public numbers only.

    Guarantee:
        Replace-one; the label stays where labels are public and may change where they are private.
        delta > 0: mu-GDP with mu = 1 / gaussian_noise_multiplier(budget); delta = 0: (epsilon, 0).

    Source:
        docs/proofs/private-ball.md.
    """

    name: ClassVar[str] = "adaptive-class-means"
    words: ClassVar[str] = (
        "counts of records and a mean of clipped tangent vectors with noise, which locate a centre"
        " and a radius for all classes, and noise on the sums of clipped tangent vectors of the"
        " classes"
    )


class TangentClassMeans(_ClassMeans, LabelledInBall):
    """Release the means of several classes as tangent vectors at the centre of a public ball.

    Args:
        manifold: A space with a logarithm.
        ball: The public `Ball`; the curvature does not limit its radius.
        n: The public number of records of all classes; where people are protected that of people.
        classes: The public number of classes.
        budget: `Budget(epsilon, delta)`; delta = 0 gives pure epsilon.
        sizes: The public number of records of each class where labels are public; None where they
            are private.

    Guarantee:
        Replace-one; the label stays where labels are public and may change where they are private.
        delta > 0: mu-GDP with mu = 1 / gaussian_noise_multiplier(budget); delta = 0: (epsilon, 0).

    Source:
        docs/proofs/class-means.md.
    """

    name: ClassVar[str] = "tangent-class-means"
    words: ClassVar[str] = (
        "noise on the sums of clipped tangent vectors of the classes, at a public centre"
    )
