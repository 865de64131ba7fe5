"""A real deployment on loopback of sites that find a ball together, run as a script inside a
network namespace of its own: prints what happened as JSON.

    python -m tests.federated.search_deployment FOLDER

TLS, node authentication, and nodes that run one app only. Four runs, each with an agreement and
files of its own, to which the nodes' link `now` leads:

1. "lies": a server that asks what it may not.
2. "shared": site c has signed another agreement at first. Site b is killed when its answer to
   question 3 is in its files and has not been sent, and started again; the server is killed in an
   open question, and started again.
3. "local": of the one question of a variance. Site c is killed in the same way, and does not come
   back.
4. "all": without c, where the noise needs all three.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np

from riemdp.federated import Site

from .deployment import Deployment, speaks_tls, wait
from .test_search import SITES
from .test_search_sites import NAMES, TEXT, written

HERE = Path(__file__).parent
PORT = 19692
STOPS_IN, SERVER_STOPS_FROM = 3, 6
RADIUS = 1.5
VARIANCE = TEXT.replace('"mean"\nvariance = 0.2', '"variance"').replace(
    "[privacy]", f'[domain]\ncenter = "diag:3.0"\nradius = {RADIUS}\n[privacy]'
)


def sign(folder: Path, run: str, noise: str, tolerated: int = 1, text: str = TEXT) -> Path:
    """All sites sign the agreement of a run, and their nodes read these files from now on."""
    written(folder / run, noise, tolerated, text.replace('"one"', f'"{run}"'))
    for name, records in zip(NAMES, SITES, strict=True):
        np.save(folder / run / f"{name}.npy", records)
        with (folder / run / f"{name}.toml").open("a") as file:
            file.write(f'[data]\nfile = "{name}.npy"\n')
    (now := folder / "now").unlink(missing_ok=True)
    now.symlink_to(folder / run)
    return folder / run


def spent(place: Path) -> dict[str, list]:
    """Which questions every site has answered, what part of the search that was, and what its
    ledger holds.
    """
    found = {}
    for name in NAMES:
        site = Site.read(place / f"{name}.toml")
        assert site.ledger is not None
        share, book = float(site.share_spent()), site.ledger
        epsilon = book.spent.epsilon(1e-6)
        found[name] = [list(site.rounds_answered()), share, book.charges, epsilon]
    return found


def main(folder: Path) -> dict:
    deployment, facts = Deployment(folder, PORT, len(NAMES), HERE / "app_shared"), {}
    (stops := folder / "stops").mkdir()

    def node(i: int, name: str | None = None) -> None:
        words = f'site="{folder}/now/{NAMES[i]}.toml" stops="{stops}"'
        deployment.node(i, words, name, pinned=True)

    def comes_back(i: int) -> bool:
        """As hospital.sh does it: the engine takes a node that was killed for present for up to a
        minute, and refuses the next one.
        """
        end, name = time.monotonic() + 240, f"node{i}-again"

        def let_in() -> bool:
            return "SuperNode ID" in deployment.log(name)

        def decided() -> bool:
            return let_in() or deployment.processes[name].poll() is not None

        while time.monotonic() < end:
            node(i, name)
            if wait(decided, 90) and let_in():
                return True
            time.sleep(10)
        return False

    def run(name: str, place: Path, config: str = "timeout=90.0 grace=30.0"):
        files = f'agreement="{place}/agreement.toml" result-path="{place}/result.npz"'
        return deployment.run(name, f'{files} state-path="{place}/state" epsilon=1.0 {config}')

    def ends(process, seconds: float = 900) -> bool:
        return wait(lambda: process.poll() is not None, seconds)

    def stopped(i: int) -> bool:
        """A site is killed when its answer is in its files and has not been sent."""
        reached = wait((stops / f"agent-{i}.reached").exists, 600)
        deployment.kill(f"node{i}")
        return reached

    def questions(place: Path) -> list:
        try:
            return json.loads((place / "state").read_text())["questions"]
        except OSError:
            return []

    def in_an_open_question() -> bool:
        asked = questions(facts_of["shared"])
        return len(asked) > SERVER_STOPS_FROM and not asked[-1]["answered"]

    facts_of = {}
    try:
        place = sign(folder, "lies", "shared", text=TEXT.replace("variance = 0.2\n", ""))
        facts_of["lies"] = place
        deployment.server()
        facts["tls"] = [speaks_tls(PORT, f"{deployment.keys}/ca.crt"), speaks_tls(PORT, None)]
        for i in range(3):
            node(i)
        said = folder / "lies.json"
        facts["lies ended"] = ends(
            deployment.run(
                "lies",
                f'agreement="{place}/agreement.toml" result-path="{said}" lies="all" epsilon=1.0',
            )
        )
        facts["lies"], facts["lies spent"] = json.loads(said.read_text()), spent(place)

        place = facts_of["shared"] = sign(folder, "shared", "shared")
        right = (place / "c.toml").read_text()
        agreement = (place / "agreement.toml").read_text()
        (place / "other.toml").write_text(agreement.replace("variance = 0.2", "variance = 0.1"))
        signed = deployment.call("sha256sum", str(place / "other.toml"))[:64]
        lines = right.replace('"agreement.toml"', '"other.toml"').splitlines()
        lines[1] = f'agreement = "{signed}"'
        (place / "c.toml").write_text("\n".join(lines))
        (stops / "agent-1").write_text(str(STOPS_IN))
        run("shared", place)
        facts["c was named"] = wait(lambda: "c declined" in deployment.log("shared"), 300)
        facts["c was waited for"] = wait(
            lambda: "waiting for c\n" in deployment.log("shared") + "\n", 60
        )
        facts["with another agreement"] = spent(place)
        (place / "c.toml").write_text(right)
        facts["b was killed"] = stopped(1)
        facts["b when killed"] = spent(place)["b"]
        facts["b came back"] = comes_back(1)
        facts["server was killed"] = wait(in_an_open_question, 600)
        facts["server processes"] = deployment.kill_server_app()
        facts["questions when killed"] = len(questions(place))
        again = run("shared-again", place)
        facts["shared ended"] = ends(again)
        facts["shared spent"] = spent(place)
        facts["report"] = deployment.call(
            "riemdp",
            "federated",
            "report",
            f"{place}/agreement.toml",
            f"{place}/result.npz",
            "--out",
            f"{place}/report.html",
        )

        place = facts_of["local"] = sign(folder, "local", "local", text=VARIANCE)
        (stops / "agent-2").write_text("0")
        process = run("local", place, "timeout=90.0 grace=10.0")
        facts["c was killed"] = stopped(2)
        facts["local ended"] = ends(process)
        facts["local spent"] = spent(place)

        place = facts_of["all"] = sign(folder, "all", "shared", tolerated=0)
        facts["all ended"] = ends(run("all", place, "timeout=30.0 patience=60.0"), 240)
        facts["all spent"] = spent(place)
    finally:
        facts["left behind"] = deployment.stop()
        print(*(f"{p.name}: {p.read_text()[-700:]}" for p in folder.glob("*.log")), file=sys.stderr)
    names = ("node0", "node1-again", "shared", "shared-again", "local", "all")
    facts["logs"] = {name: deployment.log(name) for name in names}
    for name in ("shared", "local"):
        facts[name] = json.loads((facts_of[name] / "result.json").read_text())
    return facts


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
