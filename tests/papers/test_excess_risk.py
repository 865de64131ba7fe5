"""The excess-risk table: its rows are kept once, its document says what its results say."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

import riemdp as R
from papers.tools import excess_risk_cases, excess_risk_table, excess_risk_words

EIGENVECTORS = ("satimage", "ijcnn", "MNIST 0", "MNIST 1")
RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def tools():
    return SimpleNamespace(
        cases=excess_risk_cases, table=excess_risk_table, words=excess_risk_words
    )


@pytest.fixture(scope="module")
def rows(tools):
    return tools.table.read(tools.table.RESULTS)


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
    said = tools.words.summary(tools.words.Results(rows))
    assert (
        f"<!-- summary -->\n\n{said}\n\n<!-- end of summary -->" in tools.words.DOCUMENT.read_text()
    )


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
