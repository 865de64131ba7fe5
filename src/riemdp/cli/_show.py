"""How a release looks in a terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import typer

from ..report._words import epsilon_and_delta, number, percent
from ._run import print_facts

if TYPE_CHECKING:
    from ..mechanisms import Release
    from ..privacy import Guarantee
    from ..report import PrivacyReport

# Rows of the report that are shown, and under which name.
_SHOWN = {
    "Made from": "made from",
    "Space": "space",
    "Domain": "domain",
    "How it was found": "how it was found",
    "Error from noise": "error from noise",
    "Confidence region": "error bar",
    "Outside the domain": "outside the ball",
    "Ledger": "ledger",
}


def adjacency_of(guarantee: Guarantee) -> str:
    """Whom a guarantee protects, after its epsilon: "replace-one", "replace-one for all records of
    one person".
    """
    told = guarantee.neighbours.replace(" neighbours that differ in ", " for ")
    return told.replace(" neighbours", "")


def show_release(
    release: Release,
    page: PrivacyReport,
    files: Mapping[str, Path | None],
    names: Sequence[str] | None,
) -> None:
    """The result for a person: the guarantee first, the files, and the value where it has none."""
    if release.reproducible:
        warning = "NOT PRIVATE: made with a seed, for trying out only. Do not publish."
        typer.echo(typer.style(warning, fg="white", bg="red", bold=True))
    pair = epsilon_and_delta(page.epsilon, page.delta)
    guess = percent(page.trade_off.best_guess, up=True)
    rows = [
        ("guarantee", f"{pair}, {adjacency_of(page.guarantee)}"),
        ("best attack", f"guesses right at most {guess} of the time (a coin: 50 %)"),
        *((_SHOWN[name], words) for name, words in page.rows if name in _SHOWN),
        ("mechanism", f"{page.mechanism}, noise scale {number(page.noise_scale)}"),
    ]
    rows += [(name, str(path)) for name, path in files.items() if path is not None]
    if names is not None:
        rows.append(("columns", ", ".join(names)))
    print_facts(rows)
    if files["value"] is None:
        typer.echo()
        typer.echo(as_text(np.asarray(release.value)))


def as_text(array: np.ndarray) -> str:
    """An array as text that fits a terminal; large ones are shortened in the middle. Where all
    entries are tiny (covariances of volts) or huge, a power of ten stands before it.
    """
    largest = float(np.max(np.abs(array), initial=0.0))
    exponent = max(-300, math.floor(math.log10(largest))) if 0.0 < largest < math.inf else 0
    if -2 <= exponent < 5:
        exponent = 0
    shown = array / 10.0**exponent
    with np.printoptions(precision=4, suppress=True, linewidth=110, threshold=400, edgeitems=4):
        numbers = str(np.where(np.abs(shown) < 5e-5, 0.0, shown))
    return f"1e{exponent:+03d} times\n{numbers}" if exponent else numbers
