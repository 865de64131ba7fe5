"""Statistics on manifolds, and how far one record can move them."""

from ._excess import ClippingExcess
from ._frechet_mean import MeanResult, frechet_mean
from ._query import AbstractQuery, AmbientMean, FrechetMean, Records
from ._sensitivity import (
    ambient_mean_sensitivity,
    frechet_mean_sensitivity,
    mean_gradient_sensitivity,
    strong_convexity,
)
from ._tangent_mean import TangentMean
from ._variance import FrechetVariance

__all__ = [
    "AbstractQuery",
    "AmbientMean",
    "ClippingExcess",
    "FrechetMean",
    "FrechetVariance",
    "MeanResult",
    "Records",
    "TangentMean",
    "ambient_mean_sensitivity",
    "frechet_mean",
    "frechet_mean_sensitivity",
    "mean_gradient_sensitivity",
    "strong_convexity",
]
