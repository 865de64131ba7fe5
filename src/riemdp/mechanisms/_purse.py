"""`Purse`: the noise of one release, handed out by shares. It is the one place where a share of a
budget becomes noise.

To check what several answers of one release cost together, read this file and `privacy/_noise.py`:
a share is an exact fraction, it is taken before its noise is drawn, and once the shares would add
up to more than 1 the answer is refused, undrawn. By the public plan of a mechanism that cannot
happen. Proof: docs/proofs/private-ball.md.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from .._errors import RiemdpError
from ..privacy import Budget, Guarantee
from ..privacy._arithmetic import IDEALISED, LATTICE
from ..privacy._noise import Noise
from ..randomness import NoiseSource
from ._base import AbstractMechanism, Value
from ._common import Floats
from ._lattice import (
    check_drawable,
    has_laplace_grid,
    laplace_of_integer,
    noise_of_integer,
    scale_for,
    slack_of,
    with_noise,
)

if TYPE_CHECKING:
    from .._namespace import Array


class Purse:
    """The noise of one release: it hands out shares, draws, and refuses before the draw what would
    be more than the whole.

    Args:
        noise: Of the whole release, whose guarantee was charged.
        source: What noise is drawn from.
    """

    def __init__(self, noise: Noise, source: NoiseSource):
        self.noise, self.source = noise, source
        self.left = Fraction(1)

    def take(self, share: float | Fraction) -> Noise:
        """The noise of one more answer, whose share is then spent.

        Raises:
            RiemdpError: All shares together would be more than the whole, or this one is not above
                0. Nothing may be drawn.
        """
        exact = Fraction(share)
        if not 0 < exact <= self.left:
            raise RiemdpError(
                "an answer of a release would cost more than is left of its budget; it was not"
                " drawn"
            )
        self.left -= exact
        return self.noise.share(exact)

    def count(self, exact: float, share: float | Fraction) -> float:
        """A count, which neighbours change by at most 1, with noise: a multiple of a grid that
        holds the integers.
        """
        part = self.take(share)
        if part.is_pure:
            return float(exact) + laplace_of_integer(part.multiplier, self.source)
        return float(exact) + noise_of_integer(
            math.nextafter(part.multiplier, math.inf), self.source
        )

    def add(
        self, y: Array | Floats, sensitivity: float, share: float | Fraction
    ) -> tuple[Floats, float, float]:
        """Orthonormal coordinates, which neighbours move by at most `sensitivity`, with noise; the
        scale of the noise, and what rounding to a grid adds to its length.
        """
        (noisy,), scale, slack = self.add_apart([np.asarray(y)], sensitivity, share)
        return noisy, scale, slack

    def add_apart(
        self, vectors: list[Floats], sensitivity: float, share: float | Fraction
    ) -> tuple[list[Floats], float, float]:
        """The same for several vectors, each with noise of its own for the sensitivity: of any two
        neighbours only one of them may differ (parallel composition; docs/proofs/class-means.md,
        Lemma 1). So it is for sums over the parts of a partition that is public, where a neighbour
        keeps a record in its part.
        """
        part, dim = self.take(share), vectors[0].size
        scale = scale_for(part, sensitivity, dim)
        made = [with_noise(one, scale, self.source, pure=part.is_pure) for one in vectors]
        return made, scale, slack_of(scale, dim, pure=part.is_pure)


class BudgetedMechanism(AbstractMechanism[Value]):
    """A mechanism that answers one or several questions with the noise of one budget.

    Guarantee:
        Replace-one. delta > 0: mu-GDP with mu = 1 / gaussian_noise_multiplier(budget); delta = 0:
        (epsilon, 0). The shares of all answers add up to at most 1 (`Purse`).

    Source:
        docs/proofs/private-ball.md.
    """

    def __init__(self, budget: Budget | Noise):
        self.noise = Noise.of(budget)

    @property
    def guarantee(self) -> Guarantee:
        """Of one release."""
        return self.noise.guarantee

    @property
    def arithmetic(self) -> str:
        """Whether all noise is on public grids: "lattice" where delta > 0, or where no vector with
        noise has more than ten coordinates.
        """
        widest = self._widest
        known = widest is not None and has_laplace_grid(widest)
        return LATTICE if known or not self.noise.is_pure else IDEALISED

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

    def _purse(self, source: NoiseSource) -> Purse:
        """The noise of one release."""
        return Purse(self.noise, source)

    def _check_noise(self) -> None:
        check_drawable(self.noise, self._coordinates)

    @property
    def quoted_budget(self) -> Budget | None:
        """The budget, or what a share of one keeps within."""
        return self.noise.budget
