"""`private_geodesic_regression`: points as a function of covariates, released with a guarantee."""

from __future__ import annotations

import dataclasses
from typing import Any

from numpy.typing import ArrayLike

from ..domains import AdaptiveBall, Ball
from ..domains._door import admit_manifold, admit_records
from ..inference._counts import warn_of_counts
from ..manifolds import AbstractManifold
from ..manifolds._base import RecordsLike
from ..mechanisms import Release
from ..mechanisms._geodesic_regression import CovariateRange, GeodesicNoise
from ..privacy import Budget, Ledger
from ..privacy._cautions import warn_of
from ..privacy._ledger import refuse_sent
from ..randomness import NoiseSource
from ..statistics._membership import Membership, unit_of
from ._geodesic_model import GeodesicModel
from ._options import ball_or_search, required_budget

_PERSON_IS = "one matrix each: the mean of u u^T over that person's records (covariates, point)"


def private_geodesic_regression(
    manifold: AbstractManifold,
    X: RecordsLike,
    t: ArrayLike,
    ball: Ball | AdaptiveBall | None = None,
    budget: Budget | None = None,
    *,
    t_range: Any,
    groups: object = None,
    rng: int | NoiseSource | None = None,
    ledger: Ledger | None = None,
) -> Release:
    """Release points of a manifold as a function of covariates: a tensor as a function of age, a
    direction of depth, a shape of dose. The curve is Exp_c(B (1, t)), linear in the tangent space
    at the centre c of a ball.

    Each record x becomes log_c x, shortened to the radius; each t is moved into its range. One
    noisy matrix of second moments of both gives the curve, and what records scatter about it. That
    is the least-squares fit at c, which is geodesic regression where c lies on the curve and the
    space is flat, and near it where the records lie close to c; no exact fit is made.

    Args:
        manifold: A space with a logarithm.
        X: n records, (n, *manifold.shape); n is public. What is no point counts as the centre.
        t: Covariates, (n,) or (n, p). What is no finite number counts as the middle of its range.
        ball: A public `Ball`, or an `AdaptiveBall`, which is found with a public share of the
            budget; None means `AdaptiveBall()`. The curvature does not limit the radius.
        budget: `Budget(epsilon, delta)`, required; delta = 0 gives pure epsilon.
        t_range: The public range of t: (low, high) for one covariate of shape (n,); a list of p
            such pairs or a `Ball` of vectors, for (n, p). Noise grows with it.
        groups: One label of a person for each record. Then everything of one person is protected,
            each counts once, and n is the number of people.
        rng: None (operating system), an int (reproducible, not private) or a `NoiseSource`.
        ledger: The `Ledger` to charge, once and before the first draw; None charges the innermost
            `with Ledger(...)`, if any.

    Returns:
        A `Release` whose value is a `GeodesicModel`: `predict(t)`, `band(t, level)`, which
        `plan_geodesic_regression` foretells.

    Raises:
        InvalidArgument: An argument is out of range, or n is too small for a search (from public
            numbers only). Nothing was spent.
        NotImplementedError: The space has no logarithm. Nothing was spent.
        BudgetExceeded: The ledger refuses. Nothing was spent.

    Guarantee:
        Replace-one, of a record and its covariates together: mu-GDP with mu = 1 /
        gaussian_noise_multiplier(budget), or (epsilon, 0). The second moments of (w v, s, z), w^2 +
        s^2 = 1, |v| <= 1, |z| <= 1, move by at most 2 sqrt(2) / n. With `groups` neighbours differ
        in everything of one person.

    Source:
        Fletcher 2013 (geodesic regression); Sheffet 2017 (sufficient statistics with noise).
        Proof: docs/proofs/regression.md.

    Examples:
        >>> import numpy as np, riemdp
        >>> rng, space = np.random.default_rng(0), riemdp.SPDAffineInvariant(2)
        >>> age = rng.uniform(20.0, 80.0, 3000)
        >>> v = np.stack([(age - 50.0) / 60.0, 0.0 * age, 0.0 * age], axis=1)
        >>> v += rng.normal(size=v.shape) * 0.1
        >>> X = space.exp(np.eye(2), space.from_coordinates(np.eye(2), v))
        >>> release = riemdp.private_geodesic_regression(
        ...     space, X, age, budget=riemdp.Budget(1.0, 1e-6), t_range=(20.0, 80.0), rng=0
        ... )
        >>> ends = release.value.predict([20.0, 80.0])
        >>> bool(0.7 < space.dist(ends[0], ends[1]) < 1.3)
        True
    """
    refuse_sent(budget, ledger)
    called = "private_geodesic_regression(manifold, X, t, ball, budget, t_range=...)"
    manifold = admit_manifold(manifold, X, called)
    budget = required_budget(budget, ball)
    where = ball_or_search(ball)
    covariates = CovariateRange(t_range)
    records, rows = admit_records(manifold, "X", X)
    members = None if groups is None else Membership(groups, rows)
    mechanism = GeodesicNoise(
        manifold,
        where,
        n=rows if members is None else members.n,
        budget=budget,
        covariates=covariates,
        people=members is not None,
    )
    ready = mechanism._ready((records, t, members), unit_of(members))
    warn_of(ready.guarantee, budget.delta, mechanism.n)
    release = ready.release(rng, ledger)
    model = GeodesicModel.of(release, manifold, t_range)
    warn_of_counts(release.facts.valid)
    people = {} if members is None else {"people": members.n, "person_is": _PERSON_IS}
    details = {
        "radius": float(model.ball.radius),
        "query": f"points as a function of {covariates.size} covariates",
        "manifold": manifold,
        "budget": budget,
        "clipping": (
            "every record becomes its tangent vector at the centre, shortened to the radius, and"
            " its covariates are moved into their range; a record that is not a valid point counts"
            " as the centre"
        ),
        **people,
    }
    return dataclasses.replace(release, value=model)._knowing(details)
