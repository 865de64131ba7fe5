"""Private principal eigenvector: sensitivities by brute force, noise of input perturbation."""

from __future__ import annotations

import numpy as np
import pytest

import riemdp
from riemdp import Budget, InvalidArgument, Ledger, gaussian
from riemdp.optimizers import private_principal_eigenvector
from riemdp.report import privacy_report
from tests.seam import Sums, plant
from tests.statistical import ALPHA, gaussian_p_value

BUDGET = Budget(1.0, 1e-6)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(4000, 5)) * np.array([1.0, 0.6, 0.3, 0.3, 0.3])
X /= np.linalg.norm(X, axis=1).max()


def test_the_eigenvector_is_found_within_its_budget():
    r = private_principal_eigenvector(X, Budget(20.0, 1e-6), rng=1)
    assert 19.8 <= r.guarantee.epsilon(1e-6) <= 20.0
    values, w = np.linalg.eigvalsh(X.T @ X / len(X)), np.asarray(r.value)
    assert values[-1] - np.mean((X @ w) ** 2) < 1e-3
    assert np.linalg.norm(r.value) == pytest.approx(1.0)


def test_sensitivities_hold_and_are_attained():
    """Input perturbation sqrt 2 R^2 (printed: 2), iterative methods 2 R^2, over random pairs and
    the worst one.
    """
    z, y = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in RNG.normal(size=(2, 4000, 3)))
    w = RNG.normal(size=(4000, 3))
    w /= np.linalg.norm(w, axis=1, keepdims=True)
    gap = z[:, :, None] * z[:, None] - y[:, :, None] * y[:, None]
    assert np.linalg.norm(gap, axis=(1, 2)).max() <= np.sqrt(2) + 1e-12
    assert np.linalg.norm(2 * np.einsum("nij,nj->ni", gap, w), axis=1).max() <= 2 + 1e-12
    worst = np.outer([1, 0], [1, 0]) - np.outer([0, 1], [0, 1])
    assert np.linalg.norm(worst) == pytest.approx(np.sqrt(2))


@pytest.mark.slow
def test_input_noise_is_isotropic_and_scaled_noise_fails(monkeypatch):
    """The matrix handed to eigh minus the covariance, in orthonormal coordinates of symmetric
    matrices.
    """
    seen = []

    def noted(coordinates, dim):
        space = riemdp.SPDAffineInvariant(dim)
        seen.append(np.asarray(space.from_coordinates(np.eye(dim), coordinates)))
        return Sums.spectrum(coordinates, dim)

    plant(monkeypatch, "spectrum of a moment", noted)
    sigmas = [private_principal_eigenvector(X[:40], BUDGET, rng=k).sigma for k in range(1500)]
    sigma = min(sigmas)
    noise = np.array(seen) - X[:40].T @ X[:40] / 40
    i, j = np.triu_indices(5)
    coordinates = noise[:, i, j] * np.where(i == j, 1.0, np.sqrt(2.0))
    assert sigma == pytest.approx(np.sqrt(2) / 40 / gaussian_mu(), rel=1e-6)
    assert gaussian_p_value(coordinates, sigma) > ALPHA
    assert gaussian_p_value(0.8 * coordinates, sigma) < ALPHA


def gaussian_mu():
    """mu whose Gaussian has the budget's epsilon, by bisection on the guarantee itself."""
    low, mu, high = 1e-3, 1.0, 10.0
    for _ in range(80):
        mu = (low + high) / 2
        low, high = (mu, high) if gaussian(1 / mu).epsilon(1e-6) < 1.0 else (low, mu)
    return mu


# ------------------------------------------------------------------------------------- people
def table() -> tuple[np.ndarray, np.ndarray]:
    """300 people with one to three rows along the first axis, and one with 900 along the last."""
    people = np.repeat(np.arange(300), 1 + np.arange(300) % 3)
    rows = np.zeros((len(people) + 900, 5))
    rows[: len(people), 0], rows[len(people) :, 4] = 0.9, 5.0
    return rows, np.append(people, np.full(900, 300))


def test_a_person_counts_once():
    rows, people = table()
    budget = Budget(30.0, 1e-6)
    with Ledger(budget) as ledger:
        found = private_principal_eigenvector(rows, budget, rng=1, groups=people)
    assert abs(found.value[0]) > 0.99
    assert ledger.spent.unit == found.guarantee.unit == "person"
    assert ledger.charges == 1
    assert found.details["people"] == 301
    alone = private_principal_eigenvector(rows, budget, rng=1)
    assert abs(alone.value[4]) > 0.99  # most rows are those of one person
    # nothing public tells how many rows there are
    few = private_principal_eigenvector(
        rows[: len(people) - 899], budget, rng=1, groups=people[:-899]
    )
    assert (few.sigma, few.guarantee, few.gradient_calls) == (
        found.sigma,
        found.guarantee,
        found.gradient_calls,
    )
    for name in ("sensitivity", "people", "noise_multiplier"):
        assert few.details[name] == found.details[name]


def test_the_noise_of_people_is_made_for_their_number():
    rows, people = table()
    found = private_principal_eigenvector(rows, BUDGET, rng=1, groups=people)
    assert found.sigma == pytest.approx(np.sqrt(2) / 301 / gaussian_mu(), rel=1e-6)
    assert "one matrix each" in dict(privacy_report(found).rows)["Made from"]
    with Ledger(Budget(9.0, 1e-5)) as ledger, pytest.raises(InvalidArgument, match="`groups`"):
        private_principal_eigenvector(rows, BUDGET, groups=people[:-1])
    assert ledger.charges == 0
