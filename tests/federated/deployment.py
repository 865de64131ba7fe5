"""A real deployment on loopback, run as a script inside a network namespace of its own: prints what happened as JSON.

    python -m tests.federated.deployment FOLDER

One SuperLink over TLS with node authentication, two good agents of which one is killed in the middle, a hostile one that goes
through every fault, a late joiner, a stranger with a key that nobody registered, and a server process that is killed and
started again on the saved state.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
CERTIFICATES = HERE.parent.parent / "examples" / "hospitals" / "make_certificates.sh"
PORT = 19092
LOOPBACK = {"0100007F", "00000000000000000000000001000000"}


class Deployment:
    def __init__(self, folder: Path):
        self.folder = folder
        self.keys = folder / "keys"
        self.processes: dict[str, subprocess.Popen] = {}
        self.env = os.environ | {
            "FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "FLWR_HOME": str(folder / "home"),
            "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2", "OMP_NUM_THREADS": "1",
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "JAX_COMPILATION_CACHE_DIR": str(folder / "jax"), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        }  # fmt: skip

    def start(self, name: str, *command: str) -> subprocess.Popen:
        log = open(self.folder / f"{name}.log", "w")  # noqa: SIM115 - belongs to the process
        process = subprocess.Popen(command, env=self.env, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        self.processes[name] = process
        return process

    def call(self, *command: str, check: bool = True) -> str:
        done = subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=120)
        if check and done.returncode != 0:
            raise RuntimeError(f"{command}: {done.stdout[-2000:]} {done.stderr[-2000:]}")
        return done.stdout + done.stderr

    def server(self) -> None:
        subprocess.run([str(CERTIFICATES), str(self.keys), "127.0.0.1", "5"], check=True, capture_output=True)
        home = self.folder / "home"
        home.mkdir()
        (home / "config.toml").write_text(
            f'[superlink]\ndefault = "lo"\n\n[superlink.lo]\naddress = "127.0.0.1:{PORT}"\n'
            f'root-certificates = "{self.keys / "ca.crt"}"\n'
        )
        self.start(
            "superlink", "flower-superlink", "--ssl-ca-certfile", f"{self.keys}/ca.crt", "--ssl-certfile",
            f"{self.keys}/server.pem", "--ssl-keyfile", f"{self.keys}/server.key", "--enable-supernode-auth",
            "--disable-runtime-dependency-installation", "--host", "127.0.0.1", "--port", str(PORT),
        )  # fmt: skip
        wait(lambda: f":{PORT:04X}" in " ".join(listening()), 60)
        for i in range(4):  # number 4 is the stranger
            self.call("flwr", "supernode", "register", f"{self.keys}/hospital-{i}.pub", "lo")

    def node(self, i: int, *, hostile: bool = False) -> None:
        config = f'name="agent-{i}" partition-id={i}' + (" hostile=true" if hostile else "")
        self.start(
            f"node{i}", "flower-supernode", "--root-certificates", f"{self.keys}/ca.crt", "--superlink", f"127.0.0.1:{PORT}",
            "--auth-supernode-private-key", f"{self.keys}/hospital-{i}", "--host", "127.0.0.1", "--port", str(19100 + i),
            "--ssl-ca-certfile", f"{self.keys}/ca.crt", "--ssl-certfile", f"{self.keys}/server.pem",
            "--ssl-keyfile", f"{self.keys}/server.key", "--node-config", config,
        )  # fmt: skip

    def run(self, name: str, rounds: int) -> subprocess.Popen:
        config = f'rounds={rounds} result-path="{self.folder}/result.npz" state-path="{self.folder}/state.npz"'
        return self.start(name, "flwr", "run", str(self.folder / "app"), "lo", "--stream", "--run-config", config)

    def rounds_done(self) -> int:
        import numpy as np

        try:
            with np.load(self.folder / "state.npz") as saved:
                return len(json.loads(str(saved["state"]))["records"])
        except (OSError, ValueError):
            return 0

    def kill(self, name: str) -> None:
        os.killpg(self.processes[name].pid, signal.SIGKILL)

    def stop(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def listening() -> list[str]:
    """Local addresses of every listening TCP socket, as the kernel prints them."""
    found = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        if Path(table).exists():
            rows = [line.split() for line in Path(table).read_text().splitlines()[1:]]
            found += [row[1] for row in rows if row[3] == "0A"]
    return found


def wait(condition, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.2)
    return False


def main(folder: Path, rounds: int = 8) -> dict:
    shutil.copytree(HERE / "app", folder / "app")
    deployment, facts = Deployment(folder), {}
    try:
        deployment.server()
        deployment.node(0)
        deployment.node(1)
        deployment.node(2, hostile=True)
        began = time.monotonic()
        deployment.run("first", rounds)
        facts["first_rounds"] = wait(lambda: deployment.rounds_done() >= 2, 300)
        facts["open_addresses"] = sorted({a.split(":")[0] for a in listening()})
        subprocess.run(["pkill", "-KILL", "-f", "flwr-serverapp"], check=False)  # the server process dies
        facts["rounds_at_restart"] = deployment.rounds_done()
        deployment.start("stranger", "flower-supernode", "--root-certificates", f"{deployment.keys}/ca.crt", "--superlink",
                         f"127.0.0.1:{PORT}", "--auth-supernode-private-key", f"{deployment.keys}/hospital-4",
                         "--host", "127.0.0.1", "--port", "19104", "--max-retries", "1")  # fmt: skip
        deployment.node(3)  # the late joiner
        second = deployment.run("second", rounds)
        wait(lambda: deployment.rounds_done() >= 4, 300)
        deployment.kill("node1")  # an agent dies
        facts["ended"] = wait(lambda: (folder / "result.json").exists(), 500)
        facts["seconds_per_round"] = (time.monotonic() - began) / max(1, deployment.rounds_done())
        second.wait(timeout=60)
        stranger = deployment.processes["stranger"]
        facts["stranger_refused"] = wait(lambda: stranger.poll() is not None, 30) and stranger.returncode != 0
    finally:
        deployment.stop()
    facts["result"] = json.loads((folder / "result.json").read_text()) if (folder / "result.json").exists() else None
    return facts


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
