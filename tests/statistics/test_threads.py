"""Threads of a mean: a library's limit is kept and given back, and no bit depends on them."""

from __future__ import annotations

import contextlib
import os
import signal
import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from riemdp._decompositions import of_scipy
from riemdp.statistics import _affine_mean, _threads


def matrices(k: int, n: int, size: float = 0.6) -> np.ndarray:
    g = np.random.default_rng(k).normal(size=(n, k, k)) * size / np.sqrt(k)
    values, q = np.linalg.eigh(g + g.swapaxes(1, 2))
    X = (q * np.exp(values)[:, None, :]) @ q.swapaxes(1, 2)
    return 0.5 * (X + X.swapaxes(1, 2))


def _blas_threads() -> list[int]:
    """Of the libraries but SciPy's own, which JAX calls and which has a limit of its own."""
    blas = [one for one in threadpool_info() if one["user_api"] == "blas"]
    return [one["num_threads"] for one in blas if not of_scipy(one["filepath"])]


@pytest.fixture
def two_cores(monkeypatch):
    monkeypatch.setattr(_threads, "cores", lambda: 2)
    with threadpool_limits(2, user_api="blas"):
        yield


def test_libraries_keep_to_one_thread_and_are_given_back(two_cores) -> None:
    before = _blas_threads()
    with _threads.in_threads(8) as each:
        assert list(each(abs, [-1, 2])) == [1, 2]
        assert set(_blas_threads()) == {1}
    assert _blas_threads() == before
    with pytest.raises(ZeroDivisionError), _threads.in_threads(8):
        raise ZeroDivisionError
    assert _blas_threads() == before
    with _threads.in_threads(1) as each:
        assert each is map


def test_means_in_two_threads_leave_no_limit_behind(two_cores) -> None:
    before = _blas_threads()
    other_inside, this_left = threading.Event(), threading.Event()
    seen = []

    def other() -> None:
        with _threads.in_threads(8) as each:
            other_inside.set()
            assert this_left.wait(5)
            seen.extend(each(abs, [-3]))

    thread = threading.Thread(target=other)
    with _threads.in_threads(8):
        thread.start()
        # Whoever could enter here would find this limit, and give it back after this one has gone.
        assert not other_inside.wait(0.3)
    this_left.set()
    thread.join(60)
    assert seen == [3]
    assert _blas_threads() == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_of_a_fork_does_not_wait_for_a_thread_of_its_parent(two_cores) -> None:
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with _threads.in_threads(8):
            inside.set()
            leave.wait(60)

    thread = threading.Thread(target=other)
    thread.start()
    assert inside.wait(60)
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # a child that hangs dies of it
        with contextlib.suppress(BaseException), _threads.in_threads(8) as each:
            os._exit(0 if list(each(abs, [-1, 2])) == [1, 2] else 1)
        os._exit(2)
    status = os.waitpid(child, 0)[1]
    leave.set()
    thread.join()
    assert status == 0


def test_a_mean_does_not_depend_on_the_threads_of_a_library(monkeypatch) -> None:
    monkeypatch.setattr(_threads, "cores", lambda: 2)
    X = matrices(5, 20_000)
    assert len(X) > _affine_mean._part(X)

    def mean(threads: int) -> np.ndarray:
        with threadpool_limits(threads, user_api="blas"):
            return _affine_mean.affine_mean(X, None, 1e-9, 30).value

    one = mean(1)
    assert np.array_equal(one, mean(2))
    assert np.array_equal(one, mean(3))
