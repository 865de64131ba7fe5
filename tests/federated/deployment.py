"""A real deployment on loopback, run as a script inside a network namespace of its own: prints what
happened as JSON.

    python -m tests.federated.deployment FOLDER

One SuperLink over TLS with node authentication. Everybody who is there is invited in every round,
so that each fault has its round: `FAULTS` in app/faulty/client.py for the hostile agent 2; the
server process is killed in the open round 2 and started again on the saved state; agent 3 comes
with the restart and agent 4 to the running server; agent 1 is killed while it works on round 7; a
stranger has a key that nobody registered.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
CERTIFICATES = HERE.parent.parent / "examples" / "hospitals" / "make_certificates.sh"
PORT = 19092
AGENTS, STRANGER = 5, 5
PINNED = 0
ROUNDS, KILLED_SERVER, KILLED_AGENT = 9, 2, 7  # how many, and in which one
LOOPBACK = {"0100007F", "00000000000000000000000001000000"}


def _may_have(*options: str) -> list[str]:
    """Prefix that runs a command in namespaces of its own, or nothing where that is forbidden."""
    prefix = ["unshare", *options, "sh", "-c", 'ip link set lo up && "$@"', "sh"]
    if shutil.which("setpriv"):  # and nothing outlives a test process that was killed
        prefix = ["setpriv", "--pdeathsig", "KILL", *prefix]
    allowed = (
        shutil.which("unshare")
        and shutil.which("ip")
        and subprocess.run([*prefix, "true"], capture_output=True).returncode == 0
    )
    return prefix if allowed else []


@contextlib.contextmanager
def isolated() -> Iterator[list[str]]:
    """One deployment at a time on this machine: yields the prefix of the command that runs it.

    Where the system allows it, the command has a network with nothing but loopback, and a process
    namespace that ends with it: nothing that it started outlives it, however it ends.
    """
    lock = Path(tempfile.gettempdir()) / f"riemdp-deployment-{os.getuid()}.lock"
    with lock.open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield _may_have("--net", "--pid", "--fork", "--kill-child", "--mount-proc") or _may_have(
            "--net"
        )


class Deployment:
    """Processes of one deployment, known by name; everything that they start is found again by its
    private FLWR_HOME.
    """

    def __init__(
        self,
        folder: Path,
        port: int = PORT,
        agents: int = AGENTS,
        app: Path = HERE / "app",
        rounds: int = ROUNDS,
    ):
        self.folder, self.port, self.agents, self.rounds = folder, port, agents, rounds
        self.keys, self.home = folder / "keys", folder / "home"
        self.processes: dict[str, subprocess.Popen] = {}
        self.env = os.environ | {
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_HOME": str(self.home),
            "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2",
            "PYTHONFAULTHANDLER": "1",  # what outlives the end says where it hangs
            "OMP_NUM_THREADS": "1",
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "JAX_COMPILATION_CACHE_DIR": str(folder / "jax"),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        }
        shutil.copytree(app, folder / "app")

    # ---------------------------------------------------------------- starting
    def start(self, name: str, *command: str) -> subprocess.Popen:
        with open(self.folder / f"{name}.log", "w") as log:  # the process has its own copy
            process = subprocess.Popen(
                command, env=self.env, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        self.processes[name] = process
        return process

    def call(self, *command: str, folder: Path | None = None) -> str:
        done = subprocess.run(
            command, env=self.env, cwd=folder, capture_output=True, text=True, timeout=120
        )
        if done.returncode != 0:
            raise RuntimeError(f"{command}: {done.stdout[-2000:]} {done.stderr[-2000:]}")
        return done.stdout + done.stderr

    def server(self) -> None:
        subprocess.run(
            [str(CERTIFICATES), str(self.keys), "127.0.0.1", str(self.agents + 1)],
            check=True,
            capture_output=True,
        )
        self.home.mkdir()
        (self.home / "config.toml").write_text(
            f'[superlink]\ndefault = "lo"\n\n[superlink.lo]\naddress = "127.0.0.1:{self.port}"\n'
            f'root-certificates = "{self.keys / "ca.crt"}"\n'
        )
        self.start(
            "superlink",
            "flower-superlink",
            "--ssl-ca-certfile",
            f"{self.keys}/ca.crt",
            "--ssl-certfile",
            f"{self.keys}/server.pem",
            "--ssl-keyfile",
            f"{self.keys}/server.key",
            "--enable-supernode-auth",
            "--disable-runtime-dependency-installation",
            "--host",
            "127.0.0.1",
            "--port",
            str(self.port),
        )
        if not wait(lambda: any(a.endswith(f":{self.port:04X}") for a in self.listening()), 90):
            raise RuntimeError((self.folder / "superlink.log").read_text()[-3000:])
        for i in range(self.agents):
            self.call("flwr", "supernode", "register", f"{self.keys}/hospital-{i}.pub", "lo")

    def node(
        self, i: int, config: str = "", name: str | None = None, *, pinned: bool | None = None
    ) -> subprocess.Popen:
        program = ["flower-supernode"]
        if (
            i == PINNED if pinned is None else pinned
        ):  # runs no other app than the one that this folder builds
            program = [sys.executable, "-m", "riemdp.federated.flower.supernode"]
            program += ["--bundle", self.bundle()]
        return self.start(
            name or f"node{i}",
            *program,
            "--root-certificates",
            f"{self.keys}/ca.crt",
            "--superlink",
            f"127.0.0.1:{self.port}",
            "--auth-supernode-private-key",
            f"{self.keys}/hospital-{i}",
            "--host",
            "127.0.0.1",
            "--port",
            str(self.port + 10 + i),
            "--ssl-ca-certfile",
            f"{self.keys}/ca.crt",
            "--ssl-certfile",
            f"{self.keys}/local-{i}.pem",
            "--ssl-keyfile",
            f"{self.keys}/local-{i}.key",
            "--max-retries",
            "5",
            "--node-config",
            f'name="agent-{i}" partition-id={i} book="{self.folder}/book-{i}.json" '
            f"rounds={self.rounds} {config}",
        )

    def bundle(self) -> str:
        """Fingerprint of the app, as every party can take it."""
        (place := self.folder / "bundle").mkdir(exist_ok=True)
        self.call("flwr", "build", "--app", str(self.folder / "app"), folder=place)
        (built,) = place.glob("*.fab")
        return hashlib.sha256(built.read_bytes()).hexdigest()

    def run(self, name: str, config: str, app: Path | None = None) -> subprocess.Popen:
        code = str(app or self.folder / "app")
        return self.start(name, "flwr", "run", code, "lo", "--stream", "--run-config", config)

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    # ---------------------------------------------------------------- looking
    def own(self) -> dict[int, str]:
        """Every living process of this deployment with its command line: its environment has our
        private FLWR_HOME.
        """
        mark = f"FLWR_HOME={self.home}".encode()
        found = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                with contextlib.suppress(OSError):
                    if mark in (entry / "environ").read_bytes().split(b"\0"):
                        found[int(entry.name)] = (
                            (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                        )
        return {pid: line for pid, line in found.items() if line}  # a zombie has no command line

    def listening(self) -> set[str]:
        """Local addresses, as the kernel prints them, on which processes of this deployment listen
        (TCP) or are bound (UDP).
        """
        sockets = set()
        for pid in self.own():
            with contextlib.suppress(OSError):
                sockets |= {os.readlink(f) for f in Path(f"/proc/{pid}/fd").iterdir()}
        found = set()
        for table, wanted in (
            ("tcp", {"0A"}),
            ("tcp6", {"0A"}),
            ("udp", {"07", "01"}),
            ("udp6", {"07", "01"}),
        ):
            rows = Path(f"/proc/net/{table}")
            for row in (
                [line.split() for line in rows.read_text().splitlines()[1:]]
                if rows.exists()
                else []
            ):
                if row[3] in wanted and f"socket:[{row[9]}]" in sockets:
                    found.add(row[1])
        return found

    def state(self) -> dict:
        try:
            return json.loads((self.folder / "state.json").read_text())
        except (OSError, ValueError):
            return {"records": [], "open": None}

    # ---------------------------------------------------------------- ending
    def kill(self, name: str) -> None:
        os.killpg(self.processes[name].pid, signal.SIGKILL)

    def kill_server_app(self) -> int:
        """SIGKILL the process that runs our ServerApp; how many there were."""
        pids = [pid for pid, line in self.own().items() if "flwr-serverapp" in line]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        return len(pids)

    def stop(self) -> list[str]:
        """End everything, politely first; returns the command lines of what outlived its parents'
        end and a Ctrl-C of its own.

        The engine's app process that waits for input when its node ends does not end with it: the
        thread that watches the node raises the signal for itself, and the main thread, which waits
        for a lock, never sees it (flwr 1.41.0, `start_parent_process_monitor`). A terminal's Ctrl-C
        reaches it.
        """
        for process in self.processes.values():
            if process.poll() is None:
                process.terminate()
        for process in self.processes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=20)
        wait(lambda: not self.own(), 45)  # an app process looks for its parent from time to time
        for pid in self.own():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGINT)
        wait(lambda: not self.own(), 45)
        left = self.own()
        for signum in (signal.SIGABRT, signal.SIGKILL):
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signum)
            wait(lambda: not self.own(), 5)
        return list(left.values())


class Watch(threading.Thread):
    """Notes when each round was closed, and every address that was listened on."""

    def __init__(self, deployment: Deployment):
        super().__init__(daemon=True)
        self.deployment, self.closed, self.addresses, self.over = (
            deployment,
            {},
            set(),
            threading.Event(),
        )

    def run(self) -> None:
        turn = 0
        while not self.over.wait(0.3):
            for k in range(len(self.deployment.state()["records"])):
                self.closed.setdefault(k, time.monotonic())
            if turn % 10 == 0:
                self.addresses |= self.deployment.listening()
            turn += 1


def wait(condition, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.1)
    return False


def speaks_tls(port: int, authority: str | None) -> bool:
    """Whether a TLS client that trusts `authority` (None: what the system trusts) accepts the
    server.
    """
    import socket

    context = ssl.create_default_context(cafile=authority)
    try:
        with (
            socket.create_connection(("127.0.0.1", port), 10) as raw,
            context.wrap_socket(raw, server_hostname="127.0.0.1") as s,
        ):
            return s.version() in ("TLSv1.2", "TLSv1.3")
    except ssl.SSLError:
        return False


def main(folder: Path) -> dict:
    deployment, facts = Deployment(folder), {}
    watch = Watch(deployment)
    config = f'rounds={ROUNDS} result-path="{folder}/result.npz" state-path="{folder}/state.json"'

    def done() -> int:
        return len(deployment.state()["records"])

    try:
        deployment.server()
        watch.start()
        facts["tls"] = [speaks_tls(PORT, f"{deployment.keys}/ca.crt"), speaks_tls(PORT, None)]
        deployment.node(0)
        deployment.node(1, f'stops-in={KILLED_AGENT} marker="{folder}/working"')
        deployment.node(2, "hostile=true")
        deployment.run("first", config)
        facts["server_killed_in_open_round"] = wait(
            lambda: done() == KILLED_SERVER and deployment.state()["open"] is not None, 600
        )
        facts["server_processes_killed"] = deployment.kill_server_app()
        facts["rounds_at_restart"] = done()
        facts["restart"] = time.monotonic()
        stranger = deployment.node(STRANGER, name="stranger")
        deployment.node(3)
        # all four are there before it goes on, the hostile one, too, however busy the machine is
        second = deployment.run("second", f"{config} min-agents=4")
        wait(lambda: done() >= 5, 600)
        deployment.node(4)
        facts["agent_was_working"] = wait((folder / "working").exists, 600)
        facts["round_when_agent_died"] = done()
        deployment.kill("node1")
        facts["ended"] = wait((folder / "result.json").exists, 600)
        facts["run_finished"] = wait(lambda: second.poll() is not None, 60)
        facts["stranger_refused"] = (
            wait(lambda: stranger.poll() is not None, 30) and stranger.returncode != 0
        )
        facts["stranger_log"] = (folder / "stranger.log").read_text()
    finally:
        watch.over.set()
        facts["left_behind"] = deployment.stop()
    facts["closed"], facts["addresses"] = watch.closed, sorted(watch.addresses)
    facts["result"] = (
        json.loads((folder / "result.json").read_text())
        if (folder / "result.json").exists()
        else None
    )
    return facts


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
