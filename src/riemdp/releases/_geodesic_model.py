"""What a release of points as a function of covariates says: functions of released numbers."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._errors import one_of, real
from .._namespace import Floats
from ..domains import Ball
from ..manifolds import AbstractManifold
from ..manifolds._base import Point, RecordsLike
from ..mechanisms import Release
from ..mechanisms._geodesic_regression import CovariateRange, FittedNoise, with_one
from ..statistics._second_moment import row_lengths

RECORDS, CURVE = "record", "curve"


@dataclasses.dataclass(frozen=True, eq=False)
class GeodesicModel:
    """Points as a function of covariates t: Exp_c(B (1, t)), with what the noise and the residuals
    make of it. All of it was released, or follows from what was.

    Attributes:
        manifold: The space.
        ball: Its centre is c; tangent vectors at it were shortened to its radius.
        t_range: The public range of the covariates, as it was given.
        n: The number of records, of people with `groups`.
        coefficients: B, (1 + p, dim): in an orthonormal frame at c the tangent vector at t = 0,
            and what each covariate adds to it per unit.
        residual: (dim, dim), the second moment of the residuals in that frame, in squared
            distances; noise is taken out on average, so eigenvalues may be negative.
    """

    manifold: AbstractManifold
    ball: Ball
    t_range: Any
    n: int
    coefficients: Floats
    residual: Floats
    _made: FittedNoise = dataclasses.field(repr=False)

    @staticmethod
    def of(release: Release, manifold: AbstractManifold, t_range: Any) -> GeodesicModel:
        """What a release of second moments says: post-processing."""
        ball, made, n = release.facts.ball, release.value, release.facts.n
        assert ball is not None
        assert n is not None
        r, theta = float(ball.radius), made.fit.coefficients
        middle, unit = CovariateRange(t_range).affine
        ends = r * with_one(np.concatenate([-middle[None], np.eye(len(unit))]) / unit) @ theta
        none = r * with_one(np.zeros((1, len(unit)))) @ theta
        coefficients = np.concatenate([ends[:1], ends[1:] - none])
        residual = r**2 * made.fit.residual
        return GeodesicModel(manifold, ball, t_range, n, coefficients, residual, made)

    def _rows(self, t: ArrayLike) -> Floats:
        covariates = CovariateRange(self.t_range)
        given = np.atleast_1d(np.asarray(t, dtype=np.float64))
        return with_one(covariates.scaled(covariates.admitted(given, len(given))))

    def _tangents(self, t: ArrayLike) -> Floats:
        return float(self.ball.radius) * self._rows(t) @ self._made.fit.coefficients

    def predict(self, t: ArrayLike) -> Point:
        """The points at covariates t, each moved into its range first, (n, *manifold.shape)."""
        vectors = self.manifold.from_coordinates(self.ball.center, self._tangents(t))
        return self.manifold.exp(self.ball.center, vectors)

    def residuals(self, X: RecordsLike, t: ArrayLike) -> Floats:
        """|log_c x - log_c predict(t)| of records, which were not shortened: not private, (n,). It
        is their distance on flat and log-Euclidean spaces, and at most that on a Hadamard space.
        """
        logs = self.manifold.to_coordinates(
            self.ball.center, self.manifold.log(self.ball.center, X)
        )
        return row_lengths(np.asarray(logs) - self._tangents(t))

    def band(self, t: ArrayLike, level: float = 0.95, *, of: str = RECORDS) -> Floats:
        """Lengths at covariates t, (n,), which the `residuals` there do not exceed with probability
        `level`; approximately, by normal distributions.

        Args:
            t: Covariates.
            level: From 0 to 1.
            of: "record": of a new record, by residuals, sampling and noise. "curve": of the
                population's curve, by sampling and noise.
        """
        level = real("level", level, above=0.0, below=1.0)
        of = one_of("of", of, (RECORDS, CURVE))
        fit, deviation = self._made.fit, self._made.deviation
        theta, dim = fit.coefficients, self.manifold.dim
        residual = _positive(fit.residual, deviation * _least(theta))
        found = []
        for row in self._rows(t):
            x = fit.inverse @ row
            along = theta.T @ x
            noise = float(x @ x) * (np.eye(dim) + theta.T @ theta) + np.outer(along, along)
            sampling = max(float(row @ x), 0.0) / self.n
            own = 1.0 if of == RECORDS else 0.0
            found.append(_quantile(deviation**2 / 2.0 * noise + (sampling + own) * residual, level))
        return float(self.ball.radius) * np.array(found)


def _least(theta: Floats) -> float:
    """The standard deviation of the noise in the sum of squared residuals, over that of one
    coordinate of the moments.
    """
    return math.sqrt(float(np.sum((1.0 + np.sum(theta**2, axis=0)) ** 2)))


def _positive(moment: Floats, least: float) -> Floats:
    """The moment with its negative eigenvalues at 0, and a trace of at least `least`."""
    values, vectors = np.linalg.eigh(moment)
    values = np.maximum(values, 0.0)
    values += max(least - float(values.sum()), 0.0) / len(values)
    return (vectors * values) @ vectors.T


def _quantile(covariance: Floats, level: float) -> float:
    """Of the length of a normal vector, by chi-squared with the mean and variance of |v|^2."""
    from scipy import special  # which a plan does not need

    total, square = float(np.trace(covariance)), float(np.sum(covariance**2))
    g, h = square / total, total**2 / square
    return math.sqrt(g * float(special.chdtri(h, 1.0 - level)))
