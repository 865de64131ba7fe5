"""`riemdp demo`, and where to find the papers' experiments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ._exits import InputProblem
from ._run import command, console


@command
def demo(
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", help="Folder for the released means, the plot and the statement."
        ),
    ] = Path("riemdp-demo"),
    quick: Annotated[bool, typer.Option("--quick", help="Fewer images and epsilons.")] = False,
) -> None:
    """Real images, private means per class for several epsilon, a plot and a plain statement.

    Takes under a minute.
    """
    from ._demo import run_demo
    from ._demo_write import MATRICES, PICTURE, STATEMENT

    done = run_demo(out, quick=quick)
    say = console().print
    say(f"{len(done.files)} files in {done.folder}", markup=False)
    say(f"  open first: {done.folder / STATEMENT}", markup=False)
    say(f"  the picture: {done.folder / PICTURE}.png", markup=False)
    say(f"  the released means: {done.folder / MATRICES}", markup=False)
    for name in done.files:
        if name.endswith(".html"):
            say(f"  a report to sign: {done.folder / name}", markup=False)


@command
def experiments(
    arguments: Annotated[list[str] | None, typer.Argument(hidden=True, show_default=False)] = None,
) -> None:
    """Say how to run the papers' experiments, which are not part of the installed package."""
    given = " ".join(arguments or ["list"])
    raise InputProblem(
        "the papers' experiments are part of the repository, not of the installed package",
        f"in a checkout of riemdp: make setup, then .venv/bin/python -m papers {given}",
    )
