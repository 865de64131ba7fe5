"""What is released of a search over several sites: a ball, the mean in it, and a variance. What is
asked is decided as for one party (`mechanisms._ball_search`); `_search` adds the answers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ..domains import AdaptiveBall, Ball, Domain
from ..inference import Observation, Query
from ..inference._distributions import capped, gaussian_errors
from ..manifolds import Euclidean
from ..manifolds._base import Point
from ..mechanisms import AbstractMechanism, Release
from ..mechanisms._ball_search import SearchResult, run_search
from ..mechanisms._drawn import Drawn, told
from ..mechanisms._lattice import check_drawable
from ..mechanisms._search_facts import facts_of_search, mean_from
from ..mechanisms._search_records import final_radius, outside_of
from ..privacy import Budget, Guarantee
from ..privacy._arithmetic import LATTICE
from ..privacy._permit import Permit
from ..randomness import NoiseSource, noise_source
from ..releases._people import facts_of
from ..statistics import TangentMean
from ._in_process import Parties
from ._search import Search, SumsOverSites
from ._search_sites import SearchSite
from ._terms import SearchTerms


class OverSites(AbstractMechanism[list[Any]]):
    """What the releases over sites share: the value is a list with the records of each site. The
    guarantee is that of `NoiseOfSites`.
    """

    def __init__(self, terms: SearchTerms):
        self.terms, self.manifold = terms, terms.manifold
        self.noise = terms.noise_of_sites
        self.n = sum(terms.sizes.values())
        self.domain = terms.domain

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
        each = permit.among_parts()
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
        return SumsOverSites(self.terms, in_process(self.terms, sites))

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
        return told(self, self._whole(server), self.guarantee, reproducible=reproducible)

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
            "sums": server.asked,
            "failed_sums": server.failed,
            "manifold": self.manifold,
            "budget": terms.budget,
        }
        if terms.shares_noise:
            told["tolerated"] = terms.tolerated
        if found is not None:
            told |= {**facts_of_search(found, server.unit), "search": terms.search}
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
        found = run_search(self.terms.plan, server)
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
        found = run_search(self.terms.plan, server)
        center, r = server.center, server.size(found.radius)
        stretch = found.plan.stretch
        outside = outside_of(server, found, found.radius)
        left, variance = float(server.left), self.terms.variance
        heard = server.summed(server.tangents(r, left * (1.0 - variance)))
        query, each = TangentMean(Domain(self.manifold, center, r), heard.records), self.noise.each
        facts: dict[str, Any] = {
            "ball": Ball(center, r),
            "radius": r,
            "query": Query.TANGENTS,
            "outside": outside,
        }
        drawn = mean_from(query, each, heard.mean, heard.deviation, heard.slack, stretch, facts)
        if variance > 0.0:
            facts |= self._variance(server, drawn.value, r, left * variance, stretch)
        return dataclasses.replace(drawn, details=self._facts(server, found) | facts)

    def _variance(
        self, server: SumsOverSites, center: Point, r: float, share: float, stretch: float
    ) -> dict[str, Any]:
        heard = server.summed(server.squares(center, r, share))
        spread = min(max(stretch * float(heard.mean[0]), 0.0), r**2)
        return {"variance": spread, "variance_deviation": stretch * heard.deviation}


class VarianceOverSites(OverSites):
    """Release the Fréchet variance of the records of several sites about a public point."""

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
        line, lengths = Euclidean(), gaussian_errors(1, heard.deviation, exact=False)
        place = "the noisy number that was released"
        seen = Observation(line, line.origin, heard.mean, lengths, heard.slack, place=place)
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
        return Drawn(value, heard.deviation, sensitivity, capped(lengths, largest), facts, seen)


def in_process(terms: SearchTerms, sites: Sequence[SearchSite]) -> Parties:
    """All sites of a search, in the order of its terms."""
    held = dict(zip(terms.sizes, sites, strict=True))
    least = terms.noise_of_sites.least if terms.shares_noise else None
    asked, reply = Search(terms).asked, lambda name, ask: held[name].answer(ask)
    return Parties(terms.sizes, asked, reply, least)


def mechanism_of(terms: SearchTerms) -> OverSites:
    """What releases what was agreed."""
    made = {"ball": BallOverSites, "mean": MeanOverSites, "variance": VarianceOverSites}
    return made[terms.release](terms)
