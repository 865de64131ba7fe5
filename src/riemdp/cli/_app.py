"""The typer application: which command is where. Commands import what they need when they run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from typer.core import TyperGroup

from .._version import __version__
from . import _account, _experiments, _federated, _mean, _pca
from ._exits import USAGE
from ._typed import Command

if TYPE_CHECKING:
    import click

# of the click that Typer uses: some bring their own
UsageError: type[click.UsageError] = cast("Any", typer.BadParameter.__base__)

EXITS = (
    "Exit codes: 0 done; 2 unusable input or option; 3 the ledger's budget would be exceeded; 4"
    " output cannot be written; 130 interrupted. With 2 and 3 no file was written and nothing was"
    " charged; with 4 and 130 the message says."
)


class Overview(TyperGroup):
    """A group of commands whose help is plain text: Rich's boxes take 0.3 s more to import."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Without words, show the help; the exit code stays that of a missing command."""
        if not args:
            typer.echo(ctx.get_help())
            ctx.exit(USAGE)
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command. Typer, and click from 8.4 on, each add what an unknown name is like."""
        try:
            return super().resolve_command(ctx, args)
        except UsageError as error:
            # The message is Typer's, and has them; what click adds comes with its own class.
            raise UsageError(error.message, error.ctx) from None

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write usage, help, options and commands."""
        super(TyperGroup, self).format_help(ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write every command with its whole first sentence."""
        shown = [(n, self.get_command(ctx, n)) for n in self.list_commands(ctx)]
        rows = [(name, c.get_short_help_str(limit=200)) for name, c in shown if c is not None]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


app = typer.Typer(
    name="riemdp",
    cls=Overview,
    help=(
        "Differential privacy on manifolds: private means and principal components, with a"
        " guarantee that is stated and checked."
    ),
    epilog=EXITS,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode="rich",
)
ledger = typer.Typer(
    cls=Overview,
    help="A budget kept in a file.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)

federated = typer.Typer(
    cls=Overview,
    help="What the sites of a federated run sign and watch.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


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


app.command("mean", cls=Command)(_mean.mean)
app.command("pca", cls=Command)(_pca.pca)
app.command("plan", cls=Command)(_account.plan)
app.command("calibrate", cls=Command)(_account.calibrate)
app.command("guarantee", cls=Command)(_account.guarantee)
app.command("demo", cls=Command)(_experiments.demo)
app.command("experiments", cls=Command, context_settings={"ignore_unknown_options": True})(
    _experiments.experiments
)
ledger.command("create", cls=Command)(_account.ledger_create)
ledger.command("show", cls=Command)(_account.ledger_show)
app.add_typer(ledger, name="ledger")
federated.command("agree", cls=Command)(_federated.agree)
federated.command("status", cls=Command)(_federated.status)
federated.command("report", cls=Command)(_federated.report)
federated.command("key", cls=Command)(_federated.key)
app.add_typer(federated, name="federated")
