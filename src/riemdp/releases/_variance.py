"""`private_frechet_variance`: how far records spread about a point, released with a guarantee."""

from __future__ import annotations

from typing import Any

from ..domains import AdaptiveBall, Ball
from ..domains._door import admit_manifold
from ..inference import Query
from ..inference._counts import warn_of_counts
from ..manifolds import AbstractManifold
from ..manifolds._base import RecordsLike
from ..mechanisms import AdaptiveVariance, Release, VarianceNoise
from ..privacy import Budget, Ledger
from ..privacy._cautions import warn_of
from ..privacy._ledger import refuse_sent
from ..randomness import NoiseSource
from ..statistics._people import People
from ._mean import admitted
from ._options import ball_or_search, required_budget
from ._people import facts as people_facts


def private_frechet_variance(
    manifold: AbstractManifold,
    X: RecordsLike,
    ball: Ball | AdaptiveBall | None = None,
    budget: Budget | None = None,
    *,
    groups: object = None,
    rng: int | NoiseSource | None = None,
    ledger: Ledger | None = None,
) -> Release:
    """Release the mean squared distance of private records from the centre of a ball.

    The value is (1/n) sum min(d(c, x), r)^2, c being the centre and r the radius. About the Fréchet
    mean it is the Fréchet variance; about another point c it is larger by about d(c, mean)^2. So
    release a mean first and give `Ball(release.value, r)`, or leave `ball` out. With the ball of a
    private mean it is what `Release.confidence_region(of="population")` needs.

    Args:
        manifold: The space.
        X: n >= 1 records, a list of them or (n, *manifold.shape); a tuple of such on a product. n
            is public. A record that is no point of the space counts as the centre.
        ball: A `Ball(center, radius)` that is public, or whose centre and radius were released with
            a guarantee of their own. The curvature does not limit the radius. Or an `AdaptiveBall`:
            the ball is found with a share of the budget, and is `release.details["ball"]` then.
            None means `AdaptiveBall()`.
        budget: `Budget(epsilon, delta)`, required; delta = 0 gives pure epsilon.
        rng: None (operating system), an int (reproducible, not private) or a `NoiseSource`.
        ledger: The `Ledger` to charge, once and before the first draw; None charges the innermost
            `with Ledger(...)`, if any.
        groups: One label of a person for each record. Then x runs over the people's means (how far
            people spread, not their records), n is the number of people, and everything of one
            person is protected; see `private_frechet_mean`.

    Returns:
        A `Release` whose value is a number from 0 to r^2, in units of squared distance.

    Raises:
        InvalidArgument: An argument is out of range, or n is too small for a search (from public
            numbers only). Nothing was spent.
        BudgetExceeded: The ledger refuses. Nothing was spent.

    Guarantee:
        `release.guarantee`, within `budget`, replace-one, for records whatever they are:
        sensitivity r^2 / n and mu-GDP with mu = 1 / gaussian_noise_multiplier(budget), or (epsilon,
        0). With `groups` neighbours differ in everything of one person (docs/proofs/people.md).

    Source:
        Proof: docs/proofs/second-moment.md.

    Examples:
        >>> import jax, riemdp
        >>> space = riemdp.SPDAffineInvariant(2)
        >>> X = space.random_point(jax.random.key(0), (2000,))
        >>> with riemdp.Ledger(riemdp.Budget(2.0, 1e-5)):
        ...     mean = riemdp.private_frechet_mean(space, X, budget=riemdp.Budget(1.0, 1e-6), rng=0)
        ...     ball = riemdp.Ball(mean.value, 3.0)
        ...     spread = riemdp.private_frechet_variance(
        ...         space, X, ball, riemdp.Budget(0.5, 1e-6), rng=1
        ...     )
        >>> bool(0.0 < spread.value < 9.0)
        True
    """
    refuse_sent(budget, ledger)
    manifold = admit_manifold(manifold, X, "private_frechet_variance(manifold, X, ball, budget)")
    budget = required_budget(budget, ball)
    where = ball_or_search(ball)
    domain = where.on(manifold) if isinstance(where, Ball) else None
    given = admitted(manifold, X, groups, domain)
    n = given.n
    if isinstance(where, Ball):
        mechanism = VarianceNoise(manifold, where, n=n, budget=budget)
    else:
        mechanism = AdaptiveVariance(manifold, where, n=n, budget=budget)
    ready = mechanism._ready(given.records, given.unit)
    warn_of(ready.guarantee, budget.delta, n)
    release = ready.release(rng, ledger)
    warn_of_counts(release.facts.valid, release.facts.outside)
    used = where if isinstance(where, Ball) else release.facts.ball
    assert used is not None
    found = domain is None
    return release._knowing(variance_facts(manifold, used, n, budget, given.grouped, found=found))


def variance_facts(
    manifold: AbstractManifold,
    ball: Ball,
    n: int,
    budget: Budget | None,
    grouped: People | None,
    *,
    found: bool,
) -> dict[str, Any]:
    """What is public of a variance about the centre of this ball."""
    return {
        "n": n,
        "radius": float(ball.radius),
        "query": Query.VARIANCE,
        "unit": "squared distance",
        "manifold": manifold,
        "ball": ball,
        "budget": budget,
        "clipping": (
            "every distance from the centre is cut off at the radius; a record that is not a valid"
            " point counts as the centre"
        ),
        **people_facts(grouped, found=found),
    }
