"""How `riemdp plan` shows what it computed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .._errors import InvalidArgument
from ..releases import AdaptivePlan
from ..releases._adaptive_plan import row_in_words
from ..releases._plan import MeanPlan
from ..report._words import bias_sentence, number
from ._run import console, print_json, table


def show_adaptive(plan: AdaptivePlan, as_json: bool) -> None:
    """How many records a private ball needs and, where n is given, what to expect of them."""
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
    screen = table(
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


def show_plan(plan: MeanPlan, as_json: bool, radius: float, plot: Path | None) -> None:
    """The error from noise of every mechanism with a public ball, and the picture's name."""
    rows = plan_rows(plan)
    if as_json:
        print_json({"radius": radius, "plan": rows})
        return
    title = (
        "Error from noise (root mean squared distance) of a private mean; the domain has radius"
        f" {radius:g}"
    )
    screen = table(title=title, title_justify="left")
    for head in ("epsilon", "mechanism", "error from noise", "share of radius", ""):
        side = "right" if head not in {"mechanism", ""} else "left"
        longest = max((len(r["mechanism"]) for r in rows), default=0)  # a name is never cut
        screen.add_column(head, justify=side, min_width=longest if head == "mechanism" else None)
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


def plan_rows(plan: MeanPlan) -> list[dict[str, Any]]:
    """The planning table as plain rows; mechanisms without a formula are left out."""

    chosen = {}
    for budget in plan.budgets:
        try:
            chosen[budget] = plan.best(budget).mechanism
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
        for row in plan
        if row.expected_error is not None or row.note
    ]
