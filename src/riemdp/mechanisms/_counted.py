"""`Counted`: a mean and, for a small share of the budget, how many records lay outside the ball.

To check the privacy of a release, read this file, `Purse` and `AbstractMechanism.release`:

1. `share_of_count` (`_for_mean`) shares the budget by public numbers (budget, n), before any record
   is read.
2. The count changes by at most 1 when one record is replaced, added or removed.
3. `Counted._draw` draws the noise of the mean, made for its share, then that of the count.
4. `Counted.guarantee` is that of the mean alone with the whole budget; `__init__` compares.

Proof: docs/proofs/private-ball.md.
"""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import Any, ClassVar

from .._errors import InvalidArgument
from ..inference._counts import OutsideCount
from ..privacy import Budget, Guarantee
from ..privacy._arithmetic import IDEALISED, LATTICE
from ..privacy._noise import Noise
from ..privacy._permit import adds_up
from ..randomness import NoiseSource
from ..statistics import Records
from ._at_centre import LabelledRecords
from ._base import AbstractMechanism
from ._drawn import Drawn
from ._lattice import Purse, check_drawable


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
