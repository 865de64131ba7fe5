"""Every example runs to its end, says something, and leaves its picture; every picture of the
gallery belongs to an example.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted(ROOT.glob("examples/*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda p: p.stem)
def test_example_runs(example, tmp_path):
    run = subprocess.run(
        [sys.executable, str(example), str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip()
    assert (tmp_path / f"{example.stem}.png").stat().st_size > 5000


def test_gallery_shows_every_example_once():
    text = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    names = [p.stem for p in EXAMPLES]
    assert len(names) >= 12
    assert sorted(re.findall(r"\(pictures/(\w+)\.png\)", text)) == names
    assert sorted(re.findall(r'--8<-- "examples/(\w+)\.py"', text)) == names
    for name in names:
        assert (ROOT / "docs" / "pictures" / f"{name}.png").exists()
