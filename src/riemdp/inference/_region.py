"""Where the value lies that a release protects: confidence regions from the distribution of the
noise.

Everything here is a function of released and public numbers. A release of known noise distribution
shows y = v + noise, v being the private tangent vector at a public or released base point
(`Observation`). The points whose logarithm at the base lies within a quantile of the length of the
noise of y are a `Region`. Proof: docs/proofs/confidence-region.md.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._errors import InvalidArgument, integer, one_of, real
from .._trees import map_leaves
from ..domains import Domain
from ..domains._clamp import readable
from ..domains._ends import end_everywhere, end_of
from ..domains._frame import carried, carried_back
from ..manifolds import AbstractManifold
from ..manifolds._base import Point, held
from ._distributions import ErrorDistribution

if TYPE_CHECKING:
    from jaxtyping import Bool

    from .._namespace import Array

Floats = NDArray[np.float64]

OF = ("sample", "population")
_POINT = "the released point"


@dataclasses.dataclass(frozen=True, eq=False)
class Observation:
    """What a release shows of the value that it protects: a noisy vector of known error.

    Attributes:
        manifold: The space in which the vector was taken.
        base: The public or released point of it at which the vector is tangent.
        coordinates: The noisy vector y in orthonormal coordinates at `base`, (dim,), before
            anything shortened or shrank it.
        lengths: Distribution of the length of y - v, v = log_base(value); exact or never too short.
        slack: Bound of the length of what computing the value in float64, to a public tolerance,
            adds to the error.
        domain: The ball in whose frame all this happens, or None: the frame is the space itself.
        place: What the coordinates stand for, in words.
        at_released_point: Whether `base` is the released point itself, and `lengths` those of a
            distance.
        subject: What the noisy vector shows, in words; "" where that is what the release is of.
    """

    manifold: AbstractManifold
    base: Point
    coordinates: Floats
    lengths: ErrorDistribution
    slack: float = 0.0
    domain: Domain | None = None
    place: str = (
        "the noisy vector that was released, in coordinates at the centre (along the space, as the"
        " error from noise is stated, that may be farther)"
    )
    at_released_point: bool = False
    subject: str = ""

    def within(self, domain: Domain, slack: float) -> Observation:
        """The same, taken in the frame of this domain, of a value known up to `slack`."""
        there = None if domain.frame.is_identity else domain
        return dataclasses.replace(self, domain=there, slack=self.slack + slack)

    @property
    def home(self) -> AbstractManifold:
        """The space of the user's points."""
        return self.manifold if self.domain is None else self.domain.manifold

    def point(self, coordinates: Floats) -> Point:
        """The end of a vector at `base`, as a point of the user's space."""
        end = end_of(self.manifold, self.base, coordinates)
        return end if self.domain is None else self.domain.frame.back(end)

    def points(self, coordinates: Floats) -> Point:
        """The ends of several vectors (m, dim), stacked."""
        center = None if self.domain is None else self.domain.center
        ends, valid = _ends(self.home, self.manifold, center, self.base, np.asarray(coordinates))
        if np.all(valid):
            return ends
        one_by_one = [self.point(y) for y in coordinates]  # what float64 cannot hold is shortened
        return map_leaves(lambda *some: np.stack(some), *one_by_one)

    def offsets(self, x: Point) -> Array:
        """Distance of log_base(x) from y for points of the user's space; inf where there is no
        logarithm.
        """
        home = self.home
        points = map_leaves(np.asarray, home._coerce("x", x))
        center = None if self.domain is None else self.domain.center
        seen = _coordinates(home, self.manifold, center, self.base, points)
        found = np.sqrt(np.sum((seen - np.asarray(self.coordinates)) ** 2, axis=-1))
        return np.where(np.isfinite(found), found, np.inf)


def about(manifold: AbstractManifold, point: Point, lengths: ErrorDistribution) -> Observation:
    """A released point whose distance from the value has this distribution."""
    zero = np.zeros(manifold.dim)
    return Observation(manifold, point, zero, lengths, place=_POINT, at_released_point=True)


def region_of(
    seen: Observation | None, mechanism: str, level: float, of: str, subject: str
) -> Region:
    """The region of a release by `mechanism` that shows `seen`."""
    level = real("level", level, above=0.0, below=1.0)
    one_of("of", of, OF)
    if seen is None:
        raise InvalidArgument(
            f"no confidence region is known for this release by {mechanism!r}: the distribution of"
            ' its error is not known. Release the mean with mechanism="wrapped-gaussian" or'
            ' "tangent-mean", or without a ball'
        )
    radius = math.nextafter(seen.lengths.quantile(level), math.inf) + seen.slack
    return Region(seen.point(seen.coordinates), radius, level, of, subject, seen)


def _ends(
    home: AbstractManifold, space: AbstractManifold, center: Point, base: Point, ys: Array
) -> tuple[Point, Array]:
    local, valid = end_everywhere(space, base, ys)
    if center is None:
        return local, valid
    found, held = carried_back(home, center, local)
    return found, valid & held


def _coordinates(
    home: AbstractManifold, space: AbstractManifold, center: Point, base: Point, x: Point
) -> Array:
    safe, valid = readable(home, base if center is None else center, x)
    local = safe if center is None else carried(home, center, safe)
    v = space._log_coordinates(base, local)
    return np.where(valid[..., None], v, np.nan)


@dataclasses.dataclass(frozen=True, eq=False)
class Region:
    """The points exp_b(u) with |u - y| <= radius: y is a noisy tangent vector that was released, b
    its public or released base point.

    With probability at least `level`, over the noise alone and whatever the records are, the region
    holds what the release protects. It is made of released numbers, so it costs no privacy.

    Guarantee:
        P(the region holds the value) >= `level`. It is post-processing of a release and costs no
        privacy.

    Source:
        Proof: docs/proofs/confidence-region.md.

    Attributes:
        center: The point exp_b(y), a NumPy array (a tuple on a product). It is not the released
            value where that was moved into the ball or shrunk: the region belongs to the noisy
            vector before that.
        radius: Of the ball about y, in the metric at b. A distance on flat spaces, and where b is
            the center itself.
        level: The probability.
        of: "sample" or "population".
        subject: What the region is of, in words.
        observation: What was observed.

    Examples:
        >>> import numpy as np, riemdp
        >>> space, ball = riemdp.SPDAffineInvariant(2), riemdp.Ball(np.eye(2), 1.0)
        >>> X = np.tile(1.5 * np.eye(2), (1000, 1, 1))
        >>> release = riemdp.private_frechet_mean(
        ...     space, X, ball, riemdp.Budget(1.0, 1e-6), mechanism="wrapped-gaussian", rng=0
        ... )
        >>> region = release.confidence_region(0.95)
        >>> round(region.radius, 4)
        0.0241
        >>> bool(region.contains(1.5 * np.eye(2)))
        True
    """

    center: Any
    radius: float
    level: float
    of: str
    subject: str
    observation: Observation

    def __post_init__(self) -> None:
        object.__setattr__(self, "center", held(self.center))

    def contains(self, x: Point) -> Bool[Array, "*batch"]:
        """Whether each point lies in the region.

        Args:
            x: Points of the space of the release, (*batch, *shape).

        Returns:
            A flag for each. False for what is no point of the space or has no logarithm at the
            base.
        """
        return self.observation.offsets(x) <= self.radius

    def boundary(self, count: int = 180) -> Any:
        """Points on the edge of the region, for pictures.

        Args:
            count: How many; 2 in dimension 1.

        Returns:
            `count` stacked points, a NumPy array: both ends in dimension 1, a closed curve in
            dimension 2 (the last point is the first), spread over the surface in dimension 3.

        Raises:
            InvalidArgument: The dimension is above 3.
        """
        count, o = integer("count", count, at_least=4), self.observation
        dim = len(o.coordinates)
        if dim > 3:
            raise InvalidArgument(
                f"a region of dimension {dim} has no picture; `boundary` is for dimensions 1 to 3,"
                " and `contains` for all"
            )
        return held(o.points(o.coordinates + self.radius * _directions(dim, count)))

    def __str__(self) -> str:
        return (
            f"{100 * self.level:.6g} % confidence: {self.subject} lies within"
            f" {rounded_up(self.radius)} of {self.observation.place}"
        )

    __repr__ = __str__


def rounded_up(x: float, digits: int = 4) -> str:
    """So many digits, never less than x."""
    step = 10.0 ** (math.floor(math.log10(x)) - digits + 1) if x > 0.0 else 1.0
    return f"{math.ceil(x / step - 1e-9) * step:.{digits}g}"


def _directions(dim: int, count: int) -> Floats:
    if dim == 1:
        return np.array([[-1.0], [1.0]])
    if dim == 2:
        turn = np.linspace(0.0, 2.0 * math.pi, count)
        return np.stack([np.cos(turn), np.sin(turn)], axis=1)
    # a spiral from pole to pole: equal areas, hence nearly equal distances
    z = 1.0 - (2.0 * np.arange(count) + 1.0) / count
    turn = math.pi * (1.0 + math.sqrt(5.0)) * np.arange(count)
    root = np.sqrt(1.0 - z**2)
    return np.stack([root * np.cos(turn), root * np.sin(turn), z], axis=1)
