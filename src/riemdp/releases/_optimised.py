"""A mean by gradient perturbation: what an optimiser adds to a release."""

from __future__ import annotations

from typing import Any

from .. import problems
from .._errors import invalid
from ..domains import Ball, Domain
from ..mechanisms import Release
from ..optimizers import OPTIMIZERS, AbstractOptimizer
from ..optimizers._account import Account
from ..optimizers._minimize import minimized
from ..privacy import Budget, Ledger
from ..randomness import NoiseSource
from ..statistics._sensitivity import frechet_mean_sensitivity

_BY_NAME = {kind.name: kind for kind in OPTIMIZERS}


def optimiser_of(name: str, optimizer: AbstractOptimizer | None) -> AbstractOptimizer:
    """The optimiser of this name: the given one, or else its usual settings for a mean."""
    kind = _BY_NAME[name]
    if optimizer is None:
        return kind.for_mean()
    if not isinstance(optimizer, kind):
        raise invalid("optimizer", optimizer, f"mechanism {name!r} needs a {kind.__name__}(...)")
    if optimizer.counts_are_private:
        raise invalid(
            "optimizer",
            optimizer,
            "Poisson batches and allocation are accounted for under add-or-remove-one, and this"
            ' release is replace-one; use sampling="without-replacement", or'
            " riemdp.private_minimize",
        )
    return optimizer


def optimised(
    optimizer: AbstractOptimizer,
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
    there = Ball._of(local)
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
    value = local.clamp_point(result.value)
    return Release(
        value,
        result.guarantee,
        result.sigma,
        optimizer.name,
        result.reproducible,
        sensitivity,
        None,
        details,
        budget,
        optimizer.words,
        receipt=result.receipt,
    )
