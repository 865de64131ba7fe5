"""Settings of every test: deterministic hypothesis, one BLAS thread a worker, a bound on compiled
code, which the workers share.
"""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "riemdp",
    deadline=None,
    derandomize=True,
    max_examples=15,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.function_scoped_fixture,
    ],
)
settings.load_profile("riemdp")

# Tracing makes many objects that live on: looking through them as often as usual takes an eighth of
# the tests' time.
gc.set_threshold(200_000, 20, 50)

# Each compiled function takes a few memory mappings, of which Linux gives a process 65 530; beyond
# them XLA crashes.
MANY_MAPPINGS = 40_000

FOLDER = "JAX_COMPILATION_CACHE_DIR"  # of what the processes of one run have compiled
SETTINGS = {
    "jax_persistent_cache_min_compile_time_secs": 0.01,
    "jax_persistent_cache_min_entry_size_bytes": -1,
    # where in the source an operation stands is a tenth of the work of handing it to XLA
    "jax_traceback_in_locations_limit": 0,
}


def pytest_configure(config: pytest.Config) -> None:
    """What one process of a run has compiled the others load: workers, and what tests start. And it
    survives `clear_caches`.
    """
    if FOLDER in os.environ:  # a worker, whose JAX has read all of it there
        return
    folder = tempfile.mkdtemp(prefix="riemdp-tests-")
    told = {FOLDER: folder, **{name.upper(): str(value) for name, value in SETTINGS.items()}}
    os.environ.update(told)

    def forget() -> None:
        for name in told:
            os.environ.pop(name, None)
        shutil.rmtree(folder, ignore_errors=True)

    config.add_cleanup(forget)
    for name, value in {FOLDER.lower(): folder, **SETTINGS}.items():
        jax.config.update(name, value)


FIRST_STATES: dict[str, dict[str, Mapping[str, Any]]] = {}


@pytest.fixture(autouse=True, scope="module")
def compiled_code_stays_bounded() -> Iterator[None]:
    """Forget compiled functions after a test file when there are many, so that one process can run
    the whole suite.
    """
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and maps.read_text().count("\n") > MANY_MAPPINGS:
        jax.clear_caches()
        gc.collect()


@pytest.fixture(autouse=True)
def draws_do_not_depend_on_the_order_of_tests(request: pytest.FixtureRequest) -> None:
    """A generator that a test file shares begins every test in the state of the import."""
    module = request.module
    if module.__name__ not in FIRST_STATES:
        FIRST_STATES[module.__name__] = {
            name: generator.bit_generator.state
            for name, generator in vars(module).items()
            if isinstance(generator, np.random.Generator)
        }
    for name, state in FIRST_STATES[module.__name__].items():
        getattr(module, name).bit_generator.state = state
