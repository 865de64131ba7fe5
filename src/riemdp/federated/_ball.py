"""A ball that several sites find together, the mean in it, and the variance about a point: private,
and without anybody who holds all records.

The doors are `private_ball`, `private_frechet_mean` and `private_frechet_variance`. What is asked
is decided as for one party (`mechanisms._ball_search`); `_over_sites` has what is released of it.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._errors import InvalidArgument, invalid, real
from .._isolation import isolated
from .._trees import map_leaves
from ..domains import AdaptiveBall, Ball
from ..domains._door import admit_manifold
from ..domains._stream import Stream
from ..inference._counts import warn_of_counts
from ..manifolds import AbstractManifold
from ..manifolds._base import RecordsLike
from ..mechanisms import Release
from ..privacy import Budget, Ledger
from ..privacy._cautions import warn_of
from ..privacy._guarantee import PERSON, RECORD
from ..privacy._ledger import refuse_sent
from ..randomness import NoiseSource
from ..releases._mean import admitted
from ._over_sites import mechanism_of
from ._protocol import check_lists_of_labels, named
from ._terms import SearchTerms


def private_ball(
    manifold: AbstractManifold,
    sites: Sequence[RecordsLike],
    search: AdaptiveBall,
    budget: Budget,
    *,
    noise: str = "local",
    tolerated: int = 0,
    rng: int | NoiseSource | None = None,
    ledger: Ledger | None = None,
    groups: Sequence[object] | None = None,
) -> Release:
    """Find a ball that holds most of the records of several sites, of which none shows its records
    to anybody.

    It is `riemdp.private_ball` with noisy sums over sites in the place of noisy sums over records:
    counts of the records within a radius, and sums of clipped tangent vectors. All sites run in
    this process.

    Args:
        manifold: A space with a logarithm.
        sites: The records of each site, as `riemdp.private_ball` takes them. How many each has is
            public.
        search: Where to search: `AdaptiveBall()` unless something is known.
        budget: `Budget(epsilon, delta)` with delta > 0, for each record of each site.
        noise: "local": each site adds all the noise that its own guarantee needs, sqrt(J) times
            that of one party in a sum of J sites. "shared": each adds a share of the noise, and
            answers under masks that cancel in the sum over all sites alone. The noise is then
            sqrt(J / (J - tolerated)) times that of one party.
        tolerated: q, with shared noise: how many sites may be missing from a sum, or share their
            secrets with somebody, before the guarantee fails.
        rng: None (each site draws from the operating system), an int (reproducible, not private) or
            a `NoiseSource`.
        ledger: The `Ledger` to charge, once and before the first draw; None charges the innermost
            `with Ledger(...)`, if any.
        groups: For each site one label of a person for each of its records. Then everything of one
            person is protected, each counts once, and the numbers of *people* of each site are
            public. Labels of different sites are different persons: that all records of a person
            are at one site is assumed, and stands in `release.guarantee.assumes`. A person with
            records at k sites has the guarantee of k releases (local), or of a group of k (shared).

    Returns:
        A `Release` whose value is a `Ball`. The ball may be used like a public one from then on.

    Raises:
        InvalidArgument: There are too few records for a search (from public numbers only), or an
            argument is out of range. Nothing was spent.
        BudgetExceeded: The ledger refuses. Nothing was spent.

    Guarantee:
        `release.guarantee`, within `budget`, replace-one, for every record of every site against
        everyone who sees all messages, the other sites included: mu-GDP with mu = 1 /
        gaussian_noise_multiplier(budget). Shared: under `release.guarantee.assumes`. A site that
        answers with local noise assumes nothing of the others.

    Source:
        Proof: docs/proofs/secure-sums.md, docs/proofs/private-ball.md.

    Examples:
        >>> import jax, riemdp
        >>> space = riemdp.SPDAffineInvariant(2)
        >>> keys = jax.random.split(jax.random.key(0), 3)
        >>> sites = [5.0 * space.random_point(key, (400,)) for key in keys]
        >>> release = riemdp.federated.private_ball(
        ...     space, sites, riemdp.AdaptiveBall(), riemdp.Budget(1.0, 1e-6), rng=0
        ... )
        >>> bool(release.value.contains(space, sites[0]).mean() > 0.5)
        True
    """
    given = _Given(manifold, sites, groups, "private_ball(manifold, sites, search, budget)")
    terms = given.terms("ball", search, budget, noise, tolerated)
    return given.released(terms, rng, ledger)


def private_frechet_mean(
    manifold: AbstractManifold,
    sites: Sequence[RecordsLike],
    search: AdaptiveBall | None = None,
    budget: Budget | None = None,
    *,
    noise: str = "local",
    tolerated: int = 0,
    variance: float = 0.0,
    rng: int | NoiseSource | None = None,
    ledger: Ledger | None = None,
    groups: Sequence[object] | None = None,
) -> Release:
    """Release the mean of the records of several sites, in a ball that they find on the way.

    The last sum is that of the logarithms of all records at the centre of the ball, each shortened
    to its radius. So this is the mean of clipped tangent vectors, carried back to the space: on
    flat spaces the mean of the clamped records, elsewhere the first step of Fréchet's iteration
    from the centre that was found.

    The arguments that are not listed here are those of `private_ball`.

    Args:
        manifold: A space with a logarithm.
        sites: The records of each site; how many each has is public.
        search: Where to search. None: `AdaptiveBall()`.
        budget: `Budget(epsilon, delta)` with delta > 0, required, for the ball, the mean and the
            variance together.
        variance: The public share, from 0 to 0.5, of what the search leaves, that is for the
            Fréchet variance about the mean: `release.details["variance"]`, each distance cut off at
            the radius of the ball.

    Returns:
        The `Release`; the ball is `release.details["ball"]`. `release.confidence_region()` holds
        the mean before noise.

    Raises:
        InvalidArgument: There are too few records for a search (from public numbers only), or an
            argument is out of range. Nothing was spent.
        BudgetExceeded: The ledger refuses. Nothing was spent.

    Guarantee:
        `release.guarantee`, within `budget`, as that of `private_ball`.

    Source:
        Proof: docs/proofs/secure-sums.md, docs/proofs/private-ball.md.

    Examples:
        >>> import jax, riemdp
        >>> sphere = riemdp.Sphere(3)
        >>> keys = jax.random.split(jax.random.key(0), 3)
        >>> sites = [sphere.random_point(key, (600,)) for key in keys]
        >>> release = riemdp.federated.private_frechet_mean(
        ...     sphere, sites, budget=riemdp.Budget(2.0, 1e-6), rng=0
        ... )
        >>> release.value.shape, release.details["sites"]
        ((3,), 3)
    """
    search = AdaptiveBall() if search is None else search
    given = _Given(manifold, sites, groups, "private_frechet_mean(manifold, sites, search, budget)")
    share = real("variance", variance, at_least=0.0, at_most=0.5)
    terms = given.terms("mean", search, budget, noise, tolerated, share)
    release = given.released(terms, rng, ledger)
    release._warn_of_noise()
    return release


def private_frechet_variance(
    manifold: AbstractManifold,
    sites: Sequence[RecordsLike],
    ball: Ball,
    budget: Budget,
    *,
    noise: str = "local",
    tolerated: int = 0,
    rng: int | NoiseSource | None = None,
    ledger: Ledger | None = None,
    groups: Sequence[object] | None = None,
) -> Release:
    """Release how far the records of several sites spread: the mean of min(d(c, x), r)^2.

    The arguments that are not listed here are those of `private_ball`.

    Args:
        manifold: A space with a distance and a logarithm.
        sites: The records of each site; how many each has is public.
        ball: A `Ball` of centre c and radius r, public or released, such as
            `Ball(mean.value, mean.details["ball"].radius)`.
        budget: `Budget(epsilon, delta)` with delta > 0.
        groups: As in `private_ball`; then x runs over the people's means.

    Returns:
        A `Release` whose value is a number from 0 to r^2, in units of squared distance.

    Raises:
        InvalidArgument: An argument is out of range. Nothing was spent.
        BudgetExceeded: The ledger refuses. Nothing was spent.

    Guarantee:
        `release.guarantee`, within `budget`, as that of `private_ball`.

    Source:
        Proof: docs/proofs/secure-sums.md, docs/proofs/second-moment.md.

    Examples:
        >>> import numpy as np, riemdp
        >>> line, sites = riemdp.Euclidean(1), [np.ones((50, 1)), -np.ones((70, 1))]
        >>> ball = riemdp.Ball(np.zeros(1), 2.0)
        >>> budget = riemdp.Budget(5.0, 1e-6)
        >>> release = riemdp.federated.private_frechet_variance(line, sites, ball, budget, rng=0)
        >>> bool(0.5 < release.value < 1.5)
        True
    """
    given = _Given(
        manifold, sites, groups, "private_frechet_variance(manifold, sites, ball, budget)"
    )
    if not isinstance(ball, Ball):
        raise invalid("ball", ball, "give a riemdp.Ball(center, radius), public or released")
    terms = given.terms("variance", ball, budget, noise, tolerated)
    return given.released(terms, rng, ledger)


# ------------------------------------------------------------------------------- what a user gives
class _Given:
    """The records of each site, admitted, with their public numbers."""

    @isolated  # NaN is a record that is no point: one must raise nothing
    def __init__(self, manifold: AbstractManifold, sites: Any, groups: Any, call: str):
        if isinstance(sites, str | bytes) or not hasattr(sites, "__len__") or not len(sites):
            raise InvalidArgument("argument `sites` must be a list with the records of each site")
        if groups is not None:
            check_lists_of_labels(groups, len(sites), "site")
        self.manifold = admit_manifold(manifold, sites, call)
        self.records: list[Any] = []
        self.sizes: dict[str, int] = {}
        for i, X in enumerate(sites):
            with named("sites", "site", i):
                given = admitted(manifold, X, None if groups is None else groups[i])
            in_memory = not isinstance(given.records, Stream)
            records = map_leaves(np.asarray, given.records) if in_memory else given.records
            self.records.append(records)
            self.sizes[f"site-{i}"] = given.n
        self.unit = RECORD if groups is None else PERSON

    def terms(
        self,
        release: str,
        search: Any,
        budget: Any,
        noise: str,
        tolerated: int,
        variance: float = 0.0,
    ) -> SearchTerms:
        """The public settings of one run."""
        if not isinstance(budget, Budget):
            raise invalid("budget", budget, "give a riemdp.Budget(epsilon, delta)")
        if release != "variance" and not isinstance(search, AdaptiveBall):
            raise invalid("search", search, "give a riemdp.AdaptiveBall(...)")
        return SearchTerms(
            release,
            self.manifold,
            search,
            budget,
            self.sizes,
            noise=noise,
            tolerated=tolerated,
            unit=self.unit,
            run=secrets.token_hex(32),
            variance=variance,
        )

    def released(
        self, terms: SearchTerms, rng: int | NoiseSource | None, ledger: Ledger | None
    ) -> Release:
        """One charge, one release."""
        mechanism = mechanism_of(terms)
        refuse_sent(terms.budget, ledger)
        warn_of(mechanism.guarantee, terms.budget.delta, mechanism.n)
        release = mechanism.release(self.records, rng, ledger=ledger)
        warn_of_counts(release.details.get("valid"), release.details.get("outside"))
        return release
