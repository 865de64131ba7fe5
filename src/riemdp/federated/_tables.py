"""Turns the TOML files of a federated run into settings: an agreement, and a site's own file."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from .._errors import InvalidArgument, RiemdpError


class Tables:
    """Turns the tables of one file into settings; every complaint names the file and the key.

    Args:
        file: The file in words, with which complaints begin.
    """

    def __init__(self, file: str):
        self.file = file

    def wrong(self, what: str, cause: Exception | None = None) -> NoReturn:
        """Complain about the file."""
        raise InvalidArgument(f"{self.file} {what}") from cause

    def known(self, wanted: Mapping[str, set[str]], name: str, table: Mapping[str, Any]) -> None:
        """Complain about a key that means nothing: a misspelt one must not be overlooked."""
        unknown = sorted(set(table) - wanted[name])
        if unknown:
            where = f"[{name}]" if name else "the top"
            self.wrong(
                f"has {unknown[0]!r} in {where}, which means nothing; known are"
                f" {', '.join(sorted(wanted[name]))}"
            )

    def table(self, told: Mapping[str, Any], name: str) -> dict[str, Any]:
        """A table; an empty one where it is missing."""
        table = told.get(name, {})
        if not isinstance(table, dict):
            self.wrong(f"must hold {name!r} as a table, [{name}]")
        return dict(table)

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
        """What is made with these arguments, all of which it takes."""
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
