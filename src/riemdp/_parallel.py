"""Work that threads share. Whoever asks for it takes part, and does all of it where no thread
starts.

No thread starts where there are too many already, or after the main one has ended. A draw that
raised then would have spent its budget for nothing.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from typing import ParamSpec, TypeVar

from ._errors import LEAST_THREADS

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")


def cores() -> int:
    """How many this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def of_process(make: Callable[[], T]) -> Callable[[], T]:
    """What `make` makes, once in this process and anew in a child: a fork copies a lock that a
    thread holds, but not the thread that would give it back.
    """
    held = make()

    def anew() -> None:
        nonlocal held
        held = make()

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=anew)
    return lambda: held


def _turns() -> queue.SimpleQueue[bool]:
    given = os.environ.get("NPROC", "")
    threads = int(given) if given.isdigit() else max(os.cpu_count() or 1, LEAST_THREADS)
    left: queue.SimpleQueue[bool] = queue.SimpleQueue()
    for _ in range(max(1, threads // 2)):
        left.put(True)
    return left


_left, _here = of_process(_turns), threading.local()


def in_turn(function: Callable[P, R]) -> Callable[P, R]:
    """The function, which computes with many records and returns when XLA has computed, by not more
    threads at once than half as many as XLA has. What is computed within it needs no turn.

    To decompose many matrices XLA takes a thread that waits for others: as many programs at once as
    there are threads wait for each other, without end.
    """

    @functools.wraps(function)
    def call(*arguments: P.args, **options: P.kwargs) -> R:
        if getattr(_here, "has_turn", False):
            return function(*arguments, **options)
        # An interrupt comes between two calls of Python. So a turn is taken, and noted, in one call
        # of C, and is given back by the first call of the last block: a semaphore, or a context
        # manager, of Python would lose a turn now and then, and its lock with it. What a handler of
        # a signal computes meanwhile does not wait for the turn of its own thread.
        left, taken = _left(), list[bool]()
        try:
            _here.has_turn = True
            taken.extend(itertools.islice(iter(left.get, None), 1))
            return function(*arguments, **options)
        finally:
            _here.has_turn = False
            if taken:
                left.put(taken[0])

    return call


def each(pool: Executor, helpers: int, function: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """`function` of each item, in their order, found here and in up to `helpers` threads."""

    def work(left: Iterator[tuple[int, T]]) -> list[tuple[int, R]]:
        return [(place, function(item)) for place, item in left]

    parts = together(pool, helpers, work, enumerate(items))
    return [found for _, found in sorted(itertools.chain(*parts), key=lambda one: one[0])]


def together(
    pool: Executor, helpers: int, work: Callable[[Iterator[T]], R], items: Iterable[T]
) -> list[R]:
    """What `work` returns here, and in each of up to `helpers` threads of the pool that took part.

    `work` is given what is left of the items. Each item is handed out once, to one thread: which
    one is settled before anything is drawn for it, and no two draw the same words for it.
    """
    left = deque(items)

    def share() -> R:
        try:
            return work(_handed_out(left))
        except BaseException:
            left.clear()  # nobody goes on with what will not be used
            raise

    others: list[Future[R]] = []
    for _ in range(min(helpers, len(left) - 1)):
        try:
            others.append(pool.submit(share))
        except RuntimeError:
            # The pool keeps what it was given although its thread did not start. A thread of it
            # that begins this later finds nothing left.
            break
    here = share()
    # all is handed out: who has not begun has nothing to do, and may never begin
    return [here] + [other.result() for other in others if not other.cancel()]


def _handed_out(left: deque[T]) -> Iterator[T]:
    with contextlib.suppress(IndexError):
        while True:
            yield left.popleft()
