"""`Agreement`: the file that all parties of a federated run sign, read and checked.

The file is text that a person can read. Its fingerprint is the SHA-256 of its bytes, the number
that `sha256sum agreement.toml` prints, so that nobody needs this library to compare two copies.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import os
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
from ..privacy import Budget
from ..privacy._guarantee import PERSON, RECORD, UNITS
from ..problems import Problem
from ._prirfed import PriRFed
from ._tables import Tables
from ._terms import Party, SearchTerms, Setup

_LARGEST = 1 << 20  # bytes of the file
# The keys that each table of a run of rounds, and of a search, may hold; those of [space],
# [problem] and [local] are checked where they are used.
_ROUNDS = {
    "": {"run", "start", "space", "problem", "domain", "local", "rounds", "privacy", "site"},
    "domain": {"center", "radius"},
    "privacy": {"epsilon", "delta", "noise", "tolerated", "unit"},
    "rounds": {
        "rounds",
        "agents-per-round",
        "quorum",
        "participation",
        "aggregate",
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
class Agreement:
    """What the parties of a federated run have agreed on, as they wrote it: rounds of PriRFed or,
    where the file has a table [search], a ball that the sites find together and what follows it.

    Make one with `Agreement.read`. docs/howto/federated.md has whole files with every key.

    Attributes:
        run: The name of the run. Another run has another name, so that it is another agreement.
        terms: The settings of the run: a `Setup`, or those of a search.
        text: The whole file.
    """

    run: str
    terms: Setup | SearchTerms = field(compare=False, repr=False)
    text: str = field(repr=False)

    @property
    def sites(self) -> tuple[Party, ...]:
        """The sites, at least two."""
        return self.terms.parties

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
        return _made(*_text_of(path))

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


def _text_of(path: str | os.PathLike[str]) -> tuple[Path, str]:
    """The file itself, and its text."""
    target = Path(path).expanduser().resolve()
    try:
        with target.open("rb") as file:
            content = file.read(_LARGEST + 1)
        if len(content) > _LARGEST:
            raise ValueError("it is larger than 1 MiB")
        text = content.decode("utf-8")
        tomllib.loads(text)
        return target, text
    except (OSError, ValueError) as error:
        raise InvalidArgument(f"the agreement {target} cannot be read: {error}") from error


@functools.lru_cache(maxsize=64)
def _made(target: Path, text: str) -> Agreement:
    """The agreement that a file has, kept by its text: a process which reads it for every message
    has one problem, and calibrates its noise once.
    """
    return _Reader(f"the agreement {target}").agreement(tomllib.loads(text), text)


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
        run = told["run"]
        if not isinstance(run, str) or not run.strip():
            self.wrong(f"has run = {run!r}; give this run a name, such as 'descriptors 2026-11'")
        names = wanted[""] - {"run", "start", "site"}
        tables = {name: self.table(told, name) for name in sorted(names)}
        for name in sorted(names & set(wanted)):
            self.known(wanted, name, tables[name])
        privacy = {key.replace("-", "_"): value for key, value in tables["privacy"].items()}
        if privacy.get("unit", RECORD) not in UNITS:
            self.wrong(f"has [privacy] unit = {privacy['unit']!r}; choose 'record' or 'person'")
        if "delta" not in privacy:  # a `Budget` has one by itself
            self.wrong("lacks [privacy] delta")
        spent = {name: privacy.pop(name) for name in ("epsilon", "delta") if name in privacy}
        common = {"budget": self.made("[privacy]", Budget, spent), "document": fingerprint(text)}
        space = self.space(tables["space"]) if "space" in told else None
        if searched:
            terms = self.search(run, tables, told["site"], space, privacy, common)
        else:
            terms = self.rounds(tables, told, space, privacy, common)
        return Agreement(run, terms, text)

    def rounds(
        self,
        tables: Mapping[str, dict[str, Any]],
        told: Mapping[str, Any],
        space: AbstractManifold | None,
        privacy: dict[str, Any],
        common: dict[str, Any],
    ) -> Setup:
        """The settings of rounds of PriRFed."""
        problem = self.problem(tables["problem"], space, tables["domain"])
        keywords = {k.replace("-", "_"): v for k, v in tables["rounds"].items()}
        least = keywords.pop("min_agents", None)
        sums = {key: privacy.pop(key) for key in ("noise", "tolerated") if key in privacy}
        local = self.named("local", tables["local"], optimizers, _is_optimizer)
        given = {"problem": problem, "local": local, **keywords, **sums}
        prirfed = self.made("[rounds]", PriRFed, given)
        parties = self.parties(told["site"])
        own = {
            "prirfed": prirfed,
            "initial": self.point("start", told.get("start"), problem.manifold, problem.ball),
            "agents": len(parties),
            "min_agents": least,
            "parties": parties,
        }
        return self.made("[rounds]", Setup, common | privacy | own)

    def search(
        self,
        run: str,
        tables: Mapping[str, dict[str, Any]],
        sites: Any,
        space: AbstractManifold | None,
        privacy: dict[str, Any],
        common: dict[str, Any],
    ) -> SearchTerms:
        """The settings of a search, which there are enough records for."""
        assert space is not None
        asked = tables["search"]
        unit = privacy.get("unit", RECORD)
        counted, other = ("people", "records") if unit == PERSON else ("records", "people")
        parties = self.parties(sites, (counted, other))
        if any(other in site for site in sites):
            self.wrong(
                f"has {other!r} in a [[site]], and [privacy] unit = {unit!r}: give"
                f" {counted} = ..., its public number of {counted}"
            )
        own = {
            "release": asked.get("release"),
            "variance": asked.get("variance", 0.0),
            "manifold": space,
            "search": self.region(asked, tables["domain"], space),
            "run": run,
            "parties": parties,
            "sizes": self.sizes(parties, sites, counted),
        }
        terms = self.made("[search]", SearchTerms, common | privacy | own)
        try:
            if terms.release != "variance":
                terms.check_plan()
        except InvalidArgument as error:
            self.wrong(f"has an unusable [search]: {error}", error)
        return terms

    # ---------------------------------------------------------------- parts
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
        self, asked: dict[str, Any], domain: dict[str, Any], space: AbstractManifold
    ) -> AdaptiveBall | Ball:
        """Where the ball is searched, or the public ball that the variance is about."""
        ball = self.ball(space, domain) if domain else None
        if asked.get("release") != "variance":
            given = {k: v for k, v in asked.items() if k == "smallest"}
            return self.made("[search]", AdaptiveBall, {"outer": ball, **given})
        if ball is None or "smallest" in asked:
            self.wrong("has [search] release = 'variance', which needs a [domain], and no smallest")
        return ball

    def parties(self, told: Any, counted: tuple[str, ...] = ()) -> tuple[Party, ...]:
        """The sites; in a search `counted` of each of them is read elsewhere."""
        if (
            not isinstance(told, list)
            or len(told) < 2
            or not all(isinstance(s, dict) for s in told)
        ):
            self.wrong("must have at least two tables [[site]], one for each site")
        return tuple(
            self.made("[[site]]", Party, {k: v for k, v in table.items() if k not in counted})
            for table in told
        )

    def sizes(
        self, parties: tuple[Party, ...], told: list[dict[str, Any]], counted: str
    ) -> dict[str, int]:
        """How many records, or people, each site has: public, because the plan needs them."""
        try:
            return {
                party.name: integer(counted, table.get(counted))
                for party, table in zip(parties, told, strict=True)
            }
        except InvalidArgument as error:
            self.wrong(f"has a [[site]] without its public number of {counted}: {error}", error)


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
