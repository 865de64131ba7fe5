"""Budgets, guarantees, accounting, calibration and the ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._errors import (
    BudgetExceeded,
    InvalidArgument,
    PrecisionError,
    RiemdpError,
    RiemdpWarning,
)
from ._budget import Budget
from ._calibration import (
    allocated_gaussian_noise_multiplier,
    calibrate,
    gaussian_noise_multiplier,
    subsampled_gaussian_noise_multiplier,
)
from ._constructors import (
    allocated_gaussian,
    approximate,
    gaussian,
    pure,
    subsampled_gaussian,
)
from ._guarantee import Guarantee, none
from ._ledger import Ledger, charge, session_ledger
from ._other_libraries import from_diffprivlib, from_opendp
from ._participation import participation
from ._replacement import replace_one
from ._shares import split_budget

if TYPE_CHECKING:
    from ..domains import Ball

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
    "allocated_gaussian",
    "allocated_gaussian_noise_multiplier",
    "approximate",
    "calibrate",
    "charge",
    "from_diffprivlib",
    "from_opendp",
    "gaussian",
    "gaussian_noise_multiplier",
    "none",
    "participation",
    "pure",
    "replace_one",
    "session_ledger",
    "split_budget",
    "subsampled_gaussian",
    "subsampled_gaussian_noise_multiplier",
]


def __getattr__(name: str) -> Any:
    """`Ball` on first use: budgets and ledgers need no JAX, which balls bring."""
    if name == "Ball":
        from ..domains import Ball

        return Ball
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
