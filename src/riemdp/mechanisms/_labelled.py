"""What mechanisms on labelled records share: where they look from, sums of classes, and the move of
class means.

A search (the scale, the median distance, a centre and the median distance about it) uses all
records and no label. What follows sees vectors z: log_c(x) shortened to length r, over r, the
centre c and the radius r being public or released.

Where people are protected, a person contributes the mean over that person's records of what each
record would contribute. It lies in the convex hull of what records contribute, whose diameter is
that of its corners, so every sensitivity is that of as many records. Proof: docs/proofs/people.md.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._errors import integer, invalid
from ..domains import AdaptiveBall, Ball, Domain
from ..domains._clamp import in_parts
from ..domains._door import admit_records
from ..domains._stream import pairwise_sum
from ..manifolds import AbstractManifold
from ..privacy import Budget
from ..privacy._noise import Noise
from ..randomness import NoiseSource
from ..statistics import TangentMean
from ..statistics._membership import Membership
from ..statistics._tangent_mean import shortened_logs
from ._ball_search import run_short_search
from ._common import Floats, needs_log
from ._private_ball import AdaptiveMechanism
from ._purse import BudgetedMechanism, Purse
from ._search_people import SearchPeople
from ._search_plan import SearchPlan, plan_short_search
from ._search_records import SearchRecords

_LEAST_KEPT = 1e-3  # of the classes' contrasts: their order is kept where James-Stein keeps nothing


class Labelled(NamedTuple):
    """What a mechanism of this module releases something about.

    Attributes:
        X: Records of the space.
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
    """A ball, what was seen from its centre (private), and the purse, with what is left in it."""

    ball: Ball
    z: Any  # (records, dim), lengths at most 1
    purse: Purse
    facts: dict[str, Any]


class LabelledSearch(AdaptiveMechanism[Labelled]):
    """A mechanism on labelled records that first finds one ball for all classes.

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
    """

    planner: ClassVar[Callable[..., SearchPlan]] = staticmethod(plan_short_search)

    def __init__(
        self,
        manifold: AbstractManifold,
        search: AdaptiveBall,
        *,
        n: int,
        classes: int,
        budget: Budget | Noise,
        sizes: Sequence[int] | None = None,
    ):
        super().__init__(manifold, search, n=n, budget=budget)
        self.classes, self.sizes = public_classes(classes, sizes)

    def _admit(self, value: tuple[Any, ...]) -> Labelled:
        given = Labelled(*value)
        if given.members is None:
            return Labelled(self._admitted(given.X), positions(given.labels, self.n))
        self.plan.check()
        records, rows = admit_records(self.manifold, "X", given.X)
        return _of_people(given, records, rows, self.n, self.sizes)

    def _found(self, value: Labelled, source: NoiseSource) -> Found:
        """Search for the ball, and look at the records from its centre."""
        X, members, purse = value.X, value.members, self._purse(source)
        if members is None:
            records = SearchRecords(self.domain, X, purse)
        else:
            records = SearchPeople(self.domain, X, members, purse)
        found = run_short_search(self.plan, records)
        r = records.size(found.radius)
        query = TangentMean(Domain(self.manifold, records.center, r), self.n)
        z = query.shorten(records.logs).points / r
        ball = Ball(records.center, r)
        facts = self._facts(records, found) | {"ball": ball}
        return Found(ball, z, purse, facts)


class LabelledInBall(BudgetedMechanism[Labelled]):
    """A mechanism on labelled records that looks at them from the centre of a public ball.

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
    """

    def __init__(
        self,
        manifold: AbstractManifold,
        ball: Ball,
        *,
        n: int,
        classes: int,
        budget: Budget | Noise,
        sizes: Sequence[int] | None = None,
    ):
        super().__init__(budget)
        self.manifold, self.ball, self.n = manifold, ball, integer("n", n)
        domain = ball.on(manifold)
        needs_log(manifold, "a tangent space")
        self.query = TangentMean(domain, self.n)
        self.classes, self.sizes = public_classes(classes, sizes)

    def _admit(self, value: tuple[Any, ...]) -> Labelled:
        """Shortened tangent vectors at the centre in the place of records."""
        given, domain = Labelled(*value), self.query.domain
        if given.members is None:
            prepared = self.query.prepare(given.X)
            labels = positions(given.labels, self.n)
            return Labelled(prepared.points, labels, count_outside=prepared.count_outside)
        records, rows = admit_records(self.manifold, "X", given.X)
        look = functools.partial(shortened_logs, self.manifold, domain.center, domain.radius)
        seen, outside = in_parts(self.manifold, look, records)
        labelled = _of_people(given, seen, rows, self.n, self.sizes)
        count = self.n - given.members.majority(~outside)  # at least half inside
        return labelled._replace(count_outside=count)

    def _found(self, value: Labelled, source: NoiseSource) -> Found:
        """The public ball, and the whole budget."""
        z, purse = value.X / self.query.domain.radius, self._purse(source)
        return Found(self.ball, z, purse, {"ball": self.ball, "n": self.n})


def _of_people(
    given: Labelled, X: Any, rows: int, n: int, sizes: tuple[int, ...] | None
) -> Labelled:
    """Records of n people, whose labels are private."""
    members = given.members
    assert members is not None
    if members.n != n or len(members.places) != rows:
        raise invalid("groups", f"{members.n} people", f"this mechanism was made for n = {n}")
    if sizes is not None:
        raise invalid("sizes", sizes, "how many records a person has of a class is private")
    return Labelled(X, positions(given.labels, rows), members)


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


def public_classes(classes: int, sizes: Sequence[int] | None) -> tuple[int, tuple[int, ...] | None]:
    """The number of classes, and the sizes of classes whose labels are public, checked."""
    number = integer("classes", classes)
    public = None if sizes is None else tuple(int(s) for s in sizes)
    if public is not None and (len(public) != number or min(public) < 1):
        raise invalid("sizes", sizes, "give the number of records of each class, at least 1")
    return number, public


def positions(labels: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """Positions of classes, one for each of n records."""
    found = np.asarray(labels, dtype=np.int64)
    if found.shape != (n,):
        raise invalid("y", f"{found.shape} labels", f"give n = {n}")
    return found


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
