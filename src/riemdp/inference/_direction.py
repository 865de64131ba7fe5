"""What a noisy mean of unit vectors, or of axes, says: direction, concentration and cone.

Everything here is a function of released and public numbers. A unit vector x counts as it is, an
axis as the matrix x x^T. Concentration and the sampling part of a cone are those of the density
proportional to exp(kappa cos(angle)^power) on the sphere: von Mises-Fisher's for vectors (power 1),
Watson's for axes (power 2). Proof: docs/proofs/confidence-region.md.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _linalg as linalg
from ..manifolds import AbstractManifold, Grassmann
from ..manifolds._base import Point
from ..manifolds._spectral import unpack
from ._distributions import ChiErrors, ErrorDistribution, gaussian_errors
from ._facts import Query, Released
from ._region import Region, about

Floats = NDArray[np.float64]

LEVEL = 0.95  # of the cone that is published with a direction
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
_LEAST, _MOST = 1e-9, 1e12  # concentrations that are told from 0 and from an infinite one
_LOWER = 2.0  # deviations of the noise by which dispersion is taken to be larger than it seems


@dataclasses.dataclass(frozen=True, eq=False)
class MeanDirection:
    """The mean direction of n unit vectors or axes, as far as a noisy mean shows it.

    Attributes:
        manifold: `Sphere(p)`; or `Grassmann(p, 1)`, whose points are axes.
        coordinates: The noisy mean of the vectors, (p,); of axes that of the matrices x x^T in the
            coordinates of `manifolds._spectral.pack`.
        lengths: Distribution of the length of its noise.
        n: The public number of records, or of people.
        slack: What rounding adds to that length.
    """

    manifold: AbstractManifold
    coordinates: Floats
    lengths: ErrorDistribution
    n: int
    slack: float = 0.0

    @property
    def power(self) -> int:
        """1 for vectors, 2 for axes."""
        return 2 if isinstance(self.manifold, Grassmann) else 1

    @property
    def columns(self) -> int:
        """The number p of coordinates of a record."""
        return self.manifold.shape[0]

    @functools.cached_property
    def moment(self) -> Floats:
        """The noisy vector (p,), or the noisy matrix (p, p) with trace 1: what its trace lacks is
        spread evenly over all directions.
        """
        if self.power == 1:
            return self.coordinates
        matrix = unpack(self.coordinates, self.columns)
        return matrix + (1.0 - np.trace(matrix)) / self.columns * np.eye(self.columns)

    @functools.cached_property
    def _axes(self) -> tuple[Floats, Floats]:
        values, vectors = linalg.eigh(self.moment)
        return np.asarray(values), np.asarray(vectors)

    @functools.cached_property
    def direction(self) -> Point:
        """The direction of the vector, or the leading eigenvector: a point of the space."""
        found = self.moment if self.power == 1 else self._axes[1][:, -1:]
        return self.manifold.project(found)

    @property
    def _size(self) -> float:
        """How long the vector is; of a matrix half the gap between its two largest eigenvalues."""
        if self.power == 1:
            return float(np.linalg.norm(self.moment))
        return float(self._axes[0][-1] - self._axes[0][-2]) / 2.0

    @property
    def _unit(self) -> float:
        """Length of x x^T - I / p, and of a unit vector."""
        return 1.0 if self.power == 1 else math.sqrt(1.0 - 1.0 / self.columns)

    @property
    def _noise(self) -> float:
        """Standard deviation of the noise in each direction, over the length of one record."""
        return self.lengths.expected_error / math.sqrt(self.coordinates.size) / self._unit

    @functools.cached_property
    def resultant(self) -> float:
        """The mean resultant length R, from 0 to 1: the length of the mean of the vectors. Of axes,
        that of the mean of x x^T - I / p over the length that one axis has. What noise is expected
        to add to its square is subtracted.
        """
        seen, size = self.moment, self.coordinates.size
        if self.power == 2:  # the trace is known
            seen, size = seen - np.eye(self.columns) / self.columns, size - 1
        square = float(np.sum((seen / self._unit) ** 2)) - size * self._noise**2
        return min(1.0, math.sqrt(max(0.0, square)))

    @functools.cached_property
    def concentration(self) -> float:
        """kappa of the density that has this resultant; infinite where noise hides that it is below
        1.
        """
        return concentration_of(self.resultant, self.columns, self.power)

    def cone(self, level: float = LEVEL, of: str = "population") -> float:
        """Half the angle, in radians, of the cone about `direction` that holds the mean direction
        with probability `level`; pi (of axes pi / 2) where nothing can be said.

        Args:
            level: The probability.
            of: "sample", the direction of the records' own mean: the noise is all the chance there
                is. "population", the one that they were drawn about: noise and sampling.
        """
        if self._reach(self.columns, level, of) >= self._size:
            return math.pi / self.power
        return math.asin(self._reach(self.columns - 1, level, of) / self._size) / self.power

    def _reach(self, dim: int, level: float, of: str) -> float:
        """What the part of the error that lies across the true direction, in so many dimensions, is
        no longer than.
        """
        lengths = self.lengths
        if isinstance(lengths, ChiErrors):  # else the length of the whole error bounds it
            lengths = gaussian_errors(dim, lengths.sigma, exact=True)
        noise = (lengths.quantile(level) + self.slack) / math.sqrt(self.power)
        return noise if of == "sample" else math.hypot(noise, self._sampling(dim, level))

    def _sampling(self, dim: int, level: float) -> float:
        """The same of sampling: without noise, on the sphere, Fisher's cone."""
        freedom = (self.columns - 1) * (self.n - 1)
        if freedom == 0:
            return math.inf
        from scipy import special

        ratio = float(special.fdtri(dim, freedom, level))
        return math.sqrt(dim * ratio * self._spread / (self.n - 1))

    @functools.cached_property
    def _spread(self) -> float:
        """Variance, across the direction, of what a record adds: the larger one of those at the
        resultant and at one that noise may have made too long.
        """
        least = max(0.0, self.resultant - _LOWER * self._noise)
        kappas = self.concentration, concentration_of(least, self.columns, self.power)
        return float(np.max(moments(np.array(kappas), self.columns, self.power)[1]))

    def region(self, level: float, of: str, subject: str) -> Region:
        """The cone as a region of the space."""
        radius = self.cone(level, of) * (1.0 + 1e-12)
        seen = about(self.manifold, self.direction, ErrorDistribution.at_most(radius))
        return Region(self.direction, radius, level, of, subject, seen)

    @property
    def facts(self) -> dict[str, Any]:
        """What is published with the direction, by name."""
        return {
            "query": Query.DIRECTION,
            "moment": self.moment,
            "resultant": self.resultant,
            "resultant_noise": self._noise,
            "concentration": self.concentration,
            "cone": self.cone(),
        }


def direction_of(release: Released) -> MeanDirection:
    """What a release of `Query.DIRECTION` shows."""
    facts, seen = release.facts, release.observation
    assert facts.manifold is not None
    assert facts.n is not None
    assert seen is not None
    return MeanDirection(facts.manifold, seen.coordinates, seen.lengths, facts.n, seen.slack)


@np.errstate(under="ignore")  # densities far out are 0
def moments(kappa: Floats | float, columns: int, power: int) -> tuple[Floats, Floats]:
    """E t^power, and E (t^(power-1) u)^2, for the coordinate t of a unit vector along the axis of
    the density exp(kappa t^power) and a coordinate u across it: by quadrature over the angle, for
    each kappa.
    """
    kappa = np.clip(kappa, _LEAST, _MOST)[..., None]
    # beyond this angle there is less than 1e-15 of the mass
    far = math.pi / 2.0 * (9.0 + math.sqrt(columns)) / np.sqrt(kappa)
    angle = np.minimum(math.pi / power, far) * (_NODES + 1.0) / 2.0
    t, across = np.cos(angle), np.sin(angle)
    exponent = kappa * (t**power - 1.0) + (columns - 2) * np.log(across)
    weights = _WEIGHTS * np.exp(exponent - np.max(exponent, axis=-1, keepdims=True))
    weights /= np.sum(weights, axis=-1, keepdims=True)
    square = np.sum(weights * (t ** (power - 1) * across) ** 2, axis=-1)
    return np.sum(weights * t**power, axis=-1), square / (columns - 1)


def resultant_of(kappa: Floats | float, columns: int, power: int) -> Floats:
    """The mean resultant length of the density exp(kappa t^power), for each kappa."""
    mean, _ = moments(kappa, columns, power)
    return mean if power == 1 else (columns * mean - 1.0) / (columns - 1)


def concentration_of(resultant: float, columns: int, power: int) -> float:
    """The kappa, at least 0, of this mean resultant length, on ever finer grids; infinite where no
    number is large enough.
    """
    grid = np.geomspace(_LEAST, _MOST, 17)
    seen = resultant_of(grid, columns, power)
    if resultant <= seen[0]:
        return 0.0
    if resultant >= seen[-1]:
        return math.inf
    while grid[-1] > grid[0] * (1.0 + 1e-6):
        above = int(np.searchsorted(resultant_of(grid, columns, power), resultant))
        above = min(max(above, 1), len(grid) - 1)
        grid = np.geomspace(grid[above - 1], grid[above], 17)
    return float(grid[-1])
