"""What is public of a mean in a public ball, and what its release is told: no record comes here."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ..domains import Ball, Domain
from ..inference import Query
from ..inference._counts import warn_of_counts
from ..mechanisms import Release
from ..mechanisms._for_mean import MeanFacts
from ..privacy import Budget
from ..privacy._guarantee import ADD_REMOVE
from ._choices import AUTO


@dataclasses.dataclass(frozen=True, eq=False)
class Asked:
    """A mean in a public ball: what is public of it.

    Attributes:
        mean: What mechanisms are told.
        ball: The ball as it was given.
        budget: What is stated of what is spent.
        weighted: Whether there are weights, public ones or the records' own.
        people: Public facts about people, where they are protected.
    """

    mean: MeanFacts
    ball: Ball
    budget: Budget
    weighted: bool
    people: Mapping[str, Any]

    @property
    def is_protected(self) -> bool:
        """Whether the number of records is private."""
        return self.mean.adjacency == ADD_REMOVE

    @property
    def shown(self) -> int | None:
        """The number of records, where it is public."""
        return None if self.is_protected else self.mean.n

    def told(self, plan: str | None) -> dict[str, Any]:
        """Public facts of the release."""
        mean = self.mean
        chosen_by = {} if plan is None else {"chosen_by": AUTO, "plan": plan}
        return {
            "n_min" if self.is_protected else "n": mean.n,
            "radius": mean.domain.radius,
            "query": Query.MEAN,
            "weighted": self.weighted,
            "manifold": mean.manifold,
            "ball": self.ball,
            "budget": self.budget,
            **self.people,
            **chosen_by,
        }

    def finished(
        self, release: Release, plan: str | None, local: Domain, slack: float | None
    ) -> Release:
        """The release in the user's space, with more public facts, and warnings: post-processing.
        With `slack`, a bound of the solver's error, so is what it shows of the mean.
        """
        domain = self.mean.domain
        value, seen = release.value, release.observation
        if local is not domain:
            value = domain.frame.back(value)
        if seen is not None and slack is not None:
            seen = seen.within(domain, slack)
        return told(release._with(value=value, observation=seen), self.told(plan))


def told(release: Release, facts: Mapping[str, Any]) -> Release:
    """The release with more public facts, and warnings, by released numbers."""
    warn_of_counts(release.facts.valid, release.facts.outside)
    release = release._knowing(facts)
    release._warn_of_noise()
    return release
