"""Write the tables of docs/dev/accuracy.md (between their markers): the worst error of every
geometric operation on every space of the test table.

Run from the root of the repository: `.venv/bin/python -m tools.accuracy_table` (about three
minutes; `--check` only compares the number of rows with the table of spaces and writes nothing).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from tests.manifolds.cases import BY_NAME, CASES
from tests.manifolds.oracles import (
    ORACLES,
    Inputs,
    both_far,
    ordinary,
    scaled,
    worst_errors,
)

from papers.checks import write_between
from riemdp.manifolds import CheckReport, check

ROOT = Path(__file__).resolve().parents[1]
KEYS = range(10)
ORACLES_MARKERS = "<!-- oracles -->", "<!-- end of oracles -->"
IDENTITIES_MARKERS = "<!-- identities -->", "<!-- end of identities -->"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="fail if the page lacks a space of the table"
    )
    target = ROOT / "docs" / "dev" / "accuracy.md"
    if parser.parse_args().check:
        missing = [case.name for case in CASES if case.name not in target.read_text()]
        sys.exit(f"the page lacks {missing}: run tools/accuracy_table.py" if missing else 0)
    write_between(target, ORACLES_MARKERS, against_oracles().rstrip())
    write_between(target, IDENTITIES_MARKERS, against_identities().rstrip())
    print(f"wrote {target.relative_to(ROOT)}")


def against_oracles() -> str:
    rows = []
    for name, oracle in ORACLES.items():
        m, radius = BY_NAME[name].manifold, BY_NAME[name].radius
        regimes = {
            "ordinary": lambda k, m=m, r=radius: ordinary(m, r, k),
            "tiny": lambda k, m=m: scaled(m, 1e-12, k),
        }
        if m.is_hadamard:
            regimes["far"] = lambda k, m=m: both_far(m, 16.0, k)
        else:
            regimes["cut locus"] = lambda k, m=m: scaled(m, float(np.pi) - 1e-8, k)
        for regime, draw in regimes.items():
            rows.append((name, regime, _worst_over_seeds(m, oracle, [draw(k) for k in KEYS])))
    operations = list(rows[0][2])
    lines = [_line(["space", "inputs", *operations]), _line(["---"] * (len(operations) + 2))]
    lines += [
        _line([name, regime, *(f"{errors[op]:.0e}" for op in operations)])
        for name, regime, errors in rows
    ]
    return "\n".join(lines) + "\n"


def _worst_over_seeds(m, oracle, draws: list[Inputs]) -> dict[str, float]:
    found = [worst_errors(m, oracle, inputs) for inputs in draws]
    return {name: max(errors[name] for errors in found) for name in found[0]}


def against_identities() -> str:
    worst: dict[str, dict[str, float | None]] = {}
    for case in CASES:
        reports = [
            check(case.manifold, key=k, radius=case.radius, tolerances=case.tolerances)
            for k in KEYS
        ]
        failed = [str(r) for r in reports if not r.ok]
        if failed:
            sys.exit(failed[0])
        worst[case.name] = {row.name: _largest(reports, row.name) for row in reports[0].rows}
    names = [case.name for case in CASES]
    lines = [_line(["property", *names]), _line(["---"] * (len(names) + 1))]
    properties = worst[names[0]]
    lines += [_line([prop, *(_cell(worst[name][prop]) for name in names)]) for prop in properties]
    return "\n".join(lines) + "\n"


def _largest(reports: list[CheckReport], name: str) -> float | None:
    errors = [e for r in reports if (e := r[name].error) is not None]
    return max(errors) if errors else None


def _cell(error: float | None) -> str:
    return "-" if error is None else f"{error:.0e}" if error else "0"


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    main()
