"""`riemdp calibrate`, `guarantee` and `ledger`: figures before anything is spent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .._errors import real
from . import _options as o
from ._run import InputProblem, command, print_facts, print_json

if TYPE_CHECKING:
    from ..privacy import Guarantee
    from ..privacy._book import Entry

Steps = Annotated[int, typer.Option("--steps", help="How many releases, or steps of an optimiser.")]
Population = Annotated[
    int | None, typer.Option("--population", help="Number of records, for random batches.")
]
BatchSize = Annotated[int | None, typer.Option("--batch-size", help="Records in a random batch.")]
SamplingOption = Annotated[
    o.Sampling | None,
    typer.Option(
        "--sampling",
        help="How batches are drawn; without-replacement where nothing is said.",
        show_default=False,
    ),
]
NeededDelta = Annotated[
    float,
    typer.Option(
        "--delta",
        "-d",
        help="Additive slack, above 0; keep it far below 1 / records.",
        show_default=False,
    ),
]


@command
def calibrate(
    epsilon: o.Epsilon,
    delta: NeededDelta,
    steps: Steps = 1,
    population: Population = None,
    batch_size: BatchSize = None,
    sampling: SamplingOption = None,
    sensitivity: Annotated[
        float | None, typer.Option("--sensitivity", help="State sigma for this sensitivity too.")
    ] = None,
    as_json: o.Json = False,
) -> None:
    """The least Gaussian noise within epsilon and delta.

    The noise multiplier is sigma / sensitivity.
    """
    from .. import privacy
    from ..report._words import rounded_up

    budget = privacy.Budget(epsilon, delta)
    if sensitivity is not None:
        sensitivity = real("sensitivity", sensitivity, above=0.0)
    batches = _batches(population, batch_size, sampling)
    if batches:
        z = privacy.subsampled_gaussian_noise_multiplier(budget, steps=steps, **batches)
    else:
        z = privacy.gaussian_noise_multiplier(budget, steps)
    made = _made(z, steps, batches)
    result: dict[str, Any] = {
        "noise_multiplier": z,
        "epsilon": made.epsilon(delta),
        "delta": delta,
        "steps": steps,
        "adjacency": made.adjacency,
    }
    spent = f"epsilon {rounded_up(made.epsilon(delta), 6)} at delta {delta:g}, {made.adjacency}"
    rows = [("noise multiplier", rounded_up(z, 6)), ("guarantee", spent)]
    if sensitivity is not None:
        result["sigma"] = z * sensitivity
        sigma = f"{rounded_up(z * sensitivity, 6)} for sensitivity {sensitivity:g}"
        rows.insert(1, ("sigma", sigma))
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
    sampling: SamplingOption = None,
    as_json: o.Json = False,
) -> None:
    """What Gaussian noise guarantees, and the best attack.

    For noise of a given size relative to the sensitivity.
    """
    from ..report._words import percent, rounded_up

    made = _made(noise_multiplier, steps, _batches(population, batch_size, sampling))
    epsilon, bound = made.epsilon(delta), made.trade_off()
    result = {
        "epsilon": _finite(epsilon),
        "delta": delta,
        "adjacency": made.adjacency,
        "best_guess": bound.best_guess,
        "detection_at_1_percent_false_alarms": bound.rate(0.01),
    }
    rows = [
        ("epsilon", f"{rounded_up(epsilon, 6)} at delta {delta:g}"),
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
    """What a ledger has spent, what is left, and for what."""
    from ..report._words import rounded_up
    from ._ledger_file import read
    from ._show import adjacency_of

    ledger = read(path)
    delta, parts = ledger.budget.delta, ledger.parts
    spent, left = ledger.spent.epsilon(delta), ledger.remaining(delta)
    runs = _runs(ledger.entries)
    result = {
        "schema": "riemdp.ledger/1",  # docs/schemas/ledger-1.json
        "budget": [ledger.budget.epsilon, delta],
        "spent_epsilon": _finite(spent),
        "remaining_epsilon": left,
        "releases": ledger.charges,
        "parts": {name: _finite(part.epsilon(delta)) for name, part in parts.items()},
        "adjacency": ledger.spent.adjacency,
        "unit": ledger.spent.unit,
        "assumes": ledger.spent.assumes,
        "entries": [_run_to_dict(run, delta) for run in runs],
    }
    releases = f"{ledger.charges} release" + ("" if ledger.charges == 1 else "s")
    rows = [
        ("budget", f"epsilon {ledger.budget.epsilon:g} at delta {delta:g}"),
        ("spent", f"epsilon {rounded_up(spent, 6)} by {releases}"),
        ("left", f"epsilon {math.floor(1e6 * left) / 1e6:g}"),
        *((f"part {name}", f"epsilon {rounded_up(p.epsilon(delta))}") for name, p in parts.items()),
        ("neighbours", adjacency_of(ledger.spent)),
        *([("assumes", ledger.spent.assumes)] if ledger.spent.assumes else []),
        *(_run_in_words(run, delta) for run in runs),
    ]
    _show(result, rows, as_json)
    if not as_json and not ledger.charges:
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


def _run_to_dict(run: Sequence[Entry], delta: float) -> dict[str, Any]:
    """The charges of one run for --json, their epsilon at the ledger's delta."""
    cost, first = _cost(run), run[0].to_dict()
    told = {name: first[name] for name in ("when", "what", "run")} | {"part": run[0].part}
    epsilon = {"epsilon": _finite(cost.epsilon(delta)), "delta": delta}
    return told | {"charges": len(run), "guarantee": cost.to_dict()} | epsilon


def _run_in_words(run: Sequence[Entry], delta: float) -> tuple[str, str]:
    """When the charges of one run were made, what they cost, and what for."""
    from ..report._words import rounded_up

    first = run[0]
    part = f" (part {first.part})" if first.part else ""
    charges = f" ({len(run)} charges)" if len(run) > 1 else ""
    cost = rounded_up(_cost(run).epsilon(delta))
    return first.when[:16].replace("T", " "), f"epsilon {cost}: {first.what}{part}{charges}"


def _batches(
    population: int | None, batch_size: int | None, sampling: o.Sampling | None
) -> dict[str, Any]:
    """The options of random batches; none of them for whole-data releases."""
    given = (population is not None, batch_size is not None)
    if given == (False, False) and sampling is None:
        return {}
    if given != (True, True):
        raise InputProblem(
            "--population, --batch-size and --sampling are for random batches",
            "give the first two, or none of them for whole-data releases",
        )
    how = sampling or o.Sampling.without_replacement
    return {"population": population, "batch_size": batch_size, "sampling": how.value}


def _made(z: float, steps: int, batches: dict[str, Any]) -> Guarantee:
    from .. import privacy

    if batches:
        return privacy.subsampled_gaussian(z, steps=steps, **batches)
    return privacy.gaussian(z, steps)


def _finite(epsilon: float) -> float | str:
    """An epsilon for JSON, which has no infinity."""
    return epsilon if math.isfinite(epsilon) else "infinity"


def _show(result: dict[str, Any], rows: list[tuple[str, str]], as_json: bool) -> None:
    if as_json:
        print_json(result)
    else:
        print_facts(rows)
