"""Means that are parts of an estimator: how they are released, and whether there are enough
records. Public numbers only.
"""

from __future__ import annotations

from typing import Any

from ..domains import AdaptiveBall, Ball
from ..manifolds import AbstractManifold
from ..mechanisms import AdaptiveMean
from ..privacy import Budget
from ..privacy._noise import Noise
from ..statistics import FrechetMean


def composable(
    ball: Ball | AdaptiveBall, budget: Budget, count_outside: bool | None
) -> dict[str, Any]:
    """How a mean in a public ball is released, so that all steps of a pipeline add up exactly: one
    law of noise, whatever n is. A search uses that law anyway, and counts what is outside in any
    case. A count of records outside a public ball shares the budget of its mean.
    """
    if isinstance(ball, AdaptiveBall):
        return {} if count_outside is None else {"count_outside": count_outside}
    name = "wrapped-gaussian" if budget.delta > 0 else "wrapped-laplace"
    return {"mechanism": name, "count_outside": count_outside}


def check_size(
    manifold: AbstractManifold, ball: Ball | AdaptiveBall, n: int, budget: Budget | Noise
) -> None:
    """Raise, from public numbers, where n records are not enough for a private mean."""
    if isinstance(ball, AdaptiveBall):
        AdaptiveMean(manifold, ball, n=n, budget=budget).plan.check()
    else:
        _ = FrechetMean(ball.on(manifold), n).sensitivity
