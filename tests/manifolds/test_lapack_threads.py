"""JAX decomposes a batch in several threads: LAPACK starts none of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

START = """
import json
import numpy as np
from pathlib import Path
from threadpoolctl import threadpool_info
import riemdp
import scipy.linalg.cython_lapack

def threads():
    blas = [one for one in threadpool_info() if one["user_api"] == "blas"]
    return {Path(one["filepath"]).parent.name: one["num_threads"] for one in blas}
"""
WORK = """
before = threads()
import jax.numpy as jnp
space = riemdp.SPDAffineInvariant(3)
space.dist(jnp.eye(3), 2.0 * jnp.eye(3))
print(json.dumps([before, threads()]))
"""


def _limits(work: str) -> list[dict[str, int]]:
    """What a process that does this work says of its libraries' threads, twice."""
    environment = os.environ | {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", START + work],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    found = json.loads(done.stdout.splitlines()[-1])
    if not {"scipy.libs", "numpy.libs"} <= set(found[0]):
        pytest.skip("SciPy and NumPy have no libraries of their own here")
    return found


def test_only_the_library_that_jax_calls_keeps_to_one_thread() -> None:
    before, after = _limits(WORK)
    assert before == {"scipy.libs": 2, "numpy.libs": 2}
    assert after == {"scipy.libs": 1, "numpy.libs": 2}
