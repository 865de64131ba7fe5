"""Figures of experiments: panels of lines with bands, points and bars, with one legend for all
panels.

`panel_figure` draws any number of `Panel`s; a name has the same colour, marker and dash in every
panel. Tables of the papers are drawn as such panels too, so that one look serves every artefact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from riemdp import InvalidArgument
from riemdp.plots import COLOURS, MARKERS, styled

from .checks import one_of

DASHES: tuple[Any, ...] = (
    "-",
    (0, (5, 2)),
    (0, (1.2, 1.5)),
    (0, (6, 2, 1.2, 2)),
    (0, (3, 1.5)),
    (0, (8, 3)),
)


@dataclass(frozen=True)
class Series:
    """One named set of points (x, y) of a panel.

    `low`, `high`: ends of a band (lines) or of error bars (points, bars), or None. `kind`: "line"
    (with markers), "curve" (no markers), "points", "cloud" (many faint small points) or "bars" (x
    are the positions or names of groups).
    """

    name: str
    x: Any
    y: Any
    low: Any = None
    high: Any = None
    kind: str = "line"


@dataclass(frozen=True)
class Panel:
    """What one pair of axes shows. `levels`: horizontal dashed lines (words, height). `xticks`:
    where to put decimal ticks.
    """

    series: Sequence[Series]
    xlabel: str
    ylabel: str
    title: str = ""
    logx: bool = False
    logy: bool = False
    levels: Sequence[tuple[str, float]] = ()
    xticks: Any = None
    ylim: tuple[float | None, float | None] | None = None


def panel_figure(
    panels: Sequence[Panel],
    *,
    columns: int = 2,
    size: tuple[float, float] = (6.4, 4.6),
    title: str = "",
    legend_columns: int | None = None,
) -> Any:
    """A matplotlib figure with the panels in rows of `columns` and one legend below; no global
    state is touched.
    """
    if not panels:
        raise InvalidArgument("argument `panels` is empty; give at least one Panel")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(s.name for p in panels for s in p.series))
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    with styled():
        figure = Figure(figsize=(size[0] * columns, size[1] * rows + 0.7), layout="constrained")
        FigureCanvasAgg(figure)
        handles: dict[str, Any] = {}
        for i, panel in enumerate(panels):
            ax = figure.add_subplot(rows, columns, i + 1)
            draw_panel(ax, panel, names, handles)
        if title:
            figure.suptitle(title, fontsize=14, x=0.01, ha="left")
        count = legend_columns or max(1, min(len(handles), 2 * columns))
        figure.legend(
            list(handles.values()), list(handles), loc="outside lower center", ncols=count
        )
    return figure


def one_panel(
    series: Sequence[Series],
    xlabel: str,
    ylabel: str,
    title: str = "",
    *,
    size: tuple[float, float] = (7.4, 5.0),
    legend_columns: int | None = 2,
    **options: Any,
) -> Any:
    """A figure with one panel; `options` are those of `Panel`."""
    panel = Panel(series, xlabel, ylabel, title, **options)
    return panel_figure([panel], size=size, legend_columns=legend_columns)


def columns_of(
    rows: Sequence[Mapping[str, Any]], x: str, names: Mapping[str, str], kind: str = "line"
) -> list[Series]:
    """Columns of a table as series against its column `x`: name -> column."""
    at = [row[x] for row in rows]
    return [
        Series(name, at, [row[column] for row in rows], kind=kind) for name, column in names.items()
    ]


def draw_panel(ax: Any, panel: Panel, names: Sequence[str], handles: dict[str, Any]) -> None:
    """Draw one panel on axes; `names` fixes the looks, `handles` collects what the legend shows."""
    bars = [s.name for s in panel.series if s.kind == "bars"]
    for s in panel.series:
        one_of("kind", s.kind, ("line", "curve", "points", "cloud", "bars"))
        look = names.index(s.name)
        colour, marker = COLOURS[look % len(COLOURS)], MARKERS[look % len(MARKERS)]
        y = np.asarray(s.y, dtype=np.float64)
        if s.kind == "bars":
            handle = _bars(ax, s, y, colour, bars)
        elif s.kind == "cloud":
            handle = ax.scatter(s.x, y, s=11, color=colour, alpha=0.35, linewidths=0, zorder=1.5)
        elif s.kind == "points":
            handle = ax.errorbar(
                s.x,
                y,
                yerr=_spread(s, y),
                color=colour,
                marker=marker,
                linestyle="none",
                markerfacecolor="white",
                markeredgewidth=1.8,
                elinewidth=1.3,
                capsize=4,
                zorder=3,
            )
        else:
            dash = DASHES[look % len(DASHES)]
            (handle,) = ax.plot(
                s.x,
                y,
                color=colour,
                linestyle=dash,
                marker=marker if s.kind == "line" else None,
                zorder=2.5,
            )
            if s.low is not None and s.high is not None:
                ax.fill_between(s.x, s.low, s.high, color=colour, alpha=0.15, linewidth=0, zorder=1)
        handles.setdefault(s.name, handle)
    for words, height in panel.levels:
        ax.axhline(height, color="#555555", linewidth=1.2, linestyle=(0, (2, 2)), zorder=1)
        ax.annotate(
            words,
            (0.99, height),
            xycoords=("axes fraction", "data"),
            ha="right",
            va="bottom",
            color="#444444",
            fontsize=10.5,
            xytext=(0, 2),
            textcoords="offset points",
        )
    if panel.logx:
        ax.set_xscale("log")
    if panel.logy:
        ax.set_yscale("log")
    if panel.ylim is not None:
        ax.set_ylim(*panel.ylim)
    _ticks(ax, panel)
    ax.set(xlabel=panel.xlabel, ylabel=panel.ylabel)
    ax.set_title(panel.title)


def _spread(s: Series, y: np.ndarray) -> np.ndarray | None:
    """Lengths of the error bars."""
    if s.low is None or s.high is None:
        return None
    return np.maximum(0, [y - np.asarray(s.low), np.asarray(s.high) - y])


def _bars(ax: Any, s: Series, y: np.ndarray, colour: str, bars: Sequence[str]) -> Any:
    width = 0.8 / len(bars)
    at = np.arange(len(y)) + (bars.index(s.name) - (len(bars) - 1) / 2) * width
    handle = ax.bar(
        at,
        y,
        width=0.92 * width,
        color=colour,
        yerr=_spread(s, y),
        capsize=3,
        error_kw={"elinewidth": 1.2},
    )
    ax.set_xticks(np.arange(len(y)), [x if isinstance(x, str) else f"{x:g}" for x in s.x])
    ax.grid(axis="x", visible=False)
    return handle


def _apart(ax: Any, ticks: Sequence[float]) -> list[float]:
    """The last tick, then every earlier tick, from the right, whose label does not overlap the next
    one.
    """
    inches = ax.get_position().width * ax.figure.get_size_inches()[0]
    where = (
        ax.transAxes.inverted().transform(
            ax.transData.transform([(x, ax.get_ylim()[0]) for x in ticks])
        )[:, 0]
        * inches
    )
    kept: list[int] = []
    for i in reversed(range(len(ticks))):
        if (
            not kept
            or where[kept[-1]] - where[i]
            >= 0.05 * (len(f"{ticks[i]:g}") + len(f"{ticks[kept[-1]]:g}")) + 0.06
        ):
            kept.append(i)
    return [ticks[i] for i in kept]


def _ticks(ax: Any, panel: Panel) -> None:
    from matplotlib.ticker import (
        FixedLocator,
        FuncFormatter,
        LogLocator,
        NullFormatter,
        NullLocator,
    )

    plain = FuncFormatter(lambda x, _: f"{x:g}")
    if panel.xticks is not None:
        ax.xaxis.set_major_locator(FixedLocator(list(panel.xticks)))
        ax.xaxis.set_minor_locator(NullLocator())
        labelled = _apart(ax, panel.xticks)
        ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}" if x in labelled else ""))
    if panel.logy:
        low, high = ax.get_ylim()
        decades = np.log10(high / low)
        if decades < 4:
            subs = (
                (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0)
                if decades < 0.9
                else (1.0, 2.0, 5.0)
                if decades < 2.0
                else (1.0,)
            )
            ax.yaxis.set_major_locator(LogLocator(subs=subs))
            ax.yaxis.set_major_formatter(plain)
            ax.yaxis.set_minor_formatter(NullFormatter())
