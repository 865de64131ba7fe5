"""Summaries of repeated runs, and named stand-ins for data that cannot be downloaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from riemdp import DataUnavailable

from .data import mammals_embedding


def quartiles(values: Any) -> tuple[float, float, float]:
    """(median, lower quartile, upper quartile)."""
    low, middle, high = np.percentile(np.asarray(values, dtype=np.float64), [25, 50, 75])
    return float(middle), float(low), float(high)


def quartile_columns(values: Any, what: str) -> dict[str, float]:
    """Columns of a table of results: the median of `what`, and its quartiles."""
    middle, low, high = quartiles(values)
    return {f"median_{what}": middle, "lower_quartile": low, "upper_quartile": high}


def mean_and_error(values: Any) -> tuple[float, float]:
    """(mean, standard error of the mean)."""
    x = np.asarray(values, dtype=np.float64)
    return float(np.mean(x)), float(np.std(x, ddof=1) / np.sqrt(x.size)) if x.size > 1 else 0.0


def share_below(a: Any, b: Any) -> float:
    """Share of pairs (one run of each) in which `a` is below `b`, over all pairs: 0.5 where nothing
    distinguishes them.
    """
    x, y = np.asarray(a, dtype=np.float64).ravel(), np.sort(np.asarray(b, dtype=np.float64).ravel())
    above = y.size - np.searchsorted(y, x, side="right")
    ties = np.searchsorted(y, x, side="right") - np.searchsorted(y, x, side="left")
    return float(np.mean((above + 0.5 * ties) / y.size))


def number(value: float) -> str:
    """Three significant digits, for sentences."""
    return f"{value:.3g}"


def with_stand_in(
    load: Callable[..., Any], stand_in: Callable[[], Any], *, download: bool
) -> tuple[Any, bool]:
    """(the paper's data, False), or (the stand-in, True) where it is not on this machine and cannot
    be fetched.
    """
    try:
        return load(download=download), False
    except DataUnavailable:
        return stand_in(), True


def mammals(
    simulated: Callable[[], dict[str, Any]], words: str, *, download: bool
) -> tuple[dict[str, Any], str, bool]:
    """(arrays, which embedding it is, whether a stand-in): that of the authors of RFedAGS where
    `RIEMDP_DATA` holds it, else `simulated()`, called `words`. The papers' own was not published.
    """
    found, stand_in = with_stand_in(mammals_embedding, simulated, download=download)
    real = "the WordNet mammals, embedding of RFedAGS (not the paper's)"
    return found, words if stand_in else real, stand_in
