"""Work that threads share: each part is done once, also where some of the threads do not start."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from riemdp import _parallel, noise_source
from riemdp._parallel import each, in_turn, together
from riemdp.randomness import _rounded
from riemdp.randomness._source import PARALLEL
from riemdp.sampling import _points

MANY = range(200)


def done_twice(work) -> list:
    """What `work(pool, note)` has noted more than once."""
    noted: list = []
    with ThreadPoolExecutor(3) as pool:
        work(pool, noted.append)
    return [item for item, times in Counter(noted).items() if times > 1]


@pytest.mark.parametrize("start", [0, 1, 2, 3])
def test_each_item_is_done_once_however_many_threads_start(threads_that_start, start):
    threads_that_start(start)
    done: list[int] = []

    def double(item: int) -> int:
        done.append(item)
        return 2 * item

    with ThreadPoolExecutor(3) as pool:
        for _ in range(3):  # what was left waiting begins in the second call, if ever
            assert each(pool, 3, double, MANY) == [2 * item for item in MANY]
            assert sorted(done) == list(MANY)
            done.clear()


def test_a_fallback_that_starts_again_is_seen(threads_that_start):
    """Planted: whoever does all of it alone after the second thread fails repeats the first's."""

    failed = threading.Event()

    def alone(pool, note) -> None:
        def later(item: int) -> None:
            failed.wait(60)  # a thread that is idle takes the next item, and no other one starts
            note(item)

        try:
            list(pool.map(later, MANY))
        except RuntimeError:
            failed.set()
            list(map(note, MANY))

    threads_that_start(1)
    assert done_twice(alone)
    threads_that_start(1)
    assert not done_twice(lambda pool, note: each(pool, 3, note, MANY))


def test_whoever_asks_takes_part():
    both = threading.Barrier(2, timeout=60)
    with ThreadPoolExecutor(1) as pool:
        found = each(pool, 1, lambda _: (both.wait(), threading.get_ident()), range(2))
    assert {thread for _, thread in found} > {threading.get_ident()}


def test_a_pool_that_has_ended_or_is_busy_is_not_waited_for():
    with ThreadPoolExecutor(1) as pool:
        assert each(pool, 1, abs, [-1, -2]) == [1, 2]
    assert each(pool, 1, abs, [-1, -2]) == [1, 2]
    assert each(pool, 1, abs, []) == []
    leave = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(leave.wait, 60)
        assert each(pool, 1, abs, [-1, -2]) == [1, 2]
        leave.set()


def test_a_failure_is_raised_and_ends_the_others():
    begun: list[int] = []
    both = threading.Barrier(2, timeout=60)

    def fail(left) -> None:
        begun.append(next(left))
        both.wait()
        raise ZeroDivisionError

    with ThreadPoolExecutor(1) as pool, pytest.raises(ZeroDivisionError):
        together(pool, 1, fail, MANY)
    assert sorted(begun) == [0, 1]


# -----------------------------------------------------------------------------
# draws
@pytest.mark.parametrize("start", [0, 1])
def test_no_word_is_used_twice_where_a_thread_does_not_start(
    monkeypatch, threads_that_start, start
):
    words, draw = [], _rounded._words

    def watched(generator, count: int):
        words.append(draw(generator, count))
        return words[-1]

    monkeypatch.setattr(_rounded, "_words", watched)
    threads_that_start(start)
    source, shape = noise_source(), (PARALLEL, 2)
    with ThreadPoolExecutor(1) as helper:
        drawn = [source.rounded_normals(2.0**40, shape, helper) for _ in range(2)]
    used = np.concatenate(words)
    assert len(np.unique(used)) == len(used) >= 4 * PARALLEL
    assert [one.shape for one in drawn] == [shape, shape]
    assert len(np.unique(drawn)) > 4 * PARALLEL - 20
    # lengths and directions of a draw
    lengths, z = _points.radii_and_normals(lambda: source.uniforms(PARALLEL), source, shape)
    assert len(np.unique(lengths)) == PARALLEL
    assert len(np.unique(z)) == 2 * PARALLEL


AT_ONCE = """
import threading
import numpy as np, riemdp
from riemdp.statistics import FrechetMean
rng = np.random.default_rng(0)
g = 0.2 * rng.normal(size=(200, 20, 20))
X = np.eye(20) + 0.3 * (g @ g.swapaxes(1, 2))
ball = riemdp.Ball(np.eye(20), 1.0).on(riemdp.SPDAffineInvariant(20))
query = FrechetMean(ball, 200)
query.prepare(X)
def run():
    for _ in range(3):
        query.prepare(X)
        ball.frame.clamp(X)
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


def test_half_as_many_threads_as_xla_has_compute_at_once(monkeypatch):
    monkeypatch.setenv("NPROC", "6")
    left = _parallel._turns()
    monkeypatch.setattr(_parallel, "_left", lambda: left)
    inside, most, lock = 0, 0, threading.Lock()

    @in_turn
    @in_turn  # within another turn it needs none
    def work(_) -> None:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        time.sleep(0.01)
        with lock:
            inside -= 1

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(work, range(24)))
    assert most == 3


def few_turns(monkeypatch, count):
    monkeypatch.setenv("NPROC", str(2 * count))
    left = _parallel._turns()
    monkeypatch.setattr(_parallel, "_left", lambda: left)
    return left


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_turn_is_given_back_whatever_ends_it(monkeypatch, error):
    left = few_turns(monkeypatch, 1)

    @in_turn
    @in_turn
    def fails():
        assert left.empty()
        raise error

    for _ in range(3):
        with pytest.raises(error):
            fails()
        assert left.qsize() == 1


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
