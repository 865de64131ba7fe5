"""A ball that several sites find together, the mean in it, and the variance about a point: private,
and without anybody who holds all records.

The doors are `private_ball`, `private_frechet_mean` and `private_frechet_variance`. What is asked
is decided as for one party (`mechanisms._ball_search`); `_search` adds the answers over sites.
"""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from .._errors import InvalidArgument, invalid, real
from .._isolation import isolated
from .._trees import map_leaves
from ..domains import AdaptiveBall, Ball, Domain
from ..domains._door import admit_in_parts, admit_manifold
from ..domains._ends import end_of
from ..domains._stream import Stream
from ..inference import Observation, Query
from ..inference._counts import warn_of_counts
from ..inference._error_law import capped, gaussian_law, shrunk_law
from ..manifolds import AbstractManifold, Euclidean
from ..manifolds._base import Point, RecordsLike
from ..mechanisms import AbstractMechanism, Release
from ..mechanisms._ball_search import SearchResult, run_search
from ..mechanisms._base import Drawn
from ..mechanisms._common import needs_log
from ..mechanisms._lattice import check_drawable
from ..mechanisms._private_ball import facts_of_search, observed
from ..mechanisms._search_plan import SearchPlan
from ..mechanisms._search_records import final_radius, outside_of
from ..mechanisms._shrinking import kept
from ..privacy import Budget, Guarantee, Ledger
from ..privacy._arithmetic import LATTICE
from ..privacy._cautions import warn_of
from ..privacy._guarantee import PERSON, RECORD
from ..privacy._ledger import refuse_sent
from ..privacy._permit import Permit
from ..randomness import NoiseSource, noise_source
from ..releases._people import facts_of, of_groups
from ..statistics import TangentMean
from ._protocol import check_lists_of_labels
from ._search import Search, SumsOverSites
from ._search_sites import SearchSite
from ._secure_sum import Parties
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
    flat spaces the mean of the clamped records, elsewhere the first step of Frechet's iteration
    from the centre that was found.

    Args:
        manifold: A space with a logarithm.
        sites: The records of each site; how many each has is public.
        search: Where to search. None: `AdaptiveBall()`.
        budget: `Budget(epsilon, delta)` with delta > 0, required, for the ball, the mean and the
            variance together.
        noise: "local" or "shared", see `private_ball`.
        tolerated: q, with shared noise, see `private_ball`.
        variance: The public share, from 0 to 0.5, of what the search leaves, that is for the
            Frechet variance about the mean: `release.details["variance"]`, each distance cut off at
            the radius of the ball.
        rng: As in `private_ball`.
        ledger: As in `private_ball`.
        groups: As in `private_ball`.

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

    Args:
        manifold: A space with a distance and a logarithm.
        sites: The records of each site; how many each has is public.
        ball: A `Ball` of centre c and radius r, public or released, such as
            `Ball(mean.value, mean.details["ball"].radius)`.
        budget: `Budget(epsilon, delta)` with delta > 0.
        noise: "local" or "shared", see `private_ball`.
        tolerated: q, with shared noise, see `private_ball`.
        rng: As in `private_ball`.
        ledger: As in `private_ball`.
        groups: As in `private_ball`; then x runs over the people's means.

    Returns:
        A `Release` whose value is a number from 0 to r^2, in units of squared distance.

    Raises:
        InvalidArgument: An argument is out of range. Nothing was spent.
        BudgetExceeded: The ledger refuses. Nothing was spent.

    Guarantee:
        `release.guarantee`, within `budget`, as that of `private_ball`.

    Source:
        Proof: docs/proofs/secure-sums.md, docs/proofs/variance.md.

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


# ---------------------------------------------------------------------------------- the mechanisms
class OverSites(AbstractMechanism[list[Any]]):
    """What the releases over sites share: the value is a list with the records of each site.

    Args:
        terms: The public settings.

    Guarantee:
        That of `NoiseOfSites`.

    Source:
        Proof: docs/proofs/secure-sums.md.
    """

    def __init__(self, terms: SearchTerms):
        self.terms, self.manifold = terms, terms.manifold
        self.noise = terms.noise_of_sites
        self.n = sum(terms.sizes.values())
        needs_log(self.manifold, "a search over sites")
        self.domain = terms.domain

    @property
    def plan(self) -> SearchPlan:
        """What the search does: public numbers only."""
        return self.terms.plan

    @property
    def guarantee(self) -> Guarantee:
        """For every record, or person, of every site."""
        return self.terms.guarantee

    @property
    def quoted_budget(self) -> Budget:
        """That of the terms."""
        return self.terms.budget

    @property
    def arithmetic(self) -> str:
        """Noise is in integers, on public grids."""
        return LATTICE

    def _check_noise(self) -> None:
        check_drawable(self.noise.each, self.manifold.dim)

    def _admit(self, value: list[Any]) -> list[Any]:
        if isinstance(self.terms.search, AdaptiveBall):
            self.terms.check_plan()
        return value

    def _asked(self, value: list[Any], source: NoiseSource, permit: Permit) -> SumsOverSites:
        """The server of all sites, each of which draws for itself, but for a simulation. A record
        is at one site, so each of them answers for the whole (docs/proofs/secure-sums.md).
        """
        each = permit.among_parts(1)
        sites = [
            SearchSite(
                self.domain,
                records,
                self.noise,
                source if source.reproducible else noise_source(None),
                each,
            )
            for records in value
        ]
        return SumsOverSites(self.domain, self.terms, in_process(self.terms, sites))

    def _draw(self, value: list[Any], source: NoiseSource) -> Drawn:
        raise NotImplementedError  # the sites need the permit of the whole

    def _draw_parts(self, value: list[Any], source: NoiseSource, permit: Permit) -> Drawn:
        return self._whole(self._asked(value, source, permit))

    def drawn(self, server: SumsOverSites) -> Drawn:
        """The result of a search by this server: a function of the sums that it is told."""
        raise NotImplementedError

    def finished(self, server: SumsOverSites, *, reproducible: bool = False) -> Release:
        """The release of a search by a server that has no records. Its sites have charged it.

        Args:
            server: What asks the sites.
            reproducible: Whether they draw from a seed.
        """
        return self._told(self._whole(server), self.guarantee, reproducible=reproducible)

    def _whole(self, server: SumsOverSites) -> Drawn:
        """The result, with the facts of people. Their records are averaged where they are: no
        record is moved before, whether the ball is public or found.
        """
        drawn = self.drawn(server)
        if not self.terms.of_people:
            return drawn
        known = {**drawn.details, **facts_of(self.n, found=True)}
        return dataclasses.replace(drawn, details=known)

    def _facts(self, server: SumsOverSites, found: SearchResult | None = None) -> dict[str, Any]:
        terms = self.terms
        told: dict[str, Any] = {
            "n": self.n,
            "sites": len(terms.sizes),
            "sizes": tuple(terms.sizes.values()),
            "noise": terms.noise,
            "sums": len(server.transcript),
            "failed_sums": server.failed,
            "manifold": self.manifold,
            "budget": terms.budget,
        }
        if terms.shares_noise:
            told["tolerated"] = terms.tolerated
        if found is not None:
            told |= {**facts_of_search(server, found), "search": terms.search}
        return told


class BallOverSites(OverSites):
    """Release a ball that holds most records of several sites."""

    name: ClassVar[str] = "private-ball"
    words: ClassVar[str] = (
        "noisy counts of records and noisy means of clipped tangent vectors, each a sum over sites,"
        " which locate a ball; the guarantee covers all these sums, which the server sees"
    )

    def drawn(self, server: SumsOverSites) -> Drawn:
        """A `Ball`."""
        found = run_search(self.plan, server)
        radius = final_radius(server, found)
        size = server.size(radius)
        outside = outside_of(server, found, radius)
        facts = self._facts(server, found) | {"outside": outside}
        return Drawn(Ball(server.center, size), size, 1.0, None, facts)


class MeanOverSites(OverSites):
    """Release the mean of the clipped tangent vectors of several sites, in a ball that they find on
    the way, and the variance about it.

    Args:
        terms: The public settings.
    """

    name: ClassVar[str] = "adaptive-mean"
    words: ClassVar[str] = (
        "a search for a ball by noisy counts of records and noisy means of clipped tangent vectors,"
        " then Gaussian noise on the mean of clipped tangent vectors at its centre, each a sum over"
        " sites; the guarantee covers all these sums, which the server sees"
    )

    def drawn(self, server: SumsOverSites) -> Drawn:
        """A point."""
        manifold = self.manifold
        found = run_search(self.plan, server)
        center, r = server.center, server.size(found.radius)
        stretch = found.plan.stretch
        outside = outside_of(server, found, found.radius)
        left, variance = float(server.left), self.terms.variance
        ask = server.tangents(r, left * (1.0 - variance))
        heard = server.summed(ask)
        noisy, deviation = stretch * heard.mean, stretch * heard.deviation
        shorter = kept(self.noise.each, manifold, center, noisy, deviation, r)
        value = end_of(manifold, center, shorter)
        lengths = gaussian_law(manifold.dim, deviation, exact=False)
        query = TangentMean(Domain(manifold, center, r), heard.records)
        spread: dict[str, Any] = {}
        if variance > 0.0:
            spread = self._variance(server, value, r, left * variance, stretch)
        facts = self._facts(server, found) | {
            "ball": Ball(center, r),
            "radius": r,
            "query": Query.TANGENTS,
            "outside": outside,
            **spread,
        }
        seen = observed(query, noisy, lengths, stretch * heard.slack, stretch)
        law = shrunk_law(manifold, r, lengths)
        sensitivity = stretch * ask.sensitivity / heard.records
        return Drawn(value, deviation, sensitivity, law, facts, seen)

    def _variance(
        self, server: SumsOverSites, center: Point, r: float, share: float, stretch: float
    ) -> dict[str, Any]:
        heard = server.summed(server.squares(center, r, share))
        spread = min(max(stretch * float(heard.mean[0]), 0.0), r**2)
        return {"variance": spread, "variance_deviation": stretch * heard.deviation}


class VarianceOverSites(OverSites):
    """Release the Frechet variance of the records of several sites about a public point."""

    name: ClassVar[str] = "frechet-variance"
    words: ClassVar[str] = (
        "Gaussian noise on the mean squared distance from the centre, each distance cut off at the"
        " radius, as a sum over sites"
    )

    def drawn(self, server: SumsOverSites) -> Drawn:
        """A number from 0 to r^2."""
        domain = self.terms.search.on(self.manifold)
        ask = server.squares(domain.center, domain.radius, 1.0)
        heard = server.summed(ask)
        line, law = Euclidean(), gaussian_law(1, heard.deviation, exact=False)
        place = "the noisy number that was released"
        seen = Observation(line, line.origin, heard.mean, law, heard.slack, place=place)
        largest = domain.radius**2
        facts = self._facts(server) | {
            "ball": self.terms.search,
            "radius": domain.radius,
            "query": Query.VARIANCE,
            "unit": "squared distance",
            "clipping": (
                "every distance from the centre is cut off at the radius; a record that is not a"
                " valid point counts as the centre"
            ),
        }
        value = np.clip(np.asarray(heard.mean[0]), 0.0, largest)
        sensitivity = ask.sensitivity / heard.records
        return Drawn(value, heard.deviation, sensitivity, capped(law, largest), facts, seen)


def in_process(terms: SearchTerms, sites: Sequence[SearchSite]) -> Parties:
    """All sites of a search, in the order of its terms."""
    held = dict(zip(terms.sizes, sites, strict=True))
    least = terms.noise_of_sites.least if terms.shares_noise else None
    return Parties(held, Search(terms).asked, lambda name, ask: held[name].answer(ask), least)


def mechanism_of(terms: SearchTerms) -> OverSites:
    """What releases what was agreed."""
    made = {"ball": BallOverSites, "mean": MeanOverSites, "variance": VarianceOverSites}
    return made[terms.release](terms)


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
            try:
                people = of_groups(manifold, X, None if groups is None else groups[i], None)
                records, n = admit_in_parts(manifold, "X", people.points if people else X)
            except InvalidArgument as error:
                raise InvalidArgument(f"argument `sites`, site {i}: {error}") from error
            in_memory = not isinstance(records, Stream)
            self.records.append(map_leaves(np.asarray, records) if in_memory else records)
            self.sizes[f"site-{i}"] = n
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
        release = mechanism.release(self.records, rng, ledger=ledger)
        warn_of(release.guarantee, terms.budget.delta, mechanism.n)
        warn_of_counts(release.details.get("valid"), release.details.get("outside"))
        return release
