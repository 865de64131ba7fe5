"""Huang2024: Table 1 digit for digit, certified costs, and the noise of the federated figures."""

from __future__ import annotations

import math

import numpy as np
import pytest

import riemdp
from papers import Context
from papers.huang2024 import (
    LOCAL,
    PRINTED,
    ROUNDS,
    local_step,
    published_guarantee,
    table_row,
    to_three_digits,
)
from papers.huang2024_runs import (
    C,
    Federation,
    P,
    local_epsilon,
    local_sigma,
    locals_of,
    run_federation,
)
from papers.utpala2023_risk import published_sigma
from riemdp.optimizers import DPRSGD, DPRSVRG


@pytest.mark.parametrize("cell", PRINTED)
def test_the_formula_gives_the_digits_of_table_1(cell):
    agents, sampled = cell
    for rounds, printed in zip(ROUNDS, PRINTED[cell], strict=True):
        got = published_guarantee(*LOCAL, agents=agents, sampled=sampled, rounds=rounds)
        assert to_three_digits(got.epsilon) == printed
        assert got.delta == pytest.approx(1e-3 + rounds * sampled**2 / agents * 1e-4)
        assert not got.proved


def test_certified_columns_at_the_marked_cell():
    row = table_row(100, 5, 100)
    assert row["delta"] == pytest.approx(3.5e-3)
    assert row["certified_mixture"] == pytest.approx(0.217, abs=2e-3)
    assert row["certified_round_robin"] == pytest.approx(0.206, abs=2e-3)
    assert row["round_robin_invitations"] == 5


def test_with_one_agent_a_round_the_formula_claims_less_than_can_be_certified():
    row = table_row(100, 1, 50)
    assert row["published_formula"] < row["certified_mixture"]


def test_the_local_step_is_exactly_what_the_paper_states():
    assert local_step().epsilon(LOCAL[1]) == pytest.approx(LOCAL[0], rel=1e-6)


def test_published_dp_rsvrg_noise_on_mnist_is_no_privacy():
    """N_i = 1200, m = 166, K = 3, stated (0.15, 1e-4): a true epsilon about 230, and every digit of
    sigma from the formula.
    """
    problem = riemdp.problems.principal_eigenvector(4)
    local = DPRSVRG(3, 166, 0.1, 2.0, variant="as-published")
    sigma = published_sigma(3 * 166, 2.0, 1200, 0.15, 1e-4)
    assert sigma == pytest.approx(math.sqrt(498 * math.log(1e4)) * 2 / 180)
    assert 150 < local_epsilon(problem, local, 1200, sigma, 1e-4) < 300


@pytest.mark.parametrize(
    "local", [DPRSGD(3, 20, 0.1, 1.0), DPRSVRG(2, 4, 0.1, 1.0, variant="as-published")]
)
def test_certified_local_noise_is_within_the_stated_budget_and_tight(local):
    problem = riemdp.problems.principal_eigenvector(4)
    sigma = local_sigma(problem, local, 40, riemdp.Budget(0.15, 1e-4))
    assert 0.98 * 0.15 < local_epsilon(problem, local, 40, sigma, 1e-4) <= 0.15
    assert local_epsilon(problem, local, 40, 0.8 * sigma, 1e-4) > 0.15, "noise x 0.8 must be seen"


def test_a_small_federation_reports_every_arm():
    rng = np.random.default_rng(1)
    z = rng.standard_normal((3, 40, 4))
    z /= np.linalg.norm(z, axis=-1, keepdims=True)
    problem = riemdp.problems.principal_eigenvector(4)
    f = Federation(
        "small", problem, list(z), np.full(4, 0.5), 2.0, (0.15, 1e-4), 0.1, 4, (2, 20), (2, 4)
    )
    arms = locals_of(f)
    assert [name for name in arms if name.endswith(P)] == [f"DP-RSGD, {P}", f"DP-RSVRG, {P}"]
    curves = run_federation(f, Context(quick=True, seed=0), points=(2, 2), runs=2)
    assert set(curves) == set(arms)
    for name, c in curves.items():
        assert c.y.shape == (2, 2)
        assert np.all((c.y <= 0) & (c.y >= -1))
        assert c.sigma == pytest.approx(arms[name][1])
    for method in ("DP-RSGD", "DP-RSVRG"):
        assert curves[f"{method}, {C}"].sigma > curves[f"{method}, {P}"].sigma
