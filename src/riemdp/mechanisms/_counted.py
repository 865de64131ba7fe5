"""`Counted`: a mean and, for a small share of the budget, how many records lay outside the ball.

To check the privacy of a release, read this file, `_purse.py` and `AbstractMechanism.release`:

1. `share_of_count` shares the budget by public numbers (budget, n), before any record is read.
2. The count changes by at most 1 when one record is replaced, added or removed.
3. `Counted._draw` draws the noise of the mean, made for its share, then that of the count.
4. `Counted.guarantee` is that of the mean alone with the whole budget; `__init__` compares.

Proof: docs/proofs/private-ball.md.
"""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import Any, ClassVar

from .._errors import InvalidArgument, invalid
from ..inference._counts import OutsideCount
from ..privacy import Budget, Guarantee
from ..privacy._arithmetic import IDEALISED, LATTICE
from ..privacy._noise import Noise
from ..privacy._permit import adds_up
from ..randomness import NoiseSource
from ..statistics import Records
from ._at_centre import LabelledRecords
from ._base import AbstractMechanism, Drawn
from ._lattice import check_drawable
from ._purse import Purse

MOST = 0.04  # of mu^2 or of epsilon: noise of the mean times 1.0206, or 1.0417
LEAST = 0.005
PRECISE = 0.02  # of n: a count is not released more precisely than this, unless `LEAST` does
USEFUL = 0.25  # of n: a count that is less precise than this is not worth its share


def check_wanted(wanted: bool | None) -> None:
    """Refuse what is no answer to whether the records outside the ball are counted."""
    if wanted is not None and not isinstance(wanted, bool):
        raise invalid("count_outside", wanted, "give True, False or None (where it is useful)")


def share_of_count(noise: Noise, n: int, wanted: bool | None) -> Fraction:
    """The share of a budget that the count of records outside the ball takes, of mu^2 or of
    epsilon: public numbers only.

    Args:
        noise: Of the whole budget.
        n: The public number of records, or its lower bound.
        wanted: False for no count; None for one where its standard deviation is at most a quarter
            of n; True for one in any case.

    Returns:
        The share, 0 for no count.

    Raises:
        InvalidArgument: `wanted` is none of these.
    """
    check_wanted(wanted)
    share = min(MOST, max(LEAST, noise.share_of_count(PRECISE * n)))
    useful = wanted or noise.count_deviation(share) <= USEFUL * n
    return Fraction(share) if useful and wanted is not False else Fraction(0)


class Counted(AbstractMechanism[tuple[Any, int]]):
    """Release a value by `inner`, and the number of records outside the ball beside it, if there is
    a share for it.

    The value is a pair: that of `inner`, and the exact count; or None instead of the count, where
    what `inner` admits holds it (`Records`, `LabelledRecords`). The noisy count is rounded to a
    whole number and moved into [0, n], which is post-processing.

    Args:
        inner: A mechanism made for `noise.share(1 - share)`.
        noise: What both may spend together.
        share: What the count takes of it; 0 for none.
        n: The public number of records; None where it is protected.

    Raises:
        InvalidArgument: `inner` spends more than the count leaves.

    Guarantee:
        That of the value alone with the whole of `noise`, under the adjacency of `inner`: mu-GDP
        with mu = 1 / gaussian_noise_multiplier(budget), or (epsilon, 0). It holds where `inner` has
        its guarantee and the count changes by at most 1 between neighbours.

    Source:
        docs/proofs/private-ball.md.
    """

    name: ClassVar[str] = "counted"

    def __init__(self, inner: AbstractMechanism[Any], noise: Noise, share: Fraction, n: int | None):
        self.inner, self.noise, self.share, self.n = inner, noise, share, n
        alone = inner.guarantee
        self._guarantee = alone
        if share > 0:
            self._guarantee = dataclasses.replace(noise.guarantee, adjacency=alone.adjacency)
            count = noise.share(share).guarantee
            count = dataclasses.replace(count, adjacency=alone.adjacency)
            if not adds_up([alone, count], self._guarantee):
                raise InvalidArgument(
                    "argument `inner` spends more of the budget than the count leaves; make it for"
                    " `noise.share(1 - share)`"
                )

    @property
    def guarantee(self) -> Guarantee:
        """Of both together."""
        return self._guarantee

    @property
    def arithmetic(self) -> str:
        """ "lattice" where the noise of both is on public grids, as that of a count is."""
        return LATTICE if self.inner.arithmetic == LATTICE else IDEALISED

    @property
    def quoted_budget(self) -> Budget | None:
        """The whole budget."""
        return self.noise.budget if self.share > 0 else self.inner.quoted_budget

    @property
    def _called(self) -> tuple[str, str]:
        return self.inner._called

    def _check_noise(self) -> None:
        self.inner._check_noise()
        if self.share > 0:
            check_drawable(self.noise.share(self.share))

    def _admit(self, value: tuple[Any, int | None]) -> tuple[Any, int]:
        one, count = value
        admitted = self.inner._admit(one)
        if count is None:
            assert isinstance(admitted, Records | LabelledRecords)
            count = admitted.count_outside
            assert count is not None
        return admitted, int(count)

    def _draw(self, value: tuple[Any, int], source: NoiseSource) -> Drawn:
        admitted, count = value
        drawn = self.inner._draw(admitted, source)
        if not self.share > 0:
            return drawn
        purse = Purse(self.noise, source)
        purse.take(1 - self.share)  # what `inner` drew with
        noisy = round(purse.count(count, self.share))
        shown = max(noisy, 0) if self.n is None else min(max(noisy, 0), self.n)
        deviation = self.noise.count_deviation(self.share)
        outside = OutsideCount(shown, deviation, self.n, float(self.share))
        return dataclasses.replace(drawn, details={**drawn.details, "outside": outside})
