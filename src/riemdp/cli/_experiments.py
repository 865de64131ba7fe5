"""`riemdp demo` and `riemdp experiments`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import _options as o
from ._exits import INTERRUPTED
from ._interrupts import leave
from ._run import command, console, print_json, say_error

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
    str, typer.Argument(help="A name from `riemdp experiments list`.", show_default=False)
]


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
def list_experiments(as_json: o.Json = False) -> None:
    """Names of the tables and figures of the papers that can be recomputed."""
    from .. import experiments

    names = experiments.names()
    if as_json:
        print_json({"experiments": names})
    else:
        for name in names:
            console().print(name, markup=False)


@command
def run_experiment(
    name: Name, quick: Quick = True, out: Folder = Path("results"), as_json: o.Json = False
) -> None:
    """Recompute one artefact: published beside certified noise, as CSV, picture and verdict."""
    from .. import experiments

    done = experiments.run(name, quick=quick, out=out)
    if as_json:
        print_json({"experiment": name, "quick": quick, "folder": str(done)})
    else:
        console().print(f"{name}: {done}", markup=False)


@command
def run_all(quick: Quick = True, out: Folder = Path("results"), fresh: Fresh = False) -> None:
    """Recompute everything that the folder does not hold yet; interrupting loses only the one under
    way.

    The same command goes on where it stopped.
    """
    from .. import experiments

    def say(message: str) -> None:
        console().print(message, markup=False, highlight=False, soft_wrap=True)

    try:
        experiments.run_all(quick=quick, out=out, fresh=fresh, report=say)
    except KeyboardInterrupt:
        there = sum(experiments.is_done(out, name, quick=quick) for name in experiments.names())
        say_error(
            f"interrupted; {there} of {len(experiments.names())} results are whole in {out}",
            "give the same command again: it goes on where it stopped",
        )
        leave(INTERRUPTED)
    console().print(f"results in {out}", markup=False)
