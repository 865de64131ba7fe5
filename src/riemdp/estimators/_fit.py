"""`Fit`: a fit of which nothing is left but the charge, the draw, and what follows from it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Generic

from ..inference._counts import warn_of_counts
from ..mechanisms import Release
from ..mechanisms._base import AbstractReady, Made
from ..privacy import Budget, Guarantee
from ._shared import Spending


@dataclasses.dataclass(frozen=True)
class Fit(Generic[Made]):
    """A fit that was admitted: all that can be refused was, but by the ledger.

    Attributes:
        ready: What it releases.
        budget: What it was made for.
        show: Sets the attributes of the estimator: post-processing, which warns of nothing.
    """

    ready: AbstractReady[Made]
    budget: Budget
    show: Callable[[Made], None]


def keep_fit(
    estimator: Spending,
    made: Release | Sequence[Release],
    guarantee: Guarantee,
    budget: Budget,
    reproducible: bool,
) -> None:
    """Remember what a fit cost, and warn of what it released."""
    estimator._keep_cost(guarantee.quoted_at(budget.delta), budget, reproducible=reproducible)
    facts = [one.facts for one in ([made] if isinstance(made, Release) else made)]
    counts = *(each.valid for each in facts), *(each.outside for each in facts)
    warn_of_counts(*counts)
