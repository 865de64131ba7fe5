"""The typer application: which command is where. Commands import what they need when they run."""

from __future__ import annotations

from typing import Annotated

import typer
import typer.core

from .._version import __version__
from . import _account, _demo, _federated, _mean, _pca, _plan

# Typer writes "\[required]" into plain help where it finds Rich, and needs 0.3 s more to import it.
typer.core.HAS_RICH = False

EXITS = (
    "Exit codes: 0 done; 2 unusable input or option; 3 the ledger's budget would be exceeded; 4"
    " output cannot be written; 130 interrupted. With 2 and 3 no file was written and nothing was"
    " charged; with 4 and 130 the message says."
)


def _typer(words: str, name: str | None = None, epilog: str | None = None) -> typer.Typer:
    """A group of commands whose help is plain text."""
    return typer.Typer(
        name=name,
        help=words,
        epilog=epilog,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        add_completion=False,
        rich_markup_mode=None,
    )


app = _typer(
    "Differential privacy on manifolds: private means and principal components, with a guarantee"
    " that is stated and checked.",
    name="riemdp",
    epilog=EXITS,
)
ledger = _typer("A budget kept in a file.")
federated = _typer("What the sites of a federated run sign and watch.")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"riemdp {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", "-V", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    pass


app.command("mean")(_mean.mean)
app.command("pca")(_pca.pca)
app.command("plan")(_plan.plan)
app.command("calibrate")(_account.calibrate)
app.command("guarantee")(_account.guarantee)
app.command("demo")(_demo.demo)
ledger.command("create")(_account.ledger_create)
ledger.command("show")(_account.ledger_show)
app.add_typer(ledger, name="ledger")
federated.command("agree")(_federated.agree)
federated.command("check")(_federated.check)
federated.command("status")(_federated.status)
federated.command("report")(_federated.report)
federated.command("key")(_federated.key)
app.add_typer(federated, name="federated")
