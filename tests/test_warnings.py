"""A warning points to the line of the user's program, whatever stands between."""

import ast
import pathlib
import warnings

import numpy as np
import pytest

import riemdp
from riemdp import problems

LINE, BUDGET = riemdp.Euclidean(1), riemdp.Budget(9.0, 1e-6)
BALL, RECORDS = riemdp.Ball(np.zeros(1), 1.0), np.linspace(-0.5, 0.5, 40)[:, None]
RUN = riemdp.PriRFed(
    problems.frechet_mean(LINE),
    riemdp.DPRSGD(steps=2, batch_size=5, learning_rate=0.1, clip_norm=1.0),
    rounds=1,
    agents_per_round=1,
)
CALLS = {
    "a mean": lambda: riemdp.private_frechet_mean(LINE, RECORDS, BALL, BUDGET),
    "a fit": lambda: riemdp.PrivateFrechetMean(manifold=LINE, budget=BUDGET, ball=BALL).fit(
        RECORDS
    ),
    "a federated run": lambda: riemdp.run_in_process(
        RUN, [RECORDS, RECORDS], np.zeros(1), BUDGET, record_every=1
    ),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_warning_points_to_the_file_of_the_caller(call):
    with riemdp.Ledger(riemdp.Budget(99.0, 1e-3)), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", riemdp.RiemdpWarning)
        CALLS[call]()
    files = {w.filename for w in caught if issubclass(w.category, riemdp.RiemdpWarning)}
    assert files == {__file__}


def test_one_function_finds_that_line():
    """Nothing else warns: a number of frames is wrong as soon as a call moves."""
    house = pathlib.Path(riemdp.__file__).parent
    for path in house.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            named = isinstance(node, ast.Attribute) and node.attr in ("warn", "warn_explicit")
            if named and getattr(node.value, "id", "") == "warnings":
                assert path.name == "_errors.py", f"{path}:{node.lineno}"
