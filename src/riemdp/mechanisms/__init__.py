"""One release each: (value, sensitivity, budget) -> `Release`. Noise is drawn where its guarantee is made."""

from ._error_law import ErrorLaw
from ._gaussian import TangentGaussian, WrappedGaussian
from ._laplace import RiemannianLaplace, WrappedLaplace
from ._release import Release

__all__ = ["ErrorLaw", "Release", "RiemannianLaplace", "TangentGaussian", "WrappedGaussian", "WrappedLaplace"]
