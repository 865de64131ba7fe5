"""`private_ball`: where the records are and how far they spread, released with a guarantee."""

from __future__ import annotations

from ..domains import AdaptiveBall
from ..domains._door import admit_manifold
from ..inference._counts import warn_of_counts
from ..manifolds import AbstractManifold
from ..manifolds._base import RecordsLike
from ..mechanisms import PrivateBall, Release
from ..privacy import Budget, Ledger
from ..privacy._cautions import warn_of
from ..privacy._ledger import refuse_sent
from ..randomness import NoiseSource
from ._mean import admitted
from ._options import required_budget
from ._people import facts as people_facts


def private_ball(
    manifold: AbstractManifold,
    X: RecordsLike,
    ball: AdaptiveBall | None = None,
    budget: Budget | None = None,
    *,
    groups: object = None,
    rng: int | NoiseSource | None = None,
    ledger: Ledger | None = None,
) -> Release:
    """Find a ball that holds most of the records, with differential privacy.

    Args:
        manifold: A space with a logarithm.
        X: n records, (n, *manifold.shape); a tuple of such on a product. n is public. A record that
            is no point of the space is in no count of the search; how many are points is one of
            its answers, `release.facts.valid`, and how many records are not in the ball that
            was found another, `release.details["outside"]`. A warning follows where too few are.
        ball: Where to search: an `AdaptiveBall`. Default: `AdaptiveBall()`.
        budget: `Budget(epsilon, delta)`, required; delta = 0 gives pure epsilon.
        rng: None (operating system), an int (reproducible, not private) or a `NoiseSource`.
        ledger: The `Ledger` to charge, once and before the first draw; None charges the innermost
            `with Ledger(...)`, if any.
        groups: One label of a person for each record. Then the ball holds most people's means, n is
            the number of people, and everything of one person is protected; see
            `private_frechet_mean`.

    Returns:
        A `Release` whose value is a `Ball`. The ball may be used like a public one from then on:
        its cost is paid.

    Raises:
        InvalidArgument: n is too small for a search (from public numbers only), or an argument is
            out of range. Nothing was spent.
        BudgetExceeded: The ledger refuses. Nothing was spent.

    Guarantee:
        `release.guarantee`, within `budget`, replace-one, for records whatever they are: mu-GDP
        with mu = 1 / gaussian_noise_multiplier(budget), or (epsilon, 0). With `groups` neighbours
        differ in everything of one person (docs/proofs/people.md).

    Source:
        docs/proofs/private-ball.md.

    Examples:
        >>> import jax, riemdp
        >>> space = riemdp.SPDAffineInvariant(2)
        >>> X = 5.0 * space.random_point(jax.random.key(0), (500,))
        >>> release = riemdp.private_ball(
        ...     space, X, riemdp.AdaptiveBall(), riemdp.Budget(1.0, 1e-6), rng=0
        ... )
        >>> bool(release.value.contains(space, X).mean() > 0.5)
        True
    """
    manifold = admit_manifold(manifold, X, "private_ball(manifold, X, ball, budget)")
    budget = required_budget(budget, ball)
    refuse_sent(budget, ledger)
    search = AdaptiveBall() if ball is None else ball
    given = admitted(manifold, X, groups)
    mechanism = PrivateBall(manifold, search, n=given.n, budget=budget)
    ready = mechanism._ready(given.records, given.unit)
    warn_of(ready.guarantee, budget.delta, given.n)
    release = ready.release(rng, ledger)
    warn_of_counts(release.facts.valid, release.facts.outside)
    return release._knowing(people_facts(given.grouped, found=True))
