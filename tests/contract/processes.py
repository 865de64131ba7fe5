"""Run by `test_processes.py`: all rows in a worker process that is started by one method.

    python -m tests.contract.processes fork|spawn|forkserver

A process in which JAX has worked cannot be forked safely: this one does nothing but start workers.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

from riemdp import Ledger

from .entries import RUNNING
from .entry import LEDGER, Entry, Given, numbers
from .outcomes import SEED, charged

Told = dict[str, list[Any]]  # of each row: what came of it beside a ledger, and with its own


def rows() -> list[Entry]:
    """All rows that are no commands: those charge a file that they are told."""
    return [entry for entry in RUNNING if "processes" not in entry.without]


def called(entry: Entry, ledger: Any, folder: Path) -> str:
    """ "released", or the words of the error."""
    given = Given(entry.budget, SEED, ledger, folder)
    options = {"--ledger": None} if ".cli." in entry.name and ledger is None else {}
    if ledger is None and entry.name.startswith("riemdp.Private"):
        given = Given(entry.budget, SEED, contextlib.nullcontext(), folder)  # pyright: ignore
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = entry.call(entry.make(SEED), given, **options)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "released" if numbers(result).size else "nothing"


def beside_a_ledger(outbox: Any) -> None:
    """Every row: without a ledger, and with one of its own."""
    told: Told = {}
    for entry in rows():
        with tempfile.TemporaryDirectory(prefix="riemdp-contract-") as name:
            folder = Path(name)
            refused = called(entry, None, folder)
            left = sorted(f.name for f in folder.iterdir() if f.name == "released.json")
            own = Ledger(LEDGER, path=folder / "ledger.json")
            told[entry.id] = [refused, left, called(entry, own, folder), charged(own)]
    outbox.put(told)


def without_a_ledger(outbox: Any) -> None:
    """One row of each claim, where no ledger is open."""
    told, claims = {}, set()
    for entry in rows():
        if entry.claim in claims:
            continue
        claims.add(entry.claim)
        with tempfile.TemporaryDirectory(prefix="riemdp-contract-") as name:
            told[entry.id] = called(entry, None, Path(name))
    outbox.put(told)


def main(method: str) -> None:
    """Both, each in a process of its own; and what the ledger that was open was charged."""
    context = multiprocessing.get_context(method)
    found: dict[str, Any] = {}
    ledger = Ledger(LEDGER)
    with ledger:
        found["beside"] = in_worker(context, beside_a_ledger)
    found["charged"] = ledger.charges
    found["without"] = in_worker(context, without_a_ledger)
    print(json.dumps(found))


def in_worker(context: Any, work: Any) -> Any:
    """What a worker process puts into its queue."""
    queue = context.SimpleQueue()
    worker = context.Process(target=work, args=(queue,))
    worker.start()
    found = queue.get()
    worker.join()
    return found


if __name__ == "__main__":
    main(sys.argv[1])
