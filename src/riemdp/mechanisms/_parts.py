"""Releases of several parts: one charge for all of them, and the one place that says what they cost
together.

Parts that see the same records, one after another, add up (`InTurn`). Where the records are divided
among the parts (`Apart`), only those parts cost that neighbours can change: one part, where
everybody may know which record is in which (`PublicParts`: the maximum, parallel composition). The
permit of the whole refuses a part that would cost more, before it is drawn.

Proof: docs/proofs/classifiers.md, Lemma 1.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from .._errors import InvalidArgument
from ..privacy import Guarantee
from ..privacy._permit import Permit
from ..randomness import NoiseSource
from ..statistics._membership import Membership
from ._base import AbstractReady, Made, Ready
from ._release import Release


class PublicParts:
    """Records divided into parts, where everybody may know which record is in which.

    Whoever makes one declares that public: neighbours differ in one record, which stays in its
    part, or with `members` in everything of one person, who is in one part. So one part differs.

    Args:
        places: The part of each record, from 0 on; a negative number for none.
        count: The public number of parts.
        members: Whose records they are, where people are protected.
        what: What the parts are called, in an error.

    Raises:
        InvalidArgument: Somebody's records are in several parts.
    """

    def __init__(
        self,
        places: NDArray[np.int64],
        count: int,
        members: Membership | None = None,
        *,
        what: str = "parts",
    ):
        self.members = members
        self.rows = [np.flatnonzero(places == part) for part in range(count)]
        """Which records each part has."""
        if members is not None:
            self._check_people(members, places, what)

    @property
    def sizes(self) -> list[int]:
        """How many records each part has, or people where these are protected."""
        if self.members is None:
            return [len(own) for own in self.rows]
        return [len(np.unique(self.members.places[own])) for own in self.rows]

    def people(self, part: int) -> NDArray[np.int64] | None:
        """The person of each record of a part, where people are protected."""
        return None if self.members is None else self.members.places[self.rows[part]]

    def _check_people(self, members: Membership, places: NDArray[np.int64], what: str) -> None:
        lowest, highest = np.full(members.n, np.iinfo(np.int64).max), np.full(members.n, -1)
        np.minimum.at(lowest, members.places, places)
        np.maximum.at(highest, members.places, places)
        if np.any(lowest != highest):
            raise InvalidArgument(
                f"argument `groups` names a person whose records are of several {what}, who would"
                f" change several means. Give records of one of the {what} for each person, or"
                f" leave out the {what}"
            )


@dataclasses.dataclass(frozen=True)
class Apart(AbstractReady[list[Made]]):
    """Parts among which the records are divided. Each sees its own records only.

    Attributes:
        guarantee: What all of them together cost: as much as any one of them.
        name: What they are called in a ledger.
        parts: The parts, admitted.
        divided: How the records are divided, which is public.
    """

    guarantee: Guarantee
    name: str
    parts: Sequence[AbstractReady[Made]]
    divided: PublicParts

    def within(self, source: NoiseSource, permit: Permit) -> list[Made]:
        """See `AbstractReady`."""
        each = permit.take(self.guarantee).among_parts()
        return [part.within(source, each) for part in self.parts]


@dataclasses.dataclass(frozen=True)
class InTurn(AbstractReady[tuple[Release, Release]]):
    """Two parts that see the same records, the second about what the first released.

    Attributes:
        guarantee: What both together cost: their sum.
        name: What they are called in a ledger.
        first: The first part, admitted.
        second: Makes the second part from what was released. It refuses nothing: whatever can be
            refused was, before the charge.
    """

    guarantee: Guarantee
    name: str
    first: Ready
    second: Callable[[Release], Ready]

    def within(self, source: NoiseSource, permit: Permit) -> tuple[Release, Release]:
        """See `AbstractReady`."""
        own = permit.take(self.guarantee)
        released = self.first.within(source, own)
        return released, self.second(released).within(source, own)
