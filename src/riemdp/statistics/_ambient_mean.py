"""The arithmetic mean of records as arrays, as a query: for the extrinsic baselines."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from .._isolation import isolated
from .._trees import leaves
from ..domains._clamp import LOOSE, choose, clamp_flagged, in_parts
from ..domains._sums import mean_of, streamed_error
from ..manifolds import AbstractManifold
from ..manifolds._base import EPS, Point
from ._mean_query import AbstractMean
from ._query import Records, themselves
from ._sensitivity import ambient_bound

if TYPE_CHECKING:
    from .._namespace import Array

_OF_A_RECORD = 32 * EPS  # rounding of an array that was carried onto its space, of its size


@dataclasses.dataclass(frozen=True, eq=False)
class AmbientMean(AbstractMean):
    """The arithmetic mean of records of a ball as arrays: the query of the extrinsic baselines.

    Args:
        domain, n, adjacency, weights: As of `FrechetMean`.

    Raises:
        InvalidArgument: An argument is out of range.
        NotImplementedError: `sensitivity` on a space whose arrays do not add up.

    Guarantee:
        `sensitivity` is that of `ambient_bound`, in the Frobenius norm, and the rounding
        of the sum.

    Source:
        Reimherr2021 Proposition 1 and A.3.2.
        Proof: docs/proofs/mean-sensitivity.md.
    """

    @property
    def sensitivity(self) -> float:
        """Largest change of the mean in the Frobenius norm, rounding of the sum included."""
        d = self.domain
        exact = ambient_bound(d, self.n, adjacency=self.adjacency, weights=self.weights)
        square = sum(float(np.sum(np.square(leaf))) for leaf in leaves(d.center))
        rounding = streamed_error() + _OF_A_RECORD
        return exact + 2 * (math.sqrt(square) + d.ambient_diameter) * rounding

    @property
    def _moving(self) -> Callable[[Point], tuple[Point, Array]]:
        d = self.domain
        return functools.partial(_carried_and_moved, d.manifold, d.center, d.radius)

    @property
    def _filler(self) -> Point:
        return self.domain.center

    @isolated
    def value(self, records: Records) -> Point:
        """The mean of prepared records, an array."""
        return mean_of(records.points, records.shares, themselves)


def _carried_and_moved(
    manifold: AbstractManifold, center: Point, radius: float, x: Point
) -> tuple[Point, Array]:
    """Records that satisfy the equations of the space loosely are carried onto it first: the clamp
    keeps those that are off by less than 1e-10, which is much in a tiny ball.
    """

    def carried(part: Point) -> Point:
        return choose(manifold._belongs(part, LOOSE), manifold._repair(part), part)

    return clamp_flagged(manifold, center, radius, in_parts(manifold, carried, x))
