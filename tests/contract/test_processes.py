"""In a worker process, started by any method, no row releases beside a ledger of the process that
started it: it refuses and charges nothing. With a ledger of its own, or where none is open, it
works.
"""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys
from pathlib import Path

import pytest

from .entry import CLAIMS
from .outcomes import expected
from .processes import WORKING, rows

WORDS = ("worker process", "another process", "in the memory of process")
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_rows_in_worker_processes(method):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system has no {method}")
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.contract.processes", method],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    found = json.loads(ran.stdout.splitlines()[-1])
    assert found["charged"] == 0
    for entry in [entry for entry in rows() if entry.id in found["beside"]]:
        refused, written, *own = found["beside"][entry.id]
        assert any(words in refused for words in WORDS), (entry.id, refused)
        assert not written, entry.id
        if own:
            assert own == ["released", expected(entry).charged], entry.id
    if method != "fork":
        assert len(found["beside"]) == len(CLAIMS)
        return
    assert sorted(found["beside"]) == sorted(entry.id for entry in rows())
    assert sum(len(told) == 4 for told in found["beside"].values()) == len(WORKING)
    assert len(found["without"]) == len(WORKING)
    assert set(found["without"].values()) == {"released"}, found["without"]
