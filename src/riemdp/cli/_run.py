"""What every command shares: messages instead of tracebacks, and exit codes."""

from __future__ import annotations

import contextlib
import functools
import json
import shutil
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec

import typer

from .._errors import BudgetExceeded, DataUnavailable, RiemdpError, RiemdpWarning
from .._files import NO_ROOM
from . import _exits
from ._exits import CommandError
from ._interrupts import Interrupts, heard

if TYPE_CHECKING:
    from ..privacy import Guarantee

P = ParamSpec("P")


def console(error: bool = False) -> Any:
    """A rich console on standard output, or on standard error."""
    from rich.console import Console

    return Console(stderr=error, highlight=False, soft_wrap=error)


def table(**options: Any) -> Any:
    """A rich table with these options."""
    from rich.table import Table

    return Table(**options)


def adjacency_of(guarantee: Guarantee) -> str:
    """Whom a guarantee protects, after its epsilon: "replace-one", "replace-one for all records of
    one person".
    """
    told = guarantee.neighbours.replace(" neighbours that differ in ", " for ")
    return told.replace(" neighbours", "")


def text(*parts: str | tuple[str, str]) -> Any:
    """Words for the console, in which brackets are no markup; (words, style) for a style."""
    from rich.text import Text

    return Text.assemble(*parts)


def print_facts(rows: Sequence[tuple[str, str]]) -> None:
    """Names and values in two columns, the values wrapped to the width of the terminal: without
    Rich, whose import takes a quarter of what a command takes that only computes a few numbers.
    """
    wide = max(len(name) for name, _ in rows) + 2
    room = max(shutil.get_terminal_size().columns - wide, 20)
    for name, words in rows:
        first, *rest = textwrap.wrap(words, room, break_on_hyphens=False) or [""]
        typer.echo(typer.style(name, bold=True) + " " * (wide - len(name)) + first)
        for line in rest:
            typer.echo(" " * wide + line)


def say_error(problem: str, remedy: str = "") -> None:
    """One message on standard error: what is wrong, and what to do."""
    out = console(error=True)
    out.print(text(("error: ", "bold red"), problem))
    if remedy:
        out.print(text(("  what to do: ", "bold"), remedy))


def say_warning(sentence: str) -> None:
    """One warning on standard error."""
    console(error=True).print(text(("warning: ", "bold yellow"), sentence))


def command(function: Callable[P, None]) -> Callable[P, None]:
    """Turn what a user can put right into a message and an exit code; a fault of ours keeps its
    traceback.
    """

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        interrupts = None
        try:
            with heard() as interrupts, interrupts.translated(), _short_warnings():
                function(*args, **kwargs)
                if interrupts.seen:
                    raise KeyboardInterrupt
        except KeyboardInterrupt:
            assert interrupts is not None
            say_error(_interrupted(interrupts))
            raise typer.Exit(_exits.INTERRUPTED) from None
        except CommandError as error:
            say_error(error.problem, error.remedy)
            raise typer.Exit(error.code) from None
        except BudgetExceeded as error:
            say_error(str(error), "give a smaller --epsilon, or agree on a larger total budget")
            raise typer.Exit(_exits.BUDGET) from None
        except (DataUnavailable, RiemdpError, NotImplementedError) as error:
            from ._typed import as_typed

            say_error(as_typed(str(error)))
            raise typer.Exit(_exits.USAGE) from None
        except BrokenPipeError:
            sys.stderr.close()  # the reader went away; Python would complain once more at exit
            raise typer.Exit(_exits.OUTPUT) from None
        except OSError as error:
            problem = f"{error.strerror or error}: {error.filename or ''}".rstrip(": ")
            full = NO_ROOM in problem
            say_error(
                problem.replace(f"; {NO_ROOM}", ""),
                (NO_ROOM if full else "check the name, the folder and its permissions")
                + (
                    ". The ledger is charged: noise had been drawn. No value was shown"
                    if interrupts is not None and interrupts.charged and not interrupts.placed
                    else ""
                ),
            )
            raise typer.Exit(_exits.OUTPUT) from None
        except MemoryError:
            say_error(
                "the machine has too little memory for this input",
                "use fewer records, or a larger machine",
            )
            raise typer.Exit(_exits.USAGE) from None

    return wrapped


def _interrupted(interrupts: Interrupts) -> str:
    if interrupts.placed:
        return (
            "interrupted after the release was paid for, so it was finished: the ledger is charged"
            " and the files are written"
            if interrupts.charged
            else "interrupted; the files had been written"
        )
    if interrupts.charged:
        return (
            "interrupted twice; the ledger is charged and no file was written. The release is lost"
        )
    return "interrupted; no file was written and nothing was charged"


@contextlib.contextmanager
def _short_warnings() -> Iterator[None]:

    def show(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
        say_warning(str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("always", RiemdpWarning)
        warnings.showwarning = show
        yield


def print_json(content: dict[str, Any]) -> None:
    """Machine-readable result on standard output, and nothing else there."""
    sys.stdout.write(json.dumps(content, indent=2, allow_nan=False) + "\n")
    sys.stdout.flush()
