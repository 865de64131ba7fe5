"""Where the mean of records lies before they were clipped, from a private mean and a private bound
of what clipping did.

Post-processing: released and public numbers only. Proof: docs/proofs/clipping-bound.md.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from .._errors import InvalidArgument, invalid
from ._population import same_point
from ._region import EXCESS, MEAN, TANGENTS, Observation, Region, region_of
from ._released import Released

SHARE = 0.2  # of the error probability of a region, for the bound
_INSIDE = 1e-11  # clamped records lie a hair inside the ball, relative to the reach
_OWN = 1e-8  # how far a person's own mean may be from where its solver stopped, likewise


def unclipped_region(mean: Released, clipping: Released, level: float) -> Region:
    """A region of the mean of the records in the ball of the larger radius; the arguments are
    those of `Release.confidence_region`.
    """
    whose = TANGENTS if _of_tangents(mean) else MEAN
    region = region_of(mean.observation, mean.mechanism, level, "sample", "")
    seen, reach = _checked(clipping, mean)
    alpha = 1.0 - region.level
    noise = region_of(mean.observation, mean.mechanism, 1.0 - (1.0 - SHARE) * alpha, "sample", "")
    widest = reach - float(mean.details["radius"])
    # the law of the noise is symmetric: this length is exceeded on one side with chance SHARE alpha
    upper = float(seen.coordinates[0]) + seen.law.quantile(1.0 - 2.0 * SHARE * alpha) + seen.slack
    people = "people" in mean.details
    bound = float(np.clip(upper, 0.0, widest)) + (_OWN if people else _INSIDE) * reach
    where = f"clamped at distance {reach:g} from the centre,"
    each = f"one point a person, the mean of the person's records {where}"
    subject = f"the {whose} of {each if people else f'the records, {where}'}"
    return dataclasses.replace(region, radius=noise.radius + bound, subject=subject)


def _of_tangents(mean: Released) -> bool:
    return mean.details.get("query") == TANGENTS


def _checked(clipping: Released, mean: Released) -> tuple[Observation, float]:
    """What the bound shows and its reach, once it is known to belong to the mean."""
    remedy = (
        "give the Release of private_clipping_bound for the same records and the ball of the mean"
        " (mean.details['ball'])"
    )
    known, ours = getattr(clipping, "details", {}), mean.details
    seen = getattr(clipping, "observation", None)
    if seen is None or known.get("query") != EXCESS:
        raise invalid("clipping", type(clipping).__name__, remedy)
    if ours.get("query") not in (MEAN, TANGENTS) or "n" not in ours or ours.get("weighted"):
        raise InvalidArgument(
            "a region of the mean before clipping needs a mean of n equally weighted records,"
            ' released under "replace-one"'
        )
    if mean.observation is not None and mean.observation.subject:
        raise InvalidArgument(
            "no region of the mean before clipping is known where a released count says that some"
            " records are no points of the space; correct or drop them, or leave out `clipping`"
        )
    if ("people" in known) != ("people" in ours):
        raise InvalidArgument(
            "argument `clipping` speaks of people and the mean of records, or the other way round;"
            " give both releases the same `groups`"
        )
    people = "people" in ours
    if people and "search" in ours:
        raise InvalidArgument(
            "no region of the mean before clipping is known for people (`groups`) in a ball that"
            " was found with their mean, where means of people are clamped and not records; give a"
            " public Ball, or leave out `clipping`"
        )
    same = (
        known["n"] == ours["n"]
        and known["manifold"] == ours["manifold"]
        and known["radius"] == float(ours["radius"])
        and same_point(known["ball"].center, ours["ball"].center)
    )
    if not same:
        raise InvalidArgument(
            f"argument `clipping` is of another space, ball or number of records than the mean;"
            f" {remedy}"
        )
    space, reach = ours["manifold"], float(known["reach"])
    if not space.is_hadamard:
        held = float(np.asarray(space.injectivity_radius(ours["ball"].center)))
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
