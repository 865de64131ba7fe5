"""Error against epsilon, and trade-off curves."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._errors import InvalidArgument, invalid
from ._style import COLOURS, DASHES, MARKERS, axes_for, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Pairs = Sequence[tuple[float, float]]


def error_curves(
    expected: Mapping[str, Pairs],
    measured: Mapping[str, Mapping[float, Sequence[float]]] | None = None,
    *,
    reference: tuple[str, float] | None = None,
    ax: Axes | None = None,
    title: str = "Error from noise of a private mean",
    ylabel: str = "Riemannian distance, root mean square",
) -> Any:
    """Draw expected errors as lines and measured ones as points with bars.

    Args:
        expected: Pairs (epsilon, error) known by formula, by the name of the curve.
        measured: {epsilon: errors of repeated runs} by name. Each is drawn as the root of the mean
            square, with a bar from the smallest to the largest run. A name that is also in
            `expected` has the same colour.
        reference: (words, error) of a horizontal line.
        ax: The matplotlib axes to draw into; None makes new ones.
        title: The title of the picture.
        ylabel: The words beside the axis of the error.

    Returns:
        The axes.

    Raises:
        InvalidArgument: There is no curve, or a figure cannot be drawn.
    """
    measured = measured or {}
    if not expected and not measured:
        raise InvalidArgument("argument `expected` is empty; give at least one named curve")
    names = list(dict.fromkeys([*expected, *measured]))
    with styled():
        ax = axes_for(ax, (7.6, 5.0))
        from_curves: set[float] = set()
        from_runs: set[float] = set()
        for i, name in enumerate(names):
            look = {"color": COLOURS[i % len(COLOURS)], "marker": MARKERS[i % len(MARKERS)]}
            pairs = _clean(f"expected[{name!r}]", expected.get(name, ()))
            if pairs:
                from_curves |= {eps for eps, _ in pairs}
                # with measured points, lines are formulas only
                bare = {"marker": None} if measured or len(pairs) > 12 else {}
                line = {**look, **bare, "linestyle": DASHES[i % len(DASHES)]}
                ax.plot(*zip(*pairs, strict=True), label=name, zorder=2, **line)
            runs = measured.get(name)
            if runs:
                from_runs |= {float(eps) for eps in runs}
                _draw_runs(ax, runs, f"{name}: measured", look)
        if reference is not None:
            words, height = reference
            # Named in the legend: words in the picture would lie across the curves.
            ax.axhline(height, color="#555555", linewidth=1.3, zorder=1, label=words)
        ax.set_xscale("log")
        ax.set_yscale("log")
        _plain_ticks(ax, sorted(from_runs or from_curves))
        xlabel = r"privacy budget $\varepsilon$ of one release"
        ax.set(xlabel=xlabel, ylabel=ylabel, title=title)
        ax.legend(loc="best", frameon=True, edgecolor="none")
    return ax


def _draw_runs(
    ax: Axes, runs: Mapping[float, Sequence[float]], label: str, look: Mapping[str, Any]
) -> None:
    """Points at the root mean squares of runs, with bars from the smallest to the largest."""
    xs = sorted(float(e) for e in runs)
    values = [np.asarray(runs[x], dtype=np.float64) for x in xs]
    centre = np.array([math.sqrt(float(np.mean(v**2))) for v in values])
    low = centre - np.array([v.min() for v in values])
    high = np.array([v.max() for v in values]) - centre
    ax.errorbar(
        xs,
        centre,
        yerr=np.maximum(0.0, [low, high]),
        linestyle="none",
        markerfacecolor="white",
        markeredgewidth=2.0,
        elinewidth=1.4,
        capsize=4,
        zorder=3,
        label=label,
        **look,
    )


def _clean(name: str, pairs: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    kept = []
    for pair in pairs:
        if len(pair) != 2:
            raise invalid(name, pair, "give pairs (epsilon, error)")
        epsilon, error = pair
        if error is None or not math.isfinite(error) or error <= 0:
            continue
        if not epsilon > 0 or not math.isfinite(epsilon):
            raise invalid(name, pair, "epsilon has to be greater than 0")
        kept.append((float(epsilon), float(error)))
    return sorted(kept)


def _plain_ticks(ax: Axes, epsilons: list[float]) -> None:
    """Decimal tick labels: 0.1, 0.3, 1 rather than powers of ten."""
    from matplotlib.ticker import (
        FixedLocator,
        FuncFormatter,
        LogLocator,
        NullFormatter,
        NullLocator,
    )

    plain = FuncFormatter(lambda x, _: f"{x:g}")
    if 0 < len(epsilons) <= 9:
        ax.xaxis.set_major_locator(FixedLocator(epsilons))
        ax.xaxis.set_minor_locator(NullLocator())
    else:
        ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.xaxis.set_major_formatter(plain)
    ax.xaxis.set_minor_formatter(NullFormatter())
    low, high = ax.get_ylim()
    decades = math.log10(high / low)
    ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if decades < 2.5 else (1.0,)))
    ax.yaxis.set_major_formatter(plain)
    ax.yaxis.set_minor_formatter(NullFormatter())
