"""`riemdp plan`: what a private mean needs and costs, before any record is read."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .._errors import InvalidArgument, integer
from . import _options as o
from ._run import InputProblem, command, print_json

if TYPE_CHECKING:
    from ..releases import MeanRow, Plan, SearchRow

Size = Annotated[
    str,
    typer.Option(
        "--size",
        "-k",
        help="Rows of a matrix, length of a vector, or MxR for frames.",
        show_default=False,
    ),
]
Records = Annotated[
    int | None,
    typer.Option(
        "--records",
        "-n",
        help="Number of records (public). Without it: how many are needed.",
        show_default=False,
    ),
]
Epsilons = Annotated[
    str, typer.Option("--epsilon", "-e", help="One or several, separated by commas.")
]


@command
def plan(
    size: Size,
    records: Records = None,
    epsilon: Epsilons = "0.1,0.3,1,3,10",
    delta: o.Delta = 0.0,
    metric: o.MetricOption = None,
    space: o.SpaceOption = o.Space.spd,
    radius: o.Radius = None,
    center: o.Center = None,
    outer_radius: o.OuterRadius = None,
    as_json: o.Json = False,
) -> None:
    """How many records a private mean needs, and its error.

    Costs nothing and reads no data. Without --radius the ball is found privately; with --radius and
    --records the mechanisms for a public ball are compared.
    """
    from .. import privacy, releases
    from ..domains import AdaptiveBall
    from ._spaces import ball_for, check_metric, manifold_of

    if records is not None:
        integer("records", records, at_least=1)
    elif radius is not None:
        raise InputProblem(
            f"--radius {radius:g} needs --records",
            "give the number of records; or leave out --radius, and see how many records a private"
            " ball needs",
        )
    budgets = [privacy.Budget(e, delta) for e in _numbers(epsilon)]
    check_metric(space, metric)
    manifold = manifold_of(space, metric, _shape(space, size))
    ball = ball_for(manifold, center, radius, outer_radius)
    if isinstance(ball, AdaptiveBall):
        found = releases.plan_private_mean(manifold, ball, records, budgets)
        told = {"dim": manifold.dim, "records": records, "plan": _search_rows(found)}
    else:
        assert records is not None  # with a radius
        found = releases.plan_private_mean(manifold, ball, records, budgets)
        told = {"radius": float(ball.radius), "plan": _mechanism_rows(found)}
    if as_json:
        print_json(told)
    else:
        typer.echo(str(found))


def _search_rows(plan: Plan[SearchRow]) -> list[dict[str, Any]]:
    return [
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


def _mechanism_rows(plan: Plan[MeanRow]) -> list[dict[str, Any]]:
    chosen = {}
    for budget in plan.budgets:
        with contextlib.suppress(InvalidArgument):  # no mechanism is allowed by this budget
            chosen[budget] = plan.best(budget).mechanism
    return [
        {
            "epsilon": row.epsilon,
            "delta": row.delta,
            "mechanism": row.mechanism,
            "expected_error": row.expected_error,
            "kind": row.kind,
            "noise_scale": row.scale,
            "chosen": row.mechanism == chosen.get(row.budget),
            "note": row.note,
        }
        for row in plan
        if row.expected_error is not None or row.note
    ]


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
    frames = space in {o.Space.stiefel, o.Space.grassmann}
    try:
        parts = [int(p) for p in size.lower().split("x")]
    except ValueError:
        parts = []
    if len(parts) != (2 if frames else 1) or min(parts, default=0) < 1:
        raise InputProblem(
            f"--size {size} does not fit {space.value}",
            "give one whole number, or MxR for stiefel and grassmann",
        )
    return (parts[0], parts[0]) if space is o.Space.spd else tuple(parts)
