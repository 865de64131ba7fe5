"""Excess risk of private methods on real data at the same certified (epsilon, delta):
docs/evidence/excess-risk.md.

    RIEMDP_DATA=... python -m papers.tools.excess_risk_table [--only "MNIST 0,satimage"]
        [--methods GMIP,DP-RGD] [--seeds 20]
    python -m papers.tools.excess_risk_table --write    (only renew the table and the figure of
        the document from the CSV)

Results are kept, one row a (data set, method, epsilon), in docs/results/tables/excess-risk.csv as
soon as they are ready; rows that are there (same grid, same seeds) are not computed again. The
table in docs/evidence/excess-risk.md, between the marks, is made from it.

The settings of a method are chosen per (data set, method, epsilon): least median over `SELECTION`
seeds, and then run again on fresh seeds. They are chosen by looking at the risk itself, which is
not private. Seeds are fixed: a simulation.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from riemdp import Budget, InvalidArgument

from ..checks import written_whole
from ..tables import DOCS

DELTA = 1e-6
EPSILONS = (0.1, 0.3, 0.5, 1.0)
SELECTION = (1000, 1001, 1002)
RESULTS = DOCS / "results" / "tables" / "excess-risk.csv"
FIGURE = DOCS / "results" / "figures" / "excess-risk.png"
FIELDS: tuple[str, ...] = (
    "data",
    "n",
    "dim",
    "method",
    "family",
    "epsilon",
    "delta",
    "adjacency",
    "certified_epsilon",
    "settings",
    "grid",
    "choices",
    "seeds",
    "q25",
    "median",
    "q75",
    "auto",
    "cpu_seconds",
)


def cell(case, method, epsilon: float, seeds: int) -> dict[str, str]:
    """One row of results: settings chosen on the selection seeds, risk measured on fresh ones."""
    began = time.process_time()
    budget = Budget(epsilon, DELTA)
    count = seeds if method.seeds is None else min(seeds, method.seeds)
    row = {
        "data": case.name,
        "n": case.n,
        "dim": case.dim,
        "method": method.name,
        "family": method.family,
        "epsilon": epsilon,
        "delta": DELTA,
        "grid": method.grid,
        "choices": len(method.settings),
        "seeds": count,
        "auto": case.auto(budget),
    }
    pick = method.settings[0]
    try:
        if len(method.settings) > 1:
            pick = min(method.settings, key=lambda s: score(case, s, budget))
        points, guarantee = pick.run(budget, range(count))
    except (InvalidArgument, NotImplementedError) as error:  # it does not exist here: said
        missing = f"not available: {error}".split(";")[0]
        return _written({**row, "settings": missing, "cpu_seconds": 0.0})
    if not guarantee.within(budget):
        raise RuntimeError(f"{method.name} on {case.name} costs more than {budget}: {guarantee}")
    risks = finite(case.risk(points))
    # Between two infinite risks there is nothing to interpolate.
    low, middle, high = np.quantile(
        risks, [0.25, 0.5, 0.75], method="linear" if np.all(np.isfinite(risks)) else "nearest"
    )
    spent = time.process_time() - began
    return _written(
        {
            **row,
            "adjacency": guarantee.adjacency,
            "certified_epsilon": guarantee.epsilon(DELTA),
            "q25": low,
            "settings": pick.words,
            "median": middle,
            "q75": high,
            "cpu_seconds": round(spent, 2),
        }
    )


def score(case, setting, budget: Budget) -> float:
    """What settings are compared by: the median of the cheap figure; infinite where the setting is
    refused.
    """
    try:
        return float(np.median(finite(case.quick(setting.run(budget, SELECTION)[0]))))
    except (InvalidArgument, NotImplementedError):
        return np.inf


def finite(risks: np.ndarray) -> np.ndarray:
    """A run that left the manifold (NaN) counts as infinitely bad, not as missing."""
    return np.where(np.isnan(risks), np.inf, risks)


def _written(row: dict) -> dict[str, str]:
    return {
        f: f"{row[f]:.6g}" if isinstance(row.get(f), float) else str(row.get(f, "")) for f in FIELDS
    }


# ------------------------------------------------------------------------------------------------
# keeping results
def read(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def key(row: dict[str, str]) -> tuple[str, str, str]:
    return row["data"], row["method"], row["epsilon"]


def keep(path: Path, row: dict[str, str]) -> None:
    """Put one row into the file (the one of the same name is replaced), whole or not at all."""
    rows = [r for r in read(path) if key(r) != key(row)] + [row]
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as part, part.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(FIELDS), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def fill(path: Path, case, wanted: Iterable[str], seeds: int) -> int:
    """Compute the rows of a case that the file does not have yet; returns how many."""
    done = {key(r): r for r in read(path)}
    made = 0
    for method in case.methods:
        if not any(word in method.name for word in wanted):
            continue
        for epsilon in EPSILONS:
            old = done.get((case.name, method.name, f"{epsilon:.6g}"))
            count = seeds if method.seeds is None else min(seeds, method.seeds)
            if old is not None and old["grid"] == method.grid and old["seeds"] == str(count):
                continue
            row = cell(case, method, epsilon, seeds)
            keep(path, row)
            made += 1
            print(*row.values(), sep=" | ", flush=True)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--only", default="", help="data sets, separated by ';' (default: all)")
    parser.add_argument(
        "--methods", default="", help="words that the method's name has to hold, separated by ';'"
    )
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--write", action="store_true", help="compute nothing")
    options = parser.parse_args()
    if not options.write:
        from .excess_risk_cases import cases

        for name, make in cases().items():
            if any(word == name or not word for word in options.only.split(";")):
                fill(options.out, make(), options.methods.split(";"), options.seeds)
    from .excess_risk_words import write

    write(read(options.out), FIGURE)


if __name__ == "__main__":
    main()
