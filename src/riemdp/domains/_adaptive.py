"""`AdaptiveBall`: a public description of where and how to search for a ball. No data is in it."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from .._errors import InvalidArgument, invalid, magnitude
from ..manifolds import AbstractManifold
from ..manifolds._base import Point
from ._ball import Ball

_OCTAVES = 15  # of radius that a search covers where `smallest` is not given


@dataclasses.dataclass(frozen=True, eq=False)
class AdaptiveBall:
    """Find a ball privately, with a public share of the budget, instead of knowing one.

    Give it in the place of a `Ball`. The search and the release together cost one budget, charged
    once. Everything that is decided before records are read (shares, stages, whether n is enough)
    is a function of public numbers; everything after it, of released ones.

    When not to use it: where a ball that is tight is public knowledge already.

    Args:
        outer: A public `Ball` in which the search begins. None: the space's `origin` and a radius
            of 30 on negatively curved and log-Euclidean spaces, the whole of a compact space. On
            SPD spaces the scale (log det) is located first, from e^-80 to e^80, so units need not
            be known. A Euclidean space needs `outer`.
        smallest: The smallest radius that is told apart from 0, above 0. None: 2^-15 of the
            largest.

    Guarantee:
        None of its own: `private_ball` and `private_frechet_mean` state one.

    Source:
        The proof is in docs/proofs/private-ball.md.

    Examples:
        >>> import riemdp
        >>> riemdp.AdaptiveBall()
        AdaptiveBall(outer=None, smallest=None)
    """

    outer: Ball | None = None
    _: dataclasses.KW_ONLY
    smallest: float | None = None

    def __post_init__(self) -> None:
        if self.outer is not None and not isinstance(self.outer, Ball):
            raise invalid("outer", self.outer, "give a riemdp.Ball(center, radius), or None")
        if self.smallest is not None:
            magnitude("smallest", self.smallest)

    def on(self, manifold: AbstractManifold) -> SearchDomain:
        """The search bound to its space, checked.

        Raises:
            InvalidArgument: The space has no public radius of its own, and `outer` is missing; or
                `outer` does not fit the space.
        """
        if self.outer is None:
            center = manifold.origin
            if not math.isfinite(manifold._search_radius(center)):
                raise InvalidArgument(
                    f"argument `ball`: {manifold!r} has no unit of its own, so a search needs"
                    " AdaptiveBall(outer=Ball(center, radius)), a public ball in which it begins"
                )
        else:
            center = self.outer.on(manifold).center
        return SearchDomain(self, manifold, center)


@dataclasses.dataclass(frozen=True, eq=False)
class SearchDomain:
    """An `AdaptiveBall` bound to its space. The constructor checks nothing."""

    search: AdaptiveBall
    manifold: AbstractManifold
    center: Point

    @property
    def scales(self) -> int:
        """Number of scale factors that are located first."""
        return self.manifold._scales

    def largest(self, center: Point) -> float:
        """The largest radius of a search about a public or released first centre."""
        space = float(np.asarray(self.manifold._search_radius(center)))
        if self.search.outer is None:
            return space
        limit = math.inf
        if not self.manifold._is_geodesic:
            limit = float(np.asarray(self.manifold.injectivity_radius(center)))
        return min(2.0 * self.search.outer.radius, limit)

    @property
    def ratio(self) -> float:
        """The smallest radius of the search over the largest."""
        if self.search.smallest is None:
            return 2.0**-_OCTAVES
        return min(0.5, self.search.smallest / self.largest(self.center))

    def first_center(self, scales: tuple[float, ...]) -> Point:
        """The public centre, at released scales."""
        if not scales:
            return self.center
        return self.manifold._rescaled(self.center, np.asarray(scales))
