"""`riemdp calibrate`, `guarantee`, `plan` and `ledger`: figures before anything is spent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .._errors import integer, real
from .._files import staged
from . import _options as o
from ._exits import InputProblem
from ._run import adjacency_of, command, console, print_facts, print_json, table, text

if TYPE_CHECKING:
    from ..privacy import Guarantee
    from ..privacy._ledger_state import Entry

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
    epsilon, bound = made.epsilon(delta), made.trade_off()
    result = {
        "epsilon": _told(epsilon),
        "delta": delta,
        "adjacency": made.adjacency,
        "best_guess": bound.best_guess,
        "detection_at_1_percent_false_alarms": bound.rate(0.01),
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
            f"an attack detects a record at most {percent(bound.rate(0.01), up=True)} of the time",
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
    force: Annotated[
        bool, typer.Option("--force", help="Replace a file of --plot that exists already.")
    ] = False,
    as_json: o.Json = False,
) -> None:
    """How many records a private mean needs, or what its error from noise is.

    Costs nothing and reads no data. Without --radius the ball is found privately; with --radius and
    --records the mechanisms for a public ball are compared.
    """
    import numpy as np

    from .. import privacy, releases
    from ..domains import AdaptiveBall
    from ._plan_tables import show_adaptive, show_plan
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
        show_adaptive(releases.plan_private_mean(manifold, ball, records, budgets), as_json)
        return
    if plot is not None and plot.suffix.lower() not in {".png", ".svg", ".pdf"}:
        raise InputProblem(
            f"--plot {plot} has an ending that is not known", "use .png, .svg or .pdf"
        )
    if plot is not None and not force:
        from ._release import refuse_taken

        refuse_taken(("--plot", plot))
    assert records is not None  # with a radius
    table = releases.plan_private_mean(manifold, ball, records, budgets)
    if plot is not None:
        with staged(plot) as (part,):
            figure = table.plot()
            getattr(figure, "figure", figure).savefig(
                part, format=plot.suffix[1:].lower(), dpi=150, bbox_inches="tight"
            )
    show_plan(table, as_json, float(ball.radius), plot)


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
    privacy.Ledger(privacy.Budget(epsilon, delta), path=path)
    typer.echo(f"ledger {path}: epsilon {epsilon:g} at delta {delta:g}, nothing spent")


@command
def ledger_show(
    path: Annotated[Path, typer.Argument(help="The ledger file.", show_default=False)],
    as_json: o.Json = False,
) -> None:
    """What a ledger has spent and what is left, and its releases: when, what, and at what cost."""
    from ._ledger_file import read

    ledger = read(path)
    delta, parts = ledger.budget.delta, ledger.parts
    spent, left = ledger.spent.epsilon(delta), ledger.remaining(delta)
    runs = _runs(ledger.entries)
    if as_json:
        print_json(
            {
                "schema": "riemdp.ledger/1",  # docs/schemas/ledger-1.json
                "budget": [ledger.budget.epsilon, delta],
                "spent_epsilon": _told(spent),
                "remaining_epsilon": left,
                "releases": ledger.charges,
                "parts": {name: _told(part.epsilon(delta)) for name, part in parts.items()},
                "adjacency": ledger.spent.adjacency,
                "unit": ledger.spent.unit,
                "assumes": ledger.spent.assumes,
                "entries": [_told_run(run, delta) for run in runs],
            }
        )
        return
    releases = f"{ledger.charges} release" + ("" if ledger.charges == 1 else "s")
    rows = [
        ("budget", f"epsilon {ledger.budget.epsilon:g} at delta {delta:g}"),
        ("spent", f"epsilon {spent:.6g} by {releases}"),
        ("left", f"epsilon {left:.6g}"),
        *((f"part {name}", f"epsilon {part.epsilon(delta):.6g}") for name, part in parts.items()),
        ("neighbours", adjacency_of(ledger.spent)),
        *([("assumes", ledger.spent.assumes)] if ledger.spent.assumes else []),
    ]
    _show({}, rows, False)
    if runs:
        _show_runs(runs, delta)
    if not ledger.charges:
        typer.echo(
            f"Charge it with --ledger {path}: riemdp mean FILE --epsilon 0.5 --ledger {path}"
        )


def _runs(entries: Sequence[Entry]) -> list[list[Entry]]:
    """The charges of a ledger, those of one run together."""
    found: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        found.setdefault((entry.run, entry.part), []).append(entry)
    return list(found.values())


def _cost(run: Sequence[Entry]) -> Guarantee:
    first, *more = (entry.guarantee for entry in run)
    return first.compose(*more)


def _told_run(run: Sequence[Entry], delta: float) -> dict[str, Any]:
    """The charges of one run for --json, their epsilon at the ledger's delta."""
    cost, first = _cost(run), run[0].to_dict()
    told = {name: first[name] for name in ("when", "what", "run")} | {"part": run[0].part}
    epsilon = {"epsilon": _told(cost.epsilon(delta)), "delta": delta}
    return told | {"charges": len(run), "guarantee": cost.to_dict()} | epsilon


def _told(epsilon: float) -> float | str:
    """An epsilon for JSON, which has no infinity."""
    return epsilon if math.isfinite(epsilon) else "infinity"


def _show_runs(runs: Sequence[Sequence[Entry]], delta: float) -> None:
    screen = table(title=f"Releases (epsilon at delta {delta:g})", title_justify="left", box=None)
    screen.add_column("when (UTC)", max_width=16)
    screen.add_column("what", overflow="fold")
    screen.add_column("epsilon", justify="right", no_wrap=True)
    for run in runs:
        first = run[0]
        charges = f" ({len(run)} charges)" if len(run) > 1 else ""
        part = f" (part {first.part})" if first.part else ""
        screen.add_row(
            text(first.when[:16].replace("T", " ")),
            text(first.what + part + charges),
            f"{_cost(run).epsilon(delta):.4g}",
        )
    console().print(screen)


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
    if as_json:
        print_json(result)
        return
    print_facts(rows)
