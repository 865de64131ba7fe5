"""Threads that compute with many records on JAX take turns."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.seam import Doors

in_turn = Doors.in_turn

AT_ONCE = """
import threading
import jax, numpy as np, riemdp
from riemdp._parallel import in_turn
rng = np.random.default_rng(0)
g = 0.2 * rng.normal(size=(200, 20, 20))
X = jax.numpy.asarray(np.eye(20) + 0.3 * (g @ g.swapaxes(1, 2)))
space = riemdp.SPDAffineInvariant(20)
look = in_turn(lambda: space.log(space.origin, X).block_until_ready())
look()
def run():
    for _ in range(3):
        look()
threads = [threading.Thread(target=run) for _ in range(2 * N)]
[one.start() for one in threads]
[one.join() for one in threads]
print("ended")
"""


def test_more_threads_than_xla_has_decompose_many_matrices_at_once():
    """As many programs as XLA has threads waited for each other: eight threads never ended."""
    threads = max(os.cpu_count() or 1, 8)
    done = subprocess.run(
        [sys.executable, "-c", AT_ONCE.replace("N", str(threads))],
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.stdout == "ended\n", done.stderr


@pytest.mark.parametrize("error", [None, ValueError, KeyboardInterrupt])
def test_one_thread_at_a_time_whatever_ends_it(error):
    inside, most = 0, 0

    @in_turn
    @in_turn  # within another turn it needs none
    def work(_) -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        time.sleep(0.002)
        inside -= 1
        if error is not None:
            raise error

    with ThreadPoolExecutor(6) as pool:
        found = [pool.submit(work, i) for i in range(12)]
        assert {type(one.exception()) for one in found} == {type(error and error())}
    assert most == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_turns_whoever_had_them():
    threads = [threading.Event() for _ in range(64)]
    end = threading.Event()

    @in_turn
    def hold(ready: threading.Event) -> None:
        ready.set()
        end.wait(60)

    held = [threading.Thread(target=hold, args=(ready,), daemon=True) for ready in threads]
    for one in held:
        one.start()
    assert threads[0].wait(10)
    try:
        child = os.fork()
        if child == 0:
            in_turn(os._exit)(7)
        deadline = time.monotonic() + 30.0
        done, status = os.waitpid(child, os.WNOHANG)
        while not done and time.monotonic() < deadline:
            time.sleep(0.01)
            done, status = os.waitpid(child, os.WNOHANG)
        if not done:
            os.kill(child, 9)
            os.waitpid(child, 0)
        assert done
        assert os.waitstatus_to_exitcode(status) == 7
    finally:
        end.set()
        for one in held:
            one.join()
