"""A command gives memory back that it has freed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.seam import plant

WORK = """
import re, sys
from pathlib import Path
import numpy as np
from riemdp.cli._memory import give_back_early

def resident():
    return int(re.search(r"VmRSS:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) / 1e3

if sys.argv[1] == "early":
    give_back_early()
np.ones(2_500_000)  # 20 MB, freed: from now on malloc keeps arrays up to this size side by side
before = resident()
pairs = [(np.ones(1_000_000), np.ones(20_000)) for _ in range(20)]
held = [small for _, small in pairs]  # between them
del pairs
print(resident() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
def test_freed_arrays_go_back_to_the_system() -> None:
    def left(how: str) -> float:
        done = subprocess.run(
            [sys.executable, "-c", WORK, how], check=True, capture_output=True, text=True
        )
        return float(done.stdout)

    if left("late") < 100:
        pytest.skip("this malloc gives memory back by itself")
    assert left("early") < 20


def test_a_command_asks_for_it(monkeypatch) -> None:
    import riemdp.cli as cli

    asked = []
    plant(monkeypatch, "giving memory back", lambda: asked.append(True))
    plant(monkeypatch, "keeping what is compiled", lambda: None)
    monkeypatch.setattr(cli, "leave", lambda code: None)
    monkeypatch.setattr(sys, "argv", ["riemdp", "--help"])
    with pytest.raises(SystemExit):
        cli.main()
    assert asked == [True]
