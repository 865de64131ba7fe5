"""Runs that are repeated on made-up or public data, for curves of risk: many at once, as the
library's audits make them. NOT PRIVATE: what all of them show together is charged to nobody.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from riemdp import Budget, Problem
from riemdp.audit._optimizers import replicate
from riemdp.optimizers import AbstractOptimizer


def repeated(
    problem: Problem,
    data: Any,
    start: Any,
    optimizer: AbstractOptimizer,
    *,
    runs: int,
    noise_std: float | None = None,
    budget: Budget | None = None,
    rng: int | None = None,
) -> np.ndarray:
    """The outputs of many runs of one optimiser, with a leading axis for them."""
    values, _ = replicate(
        problem,
        data,
        start,
        optimizer,
        repetitions=runs,
        noise_std=noise_std,
        budget=budget,
        rng=rng,
    )
    return np.asarray(values)
