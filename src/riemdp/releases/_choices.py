"""The mechanisms a private mean can use, built from public facts only: what `private_frechet_mean`
runs and the plan compares.
"""

from __future__ import annotations

import warnings

from .._errors import InvalidArgument, SlowSamplerWarning, one_of
from ..mechanisms import BASELINES, FOR_MEANS, TangentMeanNoise
from ..mechanisms._base import PointMechanism
from ..mechanisms._for_mean import MeanFacts
from ..optimizers import OPTIMIZERS

_BY_NAME = {kind.name: kind for kind in (*FOR_MEANS, *BASELINES)}
OPTIMIZER_BY_NAME = {kind.name: kind for kind in OPTIMIZERS}

COMPARED = tuple(kind.name for kind in FOR_MEANS)
EXTRINSIC = tuple(kind.name for kind in BASELINES)
TANGENT_MEAN = TangentMeanNoise.name  # a mean of its own: it takes records, not a point
OPTIMIZED = tuple(OPTIMIZER_BY_NAME)
MECHANISMS = ("auto", *COMPARED, TANGENT_MEAN, *OPTIMIZED, *EXTRINSIC)
NEED_DELTA = (*(name for name, kind in _BY_NAME.items() if kind.needs_delta), *OPTIMIZED)
NEED_GRADIENT = tuple(name for name, kind in _BY_NAME.items() if kind.needs_gradient)
# "auto" leaves a sampler alone that is expected to take longer than this many tries.
MOST_TRIES = 1e4


def build(name: str, facts: MeanFacts) -> PointMechanism:
    """The mechanism `name` for a Frechet mean, from public facts.

    Args:
        name: One of `COMPARED` or `EXTRINSIC`.
        facts: What is public about the mean.
    """
    return _BY_NAME[one_of("mechanism", name, (*COMPARED, *EXTRINSIC))].for_mean(facts)


def try_build(name: str, facts: MeanFacts) -> tuple[PointMechanism | None, str]:
    """(mechanism, "") or (None, why not), without warnings."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SlowSamplerWarning)
            return build(name, facts), ""
    except (InvalidArgument, NotImplementedError) as error:
        return None, str(error)
