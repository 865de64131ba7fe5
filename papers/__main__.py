"""`python -m papers list`, `run NAME`, `run-all`: the tables and figures of five papers.

Exit codes: 0 done; 2 an unknown name or unusable data; 4 the folder cannot be written; 130
interrupted.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

import papers
from riemdp import RiemdpError

USAGE, OUTPUT, INTERRUPTED = 2, 4, 130

app = typer.Typer(
    name="papers",
    help="Tables and figures of five papers, recomputed: published beside certified noise.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
Quick = Annotated[
    bool,
    typer.Option(
        "--quick/--full", help="Small sizes and few repetitions, or the sizes of the papers."
    ),
]
Folder = Annotated[
    Path, typer.Option("--out", "-o", help="Folder for the results, one folder an experiment.")
]
Fresh = Annotated[
    bool, typer.Option("--fresh", help="Recompute also what the folder holds already.")
]
Name = Annotated[
    str, typer.Argument(help="A name from `python -m papers list`.", show_default=False)
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


@contextmanager
def _messages() -> Iterator[None]:
    """Turn errors that the user can correct into one message and an exit code."""
    try:
        yield
    except RiemdpError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(USAGE) from None
    except OSError as error:
        typer.echo(f"error: {error.strerror or error}: {error.filename or ''}", err=True)
        raise typer.Exit(OUTPUT) from None


def _leave(code: int) -> None:
    """Exit without interpreter shutdown: an interrupt during XLA compilation can crash the normal
    teardown. Every file is complete at this point.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


@app.command("list")
def list_experiments(as_json: Json = False) -> None:
    """List the tables and figures that can be recomputed."""
    names = papers.names()
    typer.echo(json.dumps({"experiments": names}) if as_json else "\n".join(names))


@app.command("run")
def run(
    name: Name, quick: Quick = True, out: Folder = Path("results"), as_json: Json = False
) -> None:
    """Recompute one artefact and write its numbers, picture and verdict."""
    with _messages():
        done = papers.run(name, quick=quick, out=out)
    if as_json:
        typer.echo(json.dumps({"experiment": name, "quick": quick, "folder": str(done)}))
    else:
        typer.echo(f"{name}: {done}")


@app.command("run-all")
def run_all(quick: Quick = True, out: Folder = Path("results"), fresh: Fresh = False) -> None:
    """Recompute everything that the folder does not hold yet.

    An interrupt loses only the experiment under way; the same command continues where it stopped.
    """
    try:
        with _messages():
            papers.run_all(quick=quick, out=out, fresh=fresh, report=typer.echo)
    except KeyboardInterrupt:
        there = sum(papers.is_done(out, name, quick=quick) for name in papers.names())
        typer.echo(
            f"interrupted; {there} of {len(papers.names())} results are whole in {out}\n"
            "give the same command again: it goes on where it stopped",
            err=True,
        )
        _leave(INTERRUPTED)
    typer.echo(f"results in {out}")


if __name__ == "__main__":
    app(prog_name="python -m papers")
