"""`Counted`: a mean and, for a small share of the budget, how many records lay outside the ball.

To check the privacy of a release, read this file, `BudgetedNoise.count` and
`AbstractMechanism.release`:

1. `plan_count` shares the budget by public numbers (budget, n), before any record is read.
2. The count changes by at most 1 when one record is replaced, added or removed.
3. `Counted._draw` draws the noise of the mean, made for its share, then that of the count.
4. `Counted.guarantee` is that of the mean alone with the whole budget; `_check` compares.

Proof: docs/proofs/private-ball.md.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any, ClassVar

from .._errors import InvalidArgument, invalid
from ..privacy import Budget, Guarantee, gaussian, gaussian_noise_multiplier, pure
from ..privacy._arithmetic import IDEALISED, LATTICE
from ..randomness import NoiseSource
from ..statistics import Records
from ._base import AbstractMechanism, Drawn
from ._budgeted import BudgetedNoise
from ._labelled import Labelled
from ._outside import OutsideCount
from ._search_plan import GaussianNoise, Noise, PureNoise

MOST = 0.04  # of mu^2 or of epsilon: noise of the mean times 1.0206, or 1.0417
LEAST = 0.005
PRECISE = 0.02  # of n: a count is not released more precisely than this, unless `LEAST` does
USEFUL = 0.25  # of n: a count that is less precise than this is not worth its share
_MARGIN = 1e-9, 1e-12  # relative, on mu and on epsilon: what rounding may lose


@dataclasses.dataclass(frozen=True)
class CountPlan:
    """How a budget is shared between a mean and the count of the records outside its ball.

    Attributes:
        budget: What both may spend together.
        gaussian_share: What the count takes of mu^2, if the mean is released with Gaussian noise.
        pure_share: What it takes of epsilon, if the mean is released by a pure mechanism.
        rest: What the mean may spend. Its delta belongs to its own epsilon: the pair names the
            Gaussian mechanism of noise multiplier z / sqrt(1 - gaussian_share).
    """

    budget: Budget
    gaussian_share: float
    pure_share: float
    rest: Budget

    def beside(self, inner: AbstractMechanism[Any]) -> float:
        """What the count takes beside a mechanism for the value; 0 where it is left out."""
        return self.pure_share if _is_pure(inner) else self.gaussian_share


def plan_count(budget: Budget, n: int, wanted: bool | None) -> CountPlan:
    """The shares of a budget: public numbers only.

    Args:
        budget: What may be spent.
        n: The public number of records, or its lower bound.
        wanted: False for no count; None for one where its standard deviation is at most a quarter
            of n; True for one in any case.

    Raises:
        InvalidArgument: `wanted` is none of these.
    """
    if wanted is not None and not isinstance(wanted, bool):
        raise invalid("count_outside", wanted, "give True, False or None (where it is useful)")
    return _planned(budget, n, wanted)


@functools.lru_cache(maxsize=256)
def _planned(budget: Budget, n: int, wanted: bool | None) -> CountPlan:
    nothing = CountPlan(budget, 0.0, 0.0, budget)
    p = share_of_count(PureNoise(budget.epsilon), n, wanted)
    epsilon = budget.epsilon * (1.0 - p) * (1.0 - _MARGIN[1]) if p else budget.epsilon
    if budget.delta == 0.0:
        return CountPlan(budget, 0.0, p, Budget(epsilon)) if p else nothing
    z = gaussian_noise_multiplier(budget)
    g = share_of_count(GaussianNoise(1.0 / z), n, wanted)
    if not p and not g:
        return nothing
    more = z / math.sqrt(1.0 - g) * (1.0 + _MARGIN[0])
    delta = gaussian(more).delta(epsilon)
    if not 0.0 < delta < 1.0:  # float64 does not hold it
        return nothing
    rest = Budget(epsilon, delta)
    if gaussian_noise_multiplier(rest) < z / math.sqrt(1.0 - g) * (1.0 + 0.1 * _MARGIN[0]):
        return nothing
    return CountPlan(budget, g, p, rest)


def share_of_count(noise: Noise, n: int, wanted: bool | None) -> float:
    """What a count takes of mu^2 or of epsilon; see `plan_count`."""
    if wanted is False:
        return 0.0
    share = min(MOST, max(LEAST, noise.share_of_count(PRECISE * n)))
    return share if wanted or noise.count_deviation(share) <= USEFUL * n else 0.0


def _is_pure(mechanism: AbstractMechanism[Any]) -> bool:
    return math.isfinite(mechanism.guarantee.epsilon(0.0))


class Counted(AbstractMechanism[tuple[Any, int]]):
    """Release a value by `inner`, and the number of records outside the ball beside it, if the plan
    has a share for it.

    The value is a pair: that of `inner`, and the exact count; or None instead of the count, where
    what `inner` admits holds it (`Records`, `Labelled`). The noisy count is rounded to a whole
    number and moved into [0, n], which is post-processing.

    Args:
        inner: A mechanism made for `plan.rest`.
        plan: How the budget is shared.
        n: The public number of records; None where it is protected.

    Raises:
        InvalidArgument: `inner` spends more than the plan leaves to it.

    Guarantee:
        That of the value alone with the whole of `plan.budget`, under the adjacency of `inner`:
        mu-GDP with mu = 1 / gaussian_noise_multiplier(budget), or (epsilon, 0). It holds where
        `inner` has its guarantee and the count changes by at most 1 between neighbours.

    Source:
        docs/proofs/private-ball.md.
    """

    name: ClassVar[str] = "counted"

    def __init__(self, inner: AbstractMechanism[Any], plan: CountPlan, n: int | None):
        self.inner, self.plan, self.n = inner, plan, n
        self.share = plan.beside(inner)
        alone = Budget(plan.budget.epsilon) if _is_pure(inner) else plan.budget
        self.noise = BudgetedNoise(alone)
        self._guarantee = self._of_both()
        if plan.rest != plan.budget:
            self._check()

    @property
    def guarantee(self) -> Guarantee:
        """Of both together."""
        return self._guarantee

    def _of_both(self) -> Guarantee:
        if self.plan.rest == self.plan.budget:  # nothing is counted
            return self.inner.guarantee
        adjacency = self.inner.guarantee.adjacency
        if self.noise.is_pure:
            return pure(self.plan.budget.epsilon, adjacency=adjacency)
        return gaussian(self.noise.multiplier, adjacency=adjacency)

    @property
    def arithmetic(self) -> str:
        """ "lattice" where the noise of both is on public grids."""
        whole = self.inner.arithmetic == LATTICE and (
            self.share == 0.0 or self.noise.arithmetic(1) == LATTICE
        )
        return LATTICE if whole else IDEALISED

    @property
    def quoted_budget(self) -> Budget:
        """The whole budget."""
        return self.plan.budget

    @property
    def _called(self) -> tuple[str, str]:
        return self.inner._called

    def _check(self) -> None:
        """What the value spends, and what the count spends, is no more than the whole."""
        both = self.inner.guarantee
        if self.share > 0.0:
            both = both.compose(self._of_count(both.adjacency))
        if not both.within(self.noise.budget):
            raise InvalidArgument(
                "argument `inner` spends more of the budget than the count leaves; make it for"
                " `plan.rest`"
            )

    def _of_count(self, adjacency: str) -> Guarantee:
        """What the count alone costs."""
        if self.noise.is_pure:
            return pure(self.share * self.noise.budget.epsilon, adjacency=adjacency)
        return gaussian(self.noise.multiplier / math.sqrt(self.share), adjacency=adjacency)

    def _check_noise(self) -> None:
        self.inner._check_noise()
        if self.share > 0.0:
            self.noise.check(share=self.share)

    def _admit(self, value: tuple[Any, int | None]) -> tuple[Any, int]:
        one, count = value
        admitted = self.inner._admit(one)
        if count is None:
            assert isinstance(admitted, Records | Labelled)
            count = admitted.count_outside
            assert count is not None
        return admitted, int(count)

    def _draw(self, value: tuple[Any, int], source: NoiseSource) -> Drawn:
        admitted, count = value
        drawn = self.inner._draw(admitted, source)
        if not self.share > 0.0:
            return drawn
        noisy = round(count + self.noise.count(self.share, source))
        shown = max(noisy, 0) if self.n is None else min(max(noisy, 0), self.n)
        deviation = self.noise.law.count_deviation(self.share)
        outside = OutsideCount(shown, deviation, self.n, self.share)
        return dataclasses.replace(drawn, details={**drawn.details, "outside": outside})
