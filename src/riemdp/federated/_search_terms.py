"""What the parties of a search over sites agree on."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from .._errors import InvalidArgument, invalid, one_of, real
from ..domains import AdaptiveBall, Ball
from ..domains._adaptive import SearchDomain
from ..manifolds import AbstractManifold
from ..manifolds._base import Point
from ..mechanisms._search_plan import SearchPlan, plan_search
from ..mechanisms._search_sites import (
    KINDS,
    SCALE,
    SQUARES,
    TANGENTS,
    VALID,
    WITHIN,
    NoiseOfSites,
)
from ..privacy import Budget, Guarantee
from ..privacy._guarantee import RECORD, UNITS
from ._terms import NOISES, Terms, digest_of, of_person

RELEASES = ("ball", "mean", "variance")
_LEAST_LAST = 0.3 * 0.4 / 8  # the share of a count after the search for a ball alone is larger


@dataclass(frozen=True, eq=False)
class SearchTerms(Terms):
    """What the parties of a search agree on, made by every party itself.

    Args:
        release: "ball", "mean" (a ball, then the mean in it) or "variance" (about a public ball's
            centre).
        manifold: The space.
        search: Where the ball is searched; a `Ball` where it is public.
        budget: Of all answers together, for each record, or person.
        sizes: The public number of records, or people, of each site, by name.
        noise: "local" or "shared".
        tolerated: q, with shared noise.
        unit: What neighbours differ in, "record" or "person".
        run: Names this run: another one has another fingerprint.
        variance: The share of what the search leaves that is for the variance about the mean.
        document: The fingerprint of the `Agreement` that these were read from, if any.
        keys: (name, long-term public key) of each site, 64 hexadecimal digits, where noise is
            shared and the sites answer messages.

    Raises:
        InvalidArgument: Naming the argument.
    """

    numbered: ClassVar[str] = "question"
    release: str
    manifold: AbstractManifold
    search: Any
    budget: Budget
    sizes: Mapping[str, int]
    noise: str = "local"
    tolerated: int = 0
    unit: str = RECORD
    run: str = ""
    variance: float = 0.0
    document: str | None = None
    keys: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        one_of("release", self.release, RELEASES)
        one_of("noise", self.noise, NOISES)
        one_of("unit", self.unit, UNITS)
        if not self.sizes:
            raise InvalidArgument("argument `sites` is empty; give the records of each site")
        if self.tolerated and not self.shares_noise:
            raise invalid(
                "tolerated", self.tolerated, "it has a meaning for noise='shared' only; leave it 0"
            )
        real("variance", self.variance, at_least=0.0, at_most=0.5)
        if self.variance > 0.0 and self.release != "mean":
            remedy = "it has a meaning for release = 'mean' only; leave it 0"
            raise invalid("variance", self.variance, remedy)
        self.noise_of_sites  # noqa: B018 - checks budget and tolerated

    @property
    def place(self) -> Point:
        """The centre of the place where the sites search."""
        return self.domain.center

    @property
    def names(self) -> tuple[str, ...]:
        """Those that have a size."""
        return tuple(self.sizes)

    @property
    def shares_noise(self) -> bool:
        """Whether `noise` is "shared"."""
        return self.noise == "shared"

    def added_noise(self, records: int) -> float:
        """The noise multiplier of all answers together, whatever the number of records."""
        return self.noise_of_sites.each.multiplier

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of questions that the agreed plan has."""
        if self.release == "variance":
            return (SQUARES,)
        return KINDS if self.variance > 0.0 else (VALID, SCALE, WITHIN, TANGENTS)

    @property
    def numbers(self) -> int:
        """As many as `answers`."""
        return self.answers

    @property
    def answers(self) -> int:
        """More questions than this a search never has: their shares would exceed the budget."""
        if self.release == "variance":
            return 1
        plan = self.plan
        shares = (
            plan.valid_share,
            plan.coarse_share,
            plan.fine_share,
            plan.centre_share,
            plan.outside_share,
            _LEAST_LAST,
        )
        return int(1.0 / min(share for share in shares if share > 0.0)) + 2

    def check_plan(self) -> None:
        """Raise `InvalidArgument` where there are too few records, or people, for a search."""
        self.plan.check(self.counted)

    @functools.cached_property
    def noise_of_sites(self) -> NoiseOfSites:
        """How the sites make the noise."""
        tolerated = self.tolerated if self.shares_noise else None
        return NoiseOfSites(self.budget, len(self.sizes), tolerated)

    @functools.cached_property
    def domain(self) -> SearchDomain:
        """Where the sites search, and measure.

        Raises:
            InvalidArgument: `search` does not fit the space.
        """
        if isinstance(self.search, AdaptiveBall):
            return self.search.on(self.manifold)
        if isinstance(self.search, Ball):  # the place where the sites measure; nothing is searched
            center = self.search.on(self.manifold).center
            return SearchDomain(AdaptiveBall(self.search), self.manifold, center)
        raise invalid("search", self.search, "give a riemdp.AdaptiveBall(...)")

    @functools.cached_property
    def plan(self) -> SearchPlan:
        """What the search does: public numbers only."""
        domain = self.domain
        return plan_search(
            self.noise_of_sites.law,
            sum(self.sizes.values()),
            self.manifold.dim,
            scales=domain.scales,
            largest=1.0,
            smallest=domain.ratio,
        )

    @property
    def guarantee(self) -> Guarantee:
        """Of all answers together, for every record, or person, of every site."""
        whole = self.noise_of_sites.guarantee
        return of_person(whole) if self.of_people else whole

    def _lines(self) -> dict[str, object]:
        ball = self.search.outer if isinstance(self.search, AdaptiveBall) else self.search
        return {
            "release": self.release,
            "variance": self.variance,
            "space": self.manifold,
            "search": type(self.search).__name__,
            "smallest": getattr(self.search, "smallest", None),
            "ball": None if ball is None else (float(ball.radius), digest_of(ball.center)),
            "budget": self.budget,
            "sites": tuple(self.sizes.items()),
            "noise": (self.noise, self.tolerated),
            "unit": self.unit,
            "run": self.run,
        }
