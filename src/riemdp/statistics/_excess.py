"""How far records were moved into a ball on average, as a query."""

from __future__ import annotations

import dataclasses
import functools
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from .._errors import invalid, real
from .._isolation import isolated
from ..domains._clamp import in_parts, readable
from ..domains._door import admit_records
from ..domains._stream import Stream, streamed_error
from ..manifolds import AbstractManifold
from ..manifolds._base import Point, RecordsLike
from ..privacy._guarantee import PERSON
from ._membership import Membership
from ._query import AbstractQuery, Records, average, other_count
from ._sensitivity import REPLACE_ONE
from ._variance import distances_from

Floats = NDArray[np.float64]


@dataclasses.dataclass(frozen=True, eq=False)
class GroupedRecords:
    """Records, and one label of a person for each of them.

    Raises:
        InvalidArgument: The form of the records or of the labels is wrong.
    """

    unit: ClassVar[str] = PERSON

    manifold: AbstractManifold
    X: RecordsLike
    groups: object

    @functools.cached_property
    def admitted(self) -> tuple[Point, Membership]:
        """The records and whose they are, their form checked."""
        records, rows = admit_records(self.manifold, "X", self.X)
        return records, Membership(self.groups, rows)


@dataclasses.dataclass(frozen=True, eq=False)
class ClippingExcess(AbstractQuery):
    """The mean of min(max(d(c, x) - r, 0), R - r) over the records x: how far they are moved on
    average when a ball about c of radius R is replaced by one of radius r.

    Each term depends on its own record and lies between 0 and R - r, so replacing one moves the
    value by at most (R - r) / n, on every manifold that has a distance, whatever its curvature.

    Args:
        domain: The ball of radius r, bound to its space: public, or one that was released.
        n: The public number of records, at least 1.
        reach: The public R, above r.
        adjacency: "replace-one", the only one.

    Raises:
        InvalidArgument: An argument is out of range, or the adjacency is another one.

    Guarantee:
        `sensitivity` = (R - r) / n + the rounding of the sum, under replace-one; attained by a
        record in the ball and one at distance R.

    Source:
        Proof: docs/proofs/clipping-bound.md.

    Examples:
        >>> import riemdp
        >>> sphere = riemdp.Sphere(3)
        >>> ball = riemdp.Ball(sphere.origin, 0.5).on(sphere)
        >>> round(riemdp.statistics.ClippingExcess(ball, 100, reach=2.0).sensitivity, 6)
        0.015
    """

    reach: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.adjacency != REPLACE_ONE:
            raise invalid("adjacency", self.adjacency, 'this bound is for "replace-one" only')
        object.__setattr__(self, "reach", real("reach", self.reach, above=0.0))
        if not self.reach > self.domain.radius:
            raise invalid(
                "reach",
                self.reach,
                f"it has to be above the radius {self.domain.radius:g} of the ball",
            )

    @property
    def largest(self) -> float:
        """R - r, the largest value."""
        return self.reach - self.domain.radius

    @property
    def sensitivity(self) -> float:
        """Largest change of the value, rounding included."""
        return self.largest / self.n * (1 + 1e-12) + 2 * self.error_bound

    @property
    def error_bound(self) -> float:
        """Largest rounding error of the sum."""
        return self.largest * streamed_error()

    @isolated
    def prepare(self, X: RecordsLike | GroupedRecords) -> Records:
        """The n lengths, each at most R - r; 0 for a record that is not a point of the space.

        Of `GroupedRecords`, n being the number of people: for each of them the mean of the lengths
        of those own records that are points; 0 for a person without one.
        """
        d = self.domain
        if isinstance(X, GroupedRecords):
            return self._of_people(*X.admitted)
        records, count = self._admitted(X)
        if count != self.n:
            raise other_count(count, self.n)
        step = functools.partial(_excess, d.manifold, d.center, d.radius, self.reach)
        if isinstance(records, Stream):
            return Records(records.moved(step))
        return Records(in_parts(d.manifold, step, records)[0])

    def _of_people(self, records: Point, members: Membership) -> Records:
        """A person's term is a function of that person's records alone: sums are taken in their
        order, which the others' records do not change, and what rounding adds is cut off.
        """
        if members.n != self.n:
            raise other_count(members.n, self.n)
        d = self.domain
        step = functools.partial(_own_excess, d.manifold, d.center, d.radius, self.reach)
        terms, valid = in_parts(d.manifold, step, records)
        sums = np.bincount(members.places, weights=np.where(valid, terms, 0.0), minlength=self.n)
        count = np.bincount(members.places, weights=valid, minlength=self.n)
        own = np.clip(sums / np.maximum(count, 1.0), 0.0, self.largest)
        return Records(own)

    @isolated
    def value(self, records: Records) -> float:
        """The mean of the prepared terms."""
        return average(records.points)


def _excess(
    manifold: AbstractManifold, center: Point, radius: float, reach: float, records: Point
) -> tuple[Floats, NDArray[np.bool_]]:
    """The terms of some records; none of them is flagged."""
    beyond = distances_from(manifold, center, records) - radius
    terms = np.clip(beyond, 0.0, reach - radius)
    return terms, np.zeros(terms.shape, dtype=bool)


def _own_excess(
    manifold: AbstractManifold, center: Point, radius: float, reach: float, records: Point
) -> tuple[Floats, NDArray[np.bool_]]:
    """The terms of some records, and which of these are points of the space."""
    terms, _ = _excess(manifold, center, radius, reach, records)
    return terms, np.asarray(readable(manifold, center, records)[1])
