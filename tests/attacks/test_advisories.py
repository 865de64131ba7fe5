"""Every advisory has an attack of its number, and a row in the table of attacks."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def test_every_advisory_has_an_attack_and_a_row():
    advisories = re.findall(
        r"^## RIEMDP-2026-(\d+)$", (ROOT / "SECURITY.md").read_text("utf-8"), re.M
    )
    rows = re.findall(r"^\| (\d+) ", (ROOT / "docs" / "attacks.md").read_text("utf-8"), re.M)
    code = "".join(file.read_text("utf-8") for file in sorted(HERE.glob("test_*.py")))
    attacked = {int(n) for n in re.findall(r"def test_fault_(\d+)_", code)}
    wanted = [int(n) for n in advisories]
    assert wanted == list(range(1, len(wanted) + 1))
    assert [int(n) for n in rows] == wanted
    assert attacked == set(wanted)
