"""Class means, or a linear classifier, from one release of class sums about one centre: that of a
public ball, or one that is found privately from all records, whatever their labels.

Guarantee, replace-one: with delta > 0 that of one Gaussian mechanism with the noise multiplier of
the budget; with delta = 0 pure epsilon. A search (the scale, the median distance, a centre and the
median distance about it) uses all records and no label, and shares the budget with the sums: the
theorem of docs/proofs/private-ball.md holds for them.

To check the privacy of a release, read this file, `_class_sums`, `TangentMean.shorten`,
`BudgetedMechanism` and `AbstractMechanism.release`.
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._errors import integer, invalid
from .._trees import map_leaves
from ..domains import AdaptiveBall, Ball, Domain
from ..domains._clamp import in_parts
from ..domains._door import admit_records
from ..domains._ends import end_of
from ..manifolds import AbstractManifold
from ..privacy import Budget
from ..privacy._noise import Noise
from ..randomness import NoiseSource
from ..statistics import TangentMean
from ..statistics._membership import Membership
from ..statistics._tangent_mean import shortened_logs
from ._ball_search import run_short_search
from ._base import Drawn
from ._class_sums import ClassMeans, ClassMoments, ClassSums, public_sizes
from ._common import Floats, needs_log
from ._private_ball import BallSearch
from ._purse import BudgetedMechanism, Purse
from ._search_plan import plan_short_search
from ._search_records import SearchRecords
from ._streamed_search import SearchPeople

MOST_COORDINATES = 2048  # of a tangent vector, for which second moments are released
DISCRIMINANT, CLASS_MEANS = "discriminant", "class-means"


class ClassRecords(NamedTuple):
    """What a mechanism of this module releases something about.

    Attributes:
        X: Records of the space; once admitted by a public ball, shortened tangent vectors.
        labels: The position of each record's class, or a negative number for none.
        members: Whose records they are, where people are protected.
        count_outside: In a public ball, how many records lay outside it or were no points; where
            people are protected, how many people had more than half of theirs there. As private as
            the records; replacing one record, or everything of one person, changes it by at most 1.
    """

    X: Any
    labels: NDArray[np.int64]
    members: Membership | None = None
    count_outside: int | None = None


class Found(NamedTuple):
    """A ball, what was seen from its centre (private), and the purse, with what is left in it for
    the sums.
    """

    ball: Ball
    z: Any  # (records, dim), lengths at most 1
    purse: Purse
    left: Fraction
    facts: dict[str, Any]


class AbstractClasses(BudgetedMechanism[ClassRecords]):
    """One release of class sums, and what follows from it.

    Args:
        manifold: A space with a logarithm.
        where: A public `Ball`, whose radius the curvature does not limit; or an `AdaptiveBall`.
        n: The public number of records of all classes; where people are protected that of people.
        classes: The public number of classes.
        budget: `Budget(epsilon, delta)`; delta = 0 gives pure epsilon.
        sizes: The public number of records of each class where labels are public; None where they
            are private.

    Raises:
        InvalidArgument: An argument is out of range. On release, naming `ball`, where n is too
            small for a search; from public numbers only.
        NotImplementedError: The space has no logarithm.

    Guarantee:
        Replace-one; the label stays where labels are public and may change where they are private.
        delta > 0: mu-GDP with mu = 1 / gaussian_noise_multiplier(budget); delta = 0: (epsilon, 0).
    """

    what: ClassVar[str]
    """What is released, in the name of a release."""
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
        super().__init__(budget)
        self.manifold, self.n, self.ball = manifold, integer("n", n), None
        if isinstance(where, Ball):
            self.ball, self.query = where, TangentMean(where.on(manifold), self.n)
            needs_log(manifold, "a tangent space")
        else:
            self.searching = BallSearch(manifold, where, self.n, self.noise, plan_short_search)
            self.plan = self.searching.plan
        self.sums = self._sums(classes, public_sizes(sizes))

    @abc.abstractmethod
    def _sums(self, classes: int, sizes: tuple[int, ...] | None) -> ClassSums:
        """The vector that is released."""

    @property
    def name(self) -> str:  # type: ignore[override]
        """Of a release."""
        return f"{'adaptive' if self.ball is None else 'tangent'}-{self.what}"

    @property
    def _coordinates(self) -> int:
        return self.sums.together

    # ---------------------------------------------------------------- the records
    def _admit(self, value: tuple[Any, ...]) -> ClassRecords:
        given = ClassRecords(*value)
        if given.members is not None:
            return self._of_people(given, given.members)
        if self.ball is None:
            admitted = ClassRecords(self.searching.admitted(given.X), given.labels)
        else:
            prepared = self.query.prepare(given.X)
            count = prepared.count_outside
            admitted = ClassRecords(prepared.points, given.labels, count_outside=count)
        return admitted._replace(labels=positions(given.labels, self.n))

    def _of_people(self, given: ClassRecords, members: Membership) -> ClassRecords:
        """Records of n people, whose labels are private."""
        if self.ball is None:
            self.plan.check()
        records, rows = admit_records(self.manifold, "X", given.X)
        if members.n != self.n or len(members.places) != rows:
            raise invalid("groups", f"{members.n} people", f"it was made for n = {self.n}")
        if self.sums.sizes is not None:
            told = "how many records a person has of a class is private"
            raise invalid("sizes", self.sums.sizes, told)
        labels = positions(given.labels, rows)
        if self.ball is None:
            return ClassRecords(records, labels, members)
        domain = self.query.domain
        look = functools.partial(shortened_logs, self.manifold, domain.center, domain.radius)
        seen, outside = in_parts(self.manifold, look, records)
        count = self.n - members.majority(~outside)  # at least half inside
        return ClassRecords(seen, labels, members, count)

    def _found(self, value: ClassRecords, source: NoiseSource) -> Found:
        """The public ball, or one that is searched for; and the records seen from its centre."""
        purse = self._purse(source)
        if self.ball is not None:
            facts = {"ball": self.ball, "n": self.n}
            z = value.X / self.query.domain.radius
            return Found(self.ball, z, purse, purse.left, facts)
        X, members, domain = value.X, value.members, self.searching.domain
        if members is None:
            records = SearchRecords(domain, X, purse)
        else:
            records = SearchPeople(domain, X, members, purse)
        found = run_short_search(self.plan, records)
        r = records.size(found.radius)
        query = TangentMean(Domain(self.manifold, records.center, r), self.n)
        z = query.shorten(records.logs).points / r
        ball = Ball(records.center, r)
        facts = self.searching.facts(records, found) | {"ball": ball}
        return Found(ball, z, purse, purse.left, facts)

    def _draw(self, value: ClassRecords, source: NoiseSource) -> Drawn:
        sums, found = self.sums, self._found(value, source)
        joint = sums.joint(found.z, value.labels, value.members)
        noisy, scale = sums.noisy(joint, found.purse)
        return self._made(noisy, scale, found)

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


class ClassMeansNoise(AbstractClasses):
    """Release the means of several classes as points: their tangent vectors at one centre, clipped
    at one radius, with noise, then moved towards their average by positive-part James-Stein. See
    `AbstractClasses`.

    Source:
        docs/proofs/class-means.md; docs/proofs/private-ball.md.
    """

    what: ClassVar[str] = "class-means"

    @property
    def words(self) -> str:  # type: ignore[override]
        """What it does, in a report."""
        sums = "noise on the sums of clipped tangent vectors of the classes"
        return f"{sums}, at a public centre" if self.ball else f"{SEARCH}, and {sums}"

    def _sums(self, classes: int, sizes: tuple[int, ...] | None) -> ClassSums:
        return ClassSums(self.n, classes, self.manifold.dim, sizes)

    def _made(self, noisy: Floats, scale: float, found: Found) -> Drawn:
        ball, (_, facts) = found.ball, self._contracted(noisy, scale, found)
        points = [end_of(self.manifold, ball.center, y) for y in facts["coordinates"]]
        stacked = map_leaves(lambda *leaves: np.stack(leaves), *points)
        sensitivity = ball.radius * self.sums.sensitivity
        return Drawn(stacked, ball.radius * scale, sensitivity, None, facts)


class DiscriminantNoise(AbstractClasses):
    """Release a linear classifier of tangent vectors at one centre, clipped at one radius: its
    coefficients, and its intercepts as a last column. See `AbstractClasses`.

    Source:
        docs/proofs/tangent-classifier.md.
    """

    what: ClassVar[str] = "discriminant"

    @property
    def words(self) -> str:  # type: ignore[override]
        """What it does, in a report."""
        sums = (
            "noise on one vector of class sums, class sizes (where labels are private) and second"
            " moments of clipped tangent vectors, from which a linear classifier follows"
        )
        return sums if self.ball else f"{SEARCH}, and {sums}"

    @property
    def rule(self) -> str:
        """What is released, from public numbers."""
        return rule_for(self.noise, self.manifold.dim)

    def _sums(self, classes: int, sizes: tuple[int, ...] | None) -> ClassSums:
        moments = self.rule == DISCRIMINANT
        return ClassMoments(self.n, classes, self.manifold.dim, sizes, moments)

    def _made(self, noisy: Floats, scale: float, found: Found) -> Drawn:
        assert isinstance(self.sums, ClassMoments)
        means, told = self._contracted(noisy, scale, found)
        coefficients, intercepts = self.sums.scores(means)
        made = np.column_stack([coefficients / found.ball.radius, intercepts])
        facts = {"rule": self.rule, "share_of_classifier": float(found.left)}
        return Drawn(made, scale, self.sums.sensitivity, None, told | facts)


SEARCH = (
    "counts of records and a mean of clipped tangent vectors with noise, which locate a centre and"
    " a radius for all classes"
)


def rule_for(noise: Noise, dim: int) -> str:
    """What a classifier is made of, from public numbers: second moments too where noise is Gaussian
    (there they cost the class sums nothing) and the matrix is not too large.
    """
    return CLASS_MEANS if noise.is_pure or dim > MOST_COORDINATES else DISCRIMINANT


def positions(labels: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """Positions of classes, one for each of n records."""
    found = np.asarray(labels, dtype=np.int64)
    if found.shape != (n,):
        raise invalid("y", f"{found.shape} labels", f"give n = {n}")
    return found
