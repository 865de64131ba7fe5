"""`python -m tests.tracing`: the claims of tools/claims.toml, followed in a fresh process (what is
compiled already is not seen again). Prints, as JSON, claim -> file -> reason -> functions: as it
is, and with a helper planted in a file that is of no claim.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import jax
import pytest

from riemdp import Budget, Ledger, NoiseSource, privacy

from .contract.entries import ENTRIES
from .contract.entry import Entry
from .contract.outcomes import SEED, a_place, valid
from .tracer import PACKAGE, Reasons, Tracer

TABLE = tomllib.loads((Path(__file__).parents[1] / "tools" / "claims.toml").read_text())
CLAIMS: dict[str, dict[str, Any]] = {claim["name"]: claim for claim in TABLE["claim"]}
ROWS = {entry.id: entry for entry in ENTRIES}
ELSEWHERE = "report/_planted.py"  # where a planted helper seems to stand


class Seen(Exception):
    """The planted helper has run; what follows is of no interest."""


def followed(claim: dict[str, Any]) -> Reasons:
    """The files of a claim that are not of the base."""
    tracer = of_row(ROWS[claim["row"]]) if "row" in claim else of_ledger()
    return {
        file: reasons
        for file, reasons in sorted(tracer.found.items())
        if not any(file.startswith(base) for base in TABLE["base"])
    }


def of_row(entry: Entry) -> Tracer:
    """A row of the contract, called with its valid data."""
    data = valid(entry)
    tracer = Tracer(data[entry.records], entry.call, TABLE["public"])
    rng = NoiseSource(SEED) if entry.seeded else SEED
    with a_place(entry, rng=rng) as given, contextlib.suppress(Seen), tracer:
        entry.call(data, given)
    return tracer


def of_ledger() -> Tracer:
    """A ledger in a file: opened, charged, read again. Whatever runs is of the claim."""
    tracer, cost = Tracer((), every=True), privacy.pure(0.1)
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(Seen), tracer:
        for _ in range(2):
            with Ledger(Budget(1.0, 1e-6), path=Path(folder) / "ledger.json") as ledger:
                privacy.charge(cost, ledger)
    return tracer


def planted(claim: dict[str, Any], patch: pytest.MonkeyPatch) -> None:
    """A helper in a file of no claim, through which a function of this claim is called."""
    module, _, symbol = claim["inside"].partition(":")
    *classes, name = symbol.split(".")
    owner: Any = importlib.import_module(f"riemdp.{module}")
    for held in classes:
        owner = getattr(owner, held)
    namespace: dict[str, Any] = {"Seen": Seen}
    text = "def helper(*given, **named):\n    raise Seen\n"
    exec(compile(text, str(PACKAGE / ELSEWHERE), "exec"), namespace)
    patch.setattr(owner, name, namespace["helper"])


def as_lists(found: Reasons) -> dict[str, dict[str, list[str]]]:
    """The same, without sets."""
    return {file: {why: sorted(of) for why, of in r.items()} for file, r in found.items()}


def main() -> None:
    """Print what was found."""
    found, with_helper = {}, {}
    for name, claim in CLAIMS.items():
        jax.clear_caches()  # what other claims compiled is seen again
        found[name] = as_lists(followed(claim))
        with pytest.MonkeyPatch.context() as patch:
            planted(claim, patch)
            with_helper[name] = as_lists(followed(claim))
    json.dump({"found": found, "planted": with_helper}, sys.stdout)


if __name__ == "__main__":
    main()
