"""What a mechanism is told when it is made for a Fréchet mean: public facts only."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from fractions import Fraction
from typing import Any, ClassVar, Protocol

import numpy as np

from .._errors import invalid
from .._trees import leaves
from ..domains import Ball, Domain
from ..manifolds import AbstractManifold
from ..manifolds._base import Point, Tangent
from ..privacy import Budget
from ..privacy._guarantee import REPLACE_ONE
from ..privacy._noise import Noise
from ..statistics import AmbientMean, FrechetMean
from ..statistics._sensitivity import public_weights
from ._common import PointMechanism, PureMechanism
from ._counted import Counted

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


@dataclasses.dataclass(frozen=True, eq=False)
class MeanFacts:
    """The public facts of a private mean, and the sensitivities that follow from them. Facts that
    say the same are equal, also those of a ball that was written anew.

    Attributes:
        domain: The public ball of the records, bound to its space.
        n: The public number of records (a lower bound of it, under add-or-remove-one).
        budget: What the release may spend, or noise that was made of it.
        count_outside: Whether a count of the records outside the ball shares it; see
            `share_of_count`.
        weights: Public weights, or None.
        adjacency: "replace-one" or "add-or-remove-one".
        gradient: The private gradient of the mean's objective, for the mechanism that draws by it.
            It is stored and not evaluated.
    """

    domain: Domain
    n: int
    budget: Budget | Noise
    count_outside: bool | None = False
    weights: Any = None
    adjacency: str = REPLACE_ONE
    gradient: Callable[[Point], Tangent] | None = None

    def __post_init__(self) -> None:
        check_wanted(self.count_outside)
        if self.weights is not None:
            object.__setattr__(self, "weights", public_weights(self.weights, self.n))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MeanFacts) and self._said == other._said

    def __hash__(self) -> int:
        return hash(self._said)

    @functools.cached_property
    def _said(self) -> tuple[Any, ...]:
        place, arrays = self.domain, [np.asarray(leaf) for leaf in leaves(self.domain.center)]
        center = tuple((leaf.shape, leaf.tobytes()) for leaf in arrays)
        spent = (self.n, self.budget, self.count_outside, self.adjacency)
        own = None if self.may_be_kept else object()
        return (type(place), place.manifold, center, float(place.radius), *spent, own)

    @property
    def may_be_kept(self) -> bool:
        """Whether nothing in it is of the records, or as large as they are."""
        return self.weights is None and self.gradient is None

    @property
    def manifold(self) -> AbstractManifold:
        """The space."""
        return self.domain.manifold

    @functools.cached_property
    def ball(self) -> Ball:
        """The public ball of the records."""
        return Ball._of(self.domain)

    def whole(self, *, pure: bool | None = None) -> Noise:
        """What the mean and its count may spend, by a pure or by a Gaussian mechanism; None: by
        the one that a budget with this delta is for.
        """
        return Noise.of(self.budget, pure=pure)

    def share_of_count(self, *, pure: bool | None = None) -> Fraction:
        """The share of it that the count takes, 0 where there is none."""
        return share_of_count(self.whole(pure=pure), self.n, self.count_outside)

    def noise(self, *, pure: bool | None = None) -> Noise:
        """What the mean may spend."""
        return self.whole(pure=pure).share(1 - self.share_of_count(pure=pure))

    def given(self, query: FrechetMean | AmbientMean, *, pure: bool) -> dict[str, Any]:
        """What every mechanism of this kind of noise is made from, by the names of its arguments:
        the sensitivity of the query, what may be spent, and the neighbours.
        """
        spent = {"epsilon" if pure else "budget": self.noise(pure=pure)}
        return {"sensitivity": query.sensitivity, "adjacency": self.adjacency, **spent}

    def counted(self, inner: PointMechanism, shown: int | None) -> Counted:
        """A mechanism that was built for these facts, with the count that they leave a share for;
        `shown` is the number of records, where it is public.
        """
        pure = isinstance(inner, PureMechanism)
        return Counted(inner, self.whole(pure=pure), self.share_of_count(pure=pure), shown)

    @functools.cached_property
    def query(self) -> FrechetMean:
        """The mean as a query that owns its sensitivity."""
        return FrechetMean(self.domain, self.n, adjacency=self.adjacency, weights=self.weights)

    @functools.cached_property
    def of_arrays(self) -> AmbientMean:
        """The arithmetic mean of the records as arrays, as such a query."""
        return AmbientMean(self.domain, self.n, adjacency=self.adjacency, weights=self.weights)


class ForMeans(Protocol):
    """A class of mechanisms that can release a Fréchet mean."""

    name: ClassVar[str]
    needs_delta: ClassVar[bool]
    needs_gradient: ClassVar[bool]
    stays_in_ball: ClassVar[bool]

    @classmethod
    def for_mean(cls, facts: MeanFacts) -> PointMechanism:
        """The mechanism for these public facts."""
        ...
