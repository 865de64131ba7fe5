"""`private_mean_direction`: the mean direction of scattered directions or axes, and its plan."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from .._errors import integer, invalid, real
from ..domains._door import admit_manifold, admit_records
from ..inference._direction import MeanDirection, resultant_of
from ..manifolds import AbstractManifold, Grassmann, Sphere
from ..manifolds._base import RecordsLike
from ..manifolds._spectral import pack
from ..mechanisms import Release
from ..mechanisms._direction import MeanDirectionNoise
from ..privacy import Budget, Ledger
from ..privacy._cautions import warn_of
from ..privacy._ledger import refuse_sent
from ..randomness import NoiseSource
from ..statistics._membership import Membership, unit_of
from ._options import required_budget
from ._table import Column, Plan, PlanRow, budget_columns, figure, several_budgets

_CLIPPED = "every record counts with length 1; a record that is not a valid point counts as 0"
_PEOPLE = (
    "every person counts once, by the mean over that person's records; a record that is not a"
    " valid point counts as 0"
)


def private_mean_direction(
    manifold: AbstractManifold,
    X: RecordsLike,
    budget: Budget,
    *,
    groups: object = None,
    rng: int | NoiseSource | None = None,
    ledger: Ledger | None = None,
) -> Release:
    """Release the mean direction of private unit vectors, or the principal axis of private axes,
    with its concentration and its cone of confidence.

    It takes one noisy mean and no ball, so records may be scattered over the whole sphere. Records
    that lie close together, in a ball that is known to the public, have less noise with
    `private_frechet_mean` (docs/howto/spaces.md says from which concentration on).

    Args:
        manifold: `Sphere(p)` for directions; `Grassmann(p, 1)` for axes, where x and -x are the
            same record, given as (p, 1).
        X: n >= 1 records, a list of them or (n, *manifold.shape). n is public. A record that is no
            point of the space counts as 0, which points nowhere.
        budget: `Budget(epsilon, delta)`; delta = 0 gives pure epsilon.
        groups: One label of a person for each record. Then each person counts once, by the mean
            over that person's records, n is the number of people, and everything of one person is
            protected.
        rng: None (operating system), an int (reproducible, not private) or a `NoiseSource`.
        ledger: The `Ledger` to charge, once and before the first draw; None charges the innermost
            `with Ledger(...)`, if any.

    Returns:
        A `Release` whose value is the direction, a point of `manifold`. In `release.facts`:
        `resultant`, the mean resultant length R from 0 to 1, and `resultant_noise`, the standard
        deviation of its noise; `concentration`, kappa of von Mises and Fisher (of axes: Watson),
        infinite where noise hides that R is below 1; `cone`, half the angle in radians of the cone
        that holds the population's mean direction with probability 0.95, by noise and sampling
        under that distribution, or pi (of axes pi / 2) where no direction can be said.
        `release.details["moment"]` is the noisy mean itself.
        `release.confidence_region(level, of)` gives the cone of another level, and that of the
        records' own direction.

    Raises:
        InvalidArgument: An argument is out of range, or the space is another one. Nothing was
            spent.
        BudgetExceeded: The ledger refuses. Nothing was spent.

    Guarantee:
        `release.guarantee`, within `budget`, replace-one, for records whatever they are:
        sensitivity 2 / n, for axes sqrt(2) / n, and mu-GDP with mu = 1 /
        gaussian_noise_multiplier(budget), or (epsilon, 0). With `groups` neighbours differ in
        everything of one person (docs/proofs/people.md).

    Source:
        Mardia and Jupp 2000, sections 9.3, 10.3 and 10.4.
        Proof: docs/proofs/confidence-region.md.

    Examples:
        >>> import numpy as np, riemdp
        >>> X = np.random.default_rng(0).normal(size=(2000, 3)) + [0.0, 0.0, 1.0]
        >>> X /= np.linalg.norm(X, axis=1, keepdims=True)
        >>> budget = riemdp.Budget(1.0, 1e-6)
        >>> mean = riemdp.private_mean_direction(riemdp.Sphere(3), X, budget, rng=0)
        >>> bool(mean.value[2] > 0.99), round(mean.facts.resultant, 1)
        (True, 0.5)
    """
    refuse_sent(budget, ledger)
    order = "private_mean_direction(manifold, X, budget)"
    manifold = of_directions(admit_manifold(manifold, X, order))
    budget = required_budget(budget, None)
    records, rows = admit_records(manifold, "X", X)
    members = None if groups is None else Membership(groups, rows)
    n = rows if members is None else members.n
    people = members is not None
    mechanism = MeanDirectionNoise(manifold, n=n, budget=budget, people=people)
    ready = mechanism._ready((records, members), unit_of(members))
    warn_of(ready.guarantee, budget.delta, n)
    told = {"clipping": _PEOPLE, "people": n} if people else {"clipping": _CLIPPED}
    return ready.release(rng, ledger)._knowing({"budget": budget, **told})


def of_directions(manifold: AbstractManifold) -> AbstractManifold:
    """A space of directions or axes, or the error that names those."""
    if isinstance(manifold, Sphere) or (isinstance(manifold, Grassmann) and manifold.r == 1):
        return manifold
    raise invalid(
        "manifold",
        manifold,
        "a mean direction is for unit vectors, riemdp.Sphere(p), or axes, riemdp.Grassmann(p, 1);"
        " for other spaces take private_frechet_mean",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class DirectionRow(PlanRow):
    """One budget and concentration of a `plan_mean_direction`.

    Attributes:
        concentration: kappa that was assumed.
        resultant: The mean resultant length that belongs to it.
        cone: The 95 % cone that is to be expected, in radians; pi (of axes pi / 2) where no
            direction can be said.
        sample_cone: The same from noise alone.
    """

    concentration: float
    resultant: float
    cone: float
    sample_cone: float


_COLUMNS: tuple[Column[DirectionRow], ...] = (
    *budget_columns(),
    Column("kappa", lambda row: f"{row.concentration:g}"),
    Column("R", lambda row: figure(row.resultant, 3)),
    Column("cone, degrees", lambda row: figure(math.degrees(row.cone), 3)),
    Column("from noise alone", lambda row: figure(math.degrees(row.sample_cone), 3)),
)


def plan_mean_direction(
    manifold: AbstractManifold,
    n: int,
    budgets: Budget | Sequence[Budget],
    concentrations: Sequence[float] = (1.0, 2.0, 10.0, 100.0),
) -> Plan[DirectionRow]:
    """The cone that a private mean direction is expected to have, before any data are seen.

    Args:
        manifold: `Sphere(p)`, or `Grassmann(p, 1)` for axes.
        n: The public number of records, or of people.
        budgets: A `Budget` or a list of them.
        concentrations: Values of kappa to plan for, above 0: of von Mises and Fisher, of axes
            Watson's. About 1 is widely scattered, 100 is within 10 degrees.

    Returns:
        A `Plan` with a row for each budget and concentration; `print` shows the table.

    Raises:
        InvalidArgument: An argument is out of range.

    Examples:
        >>> import riemdp
        >>> plan = riemdp.plan_mean_direction(riemdp.Sphere(3), 3000, riemdp.Budget(1.0, 1e-6))
        >>> round(plan[1].concentration), round(plan[1].cone, 3)
        (2, 0.045)
    """
    manifold, n = of_directions(manifold), integer("n", n)
    rows = tuple(
        _planned(manifold, n, budget, real("concentrations", kappa, above=0.0))
        for budget in several_budgets(budgets)
        for kappa in concentrations
    )
    return Plan(f"Private mean direction: {manifold!r}, n = {n}", rows, _COLUMNS)


def _planned(manifold: AbstractManifold, n: int, budget: Budget, kappa: float) -> DirectionRow:
    """The figures of a release without error, of records with exactly this concentration."""
    mechanism, columns = MeanDirectionNoise(manifold, n=n, budget=budget), manifold.shape[0]
    is_of_axes = isinstance(manifold, Grassmann)
    resultant = float(resultant_of(kappa, columns, 2 if is_of_axes else 1))
    exact = resultant * np.eye(columns)[0]
    if is_of_axes:
        exact = np.asarray(pack(np.diag(exact + (1.0 - resultant) / columns)))
    expected = MeanDirection(manifold, exact, mechanism.lengths, n)
    return DirectionRow(
        mechanism=mechanism.name,
        budget=budget,
        concentration=kappa,
        resultant=resultant,
        cone=expected.cone(),
        sample_cone=expected.cone(of="sample"),
    )
