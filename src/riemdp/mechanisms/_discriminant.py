"""A linear classifier in the tangent space at one centre, from one release of sums.

Guarantee, replace-one: with delta > 0 that of one Gaussian mechanism with the noise multiplier of
the budget; with delta = 0 pure epsilon. Proof: docs/proofs/tangent-classifier.md.

Let z be log_c(x) shortened to length r, over r, the centre c and r being public or released. What
is released, with noise for 2, is one vector: for each class a the sum S_a of z, its size N_a over
sqrt(2) where labels are private, and the sum of z z^T over sqrt(2). The factors are the largest at
which one record changes the whole vector by at most 2, as it does the sums of one class alone: the
second moments and the sizes cost no noise.

To check the privacy of a release, read this file, `_labelled`, `TangentMean.shorten`,
`BudgetedMechanism` and `AbstractMechanism.release`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .._errors import integer
from ..domains import AdaptiveBall, Ball
from ..domains._frame import MOST_TERMS, summation_error
from ..manifolds import AbstractManifold
from ..manifolds._spectral import unpack
from ..privacy import Budget
from ..privacy._noise import Noise
from ..randomness import NoiseSource
from ..statistics._membership import Membership
from ..statistics._second_moment import second_moment
from ._base import Drawn
from ._common import Floats
from ._labelled import (
    Found,
    Labelled,
    LabelledInBall,
    LabelledSearch,
    class_sums,
    contracted,
    public_classes,
)
from ._purse import Purse

MOST_COORDINATES = 2048  # of a tangent vector, for which second moments are released
DISCRIMINANT, CLASS_MEANS = "discriminant", "class-means"

_WEIGHT = 1.0 / math.sqrt(2.0)  # of sizes and of second moments, in the vector that is released


@dataclasses.dataclass(frozen=True)
class LabelledSums:
    """Sums over n labelled vectors of length at most 1, which one record changes by at most 2.

    Args:
        n: The public number of records.
        classes: The public number of classes.
        dim: The number of coordinates.
        sizes: The public number of records of each class; None where labels are private.
        moments: Whether the second moments are among them.
    """

    n: int
    classes: int
    dim: int
    sizes: tuple[int, ...] | None
    moments: bool

    def __post_init__(self) -> None:
        integer("n", self.n)
        public_classes(self.classes, self.sizes)

    @property
    def sensitivity(self) -> float:
        """Of the joint vector, rounding included."""
        rounding = summation_error(MOST_TERMS) + 8.0 * math.ulp(1.0)
        return 2.0 * (1.0 + 1e-11) + 4.0 * self.n * rounding

    @property
    def apart(self) -> bool:
        """Whether every class has noise of its own: labels are public, and nothing is shared."""
        return self.sizes is not None and not self.moments

    @property
    def together(self) -> int:
        """How many coordinates are released with noise for the sensitivity."""
        if self.apart:
            return self.dim
        joint = self.classes * self.dim + (self.classes if self.sizes is None else 0)
        return joint + (self.dim * (self.dim + 1) // 2 if self.moments else 0)

    def joint(self, z: Any, labels: NDArray[np.int64], members: Membership | None = None) -> Floats:
        """The vector that is released, without noise.

        Args:
            z: Shape (n, dim), lengths at most 1.
            labels: Positions of classes; a negative one belongs to no sum.
            members: Whose vectors they are, where all of one person count as one.
        """
        parts, counts = class_sums(z, labels, self.classes, members)
        if self.sizes is None:
            parts.append(_WEIGHT * np.array(counts))
        if self.moments:
            rows = np.where((labels >= 0)[:, None], np.asarray(z), 0.0)
            n = len(rows) if members is None else members.n
            shares = None if members is None else members.shares / n
            parts.append(_WEIGHT * n * second_moment(rows, shares))
        return np.concatenate(parts)

    def noisy(self, joint: Floats, purse: Purse) -> tuple[Floats, float]:
        """That vector with the noise of what is left in the purse, and its scale."""
        if not self.apart:
            noisy, scale, _ = purse.add(joint, self.sensitivity, purse.left)
            return noisy, scale
        own = list(joint.reshape(self.classes, self.dim))
        each, scale, _ = purse.add_apart(own, self.sensitivity, purse.left)
        return np.concatenate(each), scale

    # ---------------------------------------------------------------- after the noise
    def scores(self, noisy: Floats, scale: float, noise: Noise) -> Scores:
        """The classifier, from released numbers alone."""
        sums, rest = np.split(noisy, [self.classes * self.dim])
        sums = sums.reshape(self.classes, self.dim)
        sizes = np.array(self.sizes, dtype=float) if self.sizes is not None else np.zeros(0)
        if self.sizes is None:
            counts, rest = np.split(rest, [self.classes])
            sizes = np.maximum(counts / _WEIGHT, self.n / (4.0 * self.classes))
        # the noise of a K-norm mechanism is treated as if it were Gaussian
        deviation = noise.deviation(scale, self.together)
        means = contracted(sums / sizes[:, None], deviation / sizes)
        if not self.moments:
            return Scores(means, -0.5 * np.sum(means**2, axis=1), means, sizes)
        total = unpack(np.asarray(rest / _WEIGHT), self.dim)
        within = (np.asarray(total) - (sizes[:, None] * means).T @ means) / self.n
        values, vectors = np.linalg.eigh(within)
        # Noise moves an eigenvalue by up to sqrt(2 dim) times that of a coordinate. Directions
        # that it drowns count alike; where it drowns all, this is the rule of the nearest mean.
        floor = math.sqrt(self.dim) * deviation / (_WEIGHT * self.n)
        floor = max(floor, 1e-9 * float(np.abs(values).max(initial=0.0)))
        coefficients = (means @ vectors) / np.maximum(values, floor) @ vectors.T
        return Scores(coefficients, -0.5 * np.sum(coefficients * means, axis=1), means, sizes)


@dataclasses.dataclass(frozen=True)
class Scores:
    """A linear classifier of vectors z: the class with the largest <coefficients_a, z> +
    intercepts_a.

    Attributes:
        coefficients: Shape (classes, dim).
        intercepts: Shape (classes,).
        means: Class means of z, shape (classes, dim).
        sizes: Class sizes, public or noisy.
    """

    coefficients: Floats
    intercepts: Floats
    means: Floats
    sizes: Floats


def rule_for(noise: Noise, dim: int) -> str:
    """What is released, from public numbers: second moments too where noise is Gaussian (there
    they cost the class sums nothing) and the matrix is not too large.
    """
    return CLASS_MEANS if noise.is_pure or dim > MOST_COORDINATES else DISCRIMINANT


_WORDS = (
    "noise on one vector of class sums, class sizes (where labels are private) and second moments"
    " of clipped tangent vectors, from which a linear classifier follows"
)


class _Discriminant:
    """The release of a linear classifier, wherever records are seen from."""

    manifold: AbstractManifold
    noise: Noise
    _found: Callable[[Labelled, NoiseSource], Found]

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
        given = {"n": n, "classes": classes, "budget": budget, "sizes": sizes}
        super().__init__(manifold, where, **given)  # pyright: ignore[reportCallIssue]
        self.rule = rule_for(self.noise, manifold.dim)
        self.sums = _sums(n, classes, manifold, sizes, self.rule)

    @property
    def _coordinates(self) -> int:
        return self.sums.together

    def _draw(self, value: Labelled, source: NoiseSource) -> Drawn:
        sums, found = self.sums, self._found(value, source)
        left = found.purse.left
        joint = sums.joint(found.z, value.labels, value.members)
        noisy, scale = sums.noisy(joint, found.purse)
        scores = sums.scores(noisy, scale, self.noise)
        radius = found.ball.radius
        facts = found.facts | {
            "rule": self.rule,
            "coordinates": radius * scores.means,
            "sizes": None if sums.sizes is not None else tuple(float(s) for s in scores.sizes),
            "share_of_classifier": float(left),
        }
        made = np.column_stack([scores.coefficients / radius, scores.intercepts])
        return Drawn(made, scale, sums.sensitivity, None, facts)


class TangentDiscriminant(_Discriminant, LabelledInBall):
    """Release a linear classifier of tangent vectors at the centre of a public ball.

    Args:
        manifold: A space with a logarithm.
        ball: The public `Ball`; the curvature does not limit its radius.
        n: The public number of records of all classes; where people are protected that of people.
        classes: The public number of classes.
        budget: `Budget(epsilon, delta)`; delta = 0 gives pure epsilon.
        sizes: The public number of records of each class where labels are public; None where they
            are private.

    Raises:
        InvalidArgument: An argument is out of range.
        NotImplementedError: The space has no logarithm.

    Guarantee:
        Replace-one; the label stays where labels are public and may change where they are private.
        delta > 0: mu-GDP with mu = 1 / gaussian_noise_multiplier(budget); delta = 0: (epsilon, 0).

    Source:
        docs/proofs/tangent-classifier.md.
    """

    name: ClassVar[str] = "tangent-discriminant"
    words: ClassVar[str] = _WORDS


class AdaptiveDiscriminant(_Discriminant, LabelledSearch):
    """Release a linear classifier of tangent vectors at a centre that is found on the way.

    The search (the scale, the median distance, a centre and the median distance about it) uses all
    records and no label.

    Args:
        manifold: A space with a logarithm.
        search: An `AdaptiveBall`.
        n: The public number of records of all classes; where people are protected that of people.
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
        docs/proofs/tangent-classifier.md.
    """

    name: ClassVar[str] = "adaptive-discriminant"
    words: ClassVar[str] = (
        "counts of records and a mean of clipped tangent vectors with noise, which locate a centre"
        f" and a radius for all classes, and {_WORDS}"
    )


def _sums(
    n: int, classes: int, manifold: AbstractManifold, sizes: Sequence[int] | None, rule: str
) -> LabelledSums:
    public = None if sizes is None else tuple(int(s) for s in sizes)
    return LabelledSums(n, classes, manifold.dim, public, rule == DISCRIMINANT)
