"""The mechanisms a private mean can use, built from public facts only: what `private_frechet_mean`
runs and the plan compares.
"""

from __future__ import annotations

import warnings
from typing import Any

from .._errors import InvalidArgument, SlowSamplerWarning, one_of
from ..mechanisms import (
    ExtrinsicGaussian,
    ExtrinsicLaplace,
    KNormGradient,
    RiemannianLaplace,
    WrappedGaussian,
    WrappedLaplace,
)
from ..statistics._sensitivity import (
    REPLACE_ONE,
    ambient_mean_sensitivity,
    frechet_mean_sensitivity,
    mean_gradient_sensitivity,
)

COMPARED = ("wrapped-gaussian", "riemannian-laplace", "wrapped-laplace", "k-norm-gradient")
EXTRINSIC = ("extrinsic-gaussian", "extrinsic-laplace")
OPTIMIZED = ("dp-rgd", "dp-rsgd", "dp-rsvrg")
MECHANISMS = ("auto", *COMPARED, *OPTIMIZED, *EXTRINSIC)
NEED_DELTA = ("wrapped-gaussian", "extrinsic-gaussian", *OPTIMIZED)
# "auto" leaves a sampler alone that is expected to take longer than this many tries.
MOST_TRIES = 1e4


def build(
    name: str,
    manifold: Any,
    ball: Any,
    n: int,
    budget: Any,
    *,
    tolerance: float,
    weights: Any = None,
    calibration: str = "analytic",
    adjacency: str = REPLACE_ONE,
    gradient: Any = None,
) -> Any:
    """The mechanism `name` for the Frechet mean of n records of `ball` (at least n, under
    add-or-remove-one). Everything here is public; `gradient` (the K-norm mechanism's private
    gradient) is stored, not evaluated.
    """
    one_of("mechanism", name, (*COMPARED, *EXTRINSIC))
    data: dict[str, Any] = {"weights": weights, "adjacency": adjacency}
    if name in EXTRINSIC:
        ambient = ambient_mean_sensitivity(manifold, ball, n, **data)
        if name == "extrinsic-gaussian":
            return ExtrinsicGaussian(
                manifold,
                sensitivity=ambient,
                budget=budget,
                calibration=calibration,
                adjacency=adjacency,
            )
        return ExtrinsicLaplace(manifold, sensitivity=ambient, epsilon=budget, adjacency=adjacency)
    if name == "k-norm-gradient":
        return KNormGradient(
            manifold,
            objective_gradient=_never if gradient is None else gradient,
            sensitivity=mean_gradient_sensitivity(manifold, ball, n, **data),
            epsilon=budget,
            strong_convexity=ball.on(manifold).strong_convexity,
            ball=ball,
            adjacency=adjacency,
        )
    delta = frechet_mean_sensitivity(manifold, ball, n, tolerance=tolerance, **data)
    common: dict[str, Any] = {"sensitivity": delta, "ball": ball, "adjacency": adjacency}
    if name == "wrapped-gaussian":
        return WrappedGaussian(
            manifold, ball.center, budget=budget, calibration=calibration, **common
        )
    if name == "wrapped-laplace":
        return WrappedLaplace(manifold, ball.center, epsilon=budget, **common)
    return RiemannianLaplace(manifold, epsilon=budget, **common)


def try_build(name: str, *args: Any, **kwargs: Any) -> tuple[Any, str]:
    """(mechanism, "") or (None, why not), without warnings."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SlowSamplerWarning)
            return build(name, *args, **kwargs), ""
    except (InvalidArgument, NotImplementedError) as error:
        return None, str(error)


def public_tolerance(ball: Any) -> float:
    """The tolerance on |grad F| that the mean is solved to: 1e-10 max(1, radius)."""
    return 1e-10 * max(1.0, float(ball.radius))


def _never(x: Any) -> Any:
    raise InvalidArgument(
        "a mechanism that was built for planning has no data and releases nothing"
    )
