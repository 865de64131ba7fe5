"""Run by `test_processes.py`: all rows in a worker process that is started by one method.

    python -m tests.contract.processes fork|spawn|forkserver

A process in which JAX has worked cannot be forked safely: this one does nothing but start workers,
which inherit the rows by a fork, and import them otherwise.
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

from .entry import LEDGER, Entry, Given, numbers

Told = dict[str, list[Any]]  # of each row: what came of it beside a ledger, and with its own


def rows() -> list[Entry]:
    """All rows that are asked."""
    from .entries import RUNNING

    return list(RUNNING)


def called(entry: Entry, ledger: Any, folder: Path) -> str:
    """ "released", or the words of the error."""
    from .outcomes import SEED

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


def first_of_claims() -> set[str]:
    """One row of each claim."""
    return {entry.id for entry in {e.claim: e for e in reversed(rows())}.values()}


WORKING = ("mean in a public ball", "PCA", "DP-RGD/RSGD")  # claims whose rows release there, too


def working() -> set[str]:
    """One row of each of these."""
    return {
        entry.id for entry in rows() if entry.id in first_of_claims() and entry.claim in WORKING
    }


def beside_a_ledger(outbox: Any, method: str) -> None:
    """Rows without a ledger: all of them in a fork, where some get a ledger of their own,
    too; and one of each claim in a process that begins anew, which knows less of the one that
    asked for it.
    """
    from .outcomes import charged

    told: Told = {}
    some = first_of_claims()
    for entry in [e for e in rows() if method == "fork" or e.id in some]:
        with tempfile.TemporaryDirectory(prefix="riemdp-contract-") as name:
            folder = Path(name)
            refused = called(entry, None, folder)
            left = sorted(f.name for f in folder.iterdir() if f.name == "released.json")
            told[entry.id] = [refused, left]
            if entry.id in working() and method == "fork":
                own = Ledger(LEDGER, path=folder / "ledger.json")
                told[entry.id] += [called(entry, own, folder), charged(own)]
    outbox.put(told)


def without_a_ledger(outbox: Any, method: str) -> None:
    """Some rows, where no ledger is open."""
    told = {}
    for entry in [entry for entry in rows() if entry.id in working()]:
        with tempfile.TemporaryDirectory(prefix="riemdp-contract-") as name:
            told[entry.id] = called(entry, None, Path(name))
    outbox.put(told)


def nothing(outbox: Any, method: str) -> None:
    """Only starts."""
    outbox.put(method)


def main(method: str) -> None:
    """Both, each in a process of its own; and what the ledger that was open was charged."""
    context = multiprocessing.get_context(method)
    found: dict[str, Any] = {}
    if method == "fork":
        rows()
        assert not is_at_work(), "JAX has threads, which a fork does not have"
        found["without"] = in_worker(context, without_a_ledger, method)
    elif method == "forkserver":  # the server knows of no ledger from its start
        in_worker(context, nothing, method)
    ledger = Ledger(LEDGER)
    with ledger:
        found["beside"] = in_worker(context, beside_a_ledger, method)
    found["charged"] = ledger.charges
    print(json.dumps(found))


def is_at_work() -> bool:
    """Whether JAX has started anything in this process."""
    from jax._src import xla_bridge

    return bool(xla_bridge.backends_are_initialized())


def in_worker(context: Any, work: Any, method: str) -> Any:
    """What a worker process puts into its queue."""
    queue = context.SimpleQueue()
    worker = context.Process(target=work, args=(queue, method))
    worker.start()
    found = queue.get()
    worker.join()
    return found


if __name__ == "__main__":
    main(sys.argv[1])
