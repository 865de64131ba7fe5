"""The commands of examples/hospitals/README.md, run exactly as they are written there, in a copy of
the folder. Slow.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from riemdp import Ledger, SPDLogEuclidean

from .deployment import isolated
from .test_deployment import ROOT

EXAMPLE = ROOT / "examples" / "hospitals"

# What a person does with the README's blocks, each terminal a session of its own; `pip` has been
# run already.
BY_HAND = """
set -eu
pip() { :; }
. ../setup.sh
terminals=
trap 'for t in $terminals; do kill -- -$t || true; done; wait' EXIT
setsid bash ../server.sh > server.log 2>&1 & terminals="$terminals $!"
for _ in $(seq 600); do grep -q ':4A94 ' /proc/net/tcp && break; sleep 0.3; done
. ../register.sh
for k in 0 1 2; do
setsid bash ../hospital-$k.sh > hospital-$k.log 2>&1 & terminals="$terminals $!"
done
setsid --wait timeout 1500 bash ../run.sh
"""


def _blocks() -> list[str]:
    return re.findall(r"```sh\n(.*?)```", (EXAMPLE / "README.md").read_text(), flags=re.DOTALL)


def _left_behind(folder: Path) -> list[str]:
    """Processes that still know the deployment's FLWR_HOME; they are ended."""
    mark, found = f"FLWR_HOME={folder / 'flwr-home'}".encode(), []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and mark in (entry / "environ").read_bytes().split(b"\0"):
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
                os.kill(int(entry.name), signal.SIGKILL)
    return found


@pytest.mark.federated_deployment
def test_the_commands_of_the_readme_give_a_private_mean(tmp_path):
    pytest.importorskip("flwr", reason="needs the extra `federated`")
    if (
        not Path("/proc/net/tcp").exists()
        or shutil.which("openssl") is None
        or shutil.which("ssh-keygen") is None
    ):
        pytest.skip("needs Linux, openssl and ssh-keygen")
    folder = tmp_path / "hospitals"
    shutil.copytree(
        EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__", "certificates", "flwr-home")
    )
    setup, server, register, hospital, run = _blocks()
    assert "i=0   # 1, 2\n" in hospital
    for name, text in {"setup": setup, "server": server, "register": register, "run": run}.items():
        (tmp_path / f"{name}.sh").write_text(text)
    for k in range(3):
        (tmp_path / f"hospital-{k}.sh").write_text(hospital.replace("i=0   # 1, 2\n", f"i={k}\n"))
    env = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "OMP_NUM_THREADS": "1",
    }
    with isolated() as prefix:
        done = subprocess.run(
            [*prefix, "bash", "-c", BY_HAND],
            cwd=folder,
            env=env,
            capture_output=True,
            text=True,
            timeout=1800,
        )
    assert not _left_behind(folder)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "round 9 (10 of 10): 2 asked, 2 answered" in done.stdout + done.stderr
    facts = json.loads((folder / "result.json").read_text())
    assert facts["private"] is True
    assert 0 < facts["epsilon"] <= 2.0
    assert [r["accepted"] for r in facts["rounds"]] == [2] * 10
    with np.load(folder / "result.npz") as saved:
        assert bool(SPDLogEuclidean(9).belongs(saved["point_0"]))
        assert not np.allclose(saved["point_0"], np.eye(9))
    charges = {f"hospital-{i}": Ledger.open(folder / f"book-{i}.json").charges for i in range(3)}
    assert charges == facts["invitations"]
    for i, charged in charges.items():
        answers = json.loads((folder / f"answers-{i[-1]}.json").read_text())["answers"]
        assert len({a["round"] for a in answers}) == len(answers) == charged


def test_the_front_page_has_the_same_commands():
    text = (ROOT / "README.md").read_text()
    (block,) = [b for b in re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL) if "flwr" in b]
    told = block.splitlines()
    example = (EXAMPLE / "README.md").read_text().splitlines()
    assert len(told) >= 10
    assert [line for line in told if line not in example] == []
