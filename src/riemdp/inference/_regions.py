"""The confidence regions of a release: of what it protects, and of the mean of the population that
the records are a sample of, by a private variance of that sample.

Post-processing: released and public numbers only. Proof: docs/proofs/confidence-region.md.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from .._errors import InvalidArgument, invalid, one_of, real
from .._trees import leaves
from ..manifolds._base import Point
from ._direction import direction_of
from ._facts import Facts, Query, Released
from ._region import OF, Observation, Region, region_of


def confidence_region(
    release: Released,
    level: float,
    of: str,
    dispersion: Released | None,
) -> Region:
    """The region of a release; the arguments are those of `Release.confidence_region`."""
    is_direction = release.facts.query == Query.DIRECTION
    if one_of("of", of, OF) == "population" and not is_direction:
        return population_region(release, dispersion, level)
    if dispersion is not None:
        other = "a mean direction needs none" if is_direction else 'it goes with of="population"'
        raise invalid("dispersion", "a release", other)
    if is_direction:
        whose = "people" if release.facts.of_people else "records"
        subject = f"the mean direction of the {whose if of == 'sample' else 'population'}"
        level = real("level", level, above=0.0, below=1.0)
        return direction_of(release).region(level, of, subject)
    subject = subject_in_sample(release)
    return region_of(release.observation, release.mechanism, level, of, subject)


def population_region(mean: Released, dispersion: Released | None, level: float) -> Region:
    """A region of the population's mean; the arguments are those of `Release.confidence_region`."""
    region = region_of(
        mean.observation, mean.mechanism, level, "population", subject_in_population(mean)
    )
    check_mean(mean)
    spread = checked_dispersion(dispersion, mean)
    alpha = 1.0 - region.level
    noise = region_of(mean.observation, mean.mechanism, 1.0 - alpha / 3.0, "sample", "")
    r, n = known_of(mean)
    radius = noise.radius + math.sqrt(3.0 * variance_bound(spread, r, n, alpha) / (n * alpha))
    return dataclasses.replace(region, radius=radius)


def variance_bound(spread: Observation, r: float, n: int, alpha: float) -> float:
    """An upper bound of the mean of min(d(x, c), r)^2 in the population, from the noisy variance of
    n independent records; wrong with probability at most alpha / 3.
    """
    # the distribution of the noise is symmetric: this length is exceeded on one side with chance
    # alpha / 6
    noise = spread.lengths.quantile(1.0 - alpha / 3.0) + spread.slack
    sampling = r**2 * math.sqrt(math.log(6.0 / alpha) / (2.0 * n))
    return min(r**2, max(0.0, float(spread.coordinates[0]) + noise + sampling))


def check_mean(mean: Released) -> None:
    """Refuse means that no region of a population is known for."""
    facts = mean.facts
    if facts.sites is not None:
        raise InvalidArgument(
            "no confidence region of the population is known for a mean that several sites found:"
            " its ball was found on the same records, and it is the mean of shortened tangent"
            ' vectors, while a population has a Fréchet mean. of="sample" is known. For the'
            " population release a mean and a variance in a public ball from records in one place"
        )
    if facts.found:
        raise InvalidArgument(
            "no confidence region of the population is known where the ball was found on the same"
            " records. Find a ball with some of the records (private_ball), and release mean and"
            " variance of the other ones in it; or give a public ball"
        )
    if facts.query != Query.MEAN or not facts.is_equally_weighted:
        raise InvalidArgument(
            "a confidence region of the population needs a Fréchet mean of n equally weighted"
            ' records in a public ball, released under "replace-one"'
        )
    if facts.manifold is None or not facts.manifold.is_hadamard:
        raise InvalidArgument(
            f"no confidence region of the population is known on {facts.manifold!r}, which is no"
            ' Hadamard space; of="sample" is'
        )


def checked_dispersion(dispersion: Released | None, mean: Released) -> Observation:
    """What the dispersion shows, once it is known to belong to the mean."""
    remedy = (
        "give the Release of private_frechet_variance for the same records and the same ball as"
        " the mean"
    )
    if dispersion is None:
        raise InvalidArgument(f"argument `dispersion` is missing: {remedy}")
    spread = dispersion.observation if isinstance(dispersion, Released) else None
    if spread is None or dispersion.facts.query != Query.VARIANCE or dispersion.facts.found:
        raise invalid("dispersion", type(dispersion).__name__, remedy)
    known, other = dispersion.facts, mean.facts
    if not (
        (known.n, known.of_people, known.manifold) == (other.n, other.of_people, other.manifold)
        and known.radius == other.radius
        and same_center(known, other)
    ):
        raise InvalidArgument(
            "argument `dispersion` is of another space, ball or number of records than the mean;"
            f" {remedy}"
        )
    return spread


def known_of(mean: Released) -> tuple[float, int]:
    """Radius and public number of records of a mean that `check_mean` has let through."""
    radius, n = mean.facts.radius, mean.facts.n
    assert radius is not None
    assert n is not None
    return float(radius), int(n)


def same_center(a: Facts, b: Facts) -> bool:
    """Whether the balls of two releases have the same centre."""
    if a.ball is None or b.ball is None:
        return False
    return same_point(a.ball.center, b.ball.center)


def same_point(a: Point, b: Point) -> bool:
    """Whether two points are the same numbers."""
    left, right = leaves(a), leaves(b)
    return len(left) == len(right) and all(
        np.array_equal(np.asarray(x), np.asarray(y)) for x, y in zip(left, right, strict=True)
    )


def subject_in_sample(release: Released) -> str:
    """What a confidence region of a release is of."""
    if release.observation is not None and release.observation.subject:
        return release.observation.subject
    facts = release.facts
    query, people = facts.query, " of the people's means" if facts.of_people else ""
    if query == Query.TANGENTS:
        return f"the {query}{people}"
    if query == Query.VARIANCE:
        return f"the Fréchet variance about the centre{people}"
    if query != Query.MEAN:
        return "the value before noise"
    filled = " and of the centres that fill them up" if facts.n_min is not None else ""
    whose = "people's means" if facts.of_people else "clamped records"
    return f"the {query} of the {whose}{filled}"


def subject_in_population(mean: Released) -> str:
    """What a region of the population is of."""
    if mean.facts.of_people:
        return (
            "the Fréchet mean of the means that people in the population have, clamped like these,"
        )
    return "the Fréchet mean of the population, clamped like the records,"
