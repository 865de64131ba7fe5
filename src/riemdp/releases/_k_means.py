"""`private_k_means`: the centres of clusters, released with a guarantee; and its plan."""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._errors import integer, invalid
from .._trees import map_leaves
from ..domains import AdaptiveBall, Ball
from ..domains._door import admit_manifold, admit_records
from ..domains._points import admit_point
from ..inference._counts import warn_of_counts
from ..manifolds import AbstractManifold
from ..manifolds._base import Point, RecordsLike
from ..mechanisms import Release
from ..mechanisms._k_means import CLIP, KMeansNoise
from ..privacy import Budget, Ledger
from ..privacy._cautions import warn_of
from ..privacy._ledger import refuse_sent
from ..randomness import NoiseSource
from ..statistics._membership import Membership, unit_of
from ._options import ball_or_search, required_budget
from ._search_left import columns_of_search, what_is_left
from ._table import Column, Plan, PlanRow, budget_columns, figure, several_budgets

_ROUNDS = 6
_PERSON_IS = (
    "one vector in each round: the mean over that person's records of what each adds to the sum and"
    " the size of its cluster"
)


def private_k_means(
    manifold: AbstractManifold,
    X: RecordsLike,
    clusters: int | Point,
    ball: Ball | AdaptiveBall | None = None,
    budget: Budget | None = None,
    *,
    rounds: int = _ROUNDS,
    groups: object = None,
    rng: int | NoiseSource | None = None,
    ledger: Ledger | None = None,
) -> Release:
    """Release the centres of clusters of records: k-means, by rounds of Lloyd's algorithm.

    In each round a record belongs to the nearest released centre. Its tangent vector there,
    shortened to half the radius of the ball, is added to the sum of that cluster, and the noisy
    sums and sizes move the centres. One whose records noise hides goes next to the centre of the
    largest cluster, and stays in the last round.

    Args:
        manifold: A space with a logarithm.
        X: n records, (n, *manifold.shape); n is public. What is no point is in no cluster.
        clusters: Their public number k, whose centres start at points that fill half of the ball;
            or k public points, (k, *manifold.shape), to start from.
        ball: A public `Ball`, or an `AdaptiveBall`, which is found with a public share of the
            budget; None means `AdaptiveBall()`. The curvature does not limit the radius.
        budget: `Budget(epsilon, delta)`, required; delta = 0 gives pure epsilon.
        rounds: How often the centres move, public. Noise grows with its root.
        groups: One label of a person for each record. Then everything of one person is protected,
            each counts once, in the clusters of that person's records, and n is the number of
            people.
        rng: None (operating system), an int (reproducible, not private) or a `NoiseSource`.
        ledger: The `Ledger` to charge, once and before the first draw; None charges the innermost
            `with Ledger(...)`, if any.

    Returns:
        A `Release` whose value holds the k centres, (k, *manifold.shape); `details["sizes"]` are
        the noisy sizes of the clusters before the last move. The nearest centre of a record is no
        part of it, and private where the record is.

    Raises:
        InvalidArgument: An argument is out of range, or n is too small for a search (from public
            numbers only). Nothing was spent.
        NotImplementedError: The space has no logarithm. Nothing was spent.
        BudgetExceeded: The ledger refuses. Nothing was spent.

    Guarantee:
        Replace-one: mu-GDP with mu = 1 / gaussian_noise_multiplier(budget), or (epsilon, 0). All
        sums (over the length that vectors are shortened to) and sizes of a round move together by
        at most 2, with noise for an equal share of the budget. With `groups` neighbours differ in
        everything of one person.

    Source:
        Su, Cao, Li, Bertino and Jin 2016 (private Lloyd's algorithm).
        Proof: docs/proofs/classifiers.md, Lemmas 21 to 23.

    Examples:
        >>> import numpy as np, riemdp
        >>> rng, space = np.random.default_rng(0), riemdp.Sphere(3)
        >>> X = np.repeat([[1.0, 0.0, 0.0], [0.0, 0.6, 0.8]], 1000, axis=0)
        >>> X = space.project(X + 0.2 * rng.normal(size=X.shape))
        >>> ball = riemdp.Ball(space.origin, 2.0)
        >>> release = riemdp.private_k_means(space, X, 2, ball, riemdp.Budget(1.0, 1e-6), rng=0)
        >>> bool(np.all(space.dist(release.value[:, None], X[[0, 1000]]).min(axis=0) < 0.6))
        True
    """
    refuse_sent(budget, ledger)
    called = "private_k_means(manifold, X, clusters, ball, budget)"
    manifold = admit_manifold(manifold, X, called)
    budget = required_budget(budget, ball)
    where = ball_or_search(ball)
    records, rows = admit_records(manifold, "X", X)
    members = None if groups is None else Membership(groups, rows)
    n = rows if members is None else members.n
    start = _start(manifold, clusters, n)
    rounds = integer("rounds", rounds, at_least=1)
    mechanism = KMeansNoise(manifold, where, n=n, budget=budget, clusters=start, rounds=rounds)
    ready = mechanism._ready((records, None, members), unit_of(members))
    warn_of(ready.guarantee, budget.delta, n)
    release = ready.release(rng, ledger)
    warn_of_counts(release.facts.valid)
    assert release.facts.ball is not None
    people = {} if members is None else {"people": n, "person_is": _PERSON_IS}
    details = {
        "radius": float(release.facts.ball.radius),
        "query": f"centres of {mechanism.sums.classes} clusters, moved {rounds} times",
        "manifold": manifold,
        "budget": budget,
        "clipping": (
            "every record becomes its tangent vector at the nearest released centre, shortened to"
            " half the radius; a record that is not a valid point is in no cluster"
        ),
        **people,
    }
    return release._knowing(details)


def _start(manifold: AbstractManifold, clusters: Any, n: int) -> int | list[Point]:
    """The public number of clusters, or the public points that their centres start from."""
    if isinstance(clusters, numbers.Integral):
        return integer("clusters", clusters, at_most=n)
    given = map_leaves(np.asarray, manifold._coerce("clusters", clusters))
    batch = manifold._batch_shape(given)
    if len(batch) != 1 or batch[0] < 1:
        remedy = f"give a number of clusters, or points of {manifold!r} along one leading axis"
        raise invalid("clusters", f"of batch shape {batch}", remedy)
    each = [map_leaves(lambda leaf, at=i: leaf[at], given) for i in range(batch[0])]
    return [admit_point(manifold, "clusters", point) for point in each]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClusterRow(PlanRow):
    """What k-means shows with one budget, of clusters of equal size. `expected_error` is the root
    mean square of the noise in the last move of a centre; `need` the number of records from which
    a search is accepted, 1 in a public ball.

    Attributes:
        share: The share of the budget that the search leaves.
        size: The standard deviation of the noise in the size of a cluster.
    """

    share: float
    size: float


_COLUMNS: tuple[Column[ClusterRow], ...] = (
    *budget_columns(),
    *columns_of_search("clusters"),
    Column("noise in a centre", lambda row: figure(row.expected_error, 3)),
    Column("in a size", lambda row: figure(row.size, 3)),
)
_UNIT = "The noise in a centre is in units of the radius of the ball that is found"


def plan_k_means(
    manifold: AbstractManifold,
    ball: Ball | AdaptiveBall,
    n: int,
    budgets: Budget | Sequence[Budget],
    *,
    clusters: int,
    rounds: int = _ROUNDS,
) -> Plan[ClusterRow]:
    """How precisely `private_k_means` tells the centres of clusters, from public numbers.

    Args:
        manifold: The space.
        ball: A public `Ball`, or an `AdaptiveBall`.
        n: The public number of records, or of people.
        budgets: A `Budget` or a list of them.
        clusters: Their public number.
        rounds: How often the centres move.

    Returns:
        A `Plan` with a row for each budget.

    Raises:
        InvalidArgument: An argument is out of range.

    Examples:
        >>> import riemdp
        >>> space = riemdp.Sphere(3)
        >>> ball, budget = riemdp.Ball(space.origin, 2.0), riemdp.Budget(1.0, 1e-6)
        >>> row = riemdp.plan_k_means(space, ball, 2000, budget, clusters=2)[0]
        >>> round(row.expected_error, 3), round(row.size, 1)
        (0.029, 20.7)
    """
    n, clusters = integer("n", n), integer("clusters", clusters)
    rounds = integer("rounds", rounds, at_least=1)

    def row(budget: Budget) -> ClusterRow:
        mechanism = KMeansNoise(
            manifold, ball, n=n, budget=budget, clusters=clusters, rounds=rounds
        )
        need, share = what_is_left(n, manifold, mechanism.noise, ball)
        sums, noise = mechanism.sums, mechanism.noise
        scale = noise.share(share / rounds).multiplier * sums.sensitivity
        deviation = noise.deviation(scale, sums.together)
        length = CLIP * (float(ball.radius) if isinstance(ball, Ball) else 1.0)
        return ClusterRow(
            mechanism=mechanism.name,
            budget=budget,
            need=need,
            share=share,
            size=deviation,
            expected_error=length * deviation * clusters / n * math.sqrt(manifold.dim),
        )

    rows = tuple(row(budget) for budget in several_budgets(budgets))
    title = f"Private k-means: {manifold!r}, n = {n:,}, {clusters} clusters, {rounds} rounds"
    return Plan(title, rows, _COLUMNS, () if isinstance(ball, Ball) else (_UNIT,))
