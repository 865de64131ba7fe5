"""One release each: (value, sensitivity, budget) -> `Release`. Noise is drawn where its guarantee
is made.
"""

from ._base import AbstractMechanism
from ._error_law import ErrorLaw
from ._extrinsic import ExtrinsicGaussian, ExtrinsicLaplace
from ._gaussian import TangentGaussian, WrappedGaussian
from ._knorm import KNormGradient, MeanGradient
from ._laplace import RiemannianLaplace, WrappedLaplace
from ._private_ball import AdaptiveMean, PrivateBall
from ._release import Release

__all__ = [
    "AbstractMechanism",
    "AdaptiveMean",
    "ErrorLaw",
    "ExtrinsicGaussian",
    "ExtrinsicLaplace",
    "KNormGradient",
    "MeanGradient",
    "PrivateBall",
    "Release",
    "RiemannianLaplace",
    "TangentGaussian",
    "WrappedGaussian",
    "WrappedLaplace",
]
