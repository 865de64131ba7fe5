"""Budgets, guarantees, accounting, calibration and the ledger."""

from .._errors import (
    BudgetExceeded,
    InvalidArgument,
    PrecisionError,
    RiemdpError,
    RiemdpWarning,
)
from ..domains import Ball
from ._budget import Budget
from ._calibration import calibrate, gaussian_noise_multiplier, subsampled_gaussian_noise_multiplier
from ._guarantee import (
    Guarantee,
    approximate,
    gaussian,
    none,
    participation,
    pure,
    subsampled_gaussian,
)
from ._ledger import Ledger, charge

__all__ = [
    "Ball",
    "Budget",
    "BudgetExceeded",
    "Guarantee",
    "InvalidArgument",
    "Ledger",
    "PrecisionError",
    "RiemdpError",
    "RiemdpWarning",
    "approximate",
    "calibrate",
    "charge",
    "gaussian",
    "gaussian_noise_multiplier",
    "none",
    "participation",
    "pure",
    "subsampled_gaussian",
    "subsampled_gaussian_noise_multiplier",
]
