"""PrivatePCA: the distribution of its noise, its sensitivity, scikit-learn's checks, bad input."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.utils.estimator_checks import check_estimator

import riemdp
from riemdp import Budget, BudgetExceeded, InvalidArgument, Ledger, PrivatePCA
from tests.seam import Sums
from tests.statistical import ALPHA, gaussian_p_value

BUDGET = Budget(1.0, 1e-5)


def table(n: int = 400, d: int = 5, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d)) * np.linspace(1.0, 0.2, d) / 2


@pytest.mark.filterwarnings("ignore")
def test_sklearn_checks():
    check_estimator(
        PrivatePCA(n_components=1, budget=Budget(50.0, 1e-2), row_norm=5.0, random_state=0)
    )


def unpacked(coordinates, k: int) -> np.ndarray:
    """The symmetric matrix with these orthonormal coordinates."""
    return np.asarray(riemdp.SPDAffineInvariant(k).from_coordinates(np.eye(k), coordinates))


def moment_noise(scale: float = 1.0) -> np.ndarray:
    """Noise of 400 releases of a 3 x 3 second-moment matrix in an orthonormal frame (an independent
    one: W A W^T).
    """
    X = table(50, 3)
    rows = Sums.clip_rows(X, 1.0)
    exact = rows.T @ rows / len(rows)
    mechanism = Sums.SecondMomentNoise(Sums.of_rows(3, 50, 1.0), BUDGET)
    q = np.linalg.qr(np.random.default_rng(5).normal(size=(3, 3)))[0]
    drawn = []
    for seed in range(400):
        noisy = unpacked(mechanism.release(X, seed).value, 3)
        e = scale * q @ (noisy - exact) @ q.T
        drawn.append(np.concatenate([np.diag(e), np.sqrt(2) * e[np.triu_indices(3, 1)]]))
    return np.array(drawn)


def test_noise_distribution_and_planted_faults():
    z = riemdp.gaussian_noise_multiplier(BUDGET)
    sigma = z * np.sqrt(2) / 50
    noise = moment_noise()
    assert gaussian_p_value(noise, sigma) > ALPHA
    assert gaussian_p_value(0.8 * noise, sigma) < ALPHA  # too little noise
    assert (
        gaussian_p_value(noise, sigma * 2 / np.sqrt(2)) < ALPHA
    )  # the published sensitivity 2 R^2 / n
    lopsided = (
        noise * np.r_[np.ones(3), np.full(3, np.sqrt(0.5))]
    )  # off-diagonal entries without their sqrt(2)
    assert gaussian_p_value(lopsided, sigma) < ALPHA


def test_sensitivity_is_never_exceeded_and_attained():
    rng = np.random.default_rng(2)
    bound = 1.7
    rows = Sums.clip_rows(
        rng.normal(size=(20000, 2, 4)).reshape(-1, 4) * rng.exponential(size=(40000, 1)), bound
    ).reshape(-1, 2, 4)
    moved = np.linalg.norm(
        rows[:, 0, :, None] * rows[:, 0, None] - rows[:, 1, :, None] * rows[:, 1, None], axis=(1, 2)
    )
    assert moved.max() <= np.sqrt(2) * bound**2
    e = bound * np.eye(4)
    assert np.linalg.norm(np.outer(e[0], e[0]) - np.outer(e[1], e[1])) == pytest.approx(
        np.sqrt(2) * bound**2
    )


@pytest.mark.parametrize("constant", [0.2, 0.7, 1.0])
@pytest.mark.parametrize("d", [2, 7])
def test_a_constant_column_moves_mean_and_moment_by_no_more(d, constant):
    """Rows (z, b): pairs at random, of people too, and the worst one."""
    rng, bound = np.random.default_rng(3), np.hypot(1.0, constant)

    def moved(rows):
        z = Sums.clip_rows(np.concatenate(rows), 1.0)
        z = np.column_stack([z, np.full(len(z), constant)]).reshape(2, -1, d + 1)
        one, other = (Sums.second_moment(person) for person in z)
        return np.linalg.norm(one - other)

    pairs = [rng.normal(size=(2, 1 + i % 2, d)) for i in range(400)]
    assert max(map(moved, pairs)) <= np.sqrt(2) * bound**2
    z, y = np.eye(d)[:1], np.eye(d)[:1] * -(constant**2)
    y[0, 1] = np.sqrt(1.0 - constant**4)
    assert moved([z, y]) == pytest.approx(np.sqrt(2) * bound**2)


def test_clipping():
    rows = np.array(
        [[3.0, 4.0], [0.3, 0.4], [np.nan, 1.0], [np.inf, 0.0], [1e300, 1e300], [0.0, 0.0]]
    )
    out = Sums.clip_rows(rows, 1.0)
    assert np.all(np.linalg.norm(out, axis=1) <= 1.0)
    assert np.allclose(out[0], [0.6, 0.8])
    assert np.array_equal(out[1], rows[1])
    assert not out[2].any()
    assert not out[3].any()
    assert np.allclose(out[4], np.sqrt(0.5))


def test_finds_the_components_and_spends_the_budget():
    X = table(20000)
    with Ledger(Budget(1.5, 1e-4)) as ledger:
        pca = PrivatePCA(2, budget=BUDGET, row_norm=2.0).fit(X)
        assert ledger.charges == 1
        with pytest.raises(BudgetExceeded):
            PrivatePCA(n_components=2, budget=Budget(1.4, 1e-5), row_norm=2.0).fit(X)
        assert ledger.charges == 1
    assert np.allclose(np.abs(pca.components_), np.eye(5)[:2], atol=0.1)
    assert np.allclose(pca.components_ @ pca.components_.T, np.eye(2))
    assert (
        0.99 * BUDGET.epsilon <= pca.guarantee_.epsilon(BUDGET.delta) <= BUDGET.epsilon * (1 + 1e-9)
    )
    assert pca.release_.mechanism == "input-perturbation"
    assert not pca.reproducible_
    assert pca.transform(X).shape == (20000, 2)
    assert np.allclose(pca.inverse_transform(pca.transform(pca.components_)), pca.components_)
    assert list(pca.get_feature_names_out()) == ["privatepca0", "privatepca1"]


def test_a_matrix_that_memory_does_not_hold_is_refused_before_anything_is_spent():
    with Ledger(BUDGET) as ledger:
        with pytest.raises(InvalidArgument, match="`X` has 8193 columns") as refused:
            PrivatePCA(n_components=1, budget=BUDGET, row_norm=1.0).fit(np.zeros((2, 8193)))
        assert ledger.charges == 0
    assert "principal_subspace(8193, k)" in str(refused.value)
