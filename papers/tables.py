"""Tables that a program measures, each between two markers of a page of the documentation: `<!--
name -->` and `<!-- end of name -->`.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterable
from pathlib import Path

from riemdp import RiemdpWarning

DOCS = Path(__file__).parents[1] / "docs"


def line(cells: Iterable[str]) -> str:
    """A line of a table."""
    return "| " + " | ".join(cells) + " |"


def table(head: str, rows: Iterable[Iterable[str]]) -> str:
    """A table. Its head is written as in the page, columns divided by " | "; rows are printed as
    they come.
    """
    columns = head.split(" | ")
    lines = [line(columns), "|" + "---|" * len(columns)]
    for cells in rows:
        lines.append(line(cells))
        print(lines[-1], flush=True)
    return "\n".join(lines)


def write_between(page: Path, name: str, text: str) -> None:
    """Put a text between the two markers of a page that have this name."""
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    before, rest = page.read_text(encoding="utf-8").split(begin)
    after = rest.split(end)[1]
    page.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")


def options(program: str | None, *, runs: int, only: bool = False) -> argparse.Namespace:
    """How often to repeat (`runs`), and with `only` which rows to measure; nothing that the library
    warns of is printed.
    """
    parser = argparse.ArgumentParser(description=(program or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=runs, help="of each cell")
    if only:
        words = "rows whose name has this text; nothing is written"
        parser.add_argument("--only", default="", help=words)
    warnings.simplefilter("ignore", RiemdpWarning)
    return parser.parse_args()
