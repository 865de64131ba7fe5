"""How far noise in the tangent space of a public base point carries a value: laws of the error,
what a confidence region is made from, and what an attack looks at. No claim of privacy rests on it.
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .._namespace import Floats
from .._trees import map_leaves
from ..domains import Ball
from ..inference._error_law import ChiLaw, ErrorLaw, GammaLaw, wrapped_law
from ..inference._region import Observation
from ..manifolds._base import Point
from ._common import PointMechanism

if TYPE_CHECKING:
    from .._namespace import Array


class AbstractTangentNoise(PointMechanism):
    """A mechanism whose noise is a tangent vector at a public base."""

    base: Point
    ball: Ball | None

    @property
    @abc.abstractmethod
    def length_law(self) -> ChiLaw | GammaLaw:
        """Law of the length of the noise in the tangent space, before any shrinking."""

    def _seen(self, y: Floats) -> Observation:
        """The noisy coordinates at the base, with the law of their error."""
        return Observation(self.manifold, self.base, y, self.length_law, self._slack)

    @functools.cached_property
    def _slack(self) -> float:
        """What rounding adds to the length of the noise, where a bound is known."""
        return 0.0

    @functools.cached_property
    def _at_base(self) -> Any:
        """What formulas need of the base, worked out once and for all."""
        return self.manifold._prepared(self.base)

    @property
    def largest_distance(self) -> float | None:
        """Largest distance of an admitted value from the base; None without a ball."""
        domain = self._domain
        if domain is None:
            return None
        return domain.radius + float(self.manifold.dist(domain.center, self.base))

    @functools.cached_property
    def error_law(self) -> ErrorLaw | None:
        """Law of the distance between the release and the admitted value, None where no formula is
        known: an upper bound, taken at the edge of the ball on negatively curved spaces.
        """
        return self._law(self.largest_distance)

    def law_at(self, distance: float) -> ErrorLaw | None:
        """The same law for a value at `distance` from the base."""
        return self._law(distance)

    def _law(self, distance: float | None) -> ErrorLaw | None:
        return wrapped_law(self.manifold, distance, self.length_law)

    def score(self, value_in: Point, value_out: Point) -> Callable[[Point], Array]:
        """Linear in the logarithm at the base: the log-likelihood ratio (without shrinking)."""
        m, base = self.manifold, self.base
        ahead = map_leaves(np.subtract, m.log(base, value_in), m.log(base, value_out))
        return lambda x: m.inner(base, m.log(base, x), ahead)
