"""The table: every public call that releases, and the public names that look like one and are not.

A public callable that takes a budget and a ledger, makes a release, or is an estimator with a
budget, and has no row here, fails `test_rows.py`.
"""

from __future__ import annotations

from .entry import Entry
from .rows_of_commands import COMMANDS
from .rows_of_estimators import ESTIMATORS
from .rows_of_functions import MEANS, MECHANISMS, OTHERS
from .rows_of_loops import EIGENVECTORS, RUNS, SITES

ENTRIES: tuple[Entry, ...] = (
    *MEANS,
    *OTHERS,
    *MECHANISMS,
    *RUNS,
    *EIGENVECTORS,
    *SITES,
    *ESTIMATORS,
    *COMMANDS,
)
RUNNING = tuple(entry for entry in ENTRIES if entry.runs)
