"""What is refused spends nothing: every check and every import comes before the charge."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

_WITHOUT_RAY = """
    import sys, types
    from unittest import mock

    # Flower's classes are not what this is about; Ray is not installed.
    class Finder:
        def find_spec(self, name, path=None, target=None):
            import importlib.machinery
            if name.split(".")[0] == "flwr":
                return importlib.machinery.ModuleSpec(name, self, is_package=True)
            if name.split(".")[0] == "ray":
                raise ModuleNotFoundError("No module named 'ray'", name="ray")
        def create_module(self, spec):
            module = types.ModuleType(spec.name)
            module.__getattr__ = lambda name: mock.MagicMock()
            module.__path__ = []
            return module
        def exec_module(self, module):
            pass

    sys.meta_path.insert(0, Finder())
    import numpy as np, riemdp
    from riemdp.federated.flower import _simulate

    plane, ball = riemdp.Euclidean(2), riemdp.Ball(np.zeros(2), 1.0)
    loss = riemdp.problems.frechet_mean(plane, ball=ball)
    local = riemdp.DPRGD(1, 0.5, 0.5)
    run = riemdp.federated.PriRFed(loss, local, rounds=2, agents_per_round=2)
    ledger, data = riemdp.Ledger(riemdp.Budget(2.0, 1e-5)), [np.zeros((30, 2))] * 2
    try:
        _simulate.simulate(run, data, np.zeros(2), riemdp.Budget(1.0, 1e-6), ledger=ledger)
    except Exception as error:
        print(type(error).__name__, ledger.charges, "pip install ray" in str(error))
"""


def test_a_simulation_without_its_engine_is_refused_before_the_charge(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(_WITHOUT_RAY)],
        capture_output=True,
        text=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    assert done.stdout.split() == ["MissingExtra", "0", "True"], done.stderr[-2000:]
