"""What the parties of a search over sites agree on, and the fingerprint of it."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .._errors import InvalidArgument, invalid, one_of
from ..domains import AdaptiveBall, Ball
from ..domains._adaptive import SearchDomain
from ..manifolds import AbstractManifold
from ..mechanisms._search_plan import SearchPlan, plan_search
from ..mechanisms._search_sites import NoiseOfSites
from ..privacy import Budget, Guarantee
from ..privacy._guarantee import PERSON, RECORD, UNITS
from ._accounting import of_person
from ._prirfed import NOISES
from ._setup import digest_of, in_words


@dataclass(frozen=True, eq=False)
class Terms:
    """What the parties of a search agree on, made by every party itself.

    Args:
        what: What is released, such as "private-ball".
        manifold: The space.
        search: Where the ball is searched; a `Ball` where it is public.
        budget: Of all answers together, for each record, or person.
        sizes: The public number of records, or people, of each site, by name.
        noise: "local" or "shared".
        tolerated: q, with shared noise.
        unit: What neighbours differ in, "record" or "person".
        run: Names this run: another one has another fingerprint.
        document: The fingerprint of the `SearchAgreement` that these were read from, if any.

    Raises:
        InvalidArgument: Naming the argument.
    """

    what: str
    manifold: AbstractManifold
    search: Any
    budget: Budget
    sizes: Mapping[str, int]
    noise: str = "local"
    tolerated: int = 0
    unit: str = RECORD
    run: str = ""
    document: str | None = None

    def __post_init__(self) -> None:
        one_of("noise", self.noise, NOISES)
        one_of("unit", self.unit, UNITS)
        if not self.sizes:
            raise InvalidArgument("argument `sites` is empty; give the records of each site")
        if self.noise == "local" and self.tolerated:
            raise invalid(
                "tolerated", self.tolerated, "it has a meaning for noise='shared' only; leave it 0"
            )
        self.noise_of_sites  # noqa: B018 - checks budget and tolerated

    @property
    def of_people(self) -> bool:
        """Whether everything of one person is protected."""
        return self.unit == PERSON

    @property
    def counted(self) -> str:
        """What `sizes` counts, in words."""
        return "people" if self.of_people else "records"

    def check_plan(self) -> None:
        """Raise `InvalidArgument` where there are too few records, or people, for a search."""
        self.plan.check(self.counted)

    @functools.cached_property
    def noise_of_sites(self) -> NoiseOfSites:
        """How the sites make the noise."""
        tolerated = self.tolerated if self.noise == "shared" else None
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

    @property
    def text(self) -> str:
        """The settings as text, one a line."""
        ball = self.search.outer if isinstance(self.search, AdaptiveBall) else self.search
        lines = {
            "what": self.what,
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
        return "".join(f"{name}: {in_words(value)}\n" for name, value in lines.items())

    @functools.cached_property
    def fingerprint(self) -> str:
        """That of the agreement, or else SHA-256 of `text`: 64 hexadecimal digits."""
        if self.document is not None:
            return self.document
        return hashlib.sha256(self.text.encode()).hexdigest()
