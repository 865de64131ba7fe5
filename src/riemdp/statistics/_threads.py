"""A pool of threads each of which does linear algebra of small matrices on its own."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from .._decompositions import of_scipy
from .._parallel import cores, each, of_process

Each = Callable[..., Iterable[Any]]  # `map`, or the same in several threads

# The libraries' limit belongs to the process: two pools at once would each give back what they
# found, and the later one finds the limit of the earlier.
_turn = of_process(threading.RLock)


@contextlib.contextmanager
def in_threads(parts: int) -> Iterator[Each]:
    """`map` in as many threads as there are cores, and parts of the work. In those that start here
    no rounding error is an error or a warning, as in the one that asks for them: it would be an
    event of a record.
    """
    workers = min(cores(), parts)
    if workers < 2:
        yield map  # to start a thread takes as long as a small mean
        return
    controller = _controller()
    with (  # small matrices take twice as long where each thread starts more of them
        _turn(),
        controller.limit(limits=1),
        ThreadPoolExecutor(workers - 1, initializer=_alone, initargs=(controller,)) as pool,
    ):
        yield functools.partial(each, pool, workers - 1)


def _alone(controller: ThreadpoolController) -> None:
    """Some libraries keep a limit for each thread. What belongs to the process is not set here: a
    thread that starts late, after an interrupt, would leave it behind. NumPy's word of what a
    rounding error does is one for each thread.
    """
    np.seterr(all="ignore")
    own = [one.filepath for one in controller.lib_controllers if not _of_process(one.info())]
    if own:
        controller.select(filepath=own).limit(limits=1)


def _of_process(library: dict[str, Any]) -> bool:
    """Whether one limit counts for all threads."""
    return library["internal_api"] == "openblas" and library.get("threading_layer") == "pthreads"


@functools.cache
def _controller() -> ThreadpoolController:
    """NumPy's library. That of SciPy, which JAX calls, keeps to one thread for good
    (`_decompositions`): who gives it back what it had would undo that.
    """
    libraries = ThreadpoolController()  # it looks through all libraries of the process
    blas = [one.filepath for one in libraries.lib_controllers if one.user_api == "blas"]
    return libraries.select(filepath=[path for path in blas if not of_scipy(path)])
