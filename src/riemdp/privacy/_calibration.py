"""The inverse question: how much noise a budget asks for."""

from __future__ import annotations

import math
from typing import Any

from .._errors import integer, invalid
from ._analytic import gaussian_mu
from ._budget import Budget
from ._guarantee import gaussian


def gaussian_noise_multiplier(budget: Budget, steps: int = 1) -> float:
    """The smallest noise multiplier z with which `steps` full-batch Gaussian releases stay within `budget`.

    z is sigma over the L2 sensitivity. Exact (analytic Gaussian mechanism, any epsilon) and in well under a millisecond.
    **Guarantee:** `gaussian(z, steps)` is within `budget`, replace-one. **Raises** `InvalidArgument` when budget.delta is 0.
    Source: Balle and Wang 2018, Theorem 8; composition by Dong, Roth and Su 2022, Corollary 3.3.
    """
    budget = gaussian_budget(budget)
    steps = integer("steps", steps)
    z = math.sqrt(steps) / gaussian_mu(budget.epsilon, budget.delta)
    while not gaussian(z, steps).within(budget):
        z *= 1 + 1e-13
    return z


def gaussian_budget(budget: Any) -> Budget:
    """Check that Gaussian noise can meet `budget` at all."""
    if not isinstance(budget, Budget):
        raise invalid("budget", budget, "give a riemdp.Budget(epsilon, delta)")
    if budget.delta == 0.0:
        raise invalid("budget", budget, "Gaussian noise needs delta > 0; give one well below 1/n, or use a Laplace mechanism")
    return budget
