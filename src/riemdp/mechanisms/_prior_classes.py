"""A linear classifier from one release of contrasts of class means, where public records of the
same kind are known.

Where labels are public and what follows uses differences of class means alone, the part of the sums
along the vector of class sizes is left out. One record then moves what is left by less than 2, and
no mean of a class can be told from it (docs/proofs/classifiers.md, Lemma 15).

Guarantee, replace-one: one Gaussian mechanism with the noise multiplier of the budget. To check it,
read `_draw` and `ClassContrasts` here, `ClassView.seen`, `ClassView.contrasts_of` and `ClassSums`.
Proof: docs/proofs/classifiers.md.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .._errors import SMALLEST_MAGNITUDE, InvalidArgument, integer, invalid
from .._namespace import Floats
from ..domains._door import admit_records
from ..domains._sums import MOST_TERMS, pairwise_sum, summation_error
from ..privacy import Budget, Guarantee
from ..privacy._noise import Noise
from ..randomness import NoiseSource
from ..statistics._class_view import ClassView
from ..statistics._membership import Membership
from ..statistics._public_prior import PublicPrior
from ..statistics._tangent_mean import clipped
from ._at_centre import LabelledRecords
from ._base import BudgetedMechanism
from ._class_sums import ClassSums, public_sizes
from ._classes import positions
from ._drawn import Drawn
from ._prior_mean import ASSUMES
from ._released_means import ClassMeans

CONTRASTS = "contrasts"


@dataclasses.dataclass(frozen=True)
class ClassContrasts(ClassSums):
    """What public labels leave of the sums where differences of class means are all that is used:
    the sums without their part along the vector of class sizes, in an orthonormal basis. Adding one
    vector to the means of all classes does not change it.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sizes is None or self.classes < 2:
            raise invalid("sizes", self.sizes, "contrasts are for public sizes of two classes on")

    @property
    def _sizes(self) -> Floats:
        return np.array(self.sizes, dtype=np.float64)

    @property
    def factor(self) -> float:
        """The share of a record's change that contrasts keep: the smallest class keeps the most."""
        return math.sqrt(1.0 - float(np.min(self._sizes)) ** 2 / float(np.sum(self._sizes**2)))

    @property
    def sensitivity(self) -> float:
        """Of the joint vector, rounding included: that of the product with a basis, too."""
        rounding = summation_error(MOST_TERMS) + 4.0 * self.classes * math.ulp(1.0)
        return 2.0 * self.factor * (1.0 + 1e-12) + 2.0 * self.n * rounding

    @property
    def apart(self) -> bool:
        """Whether every class has noise of its own: a contrast belongs to several."""
        return False

    @property
    def together(self) -> int:
        """How many coordinates are released with noise for the sensitivity."""
        return (self.classes - 1) * self.dim

    def joint(self, z: Any, labels: NDArray[np.int64], members: Membership | None = None) -> Floats:
        """The vector that is released, without noise; see `ClassSums.joint`."""
        sums = super().joint(z, labels, members).reshape(self.classes, self.dim)
        return (contrast_basis(self._sizes) @ sums).ravel()

    def means(self, noisy: Floats, scale: float, noise: Noise) -> ClassMeans:
        """The class means minus their average, from released numbers alone."""
        sums = contrast_basis(self._sizes).T @ noisy.reshape(self.classes - 1, self.dim)
        means = sums / self._sizes[:, None]
        deviation = noise.deviation(scale, self.together)
        return ClassMeans(means - means.mean(axis=0), self._sizes, np.zeros(0), deviation)


class PersonContrasts(ClassContrasts):
    """The sum over people of their own contrasts, each shortened to length 1 as a whole, in an
    orthonormal basis: one person changes it by at most 2. Classes are of one size, the number of
    people.
    """

    @property
    def factor(self) -> float:
        """A person's contrasts add up to 0, so that nothing is left out."""
        return 1.0

    def joint(self, z: Any, labels: NDArray[np.int64], members: Membership | None = None) -> Floats:
        """The vector that is released, without noise.

        Args:
            z: (people, classes * dim).
            labels: Not looked at.
            members: Not looked at: people are folded already.
        """
        total = pairwise_sum(np.asarray(z)).reshape(self.classes, self.dim)
        return (contrast_basis(self._sizes) @ total).ravel()


def contrast_basis(sizes: Floats) -> Floats:
    """Orthonormal rows, shape (classes - 1, classes), orthogonal to the vector of class sizes: the
    rows but the first of the reflection that takes that vector to an axis.
    """
    axis = sizes / np.linalg.norm(sizes)
    axis[0] += 1.0
    reflection = np.eye(len(axis)) - 2.0 * np.outer(axis, axis) / float(axis @ axis)
    return reflection[1:]


class PriorClassifier(BudgetedMechanism[LabelledRecords]):
    """Release a linear classifier of tangent vectors at the public centre: its coefficients, and
    its intercepts as a last column.

    Args:
        prior: The public records.
        classes: The possible labels, public, at least two; or the number of labels that are none of
            the prior's.
        n: The public number of records, or of people.
        budget: `Budget(epsilon, delta)`, delta > 0.
        sizes: The public number of records of each class where labels are public; else None.
        of_people: Whether people are protected; each counts by the contrasts between own classes.

    Raises:
        InvalidArgument: An argument is out of range, or delta is 0.

    Guarantee:
        Replace-one; the label stays where labels are public and may change where they are private.
        mu-GDP with mu = 1 / gaussian_noise_multiplier(budget). It assumes that the public people
        are none of the private ones.

    Source:
        Proof: docs/proofs/classifiers.md.
    """

    name: ClassVar[str] = "prior-classifier"
    words: ClassVar[str] = (
        "Gaussian noise on contrasts of class means of tangent vectors at the public centre, which"
        " are whitened and clipped by public records; then moved towards public contrasts"
    )

    def __init__(
        self,
        prior: PublicPrior,
        classes: Sequence[Any] | int,
        *,
        n: int,
        budget: Budget | Noise,
        sizes: Sequence[int] | None = None,
        of_people: bool = False,
    ):
        super().__init__(budget)
        if self.noise.is_pure:
            raise invalid("budget", self.noise.whole, "a public prior needs delta > 0")
        count = classes if isinstance(classes, int) else len(classes)
        if count < 2:
            raise invalid("classes", classes, "contrasts need at least two classes")
        if of_people and sizes is not None:
            told = "how many records a person has of a class is private"
            raise invalid("sizes", sizes, told)
        self.prior, self.manifold, self.n = prior, prior.manifold, integer("n", n)
        self.view = ClassView.of(prior, classes)
        self.radius = self.view.radius(of_people=of_people)
        if not self.radius >= SMALLEST_MAGNITUDE:  # nothing could be clipped to it
            who = "people have means of classes" if of_people else "records have classes"
            raise InvalidArgument(
                f"argument `ball`: the public {who} that do not differ; leave out their labels:"
                " PublicPrior(manifold, X)"
            )
        self.of_people = of_people
        known = public_sizes(sizes)
        kind = ClassSums if known is None else ClassContrasts
        if of_people:
            known, kind = (self.n,) * count, PersonContrasts
        self.sums = kind(self.n, count, self.view.dim, known)

    @property
    def guarantee(self) -> Guarantee:
        """Of one release."""
        return self.noise.guarantee.assuming(ASSUMES)

    @property
    def _coordinates(self) -> int:
        return self.sums.together

    @property
    def noise_of_class(self) -> float:
        """The standard deviation of the noise of a class mean in a whitened coordinate, classes
        being of one size where theirs is private: a public number.
        """
        scale = self.radius * self.sums.sensitivity * self.noise.multiplier
        sizes = self.sums.sizes or (self.n / self.sums.classes,)
        return scale * float(np.sqrt(np.mean(1.0 / np.square(sizes))))

    def _admit(self, value: tuple[Any, ...]) -> LabelledRecords:
        given = LabelledRecords(*value)
        records, rows = admit_records(self.manifold, "X", given.X)
        members = given.members
        if (members is not None) != self.of_people:
            raise invalid("groups", "given", "say so by of_people=True")
        if (rows if members is None else members.n) != self.n:
            raise invalid("X", f"{rows} records", f"it was made for n = {self.n}")
        labels = positions(given.labels, rows)
        z = self.view.seen(records)
        if members is not None:
            blocks = self.view.contrasts_of(z, labels, members)
            z = blocks.reshape(len(blocks), -1)
        return LabelledRecords(clipped(z, self.radius)[0] / self.radius, labels)

    def _draw(self, value: LabelledRecords, source: NoiseSource) -> Drawn:
        sums, purse = self.sums, self._purse(source)
        noisy, scale, _ = purse.add(sums.joint(value.X, value.labels), sums.sensitivity, purse.left)
        found = sums.means(noisy, scale, self.noise)
        contrasts = found.means - found.means.mean(axis=0)
        variance = self.radius**2 * float(np.mean(found.deviations**2))
        linear = self.view.scores(self.view.improved(self.radius * contrasts, variance))
        facts = {
            "n": self.n,
            "radius": self.radius,
            "answers": (self.radius * noisy,),
            "rule": CONTRASTS,
            "sizes": None if sums.sizes else tuple(float(s) for s in found.sizes),
        }
        made = np.column_stack([linear.coefficients, linear.intercepts])
        return Drawn(made, self.radius * scale, self.radius * sums.sensitivity, None, facts)
