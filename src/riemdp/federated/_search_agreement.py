"""`SearchAgreement`: the file that the parties of a search for a ball sign, read and checked."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .._errors import InvalidArgument, integer, real
from ..domains import AdaptiveBall
from ..manifolds import AbstractManifold
from ..mechanisms._common import needs_log
from ..mechanisms._search_sites import KINDS, SCALE, SQUARES, TANGENTS, VALID, WITHIN
from ..privacy import Budget
from ..privacy._guarantee import PERSON
from ._agreement import Agreement, Party, _Reader, differences, fingerprint, text_of
from ._search_terms import Terms

RELEASES = ("ball", "mean", "variance")
_LEAST_LAST = 0.3 * 0.4 / 8  # the share of a count after the search for a ball alone is larger
_WANTED = {
    "": {"run", "space", "search", "domain", "privacy", "site"},
    "search": {"release", "variance", "smallest"},
    "domain": {"center", "radius"},
    "privacy": {"epsilon", "delta", "noise", "tolerated", "unit"},
}


@dataclass(frozen=True)
class SearchAgreement:
    """What the parties of a search have agreed on, as they wrote it: a ball that the sites find
    together, and what follows it.

    Make one with `SearchAgreement.read`. docs/howto/federated.md has a whole file with every key.

    Attributes:
        run: The name of the run. Another run has another name, so that it is another agreement.
        sites: The sites, at least two.
        release: "ball", "mean" (a ball, then the mean in it) or "variance" (about a public ball's
            centre).
        variance: The share of what the search leaves that is for the variance about the mean.
        terms: The settings of the search; `terms.fingerprint` is `fingerprint`.
        text: The whole file.
    """

    run: str
    sites: tuple[Party, ...]
    release: str
    variance: float
    terms: Terms = field(compare=False, repr=False)
    text: str = field(repr=False)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the file, 64 hexadecimal digits."""
        return fingerprint(self.text)

    @property
    def keys(self) -> dict[str, bytes]:
        """The long-term public keys of the sites by name, where noise is shared."""
        return {party.name: bytes.fromhex(party.key) for party in self.sites if party.key}

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of questions that the agreed plan has."""
        if self.release == "variance":
            return (SQUARES,)
        return KINDS if self.variance > 0.0 else (VALID, SCALE, WITHIN, TANGENTS)

    @property
    def unit(self) -> str:
        """What neighbours differ in: one "record", or everything of one "person"."""
        return self.terms.unit

    @functools.cached_property
    def answers(self) -> int:
        """More questions than this a search never has: their shares would exceed the budget."""
        if self.release == "variance":
            return 1
        plan = self.terms.plan
        shares = (
            plan.valid_share,
            plan.coarse_share,
            plan.fine_share,
            plan.centre_share,
            plan.outside_share,
            _LEAST_LAST,
        )
        return int(1.0 / min(share for share in shares if share > 0.0)) + 2

    @staticmethod
    def read(path: str | os.PathLike[str]) -> SearchAgreement:
        """The agreement of a TOML file with a table [search].

        Args:
            path: The file, `agreement.toml` by convention.

        Returns:
            The agreement, every setting checked.

        Raises:
            InvalidArgument: The file cannot be read, lacks a key or holds one that means nothing,
                or there are too few records for a search; the message names the key.
        """
        target, text, told = text_of(path)
        return _made(target, text, told)

    def differences(self, config: Mapping[str, Any]) -> tuple[str, ...]:
        """The keys of a run's configuration that contradict the agreement, see
        `Agreement.differences`.
        """
        return differences(self.text, config)


def read_agreement(path: str | os.PathLike[str]) -> Agreement | SearchAgreement:
    """The agreement of a file, whichever of the two it is: one with a table [search] is a search.

    Args:
        path: The file.

    Raises:
        InvalidArgument: See `Agreement.read` and `SearchAgreement.read`.
    """
    target, text, told = text_of(path)
    return _made(target, text, told) if "search" in told else Agreement.read(path)


# By text, so that a process which reads an agreement for every message plans it once.
_KEPT: dict[str, SearchAgreement] = {}


def _made(target: Path, text: str, told: dict[str, Any]) -> SearchAgreement:
    if text not in _KEPT:
        made = _SearchReader(target, _WANTED).agreed(told, text)
        if len(_KEPT) >= 64:
            _KEPT.clear()
        _KEPT[text] = made
    return _KEPT[text]


class _SearchReader(_Reader):
    """Turns the tables of one file into the settings of a search."""

    def agreed(self, told: dict[str, Any], text: str) -> SearchAgreement:
        self.known("", told)
        for key in ("run", "space", "search", "privacy", "site"):
            if key not in told:
                self.wrong(f"lacks {key!r}; docs/howto/federated.md has a whole file of a search")
        run = self.name_of_run(told)
        names = ("space", "search", "domain", "privacy")
        tables = {name: self.table(told, name) for name in names}
        privacy, asked = tables["privacy"], tables["search"]
        unit = self.unit_of_search(privacy)
        for name in ("search", "domain", "privacy"):
            self.known(name, tables[name])
        sites, sizes = self.sites_and_sizes(told["site"], unit)
        noise, tolerated = privacy.get("noise", "local"), privacy.get("tolerated", 0)
        self.check_noise(noise, tolerated, sites)
        release = asked.get("release")
        if release not in RELEASES:
            self.wrong(f"has [search] release = {release!r}; choose one of {', '.join(RELEASES)}")
        share = self.share_of_variance(release, asked.get("variance", 0.0))
        space = self.space(tables["space"])
        terms = self.made(
            "[search]",
            Terms,
            {
                "what": f"private-{release}, {share!r} of what is left for the variance",
                "manifold": space,
                "search": self.region(release, asked, tables["domain"], space),
                "budget": self.budget(privacy),
                "sizes": sizes,
                "unit": unit,
                "noise": noise,
                "tolerated": tolerated,
                "run": run,
                "document": fingerprint(text),
            },
        )
        try:
            needs_log(space, "a search over sites")
            terms.domain  # noqa: B018 - checks the ball
            if release != "variance":
                terms.check_plan()
        except InvalidArgument as error:
            self.wrong(f"has an unusable [search]: {error}", error)
        return SearchAgreement(run, sites, release, share, terms, text)

    def unit_of_search(self, privacy: dict[str, Any]) -> str:
        """What is protected: a person counts by the mean of their records, however many."""
        if "records-per-person" in privacy:
            self.wrong(
                "has [privacy] records-per-person, which a search does not need: every person"
                " counts once, by the mean of all records of that person; leave it out"
            )
        return self.unit(privacy)[0]

    def budget(self, privacy: dict[str, Any]) -> Budget:
        budget = self.made("[privacy]", Budget, self.only(privacy, "epsilon", "delta"))
        if budget.delta == 0.0:
            self.wrong(
                "has [privacy] delta = 0, and sums over sites have Gaussian noise: give delta > 0,"
                " such as 1e-6"
            )
        return budget

    def share_of_variance(self, release: str, given: Any) -> float:
        try:
            share = real("variance", given, at_least=0.0, at_most=0.5)
        except InvalidArgument as error:
            self.wrong(f"has an unusable [search]: {error}", error)
        if share > 0.0 and release != "mean":
            self.wrong("has [search] variance, which has a meaning for release = 'mean' only")
        return share

    def region(
        self, release: str, asked: dict[str, Any], domain: dict[str, Any], space: AbstractManifold
    ) -> Any:
        """Where the ball is searched, or the public ball that the variance is about."""
        ball = self.ball(space, domain) if domain else None
        if release != "variance":
            given = {k: v for k, v in asked.items() if k == "smallest"}
            return self.made("[search]", AdaptiveBall, {"outer": ball, **given})
        if ball is None or "smallest" in asked:
            self.wrong("has [search] release = 'variance', which needs a [domain], and no smallest")
        return ball

    def sites_and_sizes(self, told: Any, unit: str) -> tuple[tuple[Party, ...], dict[str, int]]:
        """The sites, and how many records, or people, each has: public, because the plan needs
        them.
        """
        key, other = ("people", "records") if unit == PERSON else ("records", "people")
        parts = told if isinstance(told, list) else []
        tables = [dict(t) for t in parts if isinstance(t, dict)]
        if any(other in t for t in tables):
            self.wrong(
                f"has {other!r} in a [[site]], and [privacy] unit = {unit!r}: give"
                f" {key} = ..., its public number of {key}"
            )
        given = [t.pop(key, None) for t in tables]
        sites = self.sites(tables if len(tables) == len(parts) else told)
        try:
            sizes = {party.name: integer(key, n) for party, n in zip(sites, given, strict=True)}
        except InvalidArgument as error:
            self.wrong(f"has a [[site]] without its public number of {key}: {error}", error)
        return sites, sizes


__all__ = ["SearchAgreement", "read_agreement"]
