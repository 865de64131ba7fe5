"""The plan of a private mean where public records of the same kind are known."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from ..manifolds import AbstractManifold
from ..mechanisms import PriorMean
from ..privacy import Budget
from ..statistics import PublicPrior
from ..statistics._prior_constants import USELESS_NOISE
from ._table import Column, Plan, PlanRow, budget_columns, figure, several_budgets

ALONE = "the public model alone"


@dataclasses.dataclass(frozen=True, kw_only=True)
class PriorRow(PlanRow):
    """One budget of a mean with a public prior. `expected_error` is that of the mean shrunk towards
    the public one, if the private people are to the public ones as these are to each other; it
    leaves out what clipping does.

    Attributes:
        stages: How many noisy means there are.
        noise: Root mean square length of the noise, before shrinking.
        public_error: What the public mean alone is expected to be wrong by; None where it was not
            measured.
        alone: Whether the public mean alone is as good.
    """

    stages: int = 0
    noise: float | None = None
    public_error: float | None = None
    alone: bool = False


_COLUMNS: tuple[Column[PriorRow], ...] = (
    *budget_columns(),
    Column("stages", lambda row: str(row.stages)),
    Column("noise", lambda row: figure(row.noise, 3)),
    Column("public mean alone", lambda row: figure(row.public_error, 3)),
    Column("together", lambda row: figure(row.expected_error, 3)),
    Column("note", lambda row: row.note),
)
_MEASURED = (
    "The error of the public mean alone is measured on public people, each compared with the"
    " others. Where the private people are unlike the public ones it is larger, and so is that of"
    " both together: a public Ball with noise that is not shaped can then be better"
)
_NOT_MEASURED = (
    "What the public mean alone is worth is not known: give the public records of several people,"
    " PublicPrior(..., people=labels)"
)


def plan_prior_mean(
    manifold: AbstractManifold,
    prior: PublicPrior,
    n: int,
    budgets: Budget | float | Sequence[Budget | float],
) -> Plan[PriorRow]:
    """What a mean of n records with a public prior is expected to give, from public numbers."""
    prior.on(manifold)
    title = f"Private mean with {prior!r}: n = {n}, replace-one neighbours"
    note = _NOT_MEASURED if prior.error is None else _MEASURED
    rows = tuple(_row(prior, n, budget) for budget in several_budgets(budgets))
    return Plan(title, rows, _COLUMNS, (note,))


def _row(prior: PublicPrior, n: int, budget: Budget) -> PriorRow:
    if budget.delta == 0.0:
        return PriorRow(mechanism=PriorMean.name, budget=budget, note="needs delta > 0")
    mechanism = PriorMean(prior.manifold, prior, n=n, budget=budget)
    noise, public = mechanism.noise_length, prior.error
    together = noise if public is None else noise * public / math.hypot(noise, public)
    alone = public is not None and noise > USELESS_NOISE * public
    return PriorRow(
        mechanism=PriorMean.name,
        budget=budget,
        note=ALONE if alone else "",
        eligible=True,
        typical_error=together,
        expected_error=together,
        stages=len(mechanism.stages),
        noise=noise,
        public_error=public,
        alone=alone,
    )
