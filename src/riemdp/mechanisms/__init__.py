"""One release each: (value, sensitivity, budget) -> `Release`.

`AbstractMechanism.release` is the one function that admits a value, charges and draws.
"""

from ._base import AbstractMechanism
from ._drawn import Drawn
from ._extrinsic import ExtrinsicGaussian, ExtrinsicLaplace
from ._for_mean import ForMeans
from ._knorm import KNormGradient, MeanGradient
from ._laplace import RiemannianLaplace
from ._prior_mean import PriorMean as PriorMean
from ._private_ball import AdaptiveMean as AdaptiveMean
from ._private_ball import PrivateBall as PrivateBall
from ._release import Release
from ._tangent import TangentGaussian
from ._tangent_covariance import TangentCovarianceNoise as TangentCovarianceNoise
from ._tangent_mean import TangentMeanNoise as TangentMeanNoise
from ._variance import AdaptiveVariance as AdaptiveVariance
from ._variance import VarianceNoise as VarianceNoise
from ._wrapped import WrappedGaussian
from ._wrapped_laplace import WrappedLaplace

# What `private_frechet_mean` can release by: mechanisms whose errors the plan compares (the first
# of equals is chosen), and baselines.
FOR_MEANS: tuple[type[ForMeans], ...] = (
    WrappedGaussian,
    RiemannianLaplace,
    WrappedLaplace,
    KNormGradient,
)
BASELINES: tuple[type[ForMeans], ...] = (ExtrinsicGaussian, ExtrinsicLaplace)

__all__ = [
    "AbstractMechanism",
    "Drawn",
    "ExtrinsicGaussian",
    "ExtrinsicLaplace",
    "KNormGradient",
    "MeanGradient",
    "Release",
    "RiemannianLaplace",
    "TangentGaussian",
    "WrappedGaussian",
    "WrappedLaplace",
]
