"""What was typed: the library's messages name arguments of Python, the user has options."""

from __future__ import annotations

import re

import click
from click.core import ParameterSource

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


def typed(name: str) -> bool:
    """Whether a parameter of the command that runs was given, and not left at its default."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def as_typed(message: str) -> str:
    """A message of the library with each argument as the option of the command that runs.

    An argument that no option gives keeps its name.
    """
    context = click.get_current_context(silent=True)
    options = {} if context is None else _options_of(context.command)

    def option(found: re.Match[str]) -> str:
        name = found[1]
        return options.get(_OTHERS.get(name, name)) or options.get(name) or found[0]

    return _NAMED.sub(option, _BUDGET.sub(r"--epsilon \1 --delta \2", message))


def _options_of(command: click.Command) -> dict[str, str]:
    return {p.name: p.opts[0] for p in command.params if isinstance(p, click.Option) and p.name}
