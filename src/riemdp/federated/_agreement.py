"""`Agreement`: the file that all parties of a federated run sign, read and checked.

The file is text that a person can read. Its fingerprint is the SHA-256 of its bytes, the number
that `sha256sum agreement.toml` prints, so that nobody needs this library to compare two copies.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .. import manifolds, optimizers, problems
from .._errors import InvalidArgument, RiemdpError, integer
from ..domains import AdaptiveBall, Ball
from ..manifolds import AbstractManifold
from ..manifolds._base import Point
from ..manifolds._spd import AbstractSPD
from ..mechanisms._common import needs_log
from ..optimizers._people import MOST
from ..privacy import Budget
from ..privacy._guarantee import PERSON, RECORD, UNITS
from ..problems import Problem
from ._prirfed import NOISES, PriRFed
from ._tables import Tables
from ._terms import RELEASES, SearchTerms, Setup

_LARGEST = 1 << 20  # bytes of the file
# The keys that each table of a run of rounds, and of a search, may hold; those of [space],
# [problem] and [local] are checked where they are used.
_ROUNDS = {
    "": {"run", "start", "space", "problem", "domain", "local", "rounds", "privacy", "site"},
    "domain": {"center", "radius"},
    "privacy": {"epsilon", "delta", "noise", "tolerated", "unit", "records-per-person"},
    "rounds": {
        "rounds",
        "agents-per-round",
        "over-invite",
        "quorum",
        "participation",
        "aggregate",
        "output",
        "min-agents",
    },
}
_SEARCH = {
    "": {"run", "space", "search", "domain", "privacy", "site"},
    "search": {"release", "variance", "smallest"},
    "domain": {"center", "radius"},
    "privacy": {"epsilon", "delta", "noise", "tolerated", "unit"},
}
_IN_ROUNDS = ("run", "problem", "local", "rounds", "privacy", "site")  # what must be there
_IN_SEARCH = ("run", "space", "search", "privacy", "site")


@dataclass(frozen=True)
class Party:
    """One site of an agreement.

    Attributes:
        name: The name of its file (`Site.name`), by which the server knows it.
        key: Its long-term public key (X25519), 64 hexadecimal digits; None where none is needed.
    """

    name: str
    key: str | None = None


@dataclass(frozen=True)
class Agreement:
    """What the parties of a federated run have agreed on, as they wrote it: rounds of PriRFed or,
    where the file has a table [search], a ball that the sites find together and what follows it.

    Make one with `Agreement.read`. docs/howto/federated.md has whole files with every key.

    Attributes:
        run: The name of the run. Another run has another name, so that it is another agreement.
        sites: The sites, at least two.
        noise: "local" (each site adds all the noise that its guarantee needs) or "shared" (under
            secure sums).
        tolerated: How many sites may drop out or collude, where noise is shared.
        terms: The settings of the run: a `Setup`, or those of a search.
        text: The whole file.
    """

    run: str
    sites: tuple[Party, ...]
    noise: str
    tolerated: int
    terms: Setup | SearchTerms = field(compare=False, repr=False)
    text: str = field(repr=False)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the file, 64 hexadecimal digits; `terms.fingerprint` is the same."""
        return fingerprint(self.text)

    @staticmethod
    def read(path: str | os.PathLike[str]) -> Agreement:
        """The agreement of a TOML file.

        Args:
            path: The file, `agreement.toml` by convention.

        Returns:
            The agreement, every setting checked.

        Raises:
            InvalidArgument: The file cannot be read, lacks a key or holds one that means nothing,
                or there are too few records for a search; the message names the key and the remedy.
        """
        target, text, told = _text_of(path)
        if text not in _KEPT:
            made = _Reader(f"the agreement {target}").agreement(told, text)
            if len(_KEPT) >= 64:
                _KEPT.clear()
            _KEPT[text] = made
        return _KEPT[text]

    def differences(self, config: Mapping[str, Any]) -> tuple[str, ...]:
        """The keys of a run's configuration that contradict the agreement.

        The sites ignore that configuration. A person who starts a run with a key of the agreement
        in it, and another value, expects something else than what was agreed, and is told so.

        Args:
            config: The configuration, such as the engine's run configuration.

        Returns:
            The keys, sorted; those that the agreement does not have are left out.
        """
        flat: dict[str, Any] = {"unit": RECORD}
        told = tomllib.loads(self.text)
        for key, value in told.items():
            flat |= value if isinstance(value, dict) else {key: value}
        flat["agents"] = len(told["site"])
        known = {_plain(key): value for key, value in flat.items() if key not in ("name", "site")}
        return tuple(
            sorted(k for k, v in config.items() if _plain(k) in known and v != known[_plain(k)])
        )


def _text_of(path: str | os.PathLike[str]) -> tuple[Path, str, dict[str, Any]]:
    """The file itself, its text, and the TOML in it."""
    target = Path(path).expanduser().resolve()
    try:
        with target.open("rb") as file:
            content = file.read(_LARGEST + 1)
        if len(content) > _LARGEST:
            raise ValueError("it is larger than 1 MiB")
        text = content.decode("utf-8")
        return target, text, tomllib.loads(text)
    except (OSError, ValueError) as error:
        raise InvalidArgument(f"the agreement {target} cannot be read: {error}") from error


# By text, so that a process which reads an agreement for every message has one problem, and
# calibrates its noise once.
_KEPT: dict[str, Agreement] = {}


def fingerprint(text: str) -> str:
    """SHA-256 of the bytes of an agreement."""
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(key: str) -> str:
    return key.replace("_", "-")


class _Reader(Tables):
    """Turns the tables of an agreement into settings."""

    def agreement(self, told: dict[str, Any], text: str) -> Agreement:
        """The agreement of the TOML that this text is."""
        searched = "search" in told
        wanted = _SEARCH if searched else _ROUNDS
        self.known(wanted, "", told)
        for key in _IN_SEARCH if searched else _IN_ROUNDS:
            if key not in told:
                of = " of a search" if searched else ""
                self.wrong(f"lacks {key!r}; docs/howto/federated.md has a whole file{of}")
        run = self.name_of_run(told)
        names = wanted[""] - {"run", "start", "site"}
        tables = {name: self.table(told, name) for name in sorted(names)}
        unit, most = self.unit(tables["privacy"], searched)
        for name in sorted(names & set(wanted)):
            self.known(wanted, name, tables[name])
        sites, sizes = self.sites(told["site"], unit, searched)
        noise, tolerated = self.noise(tables["privacy"], sites)
        common = {
            "budget": self.budget(tables["privacy"]),
            "unit": unit,
            "document": fingerprint(text),
            "keys": tuple((p.name, p.key) for p in sites if p.key) if noise == "shared" else (),
        }
        space = self.space(tables["space"]) if "space" in told else None
        terms: Setup | SearchTerms
        if searched:
            common |= {"run": run, "sizes": sizes, "noise": noise, "tolerated": tolerated}
            terms = self.search(tables, space, common)
        else:
            common |= {"agents": len(sites), "sites": tuple(party.name for party in sites)}
            common |= {"records_per_person": most}
            sums = {"noise": noise, "tolerated": tolerated} if noise == "shared" else {}
            terms = self.rounds(tables, told.get("start"), space, sums, common)
        return Agreement(run, sites, noise, tolerated, terms, text)

    def rounds(
        self,
        tables: Mapping[str, dict[str, Any]],
        start: Any,
        space: AbstractManifold | None,
        sums: dict[str, Any],
        common: dict[str, Any],
    ) -> Setup:
        """The settings of rounds of PriRFed."""
        problem = self.problem(tables["problem"], space, tables["domain"])
        keywords = {k.replace("-", "_"): v for k, v in tables["rounds"].items()}
        least = keywords.pop("min_agents", None)
        local = self.named("local", tables["local"], optimizers, _is_optimizer)
        given = {"problem": problem, "local": local, **keywords, **sums}
        prirfed = self.made("[rounds]", PriRFed, given)
        initial = self.point("start", start, problem.manifold, problem.ball)
        own = {"prirfed": prirfed, "initial": initial, "min_agents": least}
        return self.made("[rounds]", Setup, common | own)

    def search(
        self,
        tables: Mapping[str, dict[str, Any]],
        space: AbstractManifold | None,
        common: dict[str, Any],
    ) -> SearchTerms:
        """The settings of a search, which there are enough records for."""
        assert space is not None
        asked = tables["search"]
        release = asked.get("release")
        if release not in RELEASES:
            self.wrong(f"has [search] release = {release!r}; choose one of {', '.join(RELEASES)}")
        own = {
            "release": release,
            "variance": asked.get("variance", 0.0),
            "manifold": space,
            "search": self.region(release, asked, tables["domain"], space),
        }
        terms = self.made("[search]", SearchTerms, common | own)
        try:
            needs_log(space, "a search over sites")
            terms.domain  # noqa: B018 - checks the ball
            if release != "variance":
                terms.check_plan()
        except InvalidArgument as error:
            self.wrong(f"has an unusable [search]: {error}", error)
        return terms

    # ---------------------------------------------------------------- parts
    def name_of_run(self, told: dict[str, Any]) -> str:
        run = told["run"]
        if not isinstance(run, str) or not run.strip():
            self.wrong(f"has run = {run!r}; give this run a name, such as 'descriptors 2026-11'")
        return run

    def space(self, table: dict[str, Any]) -> AbstractManifold:
        return self.named("space", table, manifolds, _is_space)

    def problem(
        self, table: dict[str, Any], space: AbstractManifold | None, domain: dict[str, Any]
    ) -> Problem:
        build = self.member("problem", table, problems, _is_problem)
        takes = inspect.signature(build).parameters
        given = dict(table)
        if ("manifold" in takes) != (space is not None):
            self.wrong(
                f"has the problem {table['name']!r}, which "
                + (
                    "needs a table [space]"
                    if space is None
                    else "has a space of its own: no [space]"
                )
            )
        if space is not None:
            given["manifold"] = space
        if domain:
            if "ball" not in takes or space is None:
                self.wrong(f"has a [domain], and the problem {table['name']!r} takes none; omit it")
            given["ball"] = self.ball(space, domain)
        return self.named("problem", given, problems, _is_problem)

    def ball(self, space: AbstractManifold, domain: dict[str, Any]) -> Ball:
        if "radius" not in domain:
            self.wrong("lacks [domain] radius, a public radius that holds (nearly) every record")
        center = self.point("[domain] center", domain.get("center"), space)
        return self.made("[domain]", Ball, {"center": center, "radius": domain["radius"]})

    def point(
        self, key: str, given: Any, space: AbstractManifold, ball: Ball | None = None
    ) -> Point:
        """A public point: "origin", "diag:A", or its numbers; by default the centre or origin."""
        if given is None and ball is not None:
            return ball.center
        if given is None or given == "origin":
            return space.origin
        try:
            if isinstance(given, str):
                if not given.startswith("diag:") or not isinstance(space, AbstractSPD):
                    raise ValueError(
                        "words are 'origin' and, for positive definite matrices, 'diag:A'"
                    )
                point = float(given[5:]) * np.asarray(space.origin)
            else:
                point = np.asarray(given, dtype=np.float64)
            if not bool(space.belongs(point, 1e-6)):
                raise ValueError(f"it is no point of {space!r}")
        except (ValueError, TypeError, RiemdpError) as error:
            self.wrong(f"has an unusable {key}: {error}", error)
        point.setflags(write=False)
        return point

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

    def sites(
        self, told: Any, unit: str, searched: bool
    ) -> tuple[tuple[Party, ...], dict[str, int]]:
        """The sites and, for a search, how many records, or people, each has: public, because its
        plan needs them.
        """
        if (
            not isinstance(told, list)
            or len(told) < 2
            or not all(isinstance(s, dict) for s in told)
        ):
            self.wrong("must have at least two tables [[site]], one for each site")
        key, other = ("people", "records") if unit == PERSON else ("records", "people")
        if searched and any(other in table for table in told):
            self.wrong(
                f"has {other!r} in a [[site]], and [privacy] unit = {unit!r}: give"
                f" {key} = ..., its public number of {key}"
            )
        parties = tuple(self.party(table, {key} if searched else set()) for table in told)
        for what, values in (
            ("name", [p.name for p in parties]),
            ("key", [p.key for p in parties if p.key is not None]),
        ):
            if len(set(values)) < len(values):
                self.wrong(f"has two sites with one {what}; every site needs its own")
        if not searched:
            return parties, {}
        try:
            sizes = {
                party.name: integer(key, table.get(key))
                for party, table in zip(parties, told, strict=True)
            }
        except InvalidArgument as error:
            self.wrong(f"has a [[site]] without its public number of {key}: {error}", error)
        return parties, sizes

    def party(self, table: dict[str, Any], counted: set[str]) -> Party:
        """One site, of which a search has the size, too."""
        unknown = sorted(set(table) - {"name", "key"} - counted)
        name, key = table.get("name"), table.get("key")
        if unknown:
            known = ", ".join(["name", "key", *counted])
            self.wrong(f"has {unknown[0]!r} in a [[site]]; known are {known}")
        if not isinstance(name, str) or not name.strip():
            self.wrong("has a [[site]] without a name")
        if key is not None and not re.fullmatch(r"[0-9a-f]{64}", str(key)):
            self.wrong(
                f"has an unusable key for the site {name!r}; `riemdp federated key` makes one"
            )
        return Party(name, key)

    def noise(self, privacy: dict[str, Any], sites: tuple[Party, ...]) -> tuple[str, int]:
        """Who adds the noise, and how many sites may drop out or collude."""
        noise, tolerated = privacy.get("noise", "local"), privacy.get("tolerated", 0)
        if noise not in NOISES:
            self.wrong(f"has [privacy] noise = {noise!r}; choose 'local' or 'shared'")
        most = len(sites) - 1 if noise == "shared" else 0
        if type(tolerated) is not int or not 0 <= tolerated <= most:
            self.wrong(
                f"has [privacy] tolerated = {tolerated!r}; give a whole number from 0 to {most}"
                + ("" if noise == "shared" else " (it has a meaning for noise = 'shared' only)")
            )
        for party in sites if noise == "shared" else ():
            if party.key is None:
                self.wrong(
                    f"has no key for the site {party.name!r}, which noise = 'shared' needs;"
                    " `riemdp federated key` makes one"
                )
        return noise, tolerated

    def unit(self, privacy: dict[str, Any], searched: bool) -> tuple[str, int]:
        """What is protected, and how many records of one person enter an answer at most: in a
        search a person counts by the mean of their records, however many.
        """
        unit, most = privacy.get("unit", RECORD), privacy.get("records-per-person", MOST)
        if unit not in UNITS:
            self.wrong(f"has [privacy] unit = {unit!r}; choose 'record' or 'person'")
        if "records-per-person" in privacy and searched:
            self.wrong(
                "has [privacy] records-per-person, which a search does not need: every person"
                " counts once, by the mean of all records of that person; leave it out"
            )
        if "records-per-person" in privacy and unit != PERSON:
            self.wrong("has [privacy] records-per-person, which needs unit = 'person'")
        return unit, most

    def budget(self, privacy: dict[str, Any]) -> Budget:
        """The budget, which the file has to give."""
        for name in ("epsilon", "delta"):
            if name not in privacy:
                self.wrong(f"lacks [privacy] {name}")
        given = {name: privacy[name] for name in ("epsilon", "delta")}
        return self.made("[privacy]", Budget, given)


def _is_space(value: Any) -> bool:
    return (
        isinstance(value, type)
        and issubclass(value, AbstractManifold)
        and value not in (AbstractManifold, manifolds.Product)
    )


def _is_optimizer(value: Any) -> bool:
    return isinstance(value, type) and value in optimizers.OPTIMIZERS


def _is_problem(value: Any) -> bool:
    made = inspect.isfunction(value) and inspect.signature(value).return_annotation
    return made in (Problem, "Problem")
