"""Write the tables of docs/dev/accuracy.md: the worst error of every geometric operation on every
space of the test table. Takes about three minutes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

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

from papers.tables import DOCS, table, write_between
from riemdp.manifolds import CheckReport, check

KEYS = range(10)


def main() -> None:
    page = DOCS / "dev" / "accuracy.md"
    rows = list(against_oracles())
    head = " | ".join(["space", "inputs", *rows[0][2]])
    cells = ([name, where, *(f"{x:.0e}" for x in found.values())] for name, where, found in rows)
    write_between(page, "oracles", table(head, cells))
    worst = against_identities()
    head = " | ".join(["property", *worst])
    properties = next(iter(worst.values()))
    cells = ([name, *(_cell(errors[name]) for errors in worst.values())] for name in properties)
    write_between(page, "identities", table(head, cells))


def against_oracles() -> Iterator[tuple[str, str, dict[str, float]]]:
    """Space, kind of inputs, and operation -> its worst error."""
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
            yield name, regime, _worst_over_seeds(m, oracle, [draw(k) for k in KEYS])


def _worst_over_seeds(m, oracle, draws: list[Inputs]) -> dict[str, float]:
    found = [worst_errors(m, oracle, inputs) for inputs in draws]
    return {name: max(errors[name] for errors in found) for name in found[0]}


def against_identities() -> dict[str, dict[str, float | None]]:
    """Space -> property -> its worst error."""
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
    return worst


def _largest(reports: list[CheckReport], name: str) -> float | None:
    errors = [e for r in reports if (e := r[name].error) is not None]
    return max(errors) if errors else None


def _cell(error: float | None) -> str:
    return "-" if error is None else f"{error:.0e}" if error else "0"


if __name__ == "__main__":
    main()
