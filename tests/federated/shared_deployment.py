"""A real deployment on loopback of sites that share their noise, run as a script inside a network
namespace of its own: prints what happened as JSON.

    python -m tests.federated.shared_deployment FOLDER

TLS, node authentication, and nodes that run one app only. First a server lies to all three sites:
it is started with another epsilon, has code that nobody has read, and asks sixty questions, of
which each site answers as many as it agreed to. Then the sites sign the next agreement, and an
honest run follows: the records of site c are missing at first, then it says that it adds less
noise, and then that it is somebody else; it does not answer round 1.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np

from riemdp import Ledger
from riemdp.federated import Agreement, Site
from tests.seam import Masks

from .deployment import Deployment, speaks_tls, wait

HERE = Path(__file__).parent
PORT = 19492
NAMES = ("a", "b", "c")
CAP, ROUNDS, FAILED = 2, 5, 1
AGREEMENT = """
run = "{run}"
[space]
name = "SPDLogEuclidean"
k = 2
[problem]
name = "frechet_mean"
[domain]
radius = 1.5
[local]
name = "DPRGD"
steps = 1
learning-rate = 0.5
sensitivity = "domain"
[rounds]
rounds = {rounds}
agents-per-round = 3
[privacy]
epsilon = 4.0
delta = 1e-5
noise = "shared"
tolerated = 1
"""
SITE = """
name = "{name}"
agreement = "{fingerprint}"
[limits]
answers = {most}
total = {{ epsilon = 12.0, delta = 1e-5 }}
[files]
agreement = "agreement.toml"
answers = "{name}-answers-{run}.json"
ledger = "{name}-ledger.json"
key = "{name}.key"
[data]
file = "{name}.npy"
"""


def sign(folder: Path, run: str, rounds: int, most: int) -> Agreement:
    """All sites sign a new agreement, in their own files."""
    keys = {name: (folder / f"{name}.public").read_text() for name in NAMES}
    tables = [f'[[site]]\nname = "{name}"\nkey = "{key}"\n' for name, key in keys.items()]
    text = AGREEMENT.format(run=run, rounds=rounds) + "".join(tables)
    (folder / "agreement.toml").write_text(text)
    agreed = Agreement.read(folder / "agreement.toml")
    for name in NAMES:
        words = SITE.format(name=name, fingerprint=agreed.fingerprint, most=most, run=run)
        (folder / f"{name}.toml").write_text(words)
    return agreed


def spent(folder: Path, run: str) -> dict[str, list]:
    """What every site has answered in this run, and what its ledger holds."""
    found = {}
    for name in NAMES:
        answers = folder / f"{name}-answers-{run}.json"
        told = json.loads(answers.read_text())["answers"] if answers.exists() else []
        book = Ledger.open(folder / f"{name}-ledger.json")
        found[name] = [[a["round"] for a in told], book.charges, book.spent.epsilon(1e-5)]
    return found


def records(number: int) -> np.ndarray:
    scales = 1.0 + np.random.default_rng(number).random((30, 1, 1))
    return scales * np.diag([1.0, 2.0])


def main(folder: Path) -> dict:
    deployment, facts = Deployment(folder, PORT, len(NAMES), HERE / "app_shared"), {}
    place = f'agreement="{folder}/agreement.toml"'

    def ask(name: str, config: str, app: Path | None = None) -> list:
        result = folder / f"{name}.json"
        process = deployment.run(name, f'{place} result-path="{result}" {config}', app)
        if not wait(result.exists, 900):
            raise RuntimeError(deployment.log(name)[-3000:])
        wait(lambda: process.poll() is not None, 60)
        return json.loads(result.read_text())

    try:
        for i, name in enumerate(NAMES):
            (folder / f"{name}.public").write_text(Masks.new_key_file(folder / f"{name}.key"))
            np.save(folder / f"{name}.npy", records(i))
        sign(folder, "lies", 6, CAP)
        for name in NAMES:
            Site.read(folder / f"{name}.toml")  # makes the ledger
        deployment.server()
        facts["tls"] = [speaks_tls(PORT, f"{deployment.keys}/ca.crt"), speaks_tls(PORT, None)]
        for i, name in enumerate(NAMES):
            stages = f'stages="{folder}/stages" fails-in={FAILED}' if name == "c" else ""
            deployment.node(i, f'site="{folder}/{name}.toml" {stages}', pinned=True)
        shutil.copytree(folder / "app", folder / "other")
        with (folder / "other" / "together" / "client.py").open("a") as file:
            file.write("# a line that no site has read\n")
        facts["epsilon"] = ask("epsilon", 'lies="one" epsilon=1e6')
        facts["code"] = ask("code", 'lies="one"', folder / "other")
        facts["before"] = spent(folder, "lies")
        facts["lies"] = ask("lies", 'lies="all"')
        facts["after"] = spent(folder, "lies")

        agreed = sign(folder, "together", ROUNDS, ROUNDS)
        (folder / "stages").mkdir()
        (folder / "c.npy").rename(folder / "away.npy")
        config = f'{place} result-path="{folder}/result.npz" state-path="{folder}/state.json"'
        run = deployment.run("together", config)
        facts["waited"] = wait(lambda: "does not take part" in deployment.log("together"), 300)
        (folder / "away.npy").rename(folder / "c.npy")
        facts["ended"] = wait((folder / "result.json").exists, 900)
        facts["finished"] = wait(lambda: run.poll() is not None, 60)
        facts["fingerprint"] = agreed.fingerprint
        facts["spent"] = spent(folder, "together")
        facts["status"] = [Site.read(folder / f"{name}.toml").status() for name in NAMES]
        facts["keys left"] = sorted(p.name for p in folder.glob("*-together.json.key"))
        facts["report"] = deployment.call(
            "riemdp",
            "federated",
            "report",
            f"{folder}/agreement.toml",
            f"{folder}/result.npz",
            "--out",
            f"{folder}/report.html",
        )
        # a copy that was changed after it was signed: hospital.sh ends at this command
        with (folder / "agreement.toml").open("a") as file:
            file.write("# changed\n")
        try:
            facts["changed"] = deployment.call("riemdp", "federated", "status", f"{folder}/a.toml")
        except RuntimeError as error:
            facts["changed"] = f"refused: {error}"
    finally:
        facts["left behind"] = deployment.stop()
    facts["logs"] = {
        name: deployment.log(name) for name in (*(f"node{i}" for i in range(3)), "together")
    }
    facts["result"] = json.loads((folder / "result.json").read_text())
    return facts


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
