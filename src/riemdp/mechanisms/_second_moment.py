"""The second-moment matrix of rows whose length nobody knows: a length found privately, then noise.

Guarantee, replace-one: with delta > 0 that of one Gaussian mechanism with the noise multiplier of
the budget; with delta = 0 pure epsilon. The shares of all answers add up to 1, and the theorem of
docs/proofs/private-ball.md holds for them: a count of rows changes by at most 1, the matrix of rows
clipped to a released length R by at most sqrt(2) R^2 / n.

A row that is not finite is in no count. How many are finite is the first answer; the length is to
hold a share of so many, and the matrix, to which the others contribute 0, is divided by it.

Where people are protected n is their number, a count is of people who have at least half of their
rows within a length, and a person counts by the mean of z z^T. Proof: docs/proofs/people.md.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .._errors import InvalidArgument, integer, invalid
from ..domains._door import admit_records
from ..domains._frame import MOST_TERMS
from ..manifolds import Euclidean
from ..privacy import Budget
from ..randomness import NoiseSource
from ..statistics._membership import Membership
from ..statistics._second_moment import (
    Floats,
    clip_rows,
    row_lengths,
    second_moment,
    second_moment_sensitivity,
)
from ._base import Drawn
from ._budgeted import BudgetedMechanism
from ._outside import ValidCount
from ._search_plan import taken_for_valid

_Rows = tuple[Floats, Membership | None]
Flags = NDArray[np.bool_]
_FINITE = "finite"  # what a valid row is
_OCTAVES = 128  # lengths from 2^-128 to 2^128 are told apart
_COUNTS = 12  # halvings of that range: the length is located to a factor 2^(1/16)
_MOST, _LEAST = 0.30, 0.02  # of the budget, for all counts together
# What is cut off rows is taken to lie along one direction to this share. At 1 (the worst case) the
# length is too large on real tables: 2 to 10 times the error of the best quantile.
_ALIGNED = 0.1
_WANTED, _WORST = 0.06, 0.145  # standard deviation of a count, as a share of n


class AdaptiveSecondMoment(BudgetedMechanism[_Rows]):
    """Release (1/n) sum z z^T of rows clipped to a length that is found on the way; n is replaced
    by the released count of finite rows where that is too small for noise alone.

    The length holds about n - 20 sqrt(d) / mu of the rows, and at least half of them: what is cut
    off the others biases the matrix less than a length that held them would cost noise, if a tenth
    of it lies along one direction. As n grows, all rows are held.

    Args:
        dim: Number of columns d.
        n: The public number of rows.
        budget: `Budget(epsilon, delta)`; delta = 0 gives pure epsilon.

    Raises:
        InvalidArgument: On release, naming `row_norm`, where n is too small; from public numbers
            only.

    Guarantee:
        Replace-one. delta > 0: mu-GDP with mu = 1 / gaussian_noise_multiplier(budget); delta = 0:
        (epsilon, 0).

    Source:
        docs/proofs/private-ball.md.
    """

    name: ClassVar[str] = "adaptive-second-moment"
    words: ClassVar[str] = (
        "counts of rows with noise, which locate a typical length, and noise on the second-moment"
        " matrix of rows clipped to it"
    )

    def __init__(self, dim: int, *, n: int, budget: Budget):
        super().__init__(budget)
        self.dim, self.n = integer("dim", dim), integer("n", n)
        law = self.noise.law
        wanted = _COUNTS * law.share_of_count(_WANTED * self.n)
        self.share = min(_MOST, max(_LEAST, wanted)) / _COUNTS
        self.need = math.ceil(law.count_deviation(_MOST / _COUNTS) / _WORST)

    @property
    def searched(self) -> float:
        """What the counts spend: that of finite rows, and those of rows within a length."""
        return (1 + _COUNTS) * self.share

    def rank(self, valid: float) -> float:
        """The length is meant to hold this many rows, where so many are taken for finite."""
        law = self.noise.law
        left = 1.0 - self.searched
        if self.noise.is_pure:
            coordinates = self.dim * (self.dim + 1) / 2
            # a standard deviation per coordinate of noise in all directions, next to a Gaussian's
            heavier = math.sqrt((coordinates + 1.0) / 2.0)
        else:
            heavier = 1.0
        worth = 2.0 * heavier * math.sqrt(self.dim) * law.count_deviation(left) / _ALIGNED
        # a released number of finite rows has the noise of a count itself
        gap = law.count_deviation(self.share) * (1.0 if valid == self.n else math.sqrt(2.0))
        return max(valid / 2, valid - max(law.safety * gap, worth))

    def _admit(self, value: Any) -> _Rows:
        """Rows, or rows and whose they are."""
        if self.n < self.need:
            raise InvalidArgument(
                f"argument `row_norm`: n = {self.n} rows are too few to find a length privately"
                f" with this budget; about {self.need} are needed. Give a public number, a larger"
                " budget, or more rows. Nothing was spent"
            )
        table, members = value if isinstance(value, tuple) else (value, None)
        rows, n = admit_records(Euclidean(self.dim), "X", table)
        if members is not None and len(members.places) == n:
            n = members.n
        if n != self.n:
            raise invalid("X", f"{n} rows", f"this mechanism was made for n = {self.n}")
        return np.asarray(rows), members

    def _draw(self, value: _Rows, source: NoiseSource) -> Drawn:
        rows, members = value
        finite = np.all(np.isfinite(rows), axis=1)
        count = _counted(finite, members) + self.noise.count(self.share, source)
        deviation = self.noise.law.count_deviation(self.share)
        valid = taken_for_valid(count, self.n, deviation)
        bound = self._located(row_lengths(rows), finite, self.rank(valid), source, members)
        y = second_moment(clip_rows(rows, bound), members)
        terms = None if members is None else MOST_TERMS
        sensitivity = second_moment_sensitivity(bound, self.n, terms=terms)
        stretch = self.n / valid
        scale = self.noise.scale(sensitivity, 1.0 - self.searched, y.size)
        noisy = stretch * self.noise.added(y, scale, source)
        shown = round(min(max(count, 0.0), float(self.n)))
        facts = {
            "n": self.n,
            "row_norm": bound,
            "need": self.need,
            "share_of_search": self.searched,
            "valid": ValidCount(shown, deviation, self.n, self.need, self.share, of=_FINITE),
        }
        return Drawn(noisy, stretch * scale, stretch * sensitivity, None, facts)

    def _located(
        self,
        lengths: Floats,
        finite: Flags,
        rank: float,
        source: NoiseSource,
        members: Membership | None,
    ) -> float:
        """A length that holds about `rank` rows, by bisection with `_COUNTS` noisy counts."""

        def holds(exponent: float) -> bool:
            within = _counted(finite & (lengths <= 2.0**exponent), members)
            return within + self.noise.count(self.share, source) >= rank

        low, high = -float(_OCTAVES), float(_OCTAVES)
        for _ in range(_COUNTS):
            middle = (low + high) / 2.0
            if holds(middle):
                high = middle
            else:
                low = middle
        return 2.0**high


def _counted(flags: Flags, members: Membership | None) -> float:
    """How many rows have the flag, or people on at least half of their rows."""
    return float(np.count_nonzero(flags) if members is None else members.majority(flags))
