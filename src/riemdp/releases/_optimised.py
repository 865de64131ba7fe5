"""A mean by gradient perturbation: what an optimiser adds to a release."""

from __future__ import annotations

from typing import Any

from .. import problems
from ..domains import Ball, Domain
from ..inference import Facts
from ..mechanisms import Release
from ..optimizers import OPTIMIZERS
from ..optimizers._account import Account
from ..optimizers._minimize import minimized
from ..privacy import Budget, Ledger
from ..randomness import NoiseSource
from ..statistics._sensitivity import frechet_mean_sensitivity

_BY_NAME = {kind.name: kind for kind in OPTIMIZERS}


def optimised(
    name: str,
    local: Domain,
    records: Any,
    n: int,
    budget: Budget,
    of_people: bool,
    rng: int | NoiseSource | None,
    ledger: Ledger | None,
) -> Release:
    """Gradient perturbation from the centre of the ball; the optimiser charges, draws and makes the
    guarantee.
    """
    optimizer, there = _BY_NAME[name].for_mean(), Ball._of(local)
    sensitivity = frechet_mean_sensitivity(local.manifold, there, n)
    problem = problems.frechet_mean(local.manifold, ball=there)
    account = Account(ledger, of_people=of_people)
    result = minimized(problem, records, local.center, optimizer, budget, account=account, rng=rng)
    details = {
        "steps": result.steps,
        "gradient_calls": result.gradient_calls,
        "error": "no formula",
        **dict(result.details),
    }
    # Post-processing: the mean is in the ball, the last iterate need not be.
    value = local.clamp(result.value)
    return Release(
        value=value,
        guarantee=result.guarantee,
        scale=result.sigma,
        mechanism=optimizer.name,
        reproducible=result.reproducible,
        sensitivity=sensitivity,
        facts=Facts.of(details),
        budget=budget,
        words=optimizer.words,
        receipt=result.receipt,
    )
