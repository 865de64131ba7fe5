"""How a release looks in a terminal."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from .._errors import counted
from ..report._words import (
    bias_sentence,
    epsilon_and_delta,
    group_sentence,
    number,
    outside_sentence,
    percent,
)
from ._run import adjacency_of, console, table, text

if TYPE_CHECKING:
    from ..mechanisms import Release
    from ..optimizers import OptimizationResult
    from ..report import PrivacyReport
    from ._release import Outputs


@contextlib.contextmanager
def reading_shown(name: str) -> Iterator[None]:
    """Show on a terminal how far a pass over a file is that is read in parts."""
    from ..domains._sources import watched

    if not sys.stderr.isatty():
        yield
        return
    display = console(error=True).status(f"reading {name}")
    says = lambda read, n: display.update(f"reading {name}: {read:,} of {n:,} records")  # noqa: E731
    with display, watched(says):
        yield


def show_release(
    release: Release | OptimizationResult,
    page: PrivacyReport,
    outputs: Outputs,
    note: str,
) -> None:
    """The result for a person: the guarantee first, the value where it fits, then the files."""
    screen = console()
    if page.reproducible:
        screen.print(
            text(
                (
                    "NOT PRIVATE: made with a seed, for trying out only. Do not publish.",
                    "bold white on red",
                )
            )
        )
    facts = table(show_header=False, box=None, padding=(0, 2, 0, 0))
    rows = _rows(page, note)
    files = ("value", outputs.out), ("report", outputs.report)
    rows += [(name, str(path)) for name, path in files if path is not None]
    if outputs.names is not None:
        rows.append(("columns", ", ".join(outputs.names)))
    for name, words in rows:
        facts.add_row(text((name, "bold")), text(words))
    screen.print(facts)
    if outputs.out is None:
        screen.print()
        screen.print(text(as_text(np.asarray(release.value))))


def _rows(page: PrivacyReport, note: str) -> list[tuple[str, str]]:

    pair = epsilon_and_delta(page.epsilon, page.delta)
    rows = [
        _count(page, note),
        ("space", page.space),
        ("domain", page.domain),
        *([] if page.search is None else [("how it was found", page.search.sentence)]),
        ("mechanism", f"{page.mechanism}, noise scale {number(page.noise_scale)}"),
        ("guarantee", f"{pair}, {adjacency_of(page.guarantee)}"),
        (
            "best attack",
            f"guesses right at most {percent(page.trade_off.best_guess, up=True)} of the time (a"
            " coin: 50 %)",
        ),
    ]
    people = page.max_records_per_person
    if people is not None:
        rows.append(
            (
                "one person",
                f"up to {counted(people, 'record')}:"
                f" {group_sentence(page.guarantee, people, page.delta)}",
            )
        )
    if page.error_from_noise is not None:
        bar = None if page.search is None else page.search.error_bar
        below = "" if bar is None else f"; below {number(bar)} with probability 95 %"
        rows.append(
            (
                "error from noise",
                f"{number(page.error_from_noise)} (root mean squared distance, by formula{below})."
                f" {bias_sentence(page.radius)}",
            )
        )
    if page.region is not None:
        rows.append(("error bar", page.region.sentence))
    rows += [("population", region.sentence) for region in page.population]
    if page.outside is not None:
        rows.append(("outside the ball", outside_sentence(page.outside)))
    if page.ledger is not None:
        rows.append(("ledger", page.ledger))
    return rows


def _count(page: PrivacyReport, note: str) -> tuple[str, str]:
    """How many went in. The note of the file tells of its records, whose number `groups` hides."""
    name = "people" if page.of_people else "records"
    if page.at_least:
        return name, f"at least {page.records:,}; how many is protected"
    return name, f"{page.records:,}" if page.of_people else f"{page.records:,} ({note})"


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
