"""`private_clipping_bound`: how far clipping can have moved a mean, released with a guarantee."""

from __future__ import annotations

from .._errors import invalid
from ..domains import Ball
from ..domains._door import admit_in_parts, admit_manifold
from ..inference import Query
from ..manifolds import AbstractManifold
from ..manifolds._base import RecordsLike
from ..mechanisms import ClippingBoundNoise, Release
from ..privacy import Budget, Ledger
from ..privacy._cautions import warn_of
from ..privacy._ledger import refuse_sent
from ..randomness import NoiseSource
from ..statistics._excess import GroupedRecords
from ..statistics._membership import unit_of
from ._options import required_budget

_EACH = (
    "every record becomes the length by which it lies outside the ball, cut off at the reach less"
    " the radius"
)
_RECORDS = _EACH + "; a record that is not a valid point counts as the centre"
_LENGTH = "one length each: the mean of how far that person's records lie outside the ball"
_PEOPLE = (
    _EACH + ". Each person's lengths are then averaged, so that every person counts once; records"
    " that are no valid points are left out, and a person without one that is valid counts as the"
    " centre"
)


def private_clipping_bound(
    manifold: AbstractManifold,
    X: RecordsLike,
    ball: Ball | None = None,
    budget: Budget | None = None,
    *,
    reach: float,
    groups: object = None,
    rng: int | NoiseSource | None = None,
    ledger: Ledger | None = None,
) -> Release:
    """Release how far private records lie outside a ball on average, which bounds how far clipping
    to the ball moved their mean.

    The value is (1/n) sum min(max(d(c, x) - r, 0), R - r), c being the centre and r the radius of
    the ball, R the `reach`. On Hadamard spaces the Frechet mean of the records in the ball lies
    within it of the Frechet mean of the records in the ball of radius R about the same centre; and
    on every space a mean of clipped tangent vectors does, in the tangent space. Give the release to
    `Release.confidence_region(clipping=)`, which then holds the mean of the records as they were,
    where all of them lie within R of the centre.

    Args:
        manifold: The space.
        X: n >= 1 records, those of the mean. n is public. A record that is no point of the space
            counts as the centre.
        ball: The `Ball` of the mean: public, or the one that was found with the mean,
            `mean.facts.ball`. Required.
        budget: `Budget(epsilon, delta)`, required; delta = 0 gives pure epsilon. A small share of
            the mean's is enough: `privacy.split_budget(budget, [0.9, 0.1])`.
        reach: A public number above the radius: a distance from the centre that no record, or
            hardly one, exceeds. The noise grows with reach - radius.
        groups: One label of a person for each record, those of the mean. Then every person counts
            once, by the mean over that person's records; n is the number of people in every
            formula, and the number of records is private. The mean it belongs to is one with the
            same `groups` in a public ball.
        rng: None (operating system), an int (reproducible, not private) or a `NoiseSource`.
        ledger: The `Ledger` to charge, once and before the first draw; None charges the innermost
            `with Ledger(...)`, if any.

    Returns:
        A `Release` whose value is a number from 0 to R - r, a distance.

    Raises:
        InvalidArgument: An argument is out of range. Nothing was spent.
        BudgetExceeded: The ledger refuses. Nothing was spent.

    Guarantee:
        `release.guarantee`, within `budget`, replace-one, for records whatever they are:
        sensitivity (R - r) / n and mu-GDP with mu = 1 / gaussian_noise_multiplier(budget), or
        (epsilon, 0). With `groups` neighbours differ in everything of one person
        (docs/proofs/people.md).

    Source:
        Sturm 2003, Theorem 6.3 (means of Hadamard spaces).
        Proof: docs/proofs/clipping-bound.md.

    Examples:
        >>> import jax, numpy as np, riemdp
        >>> space, ball = riemdp.SPDAffineInvariant(2), riemdp.Ball(np.eye(2), 1.0)
        >>> X = space.random_point(jax.random.key(0), (2000,))
        >>> parts = riemdp.privacy.split_budget(riemdp.Budget(1.0, 1e-6), [0.9, 0.1])
        >>> with riemdp.Ledger(riemdp.Budget(1.0, 1e-6)):
        ...     mean = riemdp.private_frechet_mean(
        ...         space, X, ball, parts[0], mechanism="wrapped-gaussian", rng=0
        ...     )
        ...     moved = riemdp.private_clipping_bound(space, X, ball, parts[1], reach=10.0, rng=1)
        >>> region = mean.confidence_region(clipping=moved)
        >>> bool(region.contains(riemdp.frechet_mean(space, X).value))  # without clipping
        True
    """
    order = "private_clipping_bound(manifold, X, ball, budget, reach=reach)"
    manifold = admit_manifold(manifold, X, order)
    budget = required_budget(budget, ball)
    refuse_sent(budget, ledger)
    if not isinstance(ball, Ball):
        raise invalid("ball", ball, "give the riemdp.Ball(center, radius) of the mean")
    grouped = None if groups is None else GroupedRecords(manifold, X, groups)
    if grouped is None:
        records, n = admit_in_parts(manifold, "X", X)
    else:
        records, n = grouped, grouped.admitted[1].n
    mechanism = ClippingBoundNoise(manifold, ball, n=n, reach=reach, budget=budget)
    release = mechanism._ready(records, unit_of(grouped)).release(rng, ledger)
    warn_of(release.guarantee, budget.delta, n)
    details = {
        "n": n,
        "radius": mechanism.query.domain.radius,
        "reach": mechanism.query.reach,
        "query": Query.EXCESS,
        "manifold": manifold,
        "ball": ball,
        "budget": budget,
        "clipping": _RECORDS if groups is None else _PEOPLE,
        **({} if groups is None else {"people": n, "person_is": _LENGTH}),
    }
    return release._knowing(details)
