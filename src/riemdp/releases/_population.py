"""A mean and how its records spread, under one budget and one charge: what a region of the mean of
their population is made of.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from .._errors import InvalidArgument, invalid, real
from ..domains import Ball
from ..manifolds import AbstractManifold
from ..manifolds._base import RecordsLike
from ..mechanisms import Release, TangentCovarianceNoise
from ..privacy import Budget, Ledger, charge
from ..privacy._ledger import refuse_sent
from ..privacy._noise import Noise
from ..randomness import noise_source
from ..statistics import FrechetMean
from ..statistics._hessian import mean_hessian
from ._mean import prepared_mean
from ._prepared import Prepared
from ._tangent_covariance import prepared_covariance
from ._variance import prepared_variance


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
        **options: Of `private_frechet_mean`: `rng`, `groups`, `count_outside`.

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
    noise = Noise.of(budget)
    parts = noise.share(1 - Fraction(share)), noise.share(share)
    # one law of noise, so that both add up to the budget exactly
    name = "wrapped-gaussian" if budget.delta > 0 else "wrapped-laplace"
    _ = FrechetMean(ball.on(manifold), n).sensitivity  # refuses a ball that is too large
    if not manifold.is_hadamard and mean_hessian(manifold, np.eye(manifold.dim), 1.0) is None:
        raise InvalidArgument(
            f"no region of the mean of a population is known on {manifold!r}; leave out the"
            " dispersion"
        )
    groups = options.get("groups")
    source = noise_source(options.pop("rng", None))
    of_mean = prepared_mean(manifold, X, ball, parts[0], mechanism=name, **options)
    assert isinstance(of_mean, Prepared)
    of_spread = None
    if manifold.is_hadamard:
        of_spread = prepared_variance(manifold, X, ball, parts[1], groups=groups)
    else:  # about the mean that is released first; what can be refused of it is refused here
        TangentCovarianceNoise(manifold, ball, n=n, budget=parts[1])._check_noise()
    whole = noise.guarantee
    whole = (whole if groups is None else whole.for_people()).quoted_at(budget.delta)
    with charge(whole, ledger) as permit:
        mean = of_mean.within(source, permit)
        if of_spread is None:
            about = Ball(mean.value, float(ball.radius))
            of_spread = prepared_covariance(manifold, X, about, parts[1], groups=groups)
        spread = of_spread.within(source, permit)
    return mean.with_dispersion(spread, budget=budget)
