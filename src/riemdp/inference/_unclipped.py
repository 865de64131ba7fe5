"""Where the mean of records lies before they were clipped, from a private mean and a private bound
of what clipping did.

Post-processing: released and public numbers only. Proof: docs/proofs/clipping-bound.md.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from .._errors import InvalidArgument, invalid
from ._facts import Query, Released
from ._population import are_of_the_same, known_of, same_center
from ._region import Observation, Region, region_of

SHARE = 0.2  # of the error probability of a region, for the bound
_INSIDE = 1e-11  # clamped records lie a hair inside the ball, relative to the reach
_OWN = 1e-8  # how far a person's own mean may be from where its solver stopped, likewise


def unclipped_region(mean: Released, clipping: Released, level: float) -> Region:
    """A region of the mean of the records in the ball of the larger radius; the arguments are
    those of `Release.confidence_region`.
    """
    whose = Query.TANGENTS if _of_tangents(mean) else Query.MEAN
    region = region_of(mean.observation, mean.mechanism, level, "sample", "")
    seen, reach = _checked(clipping, mean)
    alpha = 1.0 - region.level
    noise = region_of(mean.observation, mean.mechanism, 1.0 - (1.0 - SHARE) * alpha, "sample", "")
    widest = reach - known_of(mean)[0]
    # the law of the noise is symmetric: this length is exceeded on one side with chance SHARE alpha
    upper = float(seen.coordinates[0]) + seen.law.quantile(1.0 - 2.0 * SHARE * alpha) + seen.slack
    people = mean.facts.of_people
    bound = float(np.clip(upper, 0.0, widest)) + (_OWN if people else _INSIDE) * reach
    where = f"clamped at distance {reach:g} from the centre,"
    each = f"one point a person, the mean of the person's records {where}"
    subject = f"the {whose} of {each if people else f'the records, {where}'}"
    return dataclasses.replace(region, radius=noise.radius + bound, subject=subject)


def _of_tangents(mean: Released) -> bool:
    return mean.facts.query == Query.TANGENTS


def _checked(clipping: Released, mean: Released) -> tuple[Observation, float]:
    """What the bound shows and its reach, once it is known to belong to the mean."""
    remedy = (
        "give the Release of private_clipping_bound for the same records and the ball of the mean"
        " (mean.details['ball'])"
    )
    seen = clipping.observation if isinstance(clipping, Released) else None
    if seen is None or clipping.facts.query != Query.EXCESS:
        raise invalid("clipping", type(clipping).__name__, remedy)
    known, ours = clipping.facts, mean.facts
    if ours.query not in (Query.MEAN, Query.TANGENTS) or not ours.is_equally_weighted:
        raise InvalidArgument(
            "a region of the mean before clipping needs a mean of n equally weighted records,"
            ' released under "replace-one"'
        )
    if mean.observation is not None and mean.observation.subject:
        raise InvalidArgument(
            "no region of the mean before clipping is known where a released count says that some"
            " records are no points of the space; correct or drop them, or leave out `clipping`"
        )
    if known.of_people != ours.of_people:
        raise InvalidArgument(
            "argument `clipping` speaks of people and the mean of records, or the other way round;"
            " give both releases the same `groups`"
        )
    people = ours.of_people
    if people and ours.search is not None:
        raise InvalidArgument(
            "no region of the mean before clipping is known for people (`groups`) in a ball that"
            " was found with their mean, where means of people are clamped and not records; give a"
            " public Ball, or leave out `clipping`"
        )
    radius, _ = known_of(mean)
    if not (are_of_the_same(known, ours) and known.radius == radius and same_center(known, ours)):
        raise InvalidArgument(
            f"argument `clipping` is of another space, ball or number of records than the mean;"
            f" {remedy}"
        )
    space, ball, reach = ours.manifold, ours.ball, known.reach
    assert space is not None
    assert ball is not None
    assert reach is not None
    if not space.is_hadamard:
        held = float(np.asarray(space.injectivity_radius(ball.center)))
        if people:
            raise InvalidArgument(
                f"on {space!r}, which is no Hadamard space, no region of the mean before clipping"
                " is known for people (`groups`); leave out `clipping`"
            )
        if not (_of_tangents(mean) and reach <= held):
            raise InvalidArgument(
                f"on {space!r}, which is no Hadamard space, a region of the mean before clipping is"
                ' known for mechanism="tangent-mean" and a reach of at most the injectivity radius'
                f" {held:.4g} only"
            )
    return seen, reach
