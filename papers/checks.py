"""Checks of arguments, and files that are written whole."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

from riemdp import InvalidArgument


def invalid(name: str, value: object, remedy: str) -> InvalidArgument:
    """The error for argument `name`: what was given and what to give instead."""
    return InvalidArgument(f"argument `{name}` = {value!r} is not usable: {remedy}")


def integer(name: str, value: int, *, at_least: int = 1, at_most: int | None = None) -> int:
    """The value, if it is in the range."""
    if value != int(value) or value < at_least or (at_most is not None and value > at_most):
        raise invalid(name, value, f"give an integer from {at_least} to {at_most or 'any'}")
    return int(value)


def one_of(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Whether the value is one of the choices."""
    if value not in choices:
        raise invalid(name, value, "give one of " + ", ".join(choices))


@contextlib.contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A file to write to, which takes the place of `path` where nothing fails."""
    part = path.with_name(f".{uuid.uuid4().hex}{path.suffix}")
    try:
        yield part
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
