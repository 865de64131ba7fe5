"""The records of a search for a ball where they are read in parts, and where they are of people."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .._namespace import Floats
from ..domains._adaptive import SearchDomain
from ..manifolds import AbstractManifold
from ..manifolds._base import Point
from ..statistics import TangentMean
from ..statistics._membership import Membership
from ..statistics._tangent_mean import Flags, log_flagged
from ._lattice import Purse
from ._search_records import SearchRecords, T


class StreamedRecords(SearchRecords):
    """As `SearchRecords`, for a `Stream`: of every record its scale factors and its distance from
    the centre are kept, one pass over the records each. A mean is one more pass.
    """

    @property
    def n(self) -> int:
        """How many records there are."""
        return self.X.n

    def _each(self, look: Callable[[Point], T]) -> T:
        return self.X.each(look)

    def take(self, center: Point) -> None:
        """Look from this centre from now on."""
        self.center = center
        self.distances, self.has_log = self._each(
            functools.partial(_lengths, self.manifold, center)
        )

    def coordinates(self, query: TangentMean) -> Floats:
        """The value of a query about the centre."""
        return query.coordinates(query.prepare(self.X))


class SearchPeople(SearchRecords):
    """Private records of people and a current centre.

    A count is of the people of whom at least half the records are counted (that of valid ones: of
    whom at least half the records are points): whole numbers, which one person changes by at most
    1. A mean is that of one vector a person, the mean of that person's
    shortened vectors. So every answer has the sensitivity that it has for as many records.
    """

    def __init__(self, domain: SearchDomain, X: Any, members: Membership, purse: Purse):
        super().__init__(domain, X, purse)
        self.members = members

    @property
    def n(self) -> int:
        """How many people there are."""
        return self.members.n

    def _number(self, flags: Flags) -> int:
        """How many people have the flag on at least half of their records."""
        return self.members.majority(flags)

    def coordinates(self, query: TangentMean) -> Floats:
        """The value of a query about the centre, of one vector a person."""
        own = self.members.means(query.shorten(self.logs).points)
        return query.coordinates(query.shorten(own))


def _lengths(manifold: AbstractManifold, center: Point, records: Point) -> tuple[Floats, Flags]:
    """Distances of records from the centre, and which records have one; 0 for the others."""
    logs, has_log = log_flagged(manifold, center, records)
    return np.linalg.norm(logs, axis=1), has_log
