"""What it costs to show the best of a random number of runs, and what one of them may spend.

Papernot and Steinke 2022 (arXiv 2110.03620): runs are independent, their number is secret, and the
best alone is shown. Proof: docs/proofs/private-search.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from .._errors import InvalidArgument
from . import _open_ledgers
from ._budget import Budget
from ._calibration import calibrate, gaussian_noise_multiplier
from ._constructors import gaussian
from ._guarantee import Guarantee
from ._permit import Permit
from .accounting.bounds import largest_loss
from .accounting.events import GaussianEvent, PureEvent, SelectedGaussianEvent

_PURE = 3.0  # times epsilon of one run, with a geometric number of them


def selected(one: Guarantee, runs: int) -> Guarantee:
    """What the best of a random number of runs costs, with mean `runs`, each of which costs `one`:
    Poisson of Gaussian runs, geometric (1, 2, ...) of pure ones.
    """
    if all(isinstance(part, PureEvent) for part in one.parts):
        epsilon = math.nextafter(_PURE * float(largest_loss(one.parts)), math.inf)
        return replace(one, parts=(PureEvent(epsilon),))
    (part,) = one.parts
    assert isinstance(part, GaussianEvent)
    return replace(one, parts=(SelectedGaussianEvent(part.squared_mu**-0.5, runs),))


def permits_of_runs(permit: Permit, one: Guarantee, runs: int) -> Callable[[], Permit]:
    """All of a permit, for independent runs of which the best alone is shown, each at the cost
    `one`: makes the permit of one more run. Their number is drawn as `selected` says.
    """
    permit.take(selected(one, runs))
    return lambda: Permit(one, permit.receipt, permit._over)


def budget_of_run(budget: Budget, runs: int) -> Budget:
    """What one run may spend, so that showing the best of them stays within the budget.

    Raises:
        InvalidArgument: One run would have less than the delta of the budget alone.
    """
    if budget.delta == 0.0:
        one = Budget(budget.epsilon / _PURE * (1.0 - 1e-15))
    else:
        guess = 2.0 * gaussian_noise_multiplier(budget)
        z = calibrate(lambda z: selected(gaussian(z), runs), budget, guess=guess)
        epsilon = gaussian(z).epsilon(budget.delta)
        if not epsilon > 0.0:
            raise InvalidArgument(
                f"argument `budget` = {budget}: one of {runs} runs would have less than its delta"
                " alone; give a larger budget, or fewer runs. Nothing was spent"
            )
        one = Budget(epsilon * (1.0 - 1e-9), budget.delta)  # for the rounding of two calibrations
    _open_ledgers.passed_on(budget, one)
    return one
