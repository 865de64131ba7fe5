"""A mean and how its records spread, under one budget and one charge: what a region of the mean of
their population is made of.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._errors import InvalidArgument, invalid, real
from ..domains import Ball
from ..manifolds import AbstractManifold
from ..manifolds._base import RecordsLike
from ..mechanisms import Release
from ..mechanisms._budgeted import BudgetedNoise
from ..privacy import Budget, Ledger, charge, split_budget
from ..privacy._ledger import uncharged
from ..privacy._sent import refuse_sent
from ..randomness import noise_source
from ..statistics import FrechetMean
from ..statistics._hessian import mean_hessian
from ._mean import private_frechet_mean
from ._tangent_covariance import private_tangent_covariance
from ._variance import private_frechet_variance


def mean_with_dispersion(
    manifold: AbstractManifold,
    X: RecordsLike,
    ball: Ball,
    budget: Budget,
    *,
    n: int,
    share: float,
    ledger: Ledger | None = None,
    **options: Any,
) -> Release:
    """Release the Frechet mean of records in a public ball, and their dispersion beside it.

    The dispersion is the variance about the centre on Hadamard spaces, of which a region for any
    number of records follows. Elsewhere it is the second moment about the released mean, of which
    one by the central limit theorem follows.

    Args:
        manifold: The space.
        X: The records.
        ball: The public ball.
        budget: Of both together.
        n: The public number of records, or of people with `groups`.
        share: The public share of the budget for the dispersion, between 0 and 1: of mu^2, or of
            epsilon where delta = 0.
        ledger: The `Ledger` to charge, once; None charges the innermost.
        **options: Of `private_frechet_mean`: `rng`, `groups`, `shrink`, `clamp_release`,
            `count_outside`.

    Returns:
        `Release.with_dispersion` of both.

    Raises:
        InvalidArgument: An argument cannot be used; nothing is spent.
        BudgetExceeded: The ledger has too little left; nothing is spent.

    Guarantee:
        Replace-one: mu-GDP with mu = 1 / gaussian_noise_multiplier(budget), or (epsilon, 0).
    """
    if not isinstance(ball, Ball):
        raise invalid("ball", ball, "give a public riemdp.Ball(center, radius)")
    share = real("share", share, above=0.0, below=1.0)
    refuse_sent(budget, ledger)
    parts = split_budget(budget, [1.0 - share, share])
    # one law of noise, so that both add up to the budget exactly
    name = "wrapped-gaussian" if budget.delta > 0 else "wrapped-laplace"
    _ = FrechetMean(ball.on(manifold), n).sensitivity  # refuses a ball that is too large
    if not manifold.is_hadamard and mean_hessian(manifold, np.eye(manifold.dim), 1.0) is None:
        raise InvalidArgument(
            f"no region of the mean of a population is known on {manifold!r}; leave out the"
            " dispersion"
        )
    groups = options.get("groups")
    given: dict[str, Any] = {"rng": noise_source(options.get("rng")), "groups": groups}
    whole = BudgetedNoise(budget).guarantee
    charge((whole if groups is None else whole.for_people()).quoted_at(budget.delta), ledger)
    with uncharged():  # `whole`, charged just before, is the cost of both together
        of_mean = {**options, **given, "mechanism": name}
        mean = private_frechet_mean(manifold, X, ball, parts[0], **of_mean)
        if manifold.is_hadamard:
            spread = private_frechet_variance(manifold, X, ball, parts[1], **given)
        else:
            about = Ball(mean.value, float(ball.radius))
            spread = private_tangent_covariance(manifold, X, about, parts[1], **given)
    return mean.with_dispersion(spread, budget=budget)
