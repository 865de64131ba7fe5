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
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from .. import manifolds, optimizers, problems
from .._errors import InvalidArgument, RiemdpError
from ..domains import Ball
from ..manifolds import AbstractManifold
from ..manifolds._base import Point
from ..manifolds._spd import AbstractSPD
from ..optimizers._people import MOST
from ..privacy import Budget
from ..privacy._guarantee import PERSON, RECORD, UNITS
from ..problems import Problem
from ._prirfed import PriRFed
from ._setup import Setup

NOISES = ("local", "shared")
_LARGEST = 1 << 20  # bytes of the file
_WANTED = {  # the keys that each table may hold; those of [problem] and [local] are checked later
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
_DEMANDED = ("run", "problem", "local", "rounds", "privacy", "site")


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
    """What the parties of a federated run have agreed on, as they wrote it.

    Make one with `Agreement.read`. docs/howto/federated.md has a whole file with every key.

    Attributes:
        run: The name of the run. Another run has another name, so that it is another agreement.
        sites: The sites, at least two.
        noise: "local" (each site adds all the noise that its guarantee needs) or "shared" (under
            secure sums).
        tolerated: How many sites may drop out or collude, where noise is shared.
        setup: The settings of the run; `setup.agreement` is `fingerprint`.
        text: The whole file.
    """

    run: str
    sites: tuple[Party, ...]
    noise: str
    tolerated: int
    setup: Setup = field(compare=False, repr=False)
    text: str = field(repr=False)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the file, 64 hexadecimal digits."""
        return fingerprint(self.text)

    @staticmethod
    def read(path: str | os.PathLike[str]) -> Agreement:
        """The agreement of a TOML file.

        Args:
            path: The file, `agreement.toml` by convention.

        Returns:
            The agreement, every setting checked.

        Raises:
            InvalidArgument: The file cannot be read, lacks a key or holds one that means nothing;
                the message names the key and the remedy.
        """
        target, text, told = text_of(path)
        if "search" in told:
            raise InvalidArgument(
                f"the agreement {target} is one of a search: read it with SearchAgreement.read"
            )
        if text not in _KEPT:
            made = _Reader(target).agreement(told, text)
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
        return differences(self.text, config)


def text_of(path: str | os.PathLike[str]) -> tuple[Path, str, dict[str, Any]]:
    """The file itself, its text, and the TOML in it.

    Raises:
        InvalidArgument: It cannot be read.
    """
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


def differences(text: str, config: Mapping[str, Any]) -> tuple[str, ...]:
    """The keys of a configuration that contradict an agreement of this text, sorted."""
    flat: dict[str, Any] = {"unit": RECORD}
    told = tomllib.loads(text)
    for key, value in told.items():
        flat |= value if isinstance(value, dict) else {key: value}
    flat["agents"] = len(told["site"])
    known = {_plain(key): value for key, value in flat.items() if key not in ("name", "site")}
    return tuple(
        sorted(k for k, v in config.items() if _plain(k) in known and v != known[_plain(k)])
    )


# By text, so that a process which reads an agreement for every message has one problem, and
# calibrates its noise once.
_KEPT: dict[str, Agreement] = {}


def fingerprint(text: str) -> str:
    """SHA-256 of the bytes of an agreement."""
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(key: str) -> str:
    return key.replace("_", "-")


class _Reader:
    """Turns the tables of one file into settings; every complaint names the file and the key."""

    def __init__(self, path: Path, wanted: Mapping[str, set[str]] = _WANTED):
        self.path, self.wanted = path, wanted

    def wrong(self, what: str, cause: Exception | None = None) -> NoReturn:
        raise InvalidArgument(f"the agreement {self.path} {what}") from cause

    def agreement(self, told: dict[str, Any], text: str) -> Agreement:
        self.known("", told)
        for key in _DEMANDED:
            if key not in told:
                self.wrong(f"lacks {key!r}; docs/howto/federated.md has a whole file")
        run = self.name_of_run(told)
        tables = {
            name: self.table(told, name)
            for name in ("space", "problem", "domain", "local", "rounds", "privacy")
        }
        for name in ("domain", "rounds", "privacy"):
            self.known(name, tables[name])
        sites = self.sites(told["site"])
        privacy = tables["privacy"]
        noise, tolerated = privacy.get("noise", "local"), privacy.get("tolerated", 0)
        self.check_noise(noise, tolerated, sites)
        space = self.space(tables["space"]) if "space" in told else None
        problem = self.problem(tables["problem"], space, tables["domain"])
        unit, most = self.unit(privacy)
        budget = self.made("[privacy]", Budget, self.only(privacy, "epsilon", "delta"))
        prirfed = self.run_of(problem, tables, noise, tolerated)
        setup = self.made(
            "[rounds]",
            Setup,
            {
                "prirfed": prirfed,
                "initial": self.point("start", told.get("start"), problem),
                "budget": budget,
                "agents": len(sites),
                "min_agents": tables["rounds"].get("min-agents"),
                "document": fingerprint(text),
                "unit": unit,
                "records_per_person": most,
                "sites": tuple(party.name for party in sites),
                "keys": tuple((p.name, p.key) for p in sites if p.key) if noise == "shared" else (),
            },
        )
        return Agreement(run, sites, noise, tolerated, setup, text)

    # ---------------------------------------------------------------- parts
    def name_of_run(self, told: dict[str, Any]) -> str:
        run = told["run"]
        if not isinstance(run, str) or not run.strip():
            self.wrong(f"has run = {run!r}; give this run a name, such as 'descriptors 2026-11'")
        return run

    def run_of(
        self, problem: Problem, tables: Mapping[str, dict[str, Any]], noise: str, tolerated: int
    ) -> PriRFed:
        keywords = {k.replace("-", "_"): v for k, v in tables["rounds"].items()}
        keywords.pop("min_agents", None)
        if noise == "shared":
            keywords |= {"noise": noise, "tolerated": tolerated}
        local = self.named("local", tables["local"], optimizers, _is_optimizer)
        return self.made("[rounds]", PriRFed, {"problem": problem, "local": local, **keywords})

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
        center = self.point("[domain] center", domain.get("center"), None, space)
        return self.made("[domain]", Ball, {"center": center, "radius": domain["radius"]})

    def point(
        self, key: str, given: Any, problem: Problem | None, space: AbstractManifold | None = None
    ) -> Point:
        """A public point: "origin", "diag:A", or its numbers; by default the centre or origin."""
        if space is None:
            assert problem is not None
            space = problem.manifold
            if given is None and problem.ball is not None:
                return problem.ball.center
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

    def sites(self, told: Any) -> tuple[Party, ...]:
        if (
            not isinstance(told, list)
            or len(told) < 2
            or not all(isinstance(s, dict) for s in told)
        ):
            self.wrong("must have at least two tables [[site]], one for each site")
        parties = []
        for table in told:
            unknown = sorted(set(table) - {"name", "key"})
            name, key = table.get("name"), table.get("key")
            if unknown:
                self.wrong(f"has {unknown[0]!r} in a [[site]]; known are name, key")
            if not isinstance(name, str) or not name.strip():
                self.wrong("has a [[site]] without a name")
            if key is not None and not re.fullmatch(r"[0-9a-f]{64}", str(key)):
                self.wrong(
                    f"has an unusable key for the site {name!r}; `riemdp federated key` makes one"
                )
            parties.append(Party(name, key))
        for what, values in (
            ("name", [p.name for p in parties]),
            ("key", [p.key for p in parties if p.key is not None]),
        ):
            if len(set(values)) < len(values):
                self.wrong(f"has two sites with one {what}; every site needs its own")
        return tuple(parties)

    def check_noise(self, noise: Any, tolerated: Any, sites: tuple[Party, ...]) -> None:
        if noise not in NOISES:
            self.wrong(f"has [privacy] noise = {noise!r}; choose 'local' or 'shared'")
        most = len(sites) - 1 if noise == "shared" else 0
        if type(tolerated) is not int or not 0 <= tolerated <= most:
            self.wrong(
                f"has [privacy] tolerated = {tolerated!r}; give a whole number from 0 to {most}"
                + ("" if noise == "shared" else " (it has a meaning for noise = 'shared' only)")
            )
        if noise == "shared":
            for party in sites:
                if party.key is None:
                    self.wrong(
                        f"has no key for the site {party.name!r}, which noise = 'shared' needs;"
                        " `riemdp federated key` makes one"
                    )

    def unit(self, privacy: dict[str, Any]) -> tuple[str, int]:
        """What is protected, and how many records of one person enter an answer at most."""
        unit, most = privacy.get("unit", RECORD), privacy.get("records-per-person", MOST)
        if unit not in UNITS:
            self.wrong(f"has [privacy] unit = {unit!r}; choose 'record' or 'person'")
        if "records-per-person" in privacy and unit != PERSON:
            self.wrong("has [privacy] records-per-person, which needs unit = 'person'")
        if type(most) is not int or most < 1:
            self.wrong(
                f"has [privacy] records-per-person = {most!r}; give a whole number, at least 1"
            )
        return unit, most

    # ---------------------------------------------------------------- helpers
    def known(self, name: str, table: dict[str, Any]) -> None:
        unknown = sorted(set(table) - self.wanted[name])
        if unknown:
            where = f"[{name}]" if name else "the top"
            self.wrong(
                f"has {unknown[0]!r} in {where}, which means nothing; known are"
                f" {', '.join(sorted(self.wanted[name]))}"
            )

    def table(self, told: dict[str, Any], name: str) -> dict[str, Any]:
        table = told.get(name, {})
        if not isinstance(table, dict):
            self.wrong(f"must hold {name!r} as a table, [{name}]")
        return dict(table)

    def only(self, table: dict[str, Any], *names: str) -> dict[str, Any]:
        for name in names:
            if name not in table:
                self.wrong(f"lacks [privacy] {name}")
        return {name: table[name] for name in names}

    def member(
        self, section: str, table: dict[str, Any], package: Any, fits: Callable[[Any], bool]
    ) -> Any:
        """The class or function of the library that `name` stands for."""
        offered = [n for n in package.__all__ if fits(getattr(package, n))]
        if table.get("name") not in offered:
            self.wrong(
                f"has [{section}] name = {table.get('name')!r}; choose one of {', '.join(offered)}"
            )
        return getattr(package, table["name"])

    def named(
        self, section: str, table: dict[str, Any], package: Any, fits: Callable[[Any], bool]
    ) -> Any:
        """What `name` stands for, made with the other keys of the table as its arguments."""
        arguments = {k.replace("-", "_"): v for k, v in table.items() if k != "name"}
        return self.made(f"[{section}]", self.member(section, table, package, fits), arguments)

    def made(self, section: str, make: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        takes = inspect.signature(make).parameters
        for name in arguments:
            if name not in takes:
                self.wrong(
                    f"has {name!r} in {section}, which means nothing; known are {', '.join(takes)}"
                )
        several: list[Any] = []
        for name, parameter in takes.items():
            needed = parameter.default is inspect.Parameter.empty
            needed = needed and parameter.kind is not inspect.Parameter.VAR_KEYWORD
            if needed and name not in arguments:
                self.wrong(f"lacks {name.replace('_', '-')!r} in {section}")
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL:  # Euclidean: shape = [3, 4]
                given = arguments.pop(name)
                several = given if isinstance(given, list) else [given]
        try:
            return make(*several, **arguments)
        except (RiemdpError, TypeError, ValueError) as error:
            self.wrong(f"has an unusable {section}: {error}", error)


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


__all__ = ["Agreement", "Party", "fingerprint"]
