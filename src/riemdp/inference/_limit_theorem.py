"""Where the mean of a population lies, by the central limit theorem of Frechet means, from a
private mean and a private second moment of tangent vectors about it.

Asymptotic: it holds for many records, and not for every number of them as the other regions do.
Post-processing: released and public numbers only. Proof: docs/proofs/confidence-region.md, Lemma
11.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from .._errors import InvalidArgument, invalid
from ..statistics._hessian import mean_hessian
from ._error_law import ChiLaw, ErrorLaw, chi_exceeded
from ._facts import Query, Released
from ._population import (
    are_of_the_same,
    check_mean,
    given_dispersion,
    known_of,
    same_point,
)
from ._region import Floats, Observation, Region, region_of
from ._released import subject_in_population

NOTE = "asymptotic, by the central limit theorem"
_STEP = 1e-4  # of the difference quotients


def limit_region(mean: Released, dispersion: Released | None, level: float) -> Region:
    """A region of the population's mean; the arguments are those of `Release.confidence_region`."""
    region = region_of(
        mean.observation, mean.mechanism, level, "population", subject_in_population(mean)
    )
    check_mean(mean, hadamard=False)
    noisy, law, reach = _checked(dispersion, mean)
    seen, space, ball = region.observation, mean.facts.manifold, mean.facts.ball
    assert space is not None
    assert ball is not None
    _, n = known_of(mean)
    alpha = 1.0 - region.level
    moment = _positive(noisy)
    upper = moment + _deviation(law, len(noisy)) * np.eye(len(noisy))
    hessian = mean_hessian(space, moment if space.is_hadamard else upper, reach)
    if hessian is None:
        raise InvalidArgument(
            f"no formula for the curvature of {space!r} is known here;"
            ' method="finite-sample" needs none, and is for Hadamard spaces'
        )
    convex = float(ball.on(space).strong_convexity)
    inverse = _inverse(hessian, convex)
    turned = _jacobian(seen, mean) @ inverse
    spread = turned @ upper @ turned.T / n
    note = f"{NOTE}, n = {n}"
    if isinstance(seen.law, ChiLaw) and not seen.at_released_point:
        covariance = spread + seen.law.sigma**2 * np.eye(len(spread))
        axes = np.linalg.cholesky((covariance + covariance.T) / 2.0)
        smallest = math.sqrt(float(np.linalg.eigvalsh(covariance)[0]))
        radius = chi_exceeded(len(spread), alpha) + seen.slack / smallest
        return dataclasses.replace(region, radius=radius, axes=axes, note=note)
    noise = region_of(seen, mean.mechanism, 1.0 - alpha / 2.0, "sample", "")
    widest = math.sqrt(max(0.0, float(np.linalg.eigvalsh(spread)[-1])))
    radius = noise.radius + widest * chi_exceeded(len(spread), alpha / 2.0)
    return dataclasses.replace(region, radius=radius, note=note)


def _checked(dispersion: Released | None, mean: Released) -> tuple[Floats, ErrorLaw, float]:
    """The noisy second moment, the law of the length of its noise, and its radius, once they are
    known to belong to the mean.
    """
    remedy = (
        "give the Release of private_tangent_covariance for the same records and"
        " Ball(mean.value, radius), the radius at least that of the mean's ball"
    )
    dispersion = given_dispersion(dispersion, Query.MOMENT, remedy)
    law = dispersion.error_law
    if law is None:
        raise invalid("dispersion", type(dispersion).__name__, remedy)
    (reach, _), (radius, _) = known_of(dispersion), known_of(mean)
    about = dispersion.facts.ball
    if not (
        are_of_the_same(dispersion.facts, mean.facts)
        and reach >= radius
        and about is not None
        and same_point(about.center, mean.value)
    ):
        raise InvalidArgument(
            "argument `dispersion` is of another space, centre or number of records than the mean,"
            f" or of a smaller ball; {remedy}"
        )
    value = np.asarray(dispersion.value, dtype=np.float64)
    return (value + value.T) / 2.0, law, reach


def _deviation(law: ErrorLaw, dim: int) -> float:
    """Standard deviation of the noise of the second moment along any one direction."""
    return math.sqrt(law.mean_square / (dim * (dim + 1) / 2.0))


def _positive(matrix: Floats) -> Floats:
    """The nearest positive semidefinite matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.maximum(values, 0.0)) @ vectors.T


def _inverse(hessian: Floats, convex: float) -> Floats:
    """Of the Hessian, whose eigenvalues are at least `convex` where all records are in the ball."""
    values, vectors = np.linalg.eigh(np.nan_to_num(hessian, neginf=-1e300))
    return (vectors / np.maximum(values, convex)) @ vectors.T


def _jacobian(seen: Observation, mean: Released) -> Floats:
    """How the coordinates that were observed change with those at the released mean."""
    manifold, point = mean.facts.manifold, mean.value
    assert manifold is not None
    dim = int(manifold.dim)
    steps = np.asarray(_STEP * np.concatenate([np.eye(dim), -np.eye(dim)]))
    vectors = manifold.from_coordinates(point, steps)
    moved = np.asarray(seen.coordinates_of(manifold.exp(point, vectors)))
    return ((moved[:dim] - moved[dim:]) / (2.0 * _STEP)).T
