"""The second-moment matrix of rows with noise: clipped to a public length, or to one that is found
privately.

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

import dataclasses
import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._errors import InvalidArgument, integer
from .._isolation import isolation
from .._namespace import Floats
from ..inference._counts import ValidCount
from ..inference._distributions import lengths_of
from ..inference._region import Observation
from ..manifolds import Euclidean
from ..manifolds._spectral import unpack
from ..privacy import Budget, Guarantee
from ..privacy._noise import Noise
from ..randomness import NoiseSource
from ..statistics import Records
from ..statistics._membership import Membership
from ..statistics._second_moment import (
    PERSON_IS,
    SecondMoment,
    of_rows,
    row_lengths,
)
from ._base import EITHER, BudgetedMechanism
from ._drawn import Drawn
from ._lattice import Purse, slack_of
from ._search_plan import taken_for_valid

_MOMENT = "the second-moment matrix of the clipped rows"
_NOISY_MOMENT = "the noisy matrix whose leading eigenvectors were released"
_Rows = tuple[Records, Membership | None]
Flags = NDArray[np.bool_]
_FINITE = "finite and no longer than 2^128"  # what a valid row is
_OCTAVES = 128  # lengths from 2^-128 to 2^128 are told apart
_COUNTS = 12  # halvings of that range: the length is located to a factor 2^(1/16)
_MOST, _LEAST = 0.30, 0.02  # of the budget, for all counts together
# What is cut off rows is taken to lie along one direction to this share. At 1 (the worst case) the
# length is too large on real tables: 2 to 10 times the error of the best quantile.
_ALIGNED = 0.1
_WANTED, _WORST = 0.06, 0.145  # standard deviation of a count, as a share of n


def rows_and_people(value: Any) -> tuple[Any, Membership | None]:
    """Rows, or the pair of rows and whose they are, as that pair."""
    return value if isinstance(value, tuple) else (value, None)


def spectrum(coordinates: Floats, dim: int) -> tuple[Floats, Floats]:
    """Eigenvalues in increasing order and eigenvectors of a released matrix: post-processing."""
    with isolation():
        values, vectors = np.linalg.eigh(np.asarray(unpack(np.asarray(coordinates), dim)))
    return values, vectors


class AbstractSecondMoment(BudgetedMechanism[Any]):
    """A release of the second moment of rows; with `people` for everything of one person."""

    query: SecondMoment

    @property
    def guarantee(self) -> Guarantee:
        """Of one release."""
        found = super().guarantee
        return found.for_people() if self.query.people else found

    @property
    def _coordinates(self) -> int:
        return self.query.size

    def _drawn(
        self,
        query: SecondMoment,
        rows: Records,
        purse: Purse,
        facts: dict[str, Any],
    ) -> Drawn:
        """The second moment of prepared rows with the noise of what is left in the purse."""
        noisy, scale, _ = purse.add(query.value(rows), query.sensitivity, purse.left)
        people = {"people": query.n, "person_is": PERSON_IS} if query.people else {}
        facts = {"n": query.n, "row_norm": query.row_norm, **people, **facts}
        return Drawn(noisy, scale, query.sensitivity, None, facts)


class SecondMomentNoise(AbstractSecondMoment):
    """Release (1/n) sum z z^T of clipped rows with Gaussian (delta > 0) or Laplace noise, in the
    coordinates of `manifolds._spectral.pack`, an orthonormal frame of the symmetric matrices.

    Args:
        query: What is released of the rows, with its public row norm.
        budget: `Budget(epsilon, delta)`; delta = 0 gives pure epsilon.

    Guarantee:
        Replace-one, sensitivity sqrt(2) R^2 / n. delta > 0: mu-GDP with mu = 1 /
        gaussian_noise_multiplier(budget); delta = 0: (epsilon, 0).

    Source:
        Proof: docs/proofs/second-moment.md.
    """

    name: ClassVar[str] = "input-perturbation"
    words: ClassVar[str] = f"{EITHER} on {_MOMENT}"

    def __init__(self, query: SecondMoment, budget: Budget | Noise):
        super().__init__(budget)
        self.query = query

    @property
    def _widest(self) -> int:
        return self.query.size

    def _admit(self, value: Any) -> Records:
        """Rows, or rows and whose they are."""
        return self.query.prepare(*rows_and_people(value))

    def _draw(self, value: Records, source: NoiseSource) -> Drawn:
        drawn = self._drawn(self.query, value, self._purse(source), {})
        size = self.query.size
        seen = Observation(
            Euclidean(size),
            np.zeros(size),
            drawn.value,
            lengths_of(self.noise, drawn.scale, size),
            slack_of(drawn.scale, size, pure=self.noise.is_pure),
            place=_NOISY_MOMENT,
            subject=_MOMENT,
        )
        return dataclasses.replace(drawn, observation=seen)


class AdaptiveSecondMoment(AbstractSecondMoment):
    """Release (1/n) sum z z^T of rows clipped to a length that is found on the way; n is replaced
    by the released count of finite rows where that is too small for noise alone.

    The length holds about n - 20 sqrt(d) / mu of the rows, and at least half of them: what is cut
    off the others biases the matrix less than a length that held them would cost noise, if a tenth
    of it lies along one direction. As n grows, all rows are held.

    Args:
        dim: Number of columns d.
        n: The public number of rows; with `people` of people.
        budget: `Budget(epsilon, delta)`; delta = 0 gives pure epsilon.
        center: A public vector that is subtracted from each row, or None.
        people: Whether neighbours differ in everything of one person.

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

    def __init__(
        self,
        dim: int,
        *,
        n: int,
        budget: Budget | Noise,
        center: ArrayLike | None = None,
        people: bool = False,
    ):
        super().__init__(budget)
        self.dim, self.n = integer("dim", dim), integer("n", n)
        # the length of no row is compared with a larger number
        self.query = of_rows(self.dim, self.n, 2.0**_OCTAVES, center=center, people=people)
        noise = self.noise
        wanted = _COUNTS * noise.share_of_count(_WANTED * self.n)
        self.share = min(_MOST, max(_LEAST, wanted)) / _COUNTS
        self.need = math.ceil(noise.count_deviation(_MOST / _COUNTS) / _WORST)

    @property
    def searched(self) -> float:
        """What the counts spend: that of finite rows, and those of rows within a length."""
        return (1 + _COUNTS) * self.share

    def rank(self, valid: float) -> float:
        """The length is meant to hold this many rows, where so many are taken for finite."""
        noise = self.noise
        left = 1.0 - self.searched
        if self.noise.is_pure:
            coordinates = self.dim * (self.dim + 1) / 2
            # a standard deviation per coordinate of noise in all directions, next to a Gaussian's
            heavier = math.sqrt((coordinates + 1.0) / 2.0)
        else:
            heavier = 1.0
        worth = 2.0 * heavier * math.sqrt(self.dim) * noise.count_deviation(left) / _ALIGNED
        # a released number of finite rows has the noise of a count itself
        gap = noise.count_deviation(self.share) * (1.0 if valid == self.n else math.sqrt(2.0))
        return max(valid / 2, valid - max(noise.safety * gap, worth))

    def _admit(self, value: Any) -> _Rows:
        """Rows, or rows and whose they are."""
        if self.n < self.need:
            raise InvalidArgument(
                f"argument `row_norm`: n = {self.n} rows are too few to find a length privately"
                f" with this budget; about {self.need} are needed. Give a public number, a larger"
                " budget, or more rows. Nothing was spent"
            )
        rows, members = rows_and_people(value)
        return self.query.prepare(rows, members), members

    def _draw(self, value: _Rows, source: NoiseSource) -> Drawn:
        rows, members = value
        finite, purse = ~np.asarray(rows.outside), self._purse(source)
        count = purse.count(_counted(finite, members), self.share)
        deviation = self.noise.count_deviation(self.share)
        valid = taken_for_valid(count, self.n, deviation)
        lengths = row_lengths(rows.points)
        bound = self._located(lengths, finite, self.rank(valid), purse, members)
        shown = round(min(max(count, 0.0), float(self.n)))
        facts = {
            "need": self.need,
            "share_of_search": self.searched,
            "valid": ValidCount(shown, deviation, self.n, self.need, self.share, of=_FINITE),
        }
        query = self.query.within(bound)
        # what is in no count is in no sum: the stretch below would count it in part
        counted = dataclasses.replace(rows, points=np.where(finite[:, None], rows.points, 0.0))
        drawn = self._drawn(query, query.clip(counted), purse, facts)
        stretch = self.n / valid
        assert drawn.sensitivity is not None
        return dataclasses.replace(
            drawn,
            value=stretch * drawn.value,
            scale=stretch * drawn.scale,
            sensitivity=stretch * drawn.sensitivity,
        )

    def _located(
        self,
        lengths: Floats,
        finite: Flags,
        rank: float,
        purse: Purse,
        members: Membership | None,
    ) -> float:
        """A length that holds about `rank` finite rows, by bisection with noisy counts."""

        def holds(exponent: float) -> bool:
            within = _counted(finite & (lengths <= 2.0**exponent), members)
            return purse.count(within, self.share) >= rank

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
