"""`riemdp calibrate`, `guarantee`, `plan` and `ledger`: figures before anything is spent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .._errors import InvalidArgument, integer, real
from .._files import staged
from . import _options as o
from ._exits import InputProblem
from ._run import command, console, print_json

if TYPE_CHECKING:
    from ..privacy import Entry
    from ..releases import AdaptivePlan
    from ..releases._plan import MeanPlan

Steps = Annotated[int, typer.Option("--steps", help="How many releases, or steps of an optimiser.")]
Population = Annotated[
    int | None, typer.Option("--population", help="Number of records, for random batches.")
]
BatchSize = Annotated[int | None, typer.Option("--batch-size", help="Records in a random batch.")]
NeededDelta = Annotated[
    float,
    typer.Option(
        "--delta",
        "-d",
        help="Additive slack, above 0; keep it far below 1 / records.",
        show_default=False,
    ),
]
Size = Annotated[
    str,
    typer.Option(
        "--size",
        "-k",
        help="Rows of a matrix, length of a vector, or MxR for frames.",
        show_default=False,
    ),
]
SamplingOption = Annotated[o.Sampling, typer.Option("--sampling", help="How batches are drawn.")]


@command
def calibrate(
    epsilon: o.Epsilon,
    delta: NeededDelta,
    steps: Steps = 1,
    population: Population = None,
    batch_size: BatchSize = None,
    sampling: SamplingOption = o.Sampling.without_replacement,
    sensitivity: Annotated[
        float | None, typer.Option("--sensitivity", help="State sigma for this sensitivity too.")
    ] = None,
    as_json: o.Json = False,
) -> None:
    """The smallest Gaussian noise multiplier (sigma / sensitivity) within epsilon and delta."""
    from .. import privacy
    from ..report._words import number

    budget = privacy.Budget(epsilon, delta)
    if sensitivity is not None:
        sensitivity = real("sensitivity", sensitivity, above=0.0)
    _batches(population, batch_size)
    if population is not None and batch_size is not None:
        z = privacy.subsampled_gaussian_noise_multiplier(
            budget,
            population=population,
            batch_size=batch_size,
            steps=steps,
            sampling=sampling.value,
        )
        made = privacy.subsampled_gaussian(
            z, population=population, batch_size=batch_size, steps=steps, sampling=sampling.value
        )
    else:
        z = privacy.gaussian_noise_multiplier(budget, steps)
        made = privacy.gaussian(z, steps)
    result: dict[str, Any] = {
        "noise_multiplier": z,
        "epsilon": made.epsilon(delta),
        "delta": delta,
        "steps": steps,
        "adjacency": made.adjacency,
    }
    rows = [
        ("noise multiplier", f"{z:.6g}"),
        ("guarantee", f"epsilon {made.epsilon(delta):.6g} at delta {delta:g}, {made.adjacency}"),
    ]
    if sensitivity is not None:
        result["sigma"] = z * sensitivity
        rows.insert(
            1, ("sigma", f"{number(z * sensitivity)} for sensitivity {number(sensitivity)}")
        )
    _show(result, rows, as_json)


@command
def guarantee(
    noise_multiplier: Annotated[
        float,
        typer.Option("--noise-multiplier", "-z", help="sigma / sensitivity.", show_default=False),
    ],
    delta: Annotated[
        float, typer.Option("--delta", "-d", help="Delta at which epsilon is stated.")
    ] = 1e-5,
    steps: Steps = 1,
    population: Population = None,
    batch_size: BatchSize = None,
    sampling: SamplingOption = o.Sampling.without_replacement,
    as_json: o.Json = False,
) -> None:
    """What Gaussian noise of a given size guarantees, and what the best attack achieves."""
    from .. import privacy
    from ..report import trade_off
    from ..report._words import percent

    _batches(population, batch_size)
    if population is not None and batch_size is not None:
        made = privacy.subsampled_gaussian(
            noise_multiplier,
            population=population,
            batch_size=batch_size,
            steps=steps,
            sampling=sampling.value,
        )
    else:
        made = privacy.gaussian(noise_multiplier, steps)
    epsilon, bound = made.epsilon(delta), trade_off(made)
    result = {
        "epsilon": epsilon if math.isfinite(epsilon) else "infinity",
        "delta": delta,
        "adjacency": made.adjacency,
        "best_guess": bound.best_guess,
        "detection_at_1_percent_false_alarms": bound.detected(0.01),
    }
    rows = [
        ("epsilon", f"{epsilon:.6g} at delta {delta:g}"),
        ("neighbours", made.adjacency),
        (
            "best guess",
            f"right at most {percent(bound.best_guess, up=True)} of the time (a coin: 50 %)",
        ),
        (
            "at 1 % false alarms",
            f"an attack detects a record at most {percent(bound.detected(0.01), up=True)} of the"
            " time",
        ),
    ]
    _show(result, rows, as_json)


@command
def plan(
    size: Size,
    records: Annotated[
        int | None,
        typer.Option(
            "--records",
            "-n",
            help="Number of records (public). Without it: how many are needed.",
            show_default=False,
        ),
    ] = None,
    radius: o.Radius = None,
    delta: o.Delta = 0.0,
    epsilon: Annotated[
        str, typer.Option("--epsilon", "-e", help="One or several, separated by commas.")
    ] = "0.1,0.3,1,3,10",
    metric: o.MetricOption = o.Metric.affine_invariant,
    space: o.SpaceOption = o.Space.spd,
    center: o.Center = None,
    outer_radius: o.OuterRadius = None,
    outer_center: o.OuterCenter = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Write the picture too (.png, .svg or .pdf).")
    ] = None,
    as_json: o.Json = False,
) -> None:
    """How many records a private mean needs, or what its error from noise is.

    Costs nothing and reads no data. Without --radius the ball is found privately; with --radius and
    --records the mechanisms for a public ball are compared.
    """
    import numpy as np

    from .. import privacy, releases
    from ..domains import AdaptiveBall
    from ._spaces import ball_for, space_for

    if records is not None:
        integer("records", records, at_least=1)
    elif radius is not None:
        raise InputProblem(
            f"--radius {radius:g} needs --records",
            "give the number of records; or leave out --radius, and see how many records a private"
            " ball needs",
        )
    budgets = [privacy.Budget(e, delta) for e in _numbers(epsilon)]
    manifold, _ = space_for(
        space.value,
        metric.value,
        np.empty((1 if space is not o.Space.spd else 2, *_shape(space, size))),
    )
    ball = ball_for(manifold, center, radius, outer_center, outer_radius)
    if isinstance(ball, AdaptiveBall):
        if plot is not None:
            raise InputProblem("--plot needs --radius and --records", "leave it out, or give both")
        _show_adaptive(releases.plan_private_mean(manifold, ball, records, budgets), as_json)
        return
    if plot is not None and plot.suffix.lower() not in {".png", ".svg", ".pdf"}:
        raise InputProblem(
            f"--plot {plot} has an ending that is not known", "use .png, .svg or .pdf"
        )
    assert records is not None  # with a radius
    table = releases.plan_private_mean(manifold, ball, records, budgets)
    if plot is not None:
        with staged(plot) as (part,):
            figure = table.plot()
            getattr(figure, "figure", figure).savefig(
                part, format=plot.suffix[1:].lower(), dpi=150, bbox_inches="tight"
            )
    _show_plan(table, as_json, float(ball.radius), plot)


def _show_adaptive(plan: AdaptivePlan, as_json: bool) -> None:
    """How many records a private ball needs and, where n is given, what to expect of them."""
    from rich.table import Table

    from ..releases._adaptive_plan import row_in_words

    if as_json:
        rows = [
            {
                "epsilon": row.budget.epsilon,
                "delta": row.budget.delta,
                "need": row.need,
                "centre_moves_from": row.moves_from,
                "error_below_tenth_of_radius_from": row.tenth_from,
                "error_below_sampling_from": row.sampling_from,
                "enough": row.enough,
                "share_of_search": row.search_share,
                "error_per_radius": row.error_per_radius,
                "noise_factor": row.noise_factor,
            }
            for row in plan.rows
        ]
        print_json({"dim": plan.manifold.dim, "records": plan.n, "plan": rows})
        return
    screen = Table(
        title="Records that a private mean needs, where its ball is found privately:"
        f" {plan.manifold!r}, dimension {plan.manifold.dim}",
        title_justify="left",
    )
    for head in (
        "epsilon",
        "delta",
        "a ball is found",
        "and its centre is moved",
        "error from noise below radius / 10",
        "error from noise below that of sampling",
    ):
        screen.add_column(head, justify="right")
    for row in plan.rows:
        counts = (row.need, row.moves_from, row.tenth_from, row.sampling_from)
        screen.add_row(
            f"{row.budget.epsilon:g}", f"{row.budget.delta:g}", *(f"{n:,}" for n in counts)
        )
    console().print(screen)
    say = console().print
    if plan.n is not None:
        say(f"With {plan.n:,} records:")
        for row in plan.rows:
            for sentence in row_in_words(plan, row):
                say(f"  {sentence}", markup=False)
    say(
        "Fewer records than in the third column are refused, before any is read. The radius is that"
        " of the ball that is found: most records lie in it."
    )
    if any(row.budget.delta == 0 for row in plan.rows):
        say("Delta 0 means pure privacy; --delta 1e-5 needs fewer records.")


def _show_plan(table: MeanPlan, as_json: bool, radius: float, plot: Path | None) -> None:
    from rich.table import Table

    from ..report._words import bias_sentence, number

    rows = plan_rows(table)
    if as_json:
        print_json({"radius": radius, "plan": rows})
        return
    title = (
        "Error from noise (root mean squared distance) of a private mean; the domain has radius"
        f" {radius:g}"
    )
    screen = Table(title=title, title_justify="left")
    for head in ("epsilon", "mechanism", "error from noise", "share of the radius", ""):
        screen.add_column(head, justify="right" if head not in {"mechanism", ""} else "left")
    last = None
    for row in (r for r in rows if r["expected_error"] is not None):
        if last is not None and row["epsilon"] != last:
            screen.add_section()
        last = row["epsilon"]
        error = row["expected_error"]
        known = isinstance(error, float)
        screen.add_row(
            f"{row['epsilon']:g}",
            row["mechanism"],
            number(error) if known else "-",
            f"{100 * error / radius:.3g} %" if known else "-",
            "<- auto" if row["chosen"] else "",
        )
    console().print(screen)
    console().print(f"{bias_sentence(radius)} A share of 100 % or more: the centre is as good.")
    if plot is not None:
        console().print(f"picture: {plot}", markup=False)


def plan_rows(table: MeanPlan) -> list[dict[str, Any]]:
    """The planning table as plain rows; mechanisms without a formula are left out."""

    chosen = {}
    for budget in table.budgets:
        try:
            chosen[budget] = table.best(budget).mechanism
        except InvalidArgument:
            chosen[budget] = None
    return [
        {
            "epsilon": row.epsilon,
            "delta": row.delta,
            "mechanism": row.mechanism,
            "expected_error": row.expected_error,
            "kind": row.kind,
            "noise_scale": row.scale,
            "chosen": row.mechanism == chosen[row.budget],
            "note": row.note,
        }
        for row in table
        if row.expected_error is not None or row.note
    ]


@command
def ledger_create(
    path: Annotated[Path, typer.Argument(help="The file to make.", show_default=False)],
    epsilon: o.Epsilon,
    delta: Annotated[
        float, typer.Option("--delta", "-d", help="Total delta of everything released.")
    ] = 0.0,
) -> None:
    """Make a ledger file with a total budget for one data set."""
    from .. import privacy

    if path.exists():
        raise InputProblem(
            f"{path} exists already", "choose another name; a ledger in use must not be replaced"
        )
    privacy.Ledger(privacy.Budget(epsilon, delta)).save(path)
    console().print(
        f"ledger {path}: epsilon {epsilon:g} at delta {delta:g}, nothing spent", markup=False
    )


@command
def ledger_show(
    path: Annotated[Path, typer.Argument(help="The ledger file.", show_default=False)],
    as_json: o.Json = False,
) -> None:
    """What a ledger has spent and what is left, and the register of its releases.

    The register says when, who, what, and which file was written (its SHA-256 begins as shown;
    --json has all of it).
    """
    from ._ledger_file import read

    ledger = read(path)
    delta, register = ledger.budget.delta, ledger.register
    spent, left = ledger.spent.epsilon(delta), ledger.remaining(delta)
    unlisted = ledger.charges - sum(entry.charges for entry in register)
    if as_json:
        print_json(
            {
                "budget": [ledger.budget.epsilon, delta],
                "spent_epsilon": spent,
                "remaining_epsilon": left,
                "releases": ledger.charges,
                "adjacency": ledger.spent.adjacency,
                "register": [_entry(entry, delta) for entry in register],
                "not_in_register": unlisted,
            }
        )
        return
    releases = f"{ledger.charges} release" + ("" if ledger.charges == 1 else "s")
    rows = [
        ("budget", f"epsilon {ledger.budget.epsilon:g} at delta {delta:g}"),
        ("spent", f"epsilon {spent:.6g} by {releases}"),
        ("left", f"epsilon {left:.6g}"),
        ("neighbours", ledger.spent.adjacency),
    ]
    _show({}, rows, False)
    if register:
        _show_register(register, delta)
    if unlisted:
        console().print(
            f"{unlisted} of the releases came before the ledger kept a register.", markup=False
        )
    if not ledger.charges:
        console().print(
            f"Charge it with --ledger {path}: riemdp mean FILE --epsilon 0.5 --ledger {path}",
            markup=False,
        )


def _entry(entry: Entry, delta: float) -> dict[str, Any]:
    """One release of the register for --json, its epsilon at the ledger's delta."""
    told = entry.to_dict()
    epsilon = entry.guarantee.epsilon(delta)
    told["epsilon"] = epsilon if math.isfinite(epsilon) else "infinity"
    told["delta"] = delta
    return told


def _show_register(register: Sequence[Entry], delta: float) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(title=f"Register (epsilon at delta {delta:g})", title_justify="left", box=None)
    table.add_column("when (UTC)", max_width=16)
    table.add_column("who", overflow="fold")
    table.add_column("what", overflow="fold")
    table.add_column("epsilon", justify="right", no_wrap=True)
    table.add_column("released file, SHA-256", overflow="fold")
    for entry in register:
        file = f"{entry.file}\n{entry.sha256[:16]}..." if entry.file else "not written"
        runs = f" ({entry.charges} charges)" if entry.charges > 1 else ""
        table.add_row(
            Text(entry.when[:16].replace("T", " ")),
            Text(entry.who),
            Text(entry.what + runs),
            f"{entry.guarantee.epsilon(delta):.4g}",
            Text(file),
        )
    console().print(table)


def _batches(population: int | None, batch_size: int | None) -> None:
    if (population is None) != (batch_size is None):
        raise InputProblem(
            "--population and --batch-size go together",
            "give both, or neither for whole-data releases",
        )


def _numbers(text: str) -> list[float]:
    try:
        found = [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        found = []
    if not found:
        raise InputProblem(
            f"--epsilon {text} is not a list of numbers", "write for example --epsilon 0.1,1,10"
        )
    return found


def _shape(space: o.Space, size: str) -> tuple[int, ...]:
    try:
        parts = [int(p) for p in size.lower().split("x")]
    except ValueError:
        parts = []
    wanted = 2 if space in {o.Space.stiefel, o.Space.grassmann} else 1
    if len(parts) != wanted or min(parts, default=0) < 1:
        raise InputProblem(
            f"--size {size} does not fit {space.value}",
            "give one whole number, or MxR for stiefel and grassmann",
        )
    return (parts[0], parts[0]) if space is o.Space.spd else tuple(parts)


def _show(result: dict[str, Any], rows: list[tuple[str, str]], as_json: bool) -> None:
    from rich.table import Table
    from rich.text import Text

    if as_json:
        print_json(result)
        return
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for name, text in rows:
        table.add_row(Text(name, style="bold"), Text(text))
    console().print(table)
