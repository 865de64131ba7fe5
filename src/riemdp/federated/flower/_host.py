"""Starts Flower's server in simulation mode, runs one app on it, and ends both. Standard library
only: `_simulate.py` runs this file as a program, in namespaces of its own where it may.

    python _host.py FOLDER SITES CPUS
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

START = 120.0  # seconds that the server may take to answer


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def answers(port: int) -> bool:
    """Whether the server says that it is well."""
    with contextlib.suppress(OSError):
        return urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2).status == 200
    return False


def main(folder: Path, sites: int, cpus: int) -> int:
    """Exit status of the run: 0 when the app has ended by itself."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # through `finally`
    port = free_port()
    home = Path(os.environ["FLWR_HOME"])
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "own"\n\n[superlink.own]\naddress = "127.0.0.1:{port}"\n'
        "insecure = true\n"
    )
    command = ["flower-superlink", "--insecure", "--simulation"]
    command += ["--disable-runtime-dependency-installation", "--host", "127.0.0.1"]
    with (folder / "engine.log").open("wb") as log:
        server = subprocess.Popen([*command, "--port", str(port)], stdout=log, stderr=log)
        try:
            end = time.monotonic() + START
            while not answers(port):
                if server.poll() is not None or time.monotonic() > end:
                    return 1
                time.sleep(0.1)
            settings = f"num-supernodes={sites} client-resources-num-cpus={cpus}"
            run = ["flwr", "run", str(folder / "app"), "own", "--stream"]
            return subprocess.call(
                [*run, "--federation-config", settings], stdout=log, stderr=log, cwd=folder
            )
        finally:
            server.send_signal(signal.SIGINT)  # it ends its own processes then
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.wait(20)
            server.kill()


def prefix() -> list[str]:
    """What runs a command with a loopback of its own, so that nobody else on this machine reaches
    the engine, and with processes that end with it. Nothing where the system does not allow it.
    """
    if not shutil.which("unshare") or not shutil.which("ip"):
        return []
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    words = ["unshare", *user, "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    words += ["sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    if shutil.which("setpriv"):  # and with a caller that was killed
        words = ["setpriv", "--pdeathsig", "KILL", *words]
    allowed = subprocess.run([*words, "true"], capture_output=True).returncode == 0
    return words if allowed else []


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
