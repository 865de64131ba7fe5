"""Many records are clamped without waiting for each other."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import numpy as np, riemdp
space = riemdp.SPDLogEuclidean(9)
a = np.random.default_rng(0).normal(size=(3000, 9, 18))
X = a @ a.transpose(0, 2, 1) / 18
ball = riemdp.Ball(np.eye(9), 3.0)
for _ in range(8):
    kept = np.asarray(ball.clamp(space, X))
print(bool(ball.contains(space, kept).all()))
"""


def test_a_clamp_of_thousands_of_matrices_ends() -> None:
    """On two cores, two batches of eigendecompositions in one compiled function once waited for
    ever for the same two threads. In a process of its own, so that a failure does not stop the
    suite.
    """
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout == "True\n", done.stderr
