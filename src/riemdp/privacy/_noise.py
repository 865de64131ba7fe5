"""`Noise`: how much noise a guarantee makes, and exact shares of it.

Gaussian noise is told by its noise multiplier z = 1 / mu, Laplace noise by epsilon. A share p of it
has the noise of mu sqrt(p), or of epsilon p: squares of mu add up, and so do epsilons, so shares
that add up to 1 cost together what the whole costs. Proof: docs/proofs/private-ball.md.

A `Noise` is a scale and no permission: whatever draws with it charges `guarantee`. What is drawn,
and how it is rounded to a public grid, stands in `mechanisms/_lattice.py`.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import math
from fractions import Fraction
from typing import ClassVar, Self

from .._errors import InvalidArgument, invalid
from . import _open_ledgers
from ._budget import Budget
from ._calibration import gaussian_noise_multiplier
from ._constructors import gaussian, pure
from ._guarantee import Guarantee


@dataclasses.dataclass(frozen=True)
class Noise(abc.ABC):
    """The noise of a guarantee under replace-one.

    Attributes:
        whole: The budget that it was made of, if there was one.
        part: The share of the whole that this is.
    """

    whole: Budget | None = dataclasses.field(default=None, kw_only=True)
    part: Fraction = dataclasses.field(default=Fraction(1), kw_only=True)
    is_pure: ClassVar[bool]
    safety: ClassVar[float]
    """Standard deviations of a count that are exceeded on one side with chance 5e-4 or less."""

    @staticmethod
    def of(budget: Budget | Noise, *, pure: bool | None = None) -> Noise:
        """The noise that a budget pays for; a `Noise` that was made of one is given back.

        Args:
            budget: What may be spent.
            pure: Whether it is spent by Laplace noise, on epsilon alone; None for where delta = 0.

        Raises:
            InvalidArgument: `budget` is neither, or pays for no noise of that kind.
        """
        if isinstance(budget, Noise) and budget.whole is not None:
            if pure is not None and pure != budget.is_pure:
                raise invalid("budget", budget, "this mechanism needs the other kind of noise")
            return budget
        if not isinstance(budget, Budget):
            raise invalid("budget", budget, "give a riemdp.Budget(epsilon, delta)")
        if pure is None:
            pure = budget.delta == 0.0
        if pure:
            return LaplaceNoise(budget.epsilon, whole=budget)
        return GaussianNoise(gaussian_noise_multiplier(budget), whole=budget)

    def share(self, part: float | Fraction) -> Self:
        """The noise of this share of it, exactly: shares are fractions and are not rounded."""
        exact = Fraction(part)
        if not 0 < exact <= 1:
            raise invalid("share", part, "give a number above 0 and at most 1")
        return self if exact == 1 else dataclasses.replace(self, part=self.part * exact)

    @functools.cached_property
    def budget(self) -> Budget | None:
        """What this noise keeps within, at the delta of the budget that it was made of. It is only
        stated: no noise is calibrated to it.

        Raises:
            InvalidArgument: The share is worth less than that delta alone.
        """
        if self.whole is None or self.part == 1:
            return self.whole
        epsilon = self.guarantee.epsilon(self.whole.delta)
        if not epsilon > 0.0:
            raise InvalidArgument(
                f"argument `budget` = {self.whole}: shares of {float(self.part):g} of it are worth"
                " less than its delta alone; give a larger share. Nothing was spent"
            )
        stated = Budget(epsilon, self.whole.delta)
        _open_ledgers.passed_on(self.whole, stated)
        return stated

    @property
    @abc.abstractmethod
    def guarantee(self) -> Guarantee:
        """What all of it costs."""

    @property
    @abc.abstractmethod
    def multiplier(self) -> float:
        """Scale over sensitivity: of sigma, or of the s of a density exp(-|v| / s)."""

    @abc.abstractmethod
    def multiplier_of(self, share: float | Fraction) -> float:
        """The multiplier of an answer with this share, rounded."""

    @abc.abstractmethod
    def share_of(self, multiplier: float) -> float:
        """The share with which an answer has this multiplier."""

    @abc.abstractmethod
    def deviation(self, scale: float, dim: int) -> float:
        """Standard deviation of a coordinate of noise with this scale."""

    def count_deviation(self, share: float | Fraction = 1.0) -> float:
        """Standard deviation of a count, of sensitivity 1, released with this share."""
        return self.deviation(self.multiplier_of(share), 1)

    def share_of_count(self, deviation: float) -> float:
        """The share with which a count has this standard deviation."""
        return self.share_of(deviation / self.deviation(1.0, 1))

    def mean_length(self, share: float, dim: int) -> float:
        """Typical length of the noise of a sum of unit-clipped tangent vectors, sensitivity 2."""
        return 2.0 * math.sqrt(dim) * self.deviation(self.multiplier_of(share), dim)

    def share_of_mean(self, length: float, dim: int) -> float:
        """The share with which that noise has this typical length."""
        return self.share_of(length / (2.0 * math.sqrt(dim) * self.deviation(1.0, dim)))


@dataclasses.dataclass(frozen=True)
class GaussianNoise(Noise):
    """Noise of mu-GDP, mu = sqrt(part) / noise_multiplier.

    Args:
        noise_multiplier: That of the whole, above 0.
    """

    is_pure: ClassVar[bool] = False
    safety: ClassVar[float] = 3.3

    noise_multiplier: float

    @property
    def guarantee(self) -> Guarantee:
        """mu-GDP."""
        return gaussian(self.multiplier)

    @property
    def multiplier(self) -> float:
        """sigma over sensitivity."""
        return self.noise_multiplier / math.sqrt(self.part)

    def multiplier_of(self, share: float | Fraction) -> float:
        """As of `Noise`: squares of mu add up."""
        return self.multiplier / math.sqrt(share)

    def share_of(self, multiplier: float) -> float:
        """As of `Noise`."""
        return (self.multiplier / multiplier) ** 2

    def deviation(self, scale: float, dim: int) -> float:
        """The scale itself."""
        return scale


@dataclasses.dataclass(frozen=True)
class LaplaceNoise(Noise):
    """Noise of pure epsilon, times `part`: of density exp(-|v| / s).

    Args:
        epsilon: That of the whole, above 0.
    """

    is_pure: ClassVar[bool] = True
    safety: ClassVar[float] = 4.9

    epsilon: float

    @property
    def spent(self) -> float:
        """The epsilon of this share."""
        return float(Fraction(self.epsilon) * self.part)

    @property
    def guarantee(self) -> Guarantee:
        """(epsilon, 0)."""
        return pure(self.spent)

    @property
    def multiplier(self) -> float:
        """s over sensitivity."""
        return 1.0 / self.spent

    def multiplier_of(self, share: float | Fraction) -> float:
        """As of `Noise`: epsilons add up."""
        return self.multiplier / float(share)

    def share_of(self, multiplier: float) -> float:
        """As of `Noise`."""
        return self.multiplier / multiplier

    def deviation(self, scale: float, dim: int) -> float:
        """Gamma(dim, scale) lengths in a uniform direction."""
        return scale * math.sqrt(dim + 1.0)
