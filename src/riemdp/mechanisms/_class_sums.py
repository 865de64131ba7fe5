"""Sums over labelled records, one for each class: what is released of them, and how far one record
moves it. What follows from the noisy sums is in `_released_means`.

Let z be log_c(x) shortened to length r, over r, the centre c and the radius r being public or
released. The vector holds for each class a the sum S_a of z and, where labels are private, its size
N_a; that of a sample (`ClassSpreads`) also the sums of |z|^2 and of z z^T. The weights are the
largest at which one record changes the whole vector by at most 2, as it does the sums of one class
alone (docs/proofs/private-ball.md, Lemma 5; docs/proofs/comparison.md).

Where people are protected, a person contributes the mean over that person's records of what each
record would contribute. It lies in the convex hull of what records contribute, whose diameter is
that of its corners, so every sensitivity is that of as many records. Proof: docs/proofs/people.md.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._errors import integer, invalid
from .._namespace import Floats
from ..domains._sums import MOST_TERMS, pairwise_sum, summation_error
from ..manifolds._spectral import unpack
from ..privacy._noise import Noise
from ..statistics._membership import Membership
from ..statistics._second_moment import second_moment
from ._lattice import Purse
from ._released_means import ClassMeans

WEIGHT = 1.0 / math.sqrt(2.0)  # of second moments, and of sizes beside them
SQUARES = 1.5  # the weight of |z|^2 in the vector of a sample


@dataclasses.dataclass(frozen=True)
class ClassSums:
    """Sums over n labelled vectors of length at most 1, which one record changes by at most 2.

    Args:
        n: The public number of records.
        classes: The public number of classes.
        dim: The number of coordinates.
        sizes: The public number of records of each class; None where labels are private.
    """

    n: int
    classes: int
    dim: int
    sizes: tuple[int, ...] | None

    def __post_init__(self) -> None:
        integer("n", self.n)
        integer("classes", self.classes)
        if self.sizes is not None and (len(self.sizes) != self.classes or min(self.sizes) < 1):
            raise invalid(
                "sizes", self.sizes, "give the number of records of each class, at least 1"
            )

    @property
    def weight(self) -> float:
        """Of a size, in the vector."""
        return 1.0

    @property
    def sensitivity(self) -> float:
        """Of the joint vector, rounding included."""
        return 2.0 * (1.0 + 1e-12) + 2.0 * self.n * summation_error(MOST_TERMS)

    @property
    def apart(self) -> bool:
        """Whether every class has noise of its own: labels are public, and nothing is shared."""
        return self.sizes is not None

    @property
    def together(self) -> int:
        """How many coordinates are released with noise for the sensitivity."""
        own = self.dim + (1 if self.sizes is None else 0)
        return own if self.apart else self.classes * own

    def joint(self, z: Any, labels: NDArray[np.int64], members: Membership | None = None) -> Floats:
        """The vector that is released, without noise.

        Args:
            z: Shape (n, dim), lengths at most 1.
            labels: Positions of classes; a negative one belongs to no sum.
            members: Whose vectors they are, where all of one person count as one.
        """
        parts, counts = class_sums(z, labels, self.classes, members)
        if self.sizes is None:
            parts.append(self.weight * np.array(counts))
        return np.concatenate(parts)

    def noisy(self, joint: Floats, purse: Purse) -> tuple[Floats, float]:
        """That vector with the noise of what is left in the purse, and its scale."""
        if not self.apart:
            noisy, scale, _ = purse.add(joint, self.sensitivity, purse.left)
            return noisy, scale
        own = list(joint.reshape(self.classes, self.together))
        each, scale, _ = purse.add_apart(own, self.sensitivity, purse.left)
        return np.concatenate(each), scale

    def means(self, noisy: Floats, scale: float, noise: Noise) -> ClassMeans:
        """The class means, from released numbers alone."""
        sums, rest = np.split(noisy, [self.classes * self.dim])
        sums = sums.reshape(self.classes, self.dim)
        sizes = np.array(self.sizes, dtype=np.float64) if self.sizes is not None else np.zeros(0)
        if self.sizes is None:
            counts, rest = np.split(rest, [self.classes])
            sizes = np.maximum(counts / self.weight, self.n / (4.0 * self.classes))
        # the noise of a K-norm mechanism is treated as if it were Gaussian
        deviation = noise.deviation(scale, self.together)
        return ClassMeans(sums / sizes[:, None], sizes, rest, deviation)


def sensitivity_with_squares(n: int) -> float:
    """Of n vectors of length at most 1 with what is made of their squares, rounding included, of
    weights at which one record changes all of it by at most 2.
    """
    rounding = summation_error(MOST_TERMS) + 8.0 * math.ulp(1.0)
    return 2.0 * (1.0 + 1e-11) + 4.0 * n * rounding


@dataclasses.dataclass(frozen=True)
class ClassSpreads(ClassSums):
    """The same where labels are public, and behind the sum of each class those of |z|^2 and, with
    `moments`, of z z^T: of weights at which one record changes the vector of its class by at most 2
    (docs/proofs/comparison.md, Lemma 1).

    Args:
        moments: Whether the second moments are among them.
    """

    moments: bool

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sizes is None:
            raise invalid("sizes", None, "samples are public: give the number of records of each")

    @property
    def sensitivity(self) -> float:
        """Of the vector of one class, rounding included."""
        return sensitivity_with_squares(self.n)

    @property
    def together(self) -> int:
        """How many coordinates each class has."""
        return self.dim + 1 + (self.dim * (self.dim + 1) // 2 if self.moments else 0)

    def joint(self, z: Any, labels: NDArray[np.int64], members: Membership | None = None) -> Floats:
        """The vectors that are released, without noise, one after the other; see `ClassSums.joint`.
        Where people are protected each is one row already, and `members` is not looked at.
        """
        sums, _ = class_sums(z, labels, self.classes, None)
        vectors = []
        for place, total in enumerate(sums):
            rows = np.where((labels == place)[:, None], z, 0.0)
            vectors += [total, SQUARES * pairwise_sum(np.sum(rows**2, axis=1, keepdims=True))]
            if self.moments:
                vectors.append(WEIGHT * len(rows) * second_moment(rows))
        return np.concatenate(vectors)

    def split(self, noisy: Floats) -> list[tuple[Floats, float, Floats | None]]:
        """Of each class the mean of z, of |z|^2 and of z z^T, from the noisy vectors."""
        assert self.sizes is not None
        found = []
        for size, row in zip(self.sizes, noisy.reshape(self.classes, self.together), strict=True):
            mean, square, moment = np.split(row / size, [self.dim, self.dim + 1])
            matrix = np.asarray(unpack(moment / WEIGHT, self.dim)) if self.moments else None
            found.append((mean, float(square[0]) / SQUARES, matrix))
        return found


def class_sums(
    z: Any, labels: NDArray[np.int64], classes: int, members: Membership | None
) -> tuple[list[Floats], list[float]]:
    """For each class the sum of its vectors, and how many there are.

    With `members` every person counts once: the person's vectors are averaged class by class, each
    with the share 1 / (number of that person's records).
    """
    flags = [labels == a for a in range(classes)]
    if members is None:
        sums = [pairwise_sum(np.where(f[:, None], z, 0.0)) for f in flags]
        return sums, [float(np.count_nonzero(f)) for f in flags]
    own = [members.means(np.where(f[:, None], z, 0.0)) for f in flags]
    sums = [pairwise_sum(one) for one in own]
    return sums, [float(np.sum(members.means(f.astype(np.float64)))) for f in flags]


def public_sizes(sizes: Sequence[int] | None) -> tuple[int, ...] | None:
    """The sizes of classes whose labels are public."""
    return None if sizes is None else tuple(int(s) for s in sizes)
