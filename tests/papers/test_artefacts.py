"""A quick run of every artefact, and what each of them has to leave behind. Slow."""

from __future__ import annotations

from pathlib import Path

import pytest

import papers

FILES = {"data.csv", "figure.png", "figure.svg", "verdict.md", "meta.json"}


@pytest.mark.slow
@pytest.mark.parametrize("name", papers.names())
def test_a_quick_run_leaves_all_files_and_no_number_is_missing(name: str, tmp_path: Path) -> None:
    folder = papers.run(name, quick=True, out=tmp_path)
    assert {p.name for p in folder.iterdir()} == FILES
    verdict = (folder / "verdict.md").read_text()
    assert "nan" not in verdict
    assert not name.startswith("utpala2023le-") or "NO." not in verdict  # a bound that was broken
