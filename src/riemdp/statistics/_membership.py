"""Which records belong to whom, and what the records of each person come to: their mean, and the
majority of their flags. Each of them is a function of that person's records alone.

Proof: docs/proofs/people.md.
"""

from __future__ import annotations

import functools
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from .._namespace import Floats
from ..domains._labels import admit_people
from ..domains._sums import BLOCK, pairwise_sum
from ..privacy._guarantee import PERSON, RECORD


class Folded(Protocol):
    """What has folded each person's records into one, each person's by themselves."""

    unit: ClassVar[str]


def unit_of(folded: Folded | None) -> str:
    """What neighbours differ in: everything of one person where records were folded, else one
    record.
    """
    return RECORD if folded is None else folded.unit


class Membership:
    """The people that n records belong to.

    Args:
        groups: One label of a person for each record.
        rows: The number of records.
        of: The name of the argument that holds the records, for an error.

    Attributes:
        places: The person of each record, from 0 on.
        n: The public number of people.

    Raises:
        InvalidArgument: The labels cannot be used.
    """

    unit: ClassVar[str] = PERSON

    def __init__(self, groups: object, rows: int, *, of: str = "X"):
        self.places, self.n = admit_people("groups", groups, rows, of=of)

    @functools.cached_property
    def counts(self) -> NDArray[np.int64]:
        """How many records each person has: private."""
        return np.bincount(self.places, minlength=self.n)

    @property
    def shares(self) -> Floats:
        """The weight of each record: those of one person add up to 1."""
        return 1.0 / self.counts[self.places]

    @functools.cached_property
    def by_person(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Records person by person, and where each person begins."""
        return np.argsort(self.places, kind="stable"), np.cumsum(self.counts) - self.counts

    def means(self, rows: Floats) -> Floats:
        """The mean of each person's rows, (people, ...): rounded by less than 5e-13 of the largest
        row, however many a person has.
        """
        order, starts = self.by_person
        ordered = rows[order]
        sums = np.add.reduceat(ordered, starts, axis=0)
        for i in np.flatnonzero(self.counts > BLOCK):
            own = ordered[starts[i] : starts[i] + self.counts[i]]
            blocks = [own[k : k + BLOCK].sum(axis=0) for k in range(0, len(own), BLOCK)]
            sums[i] = pairwise_sum(np.stack(blocks))
        return sums / self.counts.reshape(-1, *[1] * (rows.ndim - 1))

    def majority(self, flags: NDArray[np.bool_]) -> int:
        """How many people have the flag on at least half of their records: one person changes it by
        at most 1.
        """
        own = np.bincount(self.places, weights=flags, minlength=self.n)
        return int(np.count_nonzero(2 * own >= self.counts))
