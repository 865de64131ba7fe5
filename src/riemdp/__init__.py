"""Differential privacy on Riemannian manifolds.

What one does with it:

    space = riemdp.SPDAffineInvariant(3)                  # where the records live
    budget = riemdp.Budget(epsilon=1.0, delta=1e-5)       # what the release may cost
    riemdp.plan_private_mean(space, riemdp.AdaptiveBall(), 1000, budget)   # before any is spent
    release = riemdp.private_frechet_mean(space, X, budget=budget)
    release.value, release.guarantee                      # these may be published
    riemdp.report.privacy_report(release).save("report.html")

`riemdp.PrivateMDM`, `riemdp.PrivatePCA` and others are scikit-learn estimators,
`riemdp.private_minimize` takes a loss of your own, `with riemdp.Ledger(budget):` keeps one budget
over many releases, and `riemdp.check_records(space, X)` says which records are no points. The
command line is `riemdp --help`.

Releases compute with NumPy. `riemdp.private_minimize`, and geometry that is given JAX arrays, use
JAX, which importing this package switches to float64 (or raises `riemdp.PrecisionError` where that
is forbidden). Packages are imported on first use.
"""

from __future__ import annotations

import importlib
import logging
from typing import Any

from ._errors import (
    BudgetExceeded,
    ConvergenceWarning,
    DataUnavailable,
    InvalidArgument,
    MissingExtra,
    NotPrivateWarning,
    PrecisionError,
    RiemdpError,
    RiemdpWarning,
    SlowSamplerWarning,
    SpreadWarning,
    require_float64,
    require_order,
)
from ._version import __version__

require_float64()
require_order()
# Log lines carry counts and states, never data or noise.
logging.getLogger(__name__).addHandler(logging.NullHandler())

# Package -> the public names that it gives to the top. `tests/test_public_names.py` compares this
# table with each package's __all__, and with `__init__.pyi`, which type checkers and the
# documentation read.
_PACKAGES: dict[str, tuple[str, ...]] = {
    "manifolds": (
        "AbstractManifold",
        "Euclidean",
        "Grassmann",
        "KendallShapes",
        "Lorentz",
        "PoincareBall",
        "Product",
        "SPDAffineInvariant",
        "SPDBuresWasserstein",
        "SPDLogEuclidean",
        "SpecialOrthogonal",
        "Sphere",
        "Stiefel",
        "spd",
    ),
    "randomness": ("NoiseSource", "noise_source"),
    "sampling": ("riemannian_laplace",),
    "domains": ("AdaptiveBall", "Ball", "Domain", "check_records"),
    "privacy": (
        "Budget",
        "Guarantee",
        "Ledger",
        "allocated_gaussian",
        "allocated_gaussian_noise_multiplier",
        "approximate",
        "gaussian",
        "gaussian_noise_multiplier",
        "none",
        "participation",
        "pure",
        "session_ledger",
        "subsampled_gaussian",
        "subsampled_gaussian_noise_multiplier",
    ),
    "statistics": ("MeanResult", "PublicPrior", "frechet_mean", "frechet_mean_sensitivity"),
    "inference": ("Region", "two_sample_test"),
    "mechanisms": (
        "AbstractMechanism",
        "ExtrinsicGaussian",
        "ExtrinsicLaplace",
        "KNormGradient",
        "Release",
        "RiemannianLaplace",
        "TangentGaussian",
        "WrappedGaussian",
        "WrappedLaplace",
    ),
    "problems": ("Problem", "check_gradient"),
    "optimizers": ("DPRGD", "DPRSGD", "DPRSVRG", "OptimizationResult", "private_minimize"),
    "releases": (
        "GeodesicModel",
        "plan_mean_direction",
        "plan_geodesic_regression",
        "plan_k_means",
        "plan_private_comparison",
        "plan_private_mean",
        "private_ball",
        "private_comparison",
        "private_frechet_mean",
        "private_frechet_variance",
        "private_geodesic_regression",
        "private_geometric_median",
        "private_k_means",
        "private_mean_direction",
        "private_paired_samples",
        "private_two_sample",
    ),
    "federated": ("PriRFed", "run_in_process", "validate_reply"),
    "estimators": (
        "PrivateFrechetMean",
        "PrivateMDM",
        "PrivatePCA",
        "PrivatePGA",
        "PrivateSearchCV",
        "PrivateTLCenter",
        "PrivateTLRotate",
        "PrivateTLScale",
        "PrivateTSClassifier",
        "PrivateTSRegressor",
        "PrivateTangentSpace",
        "plan_private_classifier",
        "plan_private_regressor",
        "plan_private_search",
    ),
    "audit": (
        "audit_mechanism",
        "audit_optimizer",
        "epsilon_lower_bound",
        "gaussian_mu_lower_bound",
    ),
    "datasets": (),
    "plots": (),
    "report": (),
    "cli": (),
}
_HOME = {name: package for package, names in _PACKAGES.items() for name in names}

__all__ = [  # pyright: ignore[reportUnsupportedDunderAll] - the table above is the list
    "BudgetExceeded",
    "ConvergenceWarning",
    "DataUnavailable",
    "InvalidArgument",
    "MissingExtra",
    "NotPrivateWarning",
    "PrecisionError",
    "RiemdpError",
    "RiemdpWarning",
    "SlowSamplerWarning",
    "SpreadWarning",
    "__version__",
    *_PACKAGES,
    *_HOME,
]


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _HOME:
        value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
