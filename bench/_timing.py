"""Paired timings on a shared machine: two pieces of work in turn, medians, and the ratio of each pair.

Absolute times on a shared machine say little; a ratio of two runs taken back to back says more, so the ratio is what is quoted.
"""

from __future__ import annotations

import csv
import dataclasses
import os
import platform
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results"


@dataclasses.dataclass(frozen=True)
class Paired:
    """Medians in seconds of `ours` and `theirs`, the median of the paired ratios and its quartiles, and the load meanwhile."""

    ours: float
    theirs: float
    ratio: float
    low: float
    high: float
    repeats: int
    load: float


def paired(ours: Callable[[], Any], theirs: Callable[[], Any], *, repeats: int = 15, budget: float = 6.0) -> Paired:
    """Time the two in alternation (order swapped each time) after one warm-up each, for `repeats` pairs or `budget` seconds."""
    ours(), theirs()
    a, b = [], []
    start = time.perf_counter()
    for i in range(repeats):
        for work, into in ((ours, a), (theirs, b)) if i % 2 == 0 else ((theirs, b), (ours, a)):
            begin = time.perf_counter()
            work()
            into.append(time.perf_counter() - begin)
        if time.perf_counter() - start > budget and i >= 4:
            break
    ratio = np.asarray(a) / np.asarray(b)
    low, high = np.quantile(ratio, [0.25, 0.75])
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    return Paired(float(np.median(a)), float(np.median(b)), float(np.median(ratio)), float(low), float(high), len(a), load)


def write_table(name: str, title: str, rows: Iterable[dict[str, Any]], notes: Iterable[str] = ()) -> Path:
    """Write rows as `results/<name>.csv` and `.md` (whole or not at all), with the machine they were measured on."""
    rows = list(rows)
    columns = list(rows[0])
    RESULTS.mkdir(parents=True, exist_ok=True)
    lines = [f"# {title}", "", "| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(_shown(row[c]) for c in columns) + " |" for row in rows]
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    lines += ["", f"{when}, {machine}. Medians of paired runs.", ""]
    lines += [f"- {note}" for note in notes]
    table = RESULTS / f"{name}.csv"
    with open(f"{table}.part", "w", newline="") as stream:
        writer = csv.DictWriter(stream, columns)
        writer.writeheader()
        writer.writerows(rows)
    os.replace(f"{table}.part", table)
    text = RESULTS / f"{name}.md"
    Path(f"{text}.part").write_text("\n".join(lines) + "\n")
    os.replace(f"{text}.part", text)
    return text


def _shown(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
