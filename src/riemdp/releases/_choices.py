"""The mechanisms a private mean can use, built from public facts only: what `private_frechet_mean`
runs and the plan compares.
"""

from __future__ import annotations

import warnings
from typing import Any

from .._errors import InvalidArgument, SlowSamplerWarning, one_of
from ..domains import Domain
from ..inference._distributions import CappedErrors, ErrorDistribution, keeps_near, moved_in
from ..mechanisms import BASELINES, FOR_MEANS, Release, TangentMeanNoise
from ..mechanisms._base import AbstractMechanism
from ..mechanisms._common import PointMechanism
from ..mechanisms._for_mean import MeanFacts

BY_NAME = {kind.name: kind for kind in (*FOR_MEANS, *BASELINES)}

COMPARED = tuple(kind.name for kind in FOR_MEANS)
EXTRINSIC = tuple(kind.name for kind in BASELINES)
TANGENT_MEAN = TangentMeanNoise.name  # a mean of its own: it takes records, not a point
OPTIMIZED = ("dp-rgd", "dp-rsgd", "dp-rsvrg")  # `name` of each optimiser, which runs on JAX
AUTO = "auto"
MECHANISMS = (AUTO, *COMPARED, TANGENT_MEAN, *OPTIMIZED, *EXTRINSIC)
NEED_DELTA = (*(name for name, kind in BY_NAME.items() if kind.needs_delta), *OPTIMIZED)
NEED_GRADIENT = tuple(name for name, kind in BY_NAME.items() if kind.needs_gradient)
# "auto" leaves a sampler alone that is expected to take longer than this many tries.
MOST_TRIES = 1e4


def build(name: str, facts: MeanFacts) -> PointMechanism:
    """The mechanism `name` for a Fréchet mean, from public facts.

    Args:
        name: One of `COMPARED` or `EXTRINSIC`.
        facts: What is public about the mean.
    """
    return BY_NAME[one_of("mechanism", name, (*COMPARED, *EXTRINSIC))].for_mean(facts)


def errors_in_ball(
    mechanism: PointMechanism, radius: float
) -> tuple[ErrorDistribution | None, bool]:
    """The distribution of the error of a release by a mechanism in a ball of this radius, and
    whether a wrapped release is moved into the ball after the noise, which costs no privacy: where
    no release comes farther from any point of the ball, and elsewhere where the stated error is
    larger than the diameter of the ball. A function of public numbers.
    """
    errors, manifold = mechanism.error_distribution, mechanism.manifold
    if mechanism.stays_in_ball or mechanism.name in EXTRINSIC:  # and its distribution says so
        return errors, False
    if not (
        keeps_near(manifold, radius)
        or (errors is not None and errors.mean_square > (2.0 * radius) ** 2)
    ):
        return errors, False
    return moved_in(errors, manifold, radius), True


def moved_into(release: Release, mechanism: AbstractMechanism[Any], local: Domain) -> Release:
    """The release by a mechanism of a point, moved into the ball where `errors_in_ball` says so,
    with what is then known of its error: post-processing.
    """
    assert isinstance(mechanism, PointMechanism)
    errors, moved = errors_in_ball(mechanism, local.radius)
    if not moved:
        return release
    kind = {"error": "no formula" if errors is None else errors.kind, "moved_into_ball": True}
    value = local.clamp(release.value)
    return release._with(value=value, error_distribution=errors, facts=release.facts.told(kind))


def kept_in(release: Release, domain: Domain) -> Release:
    """The release of a mean, moved into its public ball also where that may bring it farther from
    the mean, so that it is a point that a ball can have as its centre: post-processing.
    """
    errors = release.error_distribution
    if not isinstance(errors, CappedErrors):  # it was not moved before
        errors = moved_in(errors, domain.manifold, domain.radius)
    return release._with(value=domain.clamp(release.value), error_distribution=errors)


def try_build(name: str, facts: MeanFacts) -> tuple[PointMechanism | None, str]:
    """(mechanism, "") or (None, why not), without warnings."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SlowSamplerWarning)
            return build(name, facts), ""
    except (InvalidArgument, NotImplementedError) as error:
        return None, str(error)
