"""The pages of results show every artefact, with its picture and its numbers, and the summary
leaves no gap.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

import papers
from papers.tools.results_pages import PAGE_OF

PAGES = Path(__file__).parents[2] / "docs" / "results"
pytestmark = pytest.mark.skipif(
    not PAGES.is_dir(), reason="the documentation is not part of this installation"
)


@pytest.mark.parametrize("name", papers.names())
def test_every_artefact_has_its_picture_numbers_and_verdict(name):
    page = (PAGES / PAGE_OF[papers.get(name).paper]).read_text()
    start = page.index(f"](figures/{name}.png)")
    body = page[start:].split("\n??? ")[0]
    for head in (
        "**Data.**",
        "**The paper shows.**",
        "**With the published noise.**",
        "**With certified noise.**",
        "**True epsilon of the published noise.**",
    ):
        assert head in body
    assert not re.search(r"\bnan\b", body)
    assert (PAGES / "figures" / f"{name}.png").stat().st_size > 5000
    with open(PAGES / "data" / f"{name}.csv", newline="") as f:
        assert len(list(csv.DictReader(f))) >= 2


def test_pages_show_nothing_that_does_not_exist():
    known = set(papers.names())
    for kind, suffix in (("figures", ".png"), ("data", ".csv")):
        shown = {p.name.removesuffix(suffix) for p in (PAGES / kind).iterdir()}
        assert {name for name in shown if name.split("-")[0] in papers.PAPERS} == known
    assert "@" not in (PAGES / "index.md").read_text()
