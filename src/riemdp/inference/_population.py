"""Where the mean of a population lies, from a private mean and a private variance of a sample.

Post-processing: released and public numbers only. Proof: docs/proofs/confidence-region.md.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from .._errors import InvalidArgument, invalid
from .._trees import leaves
from ..manifolds._base import Point
from ._region import MEAN, VARIANCE, Observation, Region, region_of
from ._released import Released, subject_in_population


def population_region(mean: Released, dispersion: Released | None, level: float) -> Region:
    """A region of the population's mean; the arguments are those of `Release.confidence_region`."""
    region = region_of(
        mean.observation, mean.mechanism, level, "population", subject_in_population(mean)
    )
    check_mean(mean)
    spread = checked_dispersion(dispersion, mean)
    alpha = 1.0 - region.level
    noise = region_of(mean.observation, mean.mechanism, 1.0 - alpha / 3.0, "sample", "")
    r, n = float(mean.details["radius"]), int(mean.details["n"])
    radius = noise.radius + math.sqrt(3.0 * variance_bound(spread, r, n, alpha) / (n * alpha))
    return dataclasses.replace(region, radius=radius)


def variance_bound(spread: Observation, r: float, n: int, alpha: float) -> float:
    """An upper bound of the mean of min(d(x, c), r)^2 in the population, from the noisy variance of
    n independent records; wrong with probability at most alpha / 3.
    """
    # the law of the noise is symmetric: this length is exceeded on one side with chance alpha / 6
    noise = spread.law.quantile(1.0 - alpha / 3.0) + spread.slack
    sampling = r**2 * math.sqrt(math.log(6.0 / alpha) / (2.0 * n))
    return min(r**2, max(0.0, float(spread.coordinates[0]) + noise + sampling))


def check_mean(mean: Released, *, hadamard: bool = True) -> None:
    """Refuse means that no region of a population is known for; with `hadamard`, on other than
    Hadamard spaces.
    """
    known = mean.details
    if "sites" in known:
        raise InvalidArgument(
            "no confidence region of the population is known for a mean that several sites found:"
            " its ball was found on the same records, and it is the mean of shortened tangent"
            ' vectors, while a population has a Frechet mean. of="sample" is known. For the'
            " population release a mean and a variance in a public ball from records in one place"
        )
    if "share_of_search" in known:
        raise InvalidArgument(
            "no confidence region of the population is known where the ball was found on the same"
            " records. Find a ball with some of the records (private_ball), and release mean and"
            " variance of the other ones in it; or give a public ball"
        )
    if known.get("query") != MEAN or "n" not in known or known.get("weighted"):
        raise InvalidArgument(
            "a confidence region of the population needs a Frechet mean of n equally weighted"
            ' records in a public ball, released under "replace-one"'
        )
    if hadamard and not known["manifold"].is_hadamard:
        raise InvalidArgument(
            f"no confidence region of the population is known on {known['manifold']!r}, which is no"
            ' Hadamard space; of="sample" is, and method="limit-theorem"'
        )


def checked_dispersion(dispersion: Released | None, mean: Released) -> Observation:
    """What the dispersion shows, once it is known to belong to the mean."""
    remedy = (
        "give the Release of private_frechet_variance for the same records and the same ball as"
        " the mean"
    )
    if dispersion is None:
        raise InvalidArgument(f"argument `dispersion` is missing: {remedy}")
    known = getattr(dispersion, "details", {})
    spread = getattr(dispersion, "observation", None)
    if spread is None or known.get("query") != VARIANCE or "share_of_search" in known:
        raise invalid("dispersion", type(dispersion).__name__, remedy)
    ours = mean.details
    same = (
        known["n"] == ours["n"]
        and ("people" in known) == ("people" in ours)
        and known["manifold"] == ours["manifold"]
        and known["radius"] == ours["radius"]
        and same_point(known["ball"].center, ours["ball"].center)
    )
    if not same:
        raise InvalidArgument(
            "argument `dispersion` is of another space, ball or number of records than the mean;"
            f" {remedy}"
        )
    return spread


def same_point(a: Point, b: Point) -> bool:
    """Whether two points are the same numbers."""
    left, right = leaves(a), leaves(b)
    return len(left) == len(right) and all(
        np.array_equal(np.asarray(x), np.asarray(y)) for x, y in zip(left, right, strict=True)
    )
