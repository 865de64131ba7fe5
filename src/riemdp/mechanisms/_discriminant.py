"""A linear classifier in the tangent space at one centre, from one release of sums.

Guarantee, replace-one: with delta > 0 that of one Gaussian mechanism with the noise multiplier of
the budget; with delta = 0 pure epsilon. Proof: docs/proofs/tangent-classifier.md.

Let z be log_c(x) shortened to length r, over r, the centre c and r being public or released. What
is released, with noise for 2, is one vector: for each class a the sum S_a of z, its size N_a over
sqrt(2) where labels are private, and the sum of z z^T over sqrt(2). The factors are the largest at
which one record changes the whole vector by at most 2, as it does the sums of one class alone: the
second moments and the sizes cost no noise.

To check the privacy of a release, read this file, `TangentMean.shorten`, `BudgetedMechanism` and
`AbstractMechanism.release`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray

from .._errors import integer
from ..domains import AdaptiveBall, Ball
from ..domains._frame import MOST_TERMS, summation_error
from ..manifolds import AbstractManifold
from ..manifolds._base import RecordsLike
from ..manifolds._spectral import unpack
from ..privacy import Budget
from ..randomness import NoiseSource
from ..statistics import TangentMean
from ..statistics._second_moment import second_moment
from ..statistics._sums import weighted_sum
from ._base import Drawn
from ._budgeted import BudgetedMechanism, BudgetedNoise, Floats
from ._common import needs_log
from ._labelled import Labelled, LabelledSearch, contracted, positions, public_classes

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

    def joint(self, z: Array, labels: NDArray[np.int64]) -> Floats:
        """The vector that is released, without noise.

        Args:
            z: Shape (n, dim), lengths at most 1.
            labels: Positions of classes; a negative one belongs to no sum.
        """
        flags = [labels == a for a in range(self.classes)]
        parts = [np.asarray(weighted_sum(jnp.asarray(f, float), z)) for f in flags]
        if self.sizes is None:
            parts.append(_WEIGHT * np.array([float(np.count_nonzero(f)) for f in flags]))
        if self.moments:
            rows = np.where((labels >= 0)[:, None], np.asarray(z), 0.0)
            parts.append(_WEIGHT * len(rows) * second_moment(rows))
        return np.concatenate(parts)

    def noisy(
        self, joint: Floats, noise: BudgetedNoise, scale: float, source: NoiseSource
    ) -> Floats:
        """That vector with noise of this scale."""
        if not self.apart:
            return noise.added(joint, scale, source)
        own = joint.reshape(self.classes, self.dim)
        return np.concatenate([noise.added(one, scale, source) for one in own])

    # ---------------------------------------------------------------- after the noise
    def scores(self, noisy: Floats, scale: float, *, pure: bool) -> Scores:
        """The classifier, from released numbers alone."""
        sums, rest = np.split(noisy, [self.classes * self.dim])
        sums = sums.reshape(self.classes, self.dim)
        sizes = np.array(self.sizes, dtype=float) if self.sizes is not None else np.zeros(0)
        if self.sizes is None:
            counts, rest = np.split(rest, [self.classes])
            sizes = np.maximum(counts / _WEIGHT, self.n / (4.0 * self.classes))
        # the noise of a K-norm mechanism is treated as if it were Gaussian
        deviation = scale * math.sqrt(self.together + 1.0) if pure else scale
        means = contracted(sums / sizes[:, None], deviation / sizes)
        if not self.moments:
            return Scores(means, -0.5 * np.sum(means**2, axis=1), means, sizes)
        total = unpack(jnp.asarray(rest / _WEIGHT), self.dim)
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


def rule_for(noise: BudgetedNoise, dim: int) -> str:
    """What is released, from public numbers: second moments too where noise is Gaussian (there
    they cost the class sums nothing) and the matrix is not too large.
    """
    return CLASS_MEANS if noise.is_pure or dim > MOST_COORDINATES else DISCRIMINANT


_WORDS = (
    "noise on one vector of class sums, class sizes (where labels are private) and second moments"
    " of clipped tangent vectors, from which a linear classifier follows"
)


class TangentDiscriminant(BudgetedMechanism[Labelled]):
    """Release a linear classifier of tangent vectors at the centre of a public ball.

    Args:
        manifold: A space with a logarithm.
        ball: The public `Ball`; the curvature does not limit its radius.
        n: The public number of records of all classes.
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

    def __init__(
        self,
        manifold: AbstractManifold,
        ball: Ball,
        *,
        n: int,
        classes: int,
        budget: Budget,
        sizes: Sequence[int] | None = None,
    ):
        super().__init__(budget)
        self.manifold, self.ball = manifold, ball
        domain = ball.on(manifold)
        needs_log(manifold, domain.center, "a tangent space")
        self.query = TangentMean(domain, integer("n", n))
        self.rule = rule_for(self.noise, manifold.dim)
        self.sums = _sums(n, classes, manifold, sizes, self.rule)

    def _admit(self, value: tuple[RecordsLike, NDArray[np.int64]]) -> Labelled:
        X, labels = value
        return self.query.prepare(X).points, positions(labels, self.query.n)

    def _draw(self, value: Labelled, source: NoiseSource) -> Drawn:
        points, labels = value
        domain = self.query.domain
        facts = {"ball": self.ball, "n": self.query.n, "rule": self.rule}
        z = points / domain.radius
        return _released(self.sums, z, labels, domain.radius, self.noise, 1.0, source, facts)


class AdaptiveDiscriminant(LabelledSearch):
    """Release a linear classifier of tangent vectors at a centre that is found on the way.

    The search (the scale, the median distance, a centre and the median distance about it) uses all
    records and no label.

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
        docs/proofs/tangent-classifier.md.
    """

    name: ClassVar[str] = "adaptive-discriminant"
    words: ClassVar[str] = (
        "counts of records and a mean of clipped tangent vectors with noise, which locate a centre"
        f" and a radius for all classes, and {_WORDS}"
    )

    def __init__(
        self,
        manifold: AbstractManifold,
        search: AdaptiveBall,
        *,
        n: int,
        classes: int,
        budget: Budget,
        sizes: Sequence[int] | None = None,
    ):
        super().__init__(manifold, search, n=n, classes=classes, budget=budget, sizes=sizes)
        self.rule = rule_for(self.noise, manifold.dim)
        self.sums = _sums(self.n, classes, manifold, sizes, self.rule)

    def _draw(self, value: Labelled, source: NoiseSource) -> Drawn:
        X, labels = value
        found = self._found(X, source)
        facts = found.facts | {"rule": self.rule}
        return _released(
            self.sums, found.z, labels, found.ball.radius, self.noise, found.left, source, facts
        )


def _sums(
    n: int, classes: int, manifold: AbstractManifold, sizes: Sequence[int] | None, rule: str
) -> LabelledSums:
    public = None if sizes is None else tuple(int(s) for s in sizes)
    return LabelledSums(n, classes, manifold.dim, public, rule == DISCRIMINANT)


def _released(
    sums: LabelledSums,
    z: Array,
    labels: NDArray[np.int64],
    radius: float,
    noise: BudgetedNoise,
    share: float,
    source: NoiseSource,
    facts: dict[str, Any],
) -> Drawn:
    """The classifier with the noise of this share of the budget."""
    scale = noise.scale(sums.sensitivity, share, sums.together)
    found = sums.scores(
        sums.noisy(sums.joint(z, labels), noise, scale, source), scale, pure=noise.is_pure
    )
    value = np.column_stack([found.coefficients / radius, found.intercepts])
    sizes = None if sums.sizes is not None else tuple(float(s) for s in found.sizes)
    more = {"coordinates": radius * found.means, "sizes": sizes, "share_of_classifier": share}
    return Drawn(value, scale, sums.sensitivity, None, facts | more)
