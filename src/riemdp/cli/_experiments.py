"""`riemdp demo`, and where to find the papers' experiments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ._exits import InputProblem
from ._run import command


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
    """Real images, private means per class for several epsilon, a plot and a plain statement. Under
    a minute.
    """
    from ._demo import run_demo

    run_demo(out, quick=quick)


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
