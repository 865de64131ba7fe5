"""A search for a ball among people: what `_search_records` answers about records."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..domains._adaptive import SearchDomain
from ..domains._clamp import in_parts
from ..manifolds._base import Point
from ..statistics import TangentMean
from ..statistics._membership import Floats, Membership
from ..statistics._tangent_mean import log_flagged
from ._purse import Purse
from ._search_records import SearchRecords, log_scales, valid_flags


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
        self.logs: Floats = np.zeros((0, self.manifold.dim))

    @property
    def n(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride] - computed there
        """How many people there are."""
        return self.members.n

    def valid_count(self) -> int:
        """How many people have points of the space for at least half of their records."""
        flags = functools.partial(valid_flags, self.manifold, self.domain.center)
        return self.members.majority(in_parts(self.manifold, flags, self.X))

    def scales_below(self, factor: int, scale: float) -> int:
        """How many people have this scale factor at most `scale`, by half of their records."""
        if self._scales is None:
            look = functools.partial(log_scales, self.manifold, self.domain.center)
            scales, given = in_parts(self.manifold, look, self.X)
            self._scales = scales, given
        scales, given = self._scales
        return self.members.majority(given & (scales[:, factor] <= scale))

    def take(self, center: Point) -> None:
        """Look from this centre from now on."""
        self.center = center
        self.logs, self.has_log = log_flagged(self.manifold, center, self.X)
        self.distances = np.linalg.norm(self.logs, axis=1)

    def within(self, radius: float) -> int:
        """How many people have at least half of their records within a radius of the plan."""
        return self.members.majority(self.has_log & (self.distances <= radius * self.unit))

    def coordinates(self, query: TangentMean) -> Floats:
        """The value of a query about the centre, of one vector a person."""
        own = self.members.means(query.shorten(self.logs).points)
        return query.coordinates(query.shorten(own))
