"""A real deployment with every fault at once: TLS, node authentication, a killed agent, a restarted server. Slow."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from .deployment import LOOPBACK

pytestmark = pytest.mark.federated_deployment
ROOT = Path(__file__).parent.parent.parent


def _isolated() -> list[str]:
    """Prefix that gives the deployment a network of its own with nothing but loopback, where that is allowed."""
    prefix = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    if shutil.which("unshare") and shutil.which("ip") and subprocess.run([*prefix, "true"], capture_output=True).returncode == 0:
        return prefix
    return []


@pytest.fixture(scope="module")
def facts(tmp_path_factory):
    pytest.importorskip("flwr", reason="needs the extra `federated`")
    for tool in ("openssl", "ssh-keygen"):
        if shutil.which(tool) is None:
            pytest.skip(f"needs {tool} to make certificates")
    folder = tmp_path_factory.mktemp("deployment")
    command = [*_isolated(), sys.executable, "-m", "tests.federated.deployment", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1500)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.strip().splitlines()[-1])
    found["folder"] = folder
    return found


def test_the_run_ends_with_a_valid_point(facts):
    assert facts["first_rounds"]
    assert facts["ended"]
    with np.load(facts["folder"] / "result.npz") as saved:
        point = saved["point_0"]
    assert np.linalg.norm(point) == pytest.approx(1.0, abs=1e-12)
    assert np.any(point != np.eye(4)[0])


def test_every_round_is_accounted_for(facts):
    result = facts["result"]
    rounds = result["rounds"]
    assert [r["round"] for r in rounds] == list(range(8))
    assert all(r["accepted"] + r["refused"] + r["missing"] == r["invited"] for r in rounds)
    assert sum(result["invitations"].values()) == sum(r["invited"] for r in rounds)
    assert 0 < result["epsilon"] <= 20.0
    assert result["private"] is True


def test_faults_were_refused_and_good_replies_used(facts):
    rounds = facts["result"]["rounds"]
    assert sum(r["refused"] for r in rounds) >= 1
    assert sum(r["accepted"] for r in rounds) >= 8
    assert sum(r["missing"] for r in rounds) >= 1  # the killed agent, the exception, or the round lost with the server


def test_the_late_joiner_took_part(facts):
    assert facts["result"]["invitations"].get("agent-3", 0) >= 1


def test_the_server_went_on_after_its_restart(facts):
    assert 2 <= facts["rounds_at_restart"] < 8


def test_only_loopback_is_listened_on(facts):
    assert set(facts["open_addresses"]) <= LOOPBACK


def test_an_unregistered_key_is_refused(facts):
    assert facts["stranger_refused"]
