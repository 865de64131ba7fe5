"""`riemdp mean`: a private Frechet mean from a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from . import _options as o
from ._exits import InputProblem
from ._run import Outputs, command, console, print_json, released

if TYPE_CHECKING:
    from ..mechanisms import Release
    from ..privacy import Ledger
    from ..report import PrivacyReport


@command
def mean(
    file: o.File,
    epsilon: o.Epsilon,
    radius: o.Radius,
    delta: o.Delta = 0.0,
    metric: o.MetricOption = o.Metric.affine_invariant,
    space: o.SpaceOption = o.Space.spd,
    center: o.Center = "identity",
    mechanism: Annotated[
        str,
        typer.Option("--mechanism", help="auto chooses the smallest expected error by formula."),
    ] = "auto",
    adjacency: o.AdjacencyOption = o.Adjacency.replace_one,
    n_min: o.LeastRecords = None,
    out: o.Out = None,
    report: o.Report = None,
    as_json: o.Json = False,
    ledger: o.LedgerOption = None,
    key: o.Key = None,
    on_invalid: o.Invalid = o.OnInvalid.refuse,
    show_clamped: o.ShowClamped = False,
    record_is: o.RecordIs = "one row of the input",
    eta: o.Eta = 1e-6,
    seed: o.Seed = None,
) -> None:
    """Release the private mean of the records in FILE.

    The centre, the radius and the budget must be chosen without looking at the records. One record
    is what the guarantee protects; combine several records of one person into one first.
    """
    from .. import privacy, releases
    from ._readers import read_records
    from ._spaces import centre_for, space_for

    budget = privacy.Budget(epsilon, delta)
    outputs = Outputs(out, report, as_json, "mean")
    outputs.check()
    protected = adjacency is o.Adjacency.add_or_remove_one
    if protected and show_clamped:
        raise InputProblem(
            "--show-clamped counts records, and add-or-remove-one protects how many there are",
            "leave it out",
        )
    if protected and n_min is None:
        raise InputProblem(
            "--adjacency add-or-remove-one needs --n-min, a public lower bound of the number of"
            " records",
            "give one that does not come from the data (fewer records are filled up with the"
            " centre)",
        )
    if n_min is not None and not protected:
        raise InputProblem(
            f"--n-min {n_min} is for --adjacency add-or-remove-one",
            "leave it out, or give that adjacency",
        )
    loaded = read_records(file, key=key, eta=eta)
    manifold, records = space_for(space.value, metric.value, loaded.array)
    ball = privacy.Ball(centre_for(manifold, center), radius)
    _check(manifold, records, on_invalid, file)

    def work(opened: Ledger | None) -> Release:
        return releases.private_frechet_mean(
            manifold,
            records,
            ball,
            budget,
            mechanism=mechanism,
            rng=seed,
            ledger=opened,
            adjacency=adjacency.value,
            n_min=n_min,
        )

    def describe(
        result: Release, checksum: str | None, charged: Ledger | None
    ) -> tuple[PrivacyReport, dict[str, Any]]:
        from ..report import privacy_report

        clamped = (
            int(np.sum(~np.asarray(ball.contains(manifold, records)))) if show_clamped else None
        )
        page = privacy_report(
            result,
            records=len(records) if n_min is None else n_min,
            manifold=manifold,
            ball=ball,
            budget=budget,
            query="Fréchet mean",
            record_is=record_is,
            domain=f"all points within distance {radius:g} of the public centre ({center})",
            clamped=clamped,
            ledger=charged,
            checksum=checksum,
        )
        return page, {
            "mean": np.asarray(result.value).tolist(),
            "report": page.to_dict(),
            "files": [str(p) for p in (out, report) if p is not None],
        }

    result, page, machine = released(outputs, ledger, work, describe)
    if as_json:
        print_json(machine)
    else:
        show_release(result.value, page, out, report, loaded.note)


def _check(manifold: Any, records: np.ndarray, on_invalid: o.OnInvalid, file: Path) -> None:
    from ._checks import invalid_records

    if on_invalid is o.OnInvalid.to_center:
        return  # Ball.clamp counts them as the centre; how many there are is not said
    count, first = invalid_records(manifold, records)
    if count:
        shown = "; ".join(f"record {i} {why}" for i, why in first) + (
            "; and so on" if count > len(first) else ""
        )
        raise InputProblem(
            f"{count} of {len(records)} records in {file} are not points of {manifold!r}: {shown}"
            " (counted from 0)",
            "mend them; or give --on-invalid center to count each as the public centre. This"
            " message is for whoever holds the data",
        )


def show_release(value: Any, page: Any, out: Path | None, report: Path | None, note: str) -> None:
    """The result for a person: guarantee first, then the value where it fits, then the files."""
    from rich.table import Table
    from rich.text import Text

    from ..report._words import number, percent, rounded_up

    screen = console()
    if page.reproducible:
        screen.print(
            Text(
                "NOT PRIVATE: made with a seed, for trying out only. Do not publish.",
                style="bold white on red",
            )
        )
    bound = page.trade_off
    facts = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    rows = [
        (
            "records",
            (
                f"at least {page.records:,}; how many is protected"
                if page.at_least
                else f"{page.records:,} ({note})"
            ),
        ),
        ("space", page.space),
        ("domain", page.domain),
        ("mechanism", f"{page.mechanism}, noise scale {number(page.noise_scale)}"),
        (
            "guarantee",
            (
                f"epsilon {rounded_up(page.epsilon)} at delta"
                f" {rounded_up(page.delta) if page.delta else 0}, {page.guarantee.adjacency}"
            ),
        ),
        (
            "best attack",
            (
                f"guesses right at most {percent(bound.best_guess, up=True)} of the time (a coin:"
                " 50 %)"
            ),
        ),
    ]
    if page.expected_error is not None:
        rows.append(
            (
                "expected error",
                f"{number(page.expected_error)} (root mean squared distance, by formula)",
            )
        )
    if page.clamped is not None:
        rows.append(("moved into domain", f"{page.clamped:,} (declared public)"))
    if page.ledger is not None:
        rows.append(("ledger", page.ledger))
    for name, path in (("value", out), ("report", report)):
        if path is not None:
            rows.append((name, str(path)))
    for name, text in rows:
        facts.add_row(Text(name, style="bold"), Text(text))
    screen.print(facts)
    if out is None:
        screen.print()
        screen.print(Text(as_text(np.asarray(value))))


def as_text(array: np.ndarray) -> str:
    """An array as text that fits a terminal; large ones are shortened in the middle."""
    with np.printoptions(precision=4, suppress=True, linewidth=110, threshold=400, edgeitems=4):
        return str(array)
