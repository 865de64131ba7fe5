"""Statistics on manifolds, and how far one record can move them."""

from ._ambient_mean import AmbientMean as AmbientMean
from ._frechet_mean import MeanResult, frechet_mean
from ._mean_query import FrechetMean
from ._public_prior import PublicPrior
from ._query import Records as Records
from ._sensitivity import frechet_mean_sensitivity
from ._shaped_mean import Shape as Shape
from ._shaped_mean import ShapedMean as ShapedMean
from ._tangent_mean import TangentMean
from ._variance import FrechetVariance as FrechetVariance

__all__ = [
    "FrechetMean",
    "MeanResult",
    "PublicPrior",
    "TangentMean",
    "frechet_mean",
    "frechet_mean_sensitivity",
]
