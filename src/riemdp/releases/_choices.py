"""The mechanisms a private mean can use, built from public facts only: what `private_frechet_mean`
runs and the plan compares.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from numpy.typing import ArrayLike

from .._errors import InvalidArgument, SlowSamplerWarning, one_of
from ..domains import Ball
from ..manifolds import AbstractManifold
from ..manifolds._base import Point, Tangent
from ..mechanisms import (
    ExtrinsicGaussian,
    ExtrinsicLaplace,
    KNormGradient,
    RiemannianLaplace,
    TangentMeanNoise,
    WrappedGaussian,
    WrappedLaplace,
)
from ..mechanisms._base import PointMechanism
from ..mechanisms._for_mean import ForMeans, MeanFacts
from ..privacy import Budget
from ..statistics._sensitivity import REPLACE_ONE

# The registry of mechanisms for means: those whose errors the plan compares, and baselines.
_COMPARED: tuple[type[ForMeans], ...] = (
    WrappedGaussian,
    RiemannianLaplace,
    WrappedLaplace,
    KNormGradient,
)
_BASELINES: tuple[type[ForMeans], ...] = (ExtrinsicGaussian, ExtrinsicLaplace)
_BY_NAME = {kind.name: kind for kind in (*_COMPARED, *_BASELINES)}

COMPARED = tuple(kind.name for kind in _COMPARED)
EXTRINSIC = tuple(kind.name for kind in _BASELINES)
TANGENT_MEAN = TangentMeanNoise.name  # a mean of its own: it takes records, not a point
OPTIMIZED = ("dp-rgd", "dp-rsgd", "dp-rsvrg")
MECHANISMS = ("auto", *COMPARED, TANGENT_MEAN, *OPTIMIZED, *EXTRINSIC)
NEED_DELTA = (*(name for name, kind in _BY_NAME.items() if kind.needs_delta), *OPTIMIZED)
# "auto" leaves a sampler alone that is expected to take longer than this many tries.
MOST_TRIES = 1e4


def build(
    name: str,
    manifold: AbstractManifold,
    ball: Ball,
    n: int,
    budget: Budget,
    *,
    tolerance: float | None = None,
    weights: ArrayLike | None = None,
    calibration: str = "analytic",
    adjacency: str = REPLACE_ONE,
    gradient: Callable[[Point], Tangent] | None = None,
    shrink: bool = False,
) -> Any:
    """The mechanism `name` for the Frechet mean of n records of `ball`, from public facts.

    Args:
        name: One of `COMPARED` or `EXTRINSIC`.
        manifold: The space.
        ball: The public domain of the records.
        n: Their public number (at least so many, under add-or-remove-one).
        budget: What the release may spend.
        tolerance: Public tolerance of the solver.
        weights: Public weights, or None.
        calibration: "analytic" or "classical".
        adjacency: "replace-one" or "add-or-remove-one".
        gradient: The K-norm mechanism's private gradient. It is stored, not evaluated.
        shrink: Whether the wrapped Gaussian shrinks its releases.
    """
    kind = _BY_NAME[one_of("mechanism", name, (*COMPARED, *EXTRINSIC))]
    facts = MeanFacts(
        manifold, ball, n, budget, tolerance, weights, calibration, adjacency, gradient, shrink
    )
    return kind.for_mean(facts)


def try_build(name: str, *args: Any, **kwargs: Any) -> tuple[PointMechanism | None, str]:
    """(mechanism, "") or (None, why not), without warnings."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SlowSamplerWarning)
            return build(name, *args, **kwargs), ""
    except (InvalidArgument, NotImplementedError) as error:
        return None, str(error)
