"""What a private search for a setting costs and is expected to do, from public numbers alone."""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar

from .._errors import integer, real
from ..privacy import Budget
from ..privacy._noise import Noise
from ..privacy._selection import budget_of_run
from ..releases._table import Column, Plan, PlanRow, budget_columns


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchRow(PlanRow):
    """What `PrivateSearchCV` does with n records, decided before any of them is read.

    Attributes:
        n: The public number of records, or of people.
        settings: The number of settings.
        runs: The mean of the number of runs; `mechanism` names its distribution.
        held: How many records are held out for the scores.
        one: The `Budget` of one run.
        noise: The noise of the fit that is shown over that of one fit to all records with the whole
            budget, for what has noise inverse to n.
        each: The same for one fit of every setting, with a share of the budget each.
        tried: The probability that a given setting is tried.
        none: The probability that there is no run at all.
        deviation: The standard deviation of the noise of a score.
    """

    hopeless: ClassVar[float] = 0.1

    n: int
    settings: int
    runs: int
    held: int
    one: Budget
    noise: float
    each: float
    tried: float
    none: float
    deviation: float

    @property
    def is_useless(self) -> bool:
        """Whether a fit says so, before it spends anything."""
        return self.deviation > self.hopeless

    @property
    def told(self) -> str:
        """What it says then."""
        return (
            f"scores have noise of standard deviation {self.deviation:.2g}, above"
            f" {self.hopeless:g}: the best setting is hardly known from any other"
            " (riemdp.plan_private_search). Take a setting without a search"
        )


_COLUMNS: tuple[Column[SearchRow], ...] = (
    *budget_columns(),
    Column("runs", lambda row: f"{row.mechanism}, mean {row.runs}"),
    Column("epsilon of one", lambda row: f"{row.one.epsilon:.3g}"),
    Column("held out", lambda row: f"{row.held:,}"),
    Column("noise of a score", lambda row: f"{row.deviation:.2g}"),
    Column("a setting is tried", lambda row: f"{100 * row.tried:.0f} %"),
    Column("noise, times", lambda row: f"{row.noise:.2f}"),
    Column("each once, times", lambda row: f"{row.each:.2f}"),
)


def plan_private_search(
    settings: int,
    n: int,
    budget: Budget,
    *,
    runs: int = 10,
    held_out: float = 0.25,
) -> Plan[SearchRow]:
    """Say before any budget is spent what a search for a setting costs: how much more noise the fit
    has than one with the whole budget, and how well scores tell settings apart.

    Args:
        settings: The number of settings, at least 1.
        n: The public number of records, or of people, at least 2.
        budget: The budget of the whole search.
        runs: As for `PrivateSearchCV`.
        held_out: As for `PrivateSearchCV`.

    Returns:
        A `Plan` of one `SearchRow`.

    Raises:
        InvalidArgument: An argument is out of range.

    Examples:
        >>> import riemdp
        >>> row = riemdp.plan_private_search(4, 2000, riemdp.Budget(1.0, 1e-5))[0]
        >>> round(row.noise, 1), round(row.each, 1), round(row.tried, 2)
        (2.6, 2.7, 0.92)
    """
    settings, n = integer("settings", settings), integer("n", n, at_least=2)
    runs = integer("runs", runs, at_most=10_000)
    held_out = real("held_out", held_out, above=0.0, below=1.0)
    held = min(max(1, round(held_out * n)), n - 1)
    whole, one = Noise.of(budget), budget_of_run(budget, runs)
    rest = n / (n - held)
    missed = 1.0 - 1.0 / settings
    if whole.is_pure:
        untried = missed / (runs - (runs - 1) * missed)
    else:
        untried = math.exp(-runs / settings)
    noise = Noise.of(one)
    row = SearchRow(
        mechanism="geometric" if whole.is_pure else "Poisson",
        budget=budget,
        n=n,
        settings=settings,
        runs=runs,
        held=held,
        one=one,
        noise=rest * noise.multiplier / whole.multiplier,
        each=rest * whole.share(1.0 / settings).multiplier / whole.multiplier,
        tried=1.0 - untried,
        none=0.0 if whole.is_pure else math.exp(-runs),
        deviation=noise.count_deviation() / held,
    )
    title = f"Private search among {settings} settings, n = {n}"
    return Plan(title, (row,), _COLUMNS, (_NOTE,))


_NOTE = (
    "times: the noise of what is shown, over that of one fit to all records with the whole budget;"
    " each once: of a fit of every setting with its share of the budget, whose scores are shown too"
)
