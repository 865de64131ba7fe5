"""Repeated private runs drawn as curves: medians with quartiles against work, and how often one
method ends below another.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from riemdp import NotPrivateWarning

from .panels import Series
from .summaries import share_below


@dataclass(frozen=True)
class Curves:
    """Repeated runs of one method: `x` (points,), `y` (runs, points), and the guarantee of one run
    (None without noise).
    """

    x: np.ndarray
    y: np.ndarray
    guarantee: Any
    sigma: float

    @property
    def final(self) -> np.ndarray:
        return self.y[:, -1]


def repeat(
    one: Callable[..., Any],
    *,
    runs: int,
    seed: int,
    against: str = "gradient_calls",
    measure: Callable[[Any], float],
) -> Curves:
    """`one(rng=seed)` makes a result with a history; `measure(row)` is the height of the curve at a
    recorded row.
    """
    xs, ys, last = [], [], None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)
        for i in range(runs):
            last = one(rng=seed + i)
            xs.append([getattr(row, against) for row in last.history])
            ys.append([measure(row) for row in last.history])
    assert last is not None
    heights = np.asarray(ys, dtype=np.float64)
    heights = np.where(
        np.isnan(heights), np.inf, heights
    )  # a run that left the numbers of the machine counts as the worst
    return Curves(np.asarray(xs[0], dtype=np.float64), heights, last.guarantee, float(last.sigma))


def quarters(y: Any, axis: int = 0) -> np.ndarray:
    """(lower quartile, median, upper quartile) along an axis, also where some runs are infinite."""
    with np.errstate(invalid="ignore"):
        smooth = np.percentile(y, [25, 50, 75], axis=axis)
    return np.where(
        np.isnan(smooth), np.percentile(y, [25, 50, 75], axis=axis, method="inverted_cdf"), smooth
    )


def curve_rows(panel: Mapping[str, Any], curves: Mapping[str, Curves]) -> list[dict[str, Any]]:
    """One CSV row for every point of every curve."""
    rows = []
    for name, c in curves.items():
        low, middle, high = quarters(c.y)
        for i, x in enumerate(c.x):
            found = {"median": middle[i], "lower_quartile": low[i], "upper_quartile": high[i]}
            where = {**panel, "method": name, "x": float(x)}
            rows.append({**where, **found, "runs": len(c.y), "sigma": c.sigma})
    return rows


def curve_series(curves: Mapping[str, Curves], shift: float = 0.0) -> list[Any]:
    """Medians with bands of quartiles, for `panel_figure`; `shift` is taken from every height (an
    optimal value).
    """
    out = []
    for name, c in curves.items():
        low, middle, high = quarters(c.y - shift)
        out.append(Series(name, c.x, middle, low, high))
    return out


def spread(values: Any) -> str:
    """Median and quartiles of final values, in words."""
    low, middle, high = quarters(values)
    if not np.isfinite(middle):
        return "not finite in most runs"
    return (
        f"{middle:.3g} ({low:.3g} to {high:.3g})"
        if np.isfinite(high)
        else f"{middle:.3g} ({low:.3g} to not finite)"
    )


def ending(curves: Mapping[str, Curves], names: Sequence[str]) -> str:
    """Final values of the named methods in words."""
    return "; ".join(f"{name} {spread(curves[name].final)}" for name in names)


def wins(curves: Mapping[str, Curves], a: str, b: str) -> float:
    """Share of pairs of runs in which `a` ends below `b` (0.5: nothing distinguishes them)."""
    return share_below(curves[a].final, curves[b].final)


def epsilon_words(value: float) -> str:
    """An epsilon with three digits, or what infinity means."""
    return f"{value:.3g}" if np.isfinite(value) else "unbounded"
