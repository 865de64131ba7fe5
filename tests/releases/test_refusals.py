"""What is refused spends nothing: every check and every import comes before the charge."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import riemdp
from riemdp import Ball, Budget, Ledger

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2)) * 0.2
U = np.concatenate([X, np.ones((60, 1))], axis=1)
U /= np.linalg.norm(U, axis=1, keepdims=True)
WHO = np.arange(60) % 2
PLANE, SPHERE, BUDGET, PURE = riemdp.Euclidean(2), riemdp.Sphere(3), Budget(1.0, 1e-6), Budget(1.0)
BALL, CAP = Ball(np.zeros(2), 1.0), Ball(np.eye(3)[2], 0.5)


def released(**changed: Any) -> object:
    given: dict[str, Any] = {"budget": BUDGET, "space": PLANE, "X": X, "ball": BALL} | changed
    space, records, ball, budget = (given.pop(k) for k in ("space", "X", "ball", "budget"))
    return riemdp.private_frechet_mean(space, records, ball, budget, **given)


REFUSED = [
    {"budget": PURE, "shrink": True},
    {"space": SPHERE, "X": U, "ball": CAP, "budget": PURE, "shrink": True},
    {"rng": "seed"},
    {"rng": 1.5},
    {"groups": WHO[:7]},
    {"count_outside": "yes"},
    {"X": np.ones((60, 3))},
    {"ball": "everywhere"},
    {"space": SPHERE, "X": U, "ball": Ball(np.eye(3)[2], 3.0)},
]


@pytest.mark.parametrize("changed", REFUSED, ids=lambda k: " ".join(k))
def test_a_refusal_spends_and_writes_nothing(changed, tmp_path: Path) -> None:
    ledger = Ledger(Budget(50.0, 1e-3), path=tmp_path / "ledger.json")
    before = (tmp_path / "ledger.json").read_bytes()
    with warnings.catch_warnings(), ledger:
        warnings.simplefilter("ignore")
        with pytest.raises((riemdp.RiemdpError, ValueError, TypeError)):
            released(**changed)
    assert (tmp_path / "ledger.json").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".json"] == ["ledger.json"]


def test_the_same_call_is_charged_once_where_nothing_is_wrong() -> None:
    with warnings.catch_warnings(), Ledger(Budget(50.0, 1e-3)) as ledger:
        warnings.simplefilter("ignore")
        released()
    assert ledger.charges == 1
    assert ledger.spent.within(Budget(1.0 + 1e-6, 1e-6))


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
