"""Records seen from one centre: that of a public ball, or one that is found privately from all of
them, whatever labels or targets stand beside them. What is released of what is seen gets the share
of the budget that the search left: the theorem of docs/proofs/private-ball.md holds for both.
"""

from __future__ import annotations

import abc
import functools
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

from numpy.typing import NDArray

from .._errors import integer, invalid
from ..domains import AdaptiveBall, Ball, Domain
from ..domains._clamp import in_parts
from ..domains._door import admit_records
from ..manifolds import AbstractManifold
from ..privacy import Budget
from ..privacy._noise import Noise
from ..randomness import NoiseSource
from ..statistics import TangentMean
from ..statistics._membership import Membership
from ..statistics._tangent_mean import shortened_logs
from ._base import BudgetedMechanism
from ._common import needs_log
from ._lattice import Purse
from ._private_ball import BallSearch
from ._search_plan import plan_short_search
from ._search_records import SearchRecords
from ._short_search import run_short_search
from ._streamed_search import SearchPeople

MOST_COORDINATES = 2048  # of a tangent vector, for which second moments are released
_SEARCH = (
    "counts of records and a mean of clipped tangent vectors with noise, which locate a centre and"
    " a radius for all classes"
)


class LabelledRecords(NamedTuple):
    """What a mechanism about records with labels or targets releases something about.

    Attributes:
        X: Records of the space; once admitted by a public ball, shortened tangent vectors.
        labels: The position of each record's class, or a negative number for none; the target of
            each record, where that is a number.
        members: Whose records they are, where people are protected.
        count_outside: In a public ball, how many records lay outside it or were no points; where
            people are protected, how many people had more than half of theirs there. As private as
            the records; replacing one record, or everything of one person, changes it by at most 1.
    """

    X: Any
    labels: NDArray[Any]
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


class AbstractAtCentre(BudgetedMechanism[LabelledRecords]):
    """A release about records that are seen from one centre: that of a public ball, or one that is
    found privately from all records, whatever stands beside them.

    Args:
        manifold: A space with a logarithm.
        where: A public `Ball`, whose radius the curvature does not limit; or an `AdaptiveBall`.
        n: The public number of records; where people are protected that of people.
        budget: `Budget(epsilon, delta)`; delta = 0 gives pure epsilon.

    Raises:
        InvalidArgument: An argument is out of range. On release, naming `ball`, where n is too
            small for a search; from public numbers only.
        NotImplementedError: The space has no logarithm.

    Guarantee:
        Replace-one. delta > 0: mu-GDP with mu = 1 / gaussian_noise_multiplier(budget); delta = 0:
        (epsilon, 0).
    """

    what: ClassVar[str]
    """What is released, in the name of a release."""

    noise_on: ClassVar[str]
    """What noise is added to, in a report."""

    reach: ClassVar[float] = 1.0
    """The radius that vectors are clipped at, over the one that a search finds: public."""

    def __init__(
        self,
        manifold: AbstractManifold,
        where: Ball | AdaptiveBall,
        *,
        n: int,
        budget: Budget | Noise,
    ):
        super().__init__(budget)
        self.manifold, self.n, self.ball = manifold, integer("n", n), None
        if isinstance(where, Ball):
            self.ball, self.query = where, TangentMean(where.on(manifold), self.n)
            needs_log(manifold, "a tangent space")
        else:
            self.searching = BallSearch(manifold, where, self.n, self.noise, plan_short_search)
            self.plan = self.searching.plan

    @property
    def name(self) -> str:  # type: ignore[override]
        """Of a release."""
        return f"{'adaptive' if self.ball is None else 'tangent'}-{self.what}"

    @property
    def words(self) -> str:  # type: ignore[override]
        """What it does, in a report."""
        searched = f"{_SEARCH}, and " if self.ball is None else ""
        return f"{searched}noise on {self.noise_on}"

    @abc.abstractmethod
    def _beside(self, labels: Any, rows: int) -> NDArray[Any]:
        """What stands beside each of so many records, checked and moved into its public domain."""

    # ---------------------------------------------------------------- the records
    def _admit(self, value: tuple[Any, ...]) -> LabelledRecords:
        given = LabelledRecords(*value)
        if given.members is not None:
            return self._of_people(given, given.members)
        if self.ball is None:
            admitted = LabelledRecords(self.searching.admitted(given.X), given.labels)
        else:
            prepared = self.query.prepare(given.X)
            count = prepared.count_outside
            admitted = LabelledRecords(prepared.points, given.labels, count_outside=count)
        return admitted._replace(labels=self._beside(given.labels, self.n))

    def _of_people(self, given: LabelledRecords, members: Membership) -> LabelledRecords:
        """Records of n people, and what stands beside them, which is private."""
        if self.ball is None:
            self.plan.check()
        records, rows = admit_records(self.manifold, "X", given.X)
        if members.n != self.n or len(members.places) != rows:
            raise invalid("groups", f"{members.n} people", f"it was made for n = {self.n}")
        labels = self._beside(given.labels, rows)
        if self.ball is None:
            return LabelledRecords(records, labels, members)
        domain = self.query.domain
        look = functools.partial(shortened_logs, self.manifold, domain.center, domain.radius)
        seen, outside = in_parts(self.manifold, look, records)
        count = self.n - members.majority(~outside)  # at least half inside
        return LabelledRecords(seen, labels, members, count)

    def _found(self, value: LabelledRecords, source: NoiseSource) -> Found:
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
        r = records.size(self.reach * found.radius)
        query = TangentMean(Domain(self.manifold, records.center, r), self.n)
        z = query.shorten(records.logs).points / r
        ball = Ball(records.center, r)
        facts = self.searching.facts(records, found) | {"ball": ball}
        return Found(ball, z, purse, purse.left, facts)
