"""Paired timings on a shared machine, and the one table they go into.

Absolute times on a shared machine say little; a ratio of two runs taken back to back says more, so
the ratio is what is quoted. Every benchmark writes rows of the same columns (`comparison`,
`growth`) to `results/<name>.csv`; `write_summary` puts the rows of all of them into
`results/summary.csv` and `.md`.
"""

from __future__ import annotations

import csv
import dataclasses
import os
import platform
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results"
COLUMNS = (
    "work",
    "beside",
    "unit",
    "ours",
    "theirs",
    "ratio",
    "quartiles",
    "target",
    "met",
    "pairs",
    "load",
)
# of work that has no peer: in its own table only
ALONE = (
    "release",
    "matrices",
    "n",
    "file (MB)",
    "peak memory (MB)",
    "processor time (s)",
    "time (s)",
    "one eigendecomposition each (s)",
    "processor time beside it",
    "load",
)
GATE = ("work", "beside", "ours", "theirs", "ratio", "goal", "met", "load")  # likewise
GROWTH = ("work", "against", "from", "to", "exponent", "expected", "times (s)", "load")
Row = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Paired:
    """Medians in seconds of `ours` and `theirs`, the median of the paired ratios and its quartiles,
    and the load meanwhile.
    """

    ours: float
    theirs: float
    ratio: float
    low: float
    high: float
    repeats: int
    load: float

    @classmethod
    def of(cls, ours: Sequence[float], theirs: Sequence[float]) -> Paired:
        """Seconds of calls that were made in pairs."""
        count = min(len(ours), len(theirs))
        ratio = np.asarray(ours[:count]) / np.asarray(theirs[:count])
        low, middle, high = map(float, np.quantile(ratio, [0.25, 0.5, 0.75]))
        return cls(
            float(np.median(ours)), float(np.median(theirs)), middle, low, high, count, load()
        )


def load() -> float:
    """The machine's load average of the last minute, nan where the system does not tell."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")


def seconds(work: Callable[[], Any]) -> float:
    """Processor time of a call."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def paired(
    ours: Callable[[], Any],
    theirs: Callable[[], Any],
    *,
    repeats: int = 15,
    budget: float = 6.0,
    clock: Callable[[], float] = time.perf_counter,
) -> Paired:
    """Time the two in alternation (order swapped each time) after one warm-up each, for `repeats`
    pairs or `budget` seconds by the clock.
    """
    ours()
    theirs()
    a, b = [], []
    start = clock()
    for i in range(repeats):
        for work, into in ((ours, a), (theirs, b)) if i % 2 == 0 else ((theirs, b), (ours, a)):
            begin = clock()
            work()
            into.append(clock() - begin)
        if clock() - start > budget and i >= 4:
            break
    return Paired.of(a, b)


def comparison(
    work: str,
    beside: str,
    timing: Paired,
    *,
    target: float | None = None,
    unit: str = "ms",
    ours_count: float = 1,
    theirs_count: float = 1,
) -> Row:
    """One row: time of one piece of work in `unit` (s, ms, us) on both sides; a call did
    `ours_count`, `theirs_count` of them.
    """
    to_unit = {"s": 1.0, "ms": 1e3, "us": 1e6}[unit]
    scale = theirs_count / ours_count
    ratio = timing.ratio * scale
    return {
        "work": work,
        "beside": beside,
        "unit": unit,
        "ours": to_unit * timing.ours / ours_count,
        "theirs": to_unit * timing.theirs / theirs_count,
        "ratio": ratio,
        "quartiles": f"{timing.low * scale:.3g} .. {timing.high * scale:.3g}",
        "target": "" if target is None else target,
        "met": "" if target is None else ("yes" if ratio <= target else "NO"),
        "pairs": timing.repeats,
        "load": timing.load,
    }


def compared(
    work: str,
    beside: str,
    ours: Callable[[], Any],
    theirs: Callable[[], Any],
    *,
    repeats: int = 15,
    budget: float = 6.0,
    **options: Any,
) -> Row:
    """The row of two calls, which are timed and printed; `options` are those of `comparison`."""
    timing = paired(ours, theirs, repeats=repeats, budget=budget)
    row = comparison(work, beside, timing, **options)
    print(row, flush=True)
    return row


def growth(
    work: str,
    against: str,
    sizes: Sequence[int],
    call: Callable[[int], Callable[[], Any]],
    expected: str,
) -> Row:
    """One row: how the time of `call(size)()` grows, as the exponent of a least-squares line
    through the logarithms.
    """
    times = []
    for size in sizes:
        run = call(size)
        run()
        begin = time.perf_counter()
        run()
        first = time.perf_counter() - begin
        took = [first]
        for _ in range(0 if first > 3 else 4):
            begin = time.perf_counter()
            run()
            took.append(time.perf_counter() - begin)
        times.append(float(np.median(took)))
    return growth_row(work, against, sizes, times, expected, load())


def growth_row(
    work: str,
    against: str,
    sizes: Sequence[int],
    times: Sequence[float],
    expected: str,
    at_load: float,
) -> Row:
    """The same row from times that were measured elsewhere."""
    return {
        "work": work,
        "against": against,
        "from": sizes[0],
        "to": sizes[-1],
        "exponent": float(np.polyfit(np.log(sizes), np.log(times), 1)[0]),
        "expected": expected,
        "times (s)": " ".join(f"{t:.3g}" for t in times),
        "load": at_load,
    }


def write_table(name: str, title: str, rows: Iterable[Row], notes: Iterable[str] = ()) -> Path:
    """Write rows as `results/<name>.csv` and `.md` (whole or not at all), with the machine they
    were measured on.
    """
    rows = list(rows)
    lines = [
        f"# {title}",
        "",
        *markdown(rows),
        "",
        f"{machine()}. Medians.",
        "",
        *(f"- {note}" for note in notes),
    ]
    _write_csv(RESULTS / f"{name}.csv", rows)
    path = RESULTS / f"{name}.md"
    path.write_text("\n".join(lines) + "\n")
    return path


def write_summary() -> Path:
    """Gather the rows of every benchmark that has been run into one table, `results/summary.csv`
    and `.md`.
    """
    comparisons, growths = [], []
    for path in sorted(RESULTS.glob("*.csv")):
        with open(path, newline="") as stream:
            rows = list(csv.DictReader(stream))
        if path.stem == "summary" or not rows:
            continue
        if tuple(rows[0]) == COLUMNS:
            comparisons += [{"benchmark": path.stem, **row} for row in rows]
        elif tuple(rows[0]) == GROWTH:
            growths += [{"benchmark": path.stem, **row} for row in rows]
        elif tuple(rows[0]) not in (ALONE, GATE):
            raise ValueError(
                f"{path.name}: the columns {tuple(rows[0])} are those of neither kind of table"
            )
    lines = [
        "# Benchmarks",
        "",
        (
            "Each row was timed in one process, ours and the peer in turn; `ratio` is the median of"
            " ours / theirs over the pairs,"
        ),
        (
            "with its quartiles, and `load` the machine's load average meanwhile. Only ratios carry"
            " over to another machine."
        ),
        "",
        *markdown(comparisons),
        "",
        "## Growth",
        "",
        "Exponent p of time ~ size^p, fitted to the logarithms; medians.",
        "",
        *markdown(growths),
        "",
        f"{machine()}.",
    ]
    both = [
        {**dict.fromkeys(("benchmark", *COLUMNS, *GROWTH), ""), **row}
        for row in (*comparisons, *growths)
    ]
    _write_csv(RESULTS / "summary.csv", both)
    path = RESULTS / "summary.md"
    path.write_text("\n".join(lines) + "\n")
    return path


def markdown(rows: Sequence[Row]) -> list[str]:
    """The lines of a Markdown table, columns from the first row."""
    if not rows:
        return ["(not run)"]
    columns = list(rows[0])
    head = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return head + ["| " + " | ".join(_shown(row[c]) for c in columns) + " |" for row in rows]


def machine() -> str:
    """When and on what."""
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    return (
        f"{when}, {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    )


def _shown(value: Any) -> str:
    try:
        return f"{float(value):.3g}" if not isinstance(value, int) and value != "" else str(value)
    except ValueError:
        return str(value)


def _write_csv(path: Path, rows: Sequence[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
