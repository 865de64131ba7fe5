"""What was typed: the library's messages name arguments of Python, the user has options."""

from __future__ import annotations

import contextvars
import re
from typing import TYPE_CHECKING, Any

from typer.core import TyperCommand

if TYPE_CHECKING:
    import click

# Arguments whose option has another name.
_OTHERS = {
    "rng": "seed",
    "random_state": "seed",
    "ball.radius": "radius",
    "ball.center": "center",
    "share": "dispersion_share",
    "n_components": "components",
}
_BUDGET = re.compile(r"argument `budget` = Budget\(epsilon=([^,()]+), delta=([^,()]+)\)")
_NAMED = re.compile(r"argument `([A-Za-z_.]+)`( =)?")


# Kept here: which click has the context differs from one Typer to the next.
_running: contextvars.ContextVar[click.Context | None] = contextvars.ContextVar(
    "running", default=None
)


class Command(TyperCommand):
    """A command whose messages can say what was typed."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run it."""
        token = _running.set(ctx)
        try:
            return super().invoke(ctx)
        finally:
            _running.reset(token)


def typed(name: str) -> bool:
    """Whether a parameter of the command that runs was given, and not left at its default."""
    context = _running.get()
    source = None if context is None else context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def as_typed(message: str) -> str:
    """A message of the library with each argument as the option of the command that runs.

    An argument that no option gives keeps its name.
    """
    context = _running.get()
    options = {} if context is None else _options_of(context.command)

    def option(found: re.Match[str]) -> str:
        name = found[1]
        return options.get(_OTHERS.get(name, name)) or options.get(name) or found[0]

    return _NAMED.sub(option, _BUDGET.sub(r"--epsilon \1 --delta \2", message))


def _options_of(command: click.Command) -> dict[str, str]:
    options = (p for p in command.params if p.param_type_name == "option")
    return {p.name: p.opts[0] for p in options if p.name}
