"""The table and the figure of docs/evidence/excess-risk.md.

Both are made from docs/results/tables/excess-risk.csv; nothing is computed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ..panels import Panel, Series, panel_figure
from ..tables import DOCS, table, write_between

DOCUMENT = DOCS / "evidence" / "excess-risk.md"
EPSILONS = ("0.1", "0.3", "0.5", "1")
# Columns of the summary: heading, name of the row. The one-shot column is what "auto" picks (on a
# mean without a pick, a dash).
COLUMNS = (
    ("private ball", "private ball, nothing given"),
    ("DP-PGD", "DP-PGD"),
    ("DP-RGD", "DP-RGD"),
    ("DP-RGD, clip norm found", "DP-RGD, clip norm found"),
    ("DP-RGD, decreasing", "DP-RGD, decreasing steps"),
    ("DP-RSGD", "DP-RSGD"),
    ("DP-RSGD, Poisson †", "DP-RSGD, Poisson"),
    ("DP-RSVRG, as published", "DP-RSVRG, as-published"),
    ("DP-RSVRG, anchored", "DP-RSVRG, anchored"),
)
LINES = (
    ("private ball, nothing given", "private ball, nothing given"),
    ("DP-RGD", "DP-RGD, best of grid"),
    ("DP-RGD, decreasing steps", "DP-RGD, decreasing steps"),
    ("DP-RGD, default", "DP-RGD, public defaults"),
    ("DP-RSGD", "DP-RSGD, best of grid"),
    ("DP-RSVRG, as-published", "DP-RSVRG as published"),
    ("DP-RSVRG, anchored", "DP-RSVRG anchored"),
)
DATA = (
    "MNIST 0",
    "MNIST 1",
    "ijcnn",
    "satimage",
    "descriptors, affine-invariant",
    "descriptors + 10 I, Bures-Wasserstein",
)
PANELS = (
    "MNIST 0",
    "satimage",
    "descriptors, affine-invariant",
    "descriptors + 10 I, Bures-Wasserstein",
)

Row = dict[str, str]


class Results:
    """The rows, by (data set, method, epsilon)."""

    def __init__(self, rows: Iterable[Row]):
        self.rows = list(rows)
        self.at = {(r["data"], r["method"], r["epsilon"]): r for r in self.rows}
        found = {r["data"] for r in self.rows}
        self.data = [name for name in DATA if name in found]
        if len(self.data) < len(found):
            raise ValueError(f"a data set has no place in the tables: {sorted(found - set(DATA))}")

    def median(self, data: str, method: str, epsilon: str) -> float:
        """The median risk; NaN where there is no such row, infinity where most runs diverged."""
        row = self.at.get((data, method, epsilon))
        return math.nan if row is None or row["median"] == "" else float(row["median"])

    def best(self, data: str, epsilon: str, keep) -> tuple[str, float]:
        """The row with the least median among those that `keep` accepts."""
        found = [
            (float(r["median"]), r["method"])
            for r in self.rows
            if r["data"] == data and r["epsilon"] == epsilon and r["median"] and keep(r)
        ]
        value, name = min(found, default=(math.nan, "none"))
        return name, value

    def auto(self, data: str, epsilon: str) -> str:
        return next(r["auto"] for r in self.rows if r["data"] == data and r["epsilon"] == epsilon)


def number(x: float) -> str:
    if math.isnan(x):
        return "-"
    return "diverges" if math.isinf(x) else f"{x:.2g}" if x < 1e4 else f"{x:.0e}"


def summary(results: Results) -> str:
    """The table of the document."""
    head = ["data", "eps", "one-shot, picked by auto", *(head for head, _ in COLUMNS)]
    return table(" | ".join(head), lines(results))


def lines(results: Results) -> Iterator[list[str]]:
    """Medians of the main methods, a line for each (data set, epsilon); the smallest is bold."""
    for data in results.data:
        for epsilon in EPSILONS:
            auto = results.auto(data, epsilon)
            values = [
                results.median(data, m, epsilon) for m in (auto, *(name for _, name in COLUMNS))
            ]
            equal = [
                v
                for v, name in zip(values, ("", *(h for h, _ in COLUMNS)), strict=True)
                if "†" not in name
            ]
            least = min((v for v in equal if math.isfinite(v)), default=math.nan)
            words = [f"**{number(v)}**" if v == least else number(v) for v in values]
            words[0] += f" ({auto})"
            yield [data if epsilon == EPSILONS[0] else "", epsilon, *words]


def figure(results: Results) -> Any:
    """Risk against epsilon on four of the data sets: the best one-shot mechanism and the iterative
    methods.
    """
    panels = []
    for data in PANELS:
        series = []
        chosen = [
            results.best(data, e, lambda r: r["family"] == "one-shot" and r["grid"] == "")[0]
            for e in EPSILONS
        ]
        for label, names in [
            ("one-shot, best", chosen),
            *((label, [name] * len(EPSILONS)) for name, label in LINES),
        ]:
            rows = [results.at.get((data, m, e)) for m, e in zip(names, EPSILONS, strict=True)]
            kept = [
                r for r in rows if r is not None and r["median"] and math.isfinite(float(r["q75"]))
            ]
            if kept:
                x, y, low, high = (
                    [float(r[f]) for r in kept] for f in ("epsilon", "median", "q25", "q75")
                )
                series.append(Series(label, x, y, low, high))
        if series:
            ticks = [float(e) for e in EPSILONS]
            panels.append(
                Panel(series, "epsilon", "excess risk", data, logx=True, logy=True, xticks=ticks)
            )
    return panel_figure(
        panels, columns=2, legend_columns=3, title="Excess risk at the same certified (eps, 1e-6)"
    )


def write(rows: Iterable[Row], picture: Path | None = None) -> None:
    results = Results(rows)
    write_between(DOCUMENT, "summary", f"\n{summary(results)}\n")
    if picture is not None:
        picture.parent.mkdir(parents=True, exist_ok=True)
        figure(results).savefig(picture, dpi=110, metadata={"Software": None})
