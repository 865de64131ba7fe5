"""The excess-risk table: its shortcut is the library's run, its rows are kept once, its document
says what its results say.
"""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest

import riemdp as R
from papers.projected_descent import projected_descent
from papers.tools import excess_risk_cases, excess_risk_table, excess_risk_words

ROOT = Path(__file__).parents[2]
EIGENVECTORS = ("satimage", "ijcnn", "MNIST 0", "MNIST 1")
BUDGET = R.Budget(2.0, 1e-6)
RNG = np.random.default_rng(0)
WIDE = RNG.normal(size=(300, 6)) * np.arange(1.0, 7.0)
START = np.full(6, 6**-0.5)


@pytest.fixture(scope="module")
def tools():
    return SimpleNamespace(
        cases=excess_risk_cases, table=excess_risk_table, words=excess_risk_words
    )


@pytest.fixture(scope="module")
def rows(tools):
    return tools.table.read(ROOT / tools.table.RESULTS)


# ------------------------------------------------------------------------------------------------
# the shortcut
@pytest.mark.parametrize(("norm", "same"), [(1.0, True), (1.5, False)])
def test_covariance_gives_the_gradient_while_nothing_is_clipped(tools, norm, same):
    """With rows longer than the bound the records' gradients are clipped and the covariance no
    longer tells their mean.
    """
    x = norm * tools.cases.unit_rows(WIDE)
    problem = R.problems.principal_eigenvector(6)
    each = np.asarray(jax.vmap(problem.riemannian_gradient, (None, 0))(START, x))
    lengths = np.linalg.norm(each, axis=1, keepdims=True)
    mean = np.mean(each * np.minimum(1.0, problem.lipschitz / lengths), axis=0)
    got = np.asarray(tools.cases.full_gradient(x.T @ x / len(x), START))
    assert (np.abs(got - mean).max() < 1e-12) == same


def test_input_perturbation_is_the_library_s(tools):
    x = tools.cases.unit_rows(WIDE)
    points, guarantee = tools.cases.input_perturbation(300, x.T @ x / 300)(BUDGET, range(2))
    for seed in range(2):
        whole = R.optimizers.private_principal_eigenvector(x, BUDGET, rng=seed)
        assert abs(points[seed] @ np.asarray(whole.value)) == pytest.approx(1.0, abs=1e-12)
        assert guarantee.epsilon(1e-6) == pytest.approx(whole.guarantee.epsilon(1e-6), rel=1e-12)


def test_projected_descent_is_that_of_the_rows(tools):
    x = tools.cases.unit_rows(WIDE)
    run = tools.cases.projected_descent(300, x.T @ x / 300, START, None, None)
    points, guarantee = run(BUDGET, range(2))
    given = {"row_norm": 1.0, "steps": None, "learning_rate": None, "initial": START}
    for seed in range(2):
        w, spent = projected_descent(x, BUDGET, rng=seed, **given)
        assert abs(points[seed] @ w) == pytest.approx(1.0, abs=1e-12)
        assert guarantee.epsilon(1e-6) == pytest.approx(spent.epsilon(1e-6), rel=1e-12)


@pytest.mark.parametrize("eta", [0.01, 10.0])
def test_bures_wasserstein_ball_holds_every_descriptor_and_is_not_larger(tools, eta):
    """Eigenvalues in [eta, eta + s], trace at most 9 eta + s: random ones lie inside, the extreme
    one on the edge.
    """
    ball = tools.cases.bures_wasserstein_ball(eta)
    spread = R.datasets.descriptor_spread(1)
    shares = RNG.dirichlet(np.full(9, 0.2), 2000) * RNG.uniform(0, 1, (2000, 1))
    shares[0] = 0.0
    shares[1] = np.eye(9)[0]
    root = math.sqrt(float(ball.center[0, 0]))
    distances = np.linalg.norm(np.sqrt(eta + spread * shares) - root, axis=1)
    assert distances.max() <= ball.radius * (1 + 1e-12)
    assert distances[1] == pytest.approx(ball.radius)
    exact = R.SPDBuresWasserstein(9).dist(ball.center, np.diag(eta + spread * shares[1]))
    assert float(exact) == pytest.approx(distances[1])


# ------------------------------------------------------------------------------------------------
# keeping results
def toy(tools, calls, methods):
    case = tools.cases.Case(
        "toy",
        "",
        10,
        1,
        methods,
        lambda p: np.abs(p[:, 0]),
        lambda p: np.abs(p[:, 0]),
        lambda b: "one",
    )
    calls.clear()
    return case


def test_a_run_that_costs_more_than_the_budget_is_refused(tools, tmp_path):
    def dear(budget, seeds):
        return np.ones((len(seeds), 1)), R.gaussian(0.5)

    methods = (tools.cases.Method("one", "one-shot", (tools.cases.Setting("", dear),)),)
    with pytest.raises(RuntimeError, match="costs more"):
        tools.table.fill(tmp_path / "rows.csv", toy(tools, [], methods), [""], 2)


# ------------------------------------------------------------------------------------------------
# the committed figures
def test_document_holds_what_the_results_say(tools, rows):
    text = (ROOT / tools.table.DOCUMENT).read_text()
    assert tools.words.renewed(text, tools.words.Results(rows)) == text
    with pytest.raises(ValueError, match="no marks"):
        tools.words.renewed(text.replace("<!-- summary -->", ""), tools.words.Results(rows))


def test_every_method_is_there_and_within_its_budget(tools, rows):
    results = tools.words.Results(rows)
    wanted = [
        "DP-RGD",
        "DP-RSGD",
        "DP-RSGD, Poisson",
        "DP-RSVRG, as-published",
        "DP-RSVRG, anchored",
    ]
    for data in (*EIGENVECTORS, "descriptors, affine-invariant"):
        ours = data in EIGENVECTORS
        for method in [
            *wanted,
            *(
                ("GMIP", "DP-PGD", "DP-RGD, default")
                if ours
                else ("wrapped-gaussian", "extrinsic-gaussian")
            ),
        ]:
            for epsilon in tools.words.EPSILONS:
                assert (data, method, epsilon) in results.at
    for row in rows:
        if row["median"]:
            assert float(row["certified_epsilon"]) <= float(row["epsilon"]) * (
                1 + 1e-5
            )  # six digits are kept
            assert float(row["q25"]) <= float(row["median"]) <= float(row["q75"])
            assert bool(row["settings"]) == (row["family"] == "iterative" or bool(row["grid"]))
        else:
            assert row["settings"].startswith("not available")


def test_orderings_that_the_document_states(tools, rows):
    """Anchored ahead of as-published where the budget allows more than the start; GMIP ahead of
    DP-RGD with constant steps.
    """
    results = tools.words.Results(rows)
    for data in EIGENVECTORS:
        for epsilon in ("0.5", "1"):
            anchored, published = (
                results.median(data, f"DP-RSVRG, {v}", epsilon)
                for v in ("anchored", "as-published")
            )
            assert anchored < published, (data, epsilon)
            assert results.median(data, "GMIP", epsilon) < results.median(
                data, "DP-RGD", epsilon
            ), (data, epsilon)
