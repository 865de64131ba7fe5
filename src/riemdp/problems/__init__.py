"""Losses with per-record Riemannian gradients. No noise here: see `riemdp.optimizers`."""

from ._frechet import frechet_mean, geometric_median, hyperbolic_prediction, prediction_weights
from ._linear import matrix_completion, principal_eigenvector, principal_subspace
from ._networks import (
    class_probabilities,
    embeddings,
    hyperbolic_prototypes,
    random_start,
    spdnet,
)
from ._problem import Problem, check_gradient

__all__ = [
    "Problem",
    "check_gradient",
    "class_probabilities",
    "embeddings",
    "frechet_mean",
    "geometric_median",
    "hyperbolic_prediction",
    "hyperbolic_prototypes",
    "matrix_completion",
    "prediction_weights",
    "principal_eigenvector",
    "principal_subspace",
    "random_start",
    "spdnet",
]
