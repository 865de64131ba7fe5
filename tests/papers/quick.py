"""One quick run of one artefact, and what every one of them has to leave behind."""

from __future__ import annotations

from pathlib import Path

import papers


def quick_verdict(name: str, out: Path) -> str:
    """The verdict of a quick run, after checking that its files are all there and that no number in
    it is missing.
    """
    folder = papers.run(name, quick=True, out=out)
    assert {p.name for p in folder.iterdir()} == {
        "data.csv",
        "figure.png",
        "figure.svg",
        "verdict.md",
        "meta.json",
    }
    verdict = (folder / "verdict.md").read_text()
    assert "nan" not in verdict
    return verdict
