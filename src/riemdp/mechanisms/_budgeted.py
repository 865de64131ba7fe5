"""One budget for several answers: its noise, and what mechanisms that spend it so share.

Guarantee, replace-one: with delta > 0 that of one Gaussian mechanism with the noise multiplier of
the budget; with delta = 0 pure epsilon. An answer of sensitivity 1 and share p has the noise of
mu sqrt(p), or of epsilon p. Proof: docs/proofs/private-ball.md.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from .._errors import invalid
from ..inference._error_law import ErrorLaw, gaussian_law, laplace_law
from ..manifolds import AbstractManifold
from ..manifolds._base import Point
from ..privacy import Budget, Guarantee, gaussian, gaussian_noise_multiplier, pure
from ..privacy._arithmetic import IDEALISED, LATTICE
from ..randomness import NoiseSource
from ._base import AbstractMechanism, Value
from ._lattice import (
    added,
    added_laplace,
    has_laplace_grid,
    laplace_of_integer,
    noise_of_integer,
    on_grid,
    slack_of,
)
from ._search_plan import GaussianNoise, PureNoise
from ._shrinking import Floats, shortened

if TYPE_CHECKING:
    from .._namespace import Array

_MOST_NOISE = 2.0**29  # multiplier times root of coordinates: every grid holds what is below


class BudgetedNoise:
    """A budget as noise: how much each share of it makes, and how that is drawn.

    Raises:
        InvalidArgument: `budget` is no `Budget`.
    """

    def __init__(self, budget: Budget):
        if not isinstance(budget, Budget):
            raise invalid("budget", budget, "give a riemdp.Budget(epsilon, delta)")
        self.budget = budget
        if budget.delta > 0:
            self.multiplier = gaussian_noise_multiplier(budget)
            self.law: GaussianNoise | PureNoise = GaussianNoise(1.0 / self.multiplier)
        else:
            self.law = PureNoise(budget.epsilon)

    @property
    def is_pure(self) -> bool:
        return isinstance(self.law, PureNoise)

    def arithmetic(self, widest: int | None) -> str:
        """Whether all its noise is on public grids, that of vectors with up to `widest` coordinates
        included; None where that is not known.
        """
        if not self.is_pure or (widest is not None and has_laplace_grid(widest)):
            return LATTICE
        return IDEALISED

    @property
    def guarantee(self) -> Guarantee:
        """Of all shares together."""
        return pure(self.budget.epsilon) if self.is_pure else gaussian(self.multiplier)

    def _multiplier(self, share: float) -> float:
        """Scale over sensitivity of the noise of this share."""
        if isinstance(self.law, PureNoise):
            return 1.0 / (self.law.epsilon * share)
        return 1.0 / (self.law.mu * math.sqrt(share))

    def check(self, coordinates: int = 1, share: float = 1.0) -> None:
        """Raise where this share makes more noise than a public grid holds: every release asks
        before its charge.

        Args:
            coordinates: How many coordinates get noise together.
            share: The share of the budget; at least this is left after a search that has records
                enough to begin.

        Raises:
            InvalidArgument: The budget is too small. Nothing was spent.
        """
        if self.is_pure and not has_laplace_grid(coordinates):
            return
        if self._multiplier(share) * math.sqrt(coordinates) > _MOST_NOISE:
            raise invalid(
                "budget",
                self.budget,
                f"it makes more noise than a grid of {coordinates} coordinates holds; give a larger"
                " one. Nothing was spent",
            )

    def count(self, share: float, source: NoiseSource) -> float:
        """Noise of a count (sensitivity 1): a multiple of a grid that holds the integers."""
        if isinstance(self.law, PureNoise):
            return laplace_of_integer(1.0 / (self.law.epsilon * share), source)
        deviation = math.nextafter(self.law.count_deviation(share), math.inf)
        return noise_of_integer(deviation, source)

    def scale(self, sensitivity: float, share: float, dim: int) -> float:
        """sigma, or the scale s of the density exp(-|v| / s), for `dim` coordinates with this
        sensitivity and share.
        """
        if isinstance(self.law, PureNoise) and not has_laplace_grid(dim):
            return math.nextafter(sensitivity / (self.law.epsilon * share), math.inf)
        return on_grid(self._multiplier(share), sensitivity, dim)

    def added(self, y: Array | Floats, scale: float, source: NoiseSource) -> Floats:
        """Orthonormal coordinates with noise."""
        if not self.is_pure:
            return added(y, scale, source)
        v = np.asarray(y)
        if has_laplace_grid(v.size):
            return added_laplace(v, scale, source)
        z = source.normals(v.shape)
        return v + scale * float(source.gammas(float(v.size))) / np.linalg.norm(z) * z

    def released(
        self,
        manifold: AbstractManifold,
        base: Point,
        y: Array | Floats,
        scale: float,
        radius: float,
        source: NoiseSource,
    ) -> tuple[Floats, Floats]:
        """Coordinates at `base` with noise and then `shortened`, and those with noise alone.

        y is at most `radius` long.
        """
        noisy = self.added(y, scale, source)
        return self.kept(manifold, base, noisy, scale, radius), noisy

    def kept(
        self, manifold: AbstractManifold, base: Point, noisy: Floats, scale: float, radius: float
    ) -> Floats:
        """What is released in the place of coordinates with noise of this scale."""
        deviation = scale * math.sqrt(noisy.size + 1.0) if self.is_pure else scale
        return shortened(manifold, base, noisy, deviation, radius, flat=not self.is_pure)

    def slack(self, scale: float, dim: int) -> float:
        """What rounding to a grid adds to the length of the noise of `added`."""
        return 0.0 if self.is_pure and not has_laplace_grid(dim) else slack_of(scale, dim)

    def lengths(self, scale: float, dim: int) -> ErrorLaw:
        """Law of the length of the noise of `added`."""
        law = laplace_law if self.is_pure else gaussian_law
        return law(dim, scale, exact=False)


class BudgetedMechanism(AbstractMechanism[Value]):
    """A mechanism that answers one or several questions with the noise of one budget.

    Guarantee:
        Replace-one. delta > 0: mu-GDP with mu = 1 / gaussian_noise_multiplier(budget); delta = 0:
        (epsilon, 0). The shares of all answers add up to at most 1.

    Source:
        docs/proofs/private-ball.md.
    """

    def __init__(self, budget: Budget):
        self.budget, self.noise = budget, BudgetedNoise(budget)

    @property
    def guarantee(self) -> Guarantee:
        """Of one release."""
        return self.noise.guarantee

    @property
    def arithmetic(self) -> str:
        """Whether all noise is on public grids: "lattice" where delta > 0, or where no vector with
        noise has more than ten coordinates.
        """
        return self.noise.arithmetic(self._widest)

    @property
    def _widest(self) -> int | None:
        """The most coordinates that get noise together: a public number. None where it is not
        stated.
        """
        return None

    @property
    def _coordinates(self) -> int:
        """How many coordinates get noise together: what `arithmetic` knows, unless stated."""
        return self._widest or 1

    def _check_noise(self) -> None:
        self.noise.check(self._coordinates)

    @property
    def quoted_budget(self) -> Budget:
        """`budget`."""
        return self.budget
