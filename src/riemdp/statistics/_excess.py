"""How far records were moved into a ball on average, as a query."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._errors import invalid, real
from ..domains._stream import Stream
from ..manifolds import AbstractManifold
from ..manifolds._base import Point, RecordsLike
from ._query import AbstractQuery, Records, average, other_count
from ._sensitivity import REPLACE_ONE
from ._variance import distances_from


@dataclasses.dataclass(frozen=True, eq=False)
class ClippingExcess(AbstractQuery):
    """The mean of min(max(d(c, x) - r, 0), R - r) over the records x: how far they are moved on
    average when a ball about c of radius R is replaced by one of radius r.

    Each term depends on its own record and lies between 0 and R - r, so replacing one moves the
    value by at most (R - r) / n, on every manifold that has a distance, whatever its curvature.

    Args:
        domain: The ball of radius r, bound to its space: public, or one that was released.
        n: The public number of records, at least 1.
        reach: The public R, above r.
        adjacency: "replace-one", the only one.

    Raises:
        InvalidArgument: An argument is out of range, or the adjacency is another one.

    Guarantee:
        `sensitivity` = (R - r) / n + the rounding of the sum, under replace-one; attained by a
        record in the ball and one at distance R.

    Source:
        Proof: docs/proofs/clipping-bound.md.

    Examples:
        >>> import riemdp
        >>> sphere = riemdp.Sphere(3)
        >>> ball = riemdp.Ball(sphere.origin, 0.5).on(sphere)
        >>> round(riemdp.statistics.ClippingExcess(ball, 100, reach=2.0).sensitivity, 6)
        0.015
    """

    reach: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.adjacency != REPLACE_ONE:
            raise invalid("adjacency", self.adjacency, 'this bound is for "replace-one" only')
        object.__setattr__(self, "reach", real("reach", self.reach, above=0.0))
        if not self.reach > self.domain.radius:
            raise invalid(
                "reach",
                self.reach,
                f"it has to be above the radius {self.domain.radius:g} of the ball",
            )

    @property
    def largest(self) -> float:
        """R - r, the largest value."""
        return self.reach - self.domain.radius

    @property
    def sensitivity(self) -> float:
        """Largest change of the value, rounding included."""
        return self.largest / self.n * (1 + 1e-12) + 2 * self.error_bound

    @property
    def error_bound(self) -> float:
        """Largest rounding error of the sum."""
        return self.largest * self._summation

    def prepare(self, X: RecordsLike) -> Records:
        """The n lengths, each at most R - r; 0 for a record that is not a point of the space."""
        d = self.domain
        records, count = self._admitted(X)
        if count != self.n:
            raise other_count(count, self.n)
        step = functools.partial(_excess, d.manifold, d.center, d.radius, self.reach)
        if isinstance(records, Stream):
            return Records(records.moved(step))
        return Records(step(jax.tree.map(jnp.asarray, records))[0])

    def value(self, records: Records) -> Float[Array, ""]:
        """The mean of the prepared terms."""
        return average(records.points)


def _excess(
    manifold: AbstractManifold, center: Point, radius: float, reach: float, records: Point
) -> tuple[Array, Array]:
    """The terms of some records; none of them is flagged."""
    beyond = distances_from(manifold, center, records) - radius
    terms = jnp.clip(beyond, 0.0, reach - radius)
    return terms, jnp.zeros(terms.shape, dtype=bool)
