"""A real deployment with every fault: TLS, node authentication, hostile replies, a killed agent, a
killed server. Slow.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from riemdp import Ledger, privacy
from riemdp.federated import plan_federated

from .deployment import AGENTS, KILLED_AGENT, KILLED_SERVER, LOOPBACK, ROUNDS, isolated

pytestmark = pytest.mark.federated_deployment
ROOT = Path(__file__).parent.parent.parent
TIMEOUT, START = (
    90.0,
    60.0,
)  # of a round in app/faulty/server.py; a generous start of processes on a busy machine
DELTA = 1e-5


def deployed(tmp_path_factory, script):
    """What a deployment script of this folder has printed, and its folder."""
    pytest.importorskip("flwr", reason="needs the extra `federated`")
    if not Path("/proc/net/tcp").exists():
        pytest.skip("looks at processes and sockets through Linux' /proc")
    for tool in ("openssl", "ssh-keygen"):
        if shutil.which(tool) is None:
            pytest.skip(f"needs {tool} to make certificates")
    # The workers of one run share this folder: the tests of a file may be divided among them, and
    # one deployment serves all.
    here = tmp_path_factory.getbasetemp()
    folder = (here.parent if "PYTEST_XDIST_WORKER" in os.environ else here) / script
    with isolated() as prefix:
        if not (folder / "outcome.json").exists():
            folder.mkdir()
            command = [sys.executable, "-m", f"tests.federated.{script}", str(folder)]
            done = subprocess.run(
                [*prefix, *command], cwd=ROOT, capture_output=True, text=True, timeout=2400
            )
            outcome = [done.returncode, done.stdout, done.stderr[-5000:]]
            (folder / "outcome.json").write_text(json.dumps(outcome))
    code, said, failed = json.loads((folder / "outcome.json").read_text())
    assert code == 0, failed
    return json.loads(said.strip().splitlines()[-1]) | {"folder": folder}


@pytest.fixture(scope="module")
def facts(tmp_path_factory):
    return deployed(tmp_path_factory, "deployment")


@pytest.fixture(scope="module")
def rounds(facts):
    return facts["result"]["rounds"]


@pytest.fixture(scope="module")
def plan():
    sys.path.insert(0, str(Path(__file__).parent / "app"))
    try:
        from faulty.client import make_setup  # pyright: ignore[reportMissingImports]
    finally:
        sys.path.pop(0)
    setup = make_setup({"rounds": ROUNDS})
    return plan_federated(setup.prirfed, [50] * AGENTS, setup.budget)


def test_the_run_ends_with_a_valid_point(facts, rounds):
    assert facts["ended"]
    assert facts["run_finished"]
    with np.load(facts["folder"] / "result.npz") as saved:
        point = saved["point_0"]
    assert np.linalg.norm(point) == pytest.approx(1.0, abs=1e-12)
    assert np.any(point != np.eye(4)[0])
    assert [r["round"] for r in rounds] == list(range(ROUNDS))
    assert all(
        r["accepted"] + r["refused"] + r["missing"] == r["invited"] == r["eligible"] for r in rounds
    )


@pytest.mark.parametrize(
    "number", [0, 1, 3, 4], ids=["nan", "wrong-shape", "off-the-manifold", "antipode"]
)
def test_a_bad_reply_is_refused_and_the_others_used(rounds, number):
    assert rounds[number]["refused"] == 1
    assert rounds[number]["accepted"] >= 2
    assert rounds[number]["moved"]


@pytest.mark.parametrize("number", [5, 6], ids=["exception", "missing-or-late"])
def test_a_lost_reply_is_missing_and_the_others_used(rounds, number):
    assert rounds[number]["refused"] == 0
    assert rounds[number]["missing"] == 1
    assert rounds[number]["accepted"] >= 3


def test_an_agent_killed_while_it_worked_is_missing(facts, rounds):
    assert facts["agent_was_working"]
    assert facts["round_when_agent_died"] == KILLED_AGENT  # that round was open
    assert rounds[KILLED_AGENT]["missing"] >= 1
    assert rounds[KILLED_AGENT]["moved"]


def test_the_server_goes_on_after_it_was_killed_in_a_round(facts, rounds):
    assert facts["server_killed_in_open_round"]
    assert facts["server_processes_killed"] == 1
    assert facts["rounds_at_restart"] == KILLED_SERVER
    lost = rounds[KILLED_SERVER]
    assert (lost["accepted"], lost["missing"], lost["moved"]) == (0, lost["invited"], False)
    assert rounds[KILLED_SERVER + 1]["moved"]


def test_late_joiners_took_part(facts, rounds):
    invitations = facts["result"]["invitations"]
    assert rounds[0]["eligible"] == 3
    assert invitations["agent-3"] >= 1  # came while the server was away
    assert invitations["agent-4"] >= 1  # came to the running server


def test_the_servers_account_is_right(facts, rounds, plan):
    """Recomputed from the rounds alone: every invitation counts, also in the lost round and of the
    killed agent.
    """
    result = facts["result"]
    assert sum(result["invitations"].values()) == sum(r["invited"] for r in rounds)
    (local,) = plan.local.values()
    each = [
        privacy.participation(local, agents=r["eligible"], sampled=r["invited"], rounds=1)
        for r in rounds
    ]
    spent = each[0].compose(*each[1:])
    assert result["epsilon"] == pytest.approx(spent.epsilon(DELTA), rel=1e-6)
    assert 0 < result["epsilon"] <= 20.0
    for agent, times in result["invitations"].items():  # and what each agent states for itself
        assert result["participation_epsilon"][agent] == pytest.approx(
            local.repeat(times).epsilon(DELTA), rel=1e-6
        )
    assert result["private"] is True


def test_the_agents_own_books_agree(facts, rounds, plan):
    """Nobody was charged less than it released: accepted replies <= charges in the agent's book <=
    invitations counted.
    """
    result, (local,) = facts["result"], plan.local.values()
    charges = {}
    for i in range(AGENTS):
        own = Ledger.open(facts["folder"] / f"book-{i}.json")
        charges[i] = own.charges
        assert 1 <= own.charges <= result["invitations"][f"agent-{i}"]
        assert own.spent.epsilon(DELTA) == pytest.approx(
            local.repeat(own.charges).epsilon(DELTA), rel=1e-9
        )
    assert sum(charges.values()) >= sum(r["accepted"] + r["refused"] for r in rounds)
    # The hostile agent's bad, late and failed replies were charged too: all but, perhaps, the lost
    # round.
    assert charges[2] >= 8


def test_no_round_hangs_beyond_its_timeout(facts):
    times = [facts["closed"][str(k)] for k in range(ROUNDS)]
    for k in range(1, ROUNDS):
        begin = max(times[k - 1], facts["restart"]) if k == KILLED_SERVER + 1 else times[k - 1]
        if k != KILLED_SERVER:  # closed by the next server, at its start
            assert times[k] - begin <= TIMEOUT + START


def test_only_loopback_is_listened_on(facts):
    assert facts["addresses"]
    assert {address.split(":")[0] for address in facts["addresses"]} <= LOOPBACK


def test_the_connection_is_tls_under_our_authority(facts):
    assert facts["tls"] == [True, False]


def test_an_unregistered_key_is_refused(facts):
    assert facts["stranger_refused"]
    assert "Failed to activate SuperNode" in facts["stranger_log"]
    assert "agent-5" not in facts["result"]["invitations"]


def test_no_process_is_left_behind(facts):
    assert facts["left_behind"] == []


def test_one_deployment_at_a_time():
    """A second one waits, and goes on when the first has ended, however that was."""
    code = "from tests.federated.deployment import isolated\nwith isolated(): print('mine')"
    with isolated():
        second = subprocess.Popen(
            [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        with pytest.raises(subprocess.TimeoutExpired):
            second.wait(5)
    said, _ = second.communicate(timeout=120)
    assert (second.returncode, said) == (0, "mine\n")
