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
import time
from pathlib import Path

import numpy as np
import pytest

from riemdp import Budget, Ledger, SPDLogEuclidean, frechet_mean
from riemdp.datasets import descriptor_ball
from riemdp.federated import Agreement, Setup, Site
from tests.seam import Searches, Servers

from .deployment import isolated
from .test_deployment import ROOT

EXAMPLE = ROOT / "examples" / "hospitals"

# What a person does with the README's blocks, each terminal a session of its own; `pip` has been
# run already. Then hospital 1 signs another agreement, for one answer only, and its run follows.
BEGIN = r"""
set -eu
terminals=
trap 'for t in $terminals; do kill -- -$t || true; done; wait' EXIT
bash ../agree.sh
setsid bash ../server.sh > server.log 2>&1 & terminals="$terminals $!"
for _ in $(seq 600); do grep -q 'The server is ready' server.log && break; sleep 0.3; done
for k in 0 1 2; do
setsid bash ../hospital-$k.sh > hospital-$k.log 2>&1 & terminals="$terminals $!"
done
"""
RUNS = r"""
setsid --wait timeout 1500 bash ../run.sh
sed 's/first run/second run/; s/^agents-per-round = 2/agents-per-round = 1/
  s/^rounds = 10/rounds = 6\nmin-agents = 1\nparticipation = "round-robin"/' \
  agreement.toml > other.toml
signed=$(sha256sum other.toml | cut -c 1-64)
sed -i "s/\"agreement.toml\"/\"other.toml\"/
  0,/^agreement = /s/^agreement = .*/agreement = \"$signed\"/
  s/^answers = 10/answers = 1/; s/answers-1.json/answers-1-second.json/" site-1.toml
. ./environment.sh
setsid --wait timeout 900 flwr run app lo --stream \
  --run-config "agreement=\"$PWD/other.toml\" result-path=\"$PWD/second.npz\" patience=60.0" \
  > second.log 2>&1
bash ../share.sh
setsid --wait timeout 1500 bash ../less.sh > less.log 2>&1
"""
SEARCH = r"""
bash ../agree-search.sh
bash ../sign.sh
setsid --wait timeout 1700 bash ../search.sh
"""
NAMES = ("agree", "server", "hospital", "run", "share", "less", "agree-search", "sign", "search")


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


def by_hand(tmp_path: Path, words: str) -> tuple[Path, str]:
    """What a person does and sees, and the folder in which it was done."""
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
    for name, text in zip(NAMES, _blocks()[1:], strict=True):
        (tmp_path / f"{name}.sh").write_text(text)
    hospital = (tmp_path / "hospital.sh").read_text()
    assert "i=0   # 1, 2\n" in hospital
    for k in range(3):
        (tmp_path / f"hospital-{k}.sh").write_text(hospital.replace("i=0   # 1, 2\n", f"i={k}\n"))
    env = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "OMP_NUM_THREADS": "1",
    }
    with isolated() as prefix:
        done = subprocess.run(
            [*prefix, "bash", "-c", words],
            cwd=folder,
            env=env,
            capture_output=True,
            text=True,
            timeout=1800,
        )
    assert not _left_behind(folder)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return folder, done.stdout + done.stderr


@pytest.mark.federated_deployment
def test_the_commands_of_the_readme_give_a_private_mean(tmp_path):
    folder, said = by_hand(tmp_path, BEGIN + RUNS)
    assert "round 9 (10 of 10): 2 asked, 2 answered" in said
    facts = json.loads((folder / "result.json").read_text())
    assert facts["private"] is True
    assert 0 < facts["epsilon"] <= 2.0
    assert [r["accepted"] for r in facts["rounds"]] == [2] * 10
    with np.load(folder / "result.npz") as saved:
        assert bool(SPDLogEuclidean(9).belongs(saved["point_0"]))
        assert not np.allclose(saved["point_0"], np.eye(9))
    # A site that has signed another agreement is not part of a run, whichever it is, and one that
    # has given as many answers as it agreed to gives no more.
    second = json.loads((folder / "second.json").read_text())
    assert second["sizes"] == {"hospital-1": 599}
    assert [r["accepted"] for r in second["rounds"]] == [1, 0]  # a third has no budget
    said = (folder / "second.log").read_text()
    assert "has answered as often as it agreed to" in said
    assert "1 of 1 answers" in (folder / "hospital-1.log").read_text()
    for i in (0, 2):
        assert "server's settings are not this site's" in (folder / f"hospital-{i}.log").read_text()

    # They share the noise, and the ledgers count all that was answered.
    less = json.loads((folder / "result-shared.json").read_text())
    assert "3 sites at most 1" in less["assumes"]
    assert "3 sites at most 1" in (folder / "report-shared.html").read_text()
    assert 0 < less["epsilon"] <= 2.0
    moved = sum(r["moved"] for r in less["rounds"])
    assert len(less["rounds"]) == 10
    assert moved >= 9  # a busy machine may lose a reply
    charges = {f"hospital-{i}": Ledger.open(folder / f"book-{i}.json").charges for i in range(3)}
    for i in range(3):
        name, answers = f"hospital-{i}", folder / f"answers-shared-{i}.json"
        shared = len(json.loads(answers.read_text())["answers"])
        assert moved <= shared <= 10
        assert charges[name] == facts["invitations"][name] + (i == 1) + shared
    for i in range(3):
        answers = json.loads((folder / f"answers-{i}.json").read_text())["answers"]
        rounds = {a["round"] for a in answers}
        assert len(rounds) == len(answers) == facts["invitations"][f"hospital-{i}"]
    report = json.loads((folder / "report.json").read_text())
    assert report["guarantee"]["epsilon"] == pytest.approx(facts["epsilon"], rel=1e-6)
    assert report["records"] == 1797


@pytest.mark.federated_deployment
def test_the_commands_of_the_readme_give_a_mean_where_no_radius_is_known(tmp_path):
    folder, said = by_hand(tmp_path, BEGIN + SEARCH)
    agreed = Agreement.read(folder / "agreement-search.toml")
    release, _ = Servers.told_release(agreed.terms, folder / "result-search.npz")
    questions = release.details["sums"]
    assert f"question {questions - 1} (the sum of all squared distances): 3 of 3 sites" in said
    assert "100.0% of the budget is used" in said
    assert release.guarantee.within(Budget(1.0, 1e-5))
    x = np.concatenate([np.load(folder / f"records-{i}.npy") for i in range(3)])
    space = agreed.terms.manifold
    mean = frechet_mean(space, x).value
    # the noise of 45 coordinates, and what clipping at the ball can do
    assert float(space.dist(mean, release.value)) < 3 * 45**0.5 * release.scale + 0.1
    assert 1.0 < release.details["ball"].radius < 3.0  # and 8.5 where it must hold every image
    for i in range(3):
        assert Ledger.open(folder / f"book-{i}.json").charges == 1
        answers = json.loads((folder / f"answers-search-{i}.json").read_text())["answers"]
        assert len(answers) == questions
        shown = (folder / f"hospital-{i}.log").read_text()
        assert f"hospital-{i}: {questions} answers, the last to question {questions - 1}" in shown
    assert "found privately" in (folder / "report-search.html").read_text()


def test_a_hospital_signs_another_agreement_by_one_command(tmp_path):
    """On its own machine, for itself; a search has the limits of site-search.toml."""
    folder = tmp_path / "hospitals"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("certificates", "flwr-home"))
    text = (folder / "agreement.toml").read_text()
    (folder / "second.toml").write_text(text.replace("first run", "second run"))
    for file, kind, answers in (
        ("agreement.toml", Setup, "answers-1.json"),
        ("agreement-search.toml", Searches.SearchTerms, "answers-search-1.json"),
        ("second.toml", Setup, "answers-second-1.json"),
    ):
        subprocess.run(["./sign.sh", file, "1"], cwd=folder, check=True, capture_output=True)
        site = Site.read(folder / "site-1.toml")
        assert isinstance(site.agreed.terms, kind)
        assert (site.name, site.answers.name) == ("hospital-1", answers)
        assert 'ledger = "book-1.json"' in (folder / "site-1.toml").read_text()
        assert site.most_answers == (10 if kind is Setup else None)
        assert site.data["file"] == str(folder / "records-1.npy")
    assert sorted(p.name for p in folder.glob("site-[0-9]*")) == [
        "site-1-before.toml",
        "site-1.toml",
    ]


def started(tmp_path: Path, command: str, programs: dict[str, str]) -> subprocess.Popen:
    """A script of the folder, with these programs in the place of the real ones."""
    folder, place = tmp_path / "hospitals", tmp_path / "programs"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("certificates", "flwr-home"))
    (folder / "records-0.npy").touch()
    place.mkdir()
    for name, words in programs.items():
        (place / name).write_text(f"#!/bin/sh\n{words}\n")
        (place / name).chmod(0o755)
    return subprocess.Popen(
        command.split(),
        cwd=folder,
        env=os.environ | {"PATH": f"{place}:{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=hears_all_signals,
    )


def hears_all_signals() -> None:
    """Whatever these tests were started under: what a shell's parent ignores, it cannot hear."""
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.SIG_DFL)


def lines_of(file: Path, count: int) -> list[str]:
    """The lines of a file, once there are so many."""
    end = time.monotonic() + 60.0
    while time.monotonic() < end:
        lines = file.read_text().splitlines() if file.exists() else []
        if len(lines) >= count:
            return lines
        time.sleep(0.02)
    raise AssertionError(f"{file} has not {count} lines")


HOSPITAL = {"flwr": "echo > app.fab", "riemdp": "true", "sleep": "true"}


def test_a_node_that_ends_by_itself_is_started_again_five_times_an_hour(tmp_path):
    """Also where it ends without an error, as when a server was restarted."""
    node = started(tmp_path, "./hospital.sh 0", HOSPITAL | {"python": 'echo "$@" >> starts'})
    said, _ = node.communicate(timeout=60)
    assert node.returncode == 1
    assert said.count("nobody asked it to") == 5
    assert "sixth time within an hour" in said
    assert "does not know this hospital's key: send certificates/hospital-0.pub" in said
    starts = (tmp_path / "hospitals" / "starts").read_text().splitlines()
    assert len(starts) == 6
    assert len(set(starts)) == 1


def test_a_node_that_somebody_ends_is_not_started_again(tmp_path):
    """And it ends with the script."""
    waits = "echo $$ >> starts; exec tail -f /dev/null"
    node = started(tmp_path, "./hospital.sh 0", HOSPITAL | {"python": waits})
    (process,) = lines_of(tmp_path / "hospitals" / "starts", 1)
    node.terminate()
    said, _ = node.communicate(timeout=60)
    assert "nobody asked it to" not in said
    assert lines_of(tmp_path / "hospitals" / "starts", 1) == [process]
    with pytest.raises(ProcessLookupError):
        os.kill(int(process), 0)


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_is_aborted_ends_at_the_server(tmp_path, signum):
    flwr = """case $1 in
      run) echo '{"success": true, "run-id": "71"}';;
      log) echo "$@" >> log; exec tail -f /dev/null;;
      stop) echo "$@" >> stops;;
    esac"""
    run = started(tmp_path, "./run.sh", {"flwr": flwr, "riemdp": "echo report"})
    assert lines_of(tmp_path / "hospitals" / "log", 1) == ["log 71 lo --stream"]
    run.send_signal(signum)
    assert run.stdout is not None
    assert run.stdout.readline().startswith("The run was ended. What the hospitals have answered")
    assert run.wait(60) == 130
    assert lines_of(tmp_path / "hospitals" / "stops", 1) == ["stop 71 lo"]


def test_the_shipped_site_has_signed_the_shipped_agreement():
    searching = Site.read(EXAMPLE / "site-search.toml")
    assert searching.agreed == Agreement.read(EXAMPLE / "agreement-search.toml")
    site = Site.read(EXAMPLE / "site.toml")
    try:
        agreed = Agreement.read(EXAMPLE / "agreement.toml")
        ball = descriptor_ball(1, eta=1e-2, center="middle")
        assert site.agreed == agreed
        domain = agreed.terms.prirfed.problem.ball
        assert domain is not None
        assert float(domain.radius) >= ball.radius
        np.testing.assert_allclose(domain.center, ball.center, rtol=1e-15)
        assert site.name in (agreed.terms.names or ())
    finally:
        for name in ("book-0.json", "book-0.json.lock"):
            (EXAMPLE / name).unlink(missing_ok=True)
