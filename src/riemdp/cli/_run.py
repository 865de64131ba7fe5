"""What every command shares: messages instead of tracebacks, exit codes, and plain tables."""

from __future__ import annotations

import contextlib
import functools
import json
import shutil
import sys
import textwrap
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ParamSpec

import typer

from .._errors import BudgetExceeded, RiemdpError, RiemdpWarning
from .._locks import NO_ROOM
from ._interrupts import Interrupts

P = ParamSpec("P")
FAULT, USAGE, BUDGET, OUTPUT, INTERRUPTED = 1, 2, 3, 4, 130


class CommandError(Exception):
    """Something the user can put right: what is wrong, what to do, and the exit code."""

    code = USAGE

    def __init__(self, problem: str, remedy: str = ""):
        super().__init__(problem)
        self.problem, self.remedy = problem, remedy


class InputProblem(CommandError):
    """The input file or an option cannot be used."""


class OutputProblem(CommandError):
    """The output cannot be written. Raised before anything is computed or spent."""

    code = OUTPUT


def command(function: Callable[P, None]) -> Callable[P, None]:
    """Turn every error into a message and an exit code. No traceback is shown, and of an error that
    is not ours no text either: it may quote a record.
    """

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        with Interrupts() as interrupts:
            try:
                with _short_warnings():
                    function(*args, **kwargs)
                if interrupts.seen:
                    raise KeyboardInterrupt
            except (KeyboardInterrupt, Exception) as error:
                if isinstance(error, typer.Exit):
                    raise
                code, problem, remedy = _told(error, interrupts)
                with contextlib.suppress(BrokenPipeError):
                    say_error(problem, remedy)
                raise typer.Exit(code) from None

    return wrapped


def _told(error: BaseException, interrupts: Interrupts) -> tuple[int, str, str]:
    """Exit code, what went wrong, and what to do."""
    lost = ""
    if interrupts.charged and not interrupts.placed:
        lost = "The ledger is charged: noise had been drawn. No value was shown"
    # compiled code may turn an interrupt into an exception of its own
    if isinstance(error, KeyboardInterrupt) or (interrupts.seen and not interrupts.charged):
        return INTERRUPTED, interrupts.in_words, ""
    if isinstance(error, CommandError):
        return error.code, error.problem, error.remedy
    if isinstance(error, BudgetExceeded):
        return BUDGET, str(error), "give a smaller --epsilon, or agree on a larger total budget"
    if isinstance(error, RiemdpError | NotImplementedError):
        return USAGE, str(error), lost
    if isinstance(error, BrokenPipeError):
        return OUTPUT, "whoever read the output went away", lost
    if isinstance(error, OSError):
        problem = f"{error.strerror or error}: {error.filename or ''}".rstrip(": ")
        full = NO_ROOM in problem
        remedy = NO_ROOM if full else "check the name, the folder and its permissions"
        return OUTPUT, problem.replace(f"; {NO_ROOM}", ""), ". ".join(filter(None, [remedy, lost]))
    if isinstance(error, MemoryError):
        return USAGE, "the machine has too little memory for this input", lost
    where = traceback.extract_tb(error.__traceback__)[-1]
    problem = f"a fault of riemdp: {type(error).__name__} in {Path(where.filename).name}"
    return FAULT, f"{problem}, line {where.lineno}", ". ".join(filter(None, ["report it", lost]))


@contextlib.contextmanager
def _short_warnings() -> Iterator[None]:

    def show(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
        typer.echo(typer.style("warning: ", fg="yellow", bold=True) + str(message), err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of other libraries may depend on a record
        warnings.simplefilter("always", RiemdpWarning)
        warnings.showwarning = show
        yield


def say_error(problem: str, remedy: str = "") -> None:
    """One message on standard error: what is wrong, and what to do."""
    typer.echo(typer.style("error: ", fg="red", bold=True) + problem, err=True)
    if remedy:
        typer.echo(typer.style("  what to do: ", bold=True) + remedy, err=True)


def print_facts(rows: Sequence[tuple[str, str]]) -> None:
    """Names and values in two columns, the values wrapped to the width of the terminal."""
    wide = max(len(name) for name, _ in rows) + 2
    room = max(shutil.get_terminal_size().columns - wide, 20)
    for name, words in rows:
        first, *rest = textwrap.wrap(words, room, break_on_hyphens=False) or [""]
        typer.echo(typer.style(name, bold=True) + " " * (wide - len(name)) + first)
        for line in rest:
            typer.echo(" " * wide + line)


def print_json(content: dict[str, Any]) -> None:
    """Machine-readable result on standard output, and nothing else there."""
    sys.stdout.write(json.dumps(content, indent=2, allow_nan=False) + "\n")
    sys.stdout.flush()
