"""Draws as exponentials: accurate, positive definite, isotropic."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from scipy import stats

import riemdp as R
from riemdp.randomness import noise_source
from riemdp.sampling import _exponential as ex
from riemdp.sampling import riemannian_laplace
from tests.statistical import ALPHA, gaussian_p_value, ks_p_value


def symmetric(k, radius, count=4, seed=0):
    """Symmetric matrices with this spectral radius."""
    s = np.random.default_rng(seed).standard_normal((count, k, k))
    s = s + np.swapaxes(s, 1, 2)
    return s * (radius / np.max(np.abs(np.linalg.eigvalsh(s)), axis=1))[:, None, None]


def exactly(s):
    """exp(s) with 40 digits, and its extreme eigenvalues."""
    with mpmath.workdps(40):
        w, q = mpmath.eigsy(mpmath.matrix(s.tolist()))
        x = q * mpmath.diag([mpmath.exp(a) for a in w]) * q.T
        return x, mpmath.exp(min(w)), mpmath.exp(max(w))


def errors(s, computed):
    """(error relative to the norm, error of the smallest eigenvalue relative to it and to the
    condition number).
    """
    x, low, high = exactly(s)
    k = len(s)
    with mpmath.workdps(40):
        entry = (
            max(
                abs(mpmath.mpf(float(computed[i, j])) - x[i, j]) for i in range(k) for j in range(k)
            )
            / high
        )
        smallest = mpmath.eigsy(mpmath.matrix(computed.tolist()), eigvals_only=True)[0]
        return float(entry), float(abs(smallest / low - 1) * low / high)


@pytest.mark.parametrize("radius", [0.0, 1e-9, 0.3, 3.0, 14.0])
def test_exponentials_beside_forty_digits(radius):
    for k in (1, 2, 5):
        s = symmetric(k, radius, 1, seed=k)
        x = ex.exponential_by_eigenvectors(s, 0.0)
        assert np.array_equal(x, np.swapaxes(x, 1, 2))
        # rounding of an eigenvalue of size `radius` moves exp by so much
        assert max(errors(s[0], x[0])) <= 4e-15 * (1 + radius)


@pytest.mark.parametrize("size", [1e-300, 1e-8, 1.0, 30.0, 1e3, 1e6, 1e200])
def test_every_size_of_noise_gives_a_positive_definite_matrix(size):
    for k in (1, 3):
        x = ex.exponentials_of_directions(np.zeros((k, k)), np.full(40, size), noise_source(1))
        assert np.all(np.isfinite(x))
        assert np.array_equal(x, np.swapaxes(x, 1, 2))
        assert np.all(np.linalg.eigvalsh(x) > 0)


def test_many_draws_at_ten_rows_are_isotropic_with_the_radius_of_the_distribution():
    """From several blocks: coordinates of log(x) - log(eta) over their length, times a chi
    variable, are normal.
    """
    manifold, s, n = R.SPDLogEuclidean(10), 0.02, 4200
    eta = np.diag(np.linspace(0.5, 3.0, 10))
    x = np.asarray(riemannian_laplace(3, manifold, eta, s, (n,)))
    w, q = np.linalg.eigh(x)
    logs = (q * np.log(w)[:, None, :]) @ np.swapaxes(q, 1, 2) - np.diag(
        np.log(np.linspace(0.5, 3.0, 10))
    )
    rows, columns = np.triu_indices(10, 1)
    c = np.concatenate(
        [logs[:, np.arange(10), np.arange(10)], np.sqrt(2) * logs[:, rows, columns]], axis=1
    )
    length = np.linalg.norm(c, axis=1)
    assert ks_p_value(length, lambda r: stats.gamma.cdf(r, 55, scale=s)) > ALPHA
    assert ks_p_value(1.1 * length, lambda r: stats.gamma.cdf(r, 55, scale=s)) < ALPHA
    chi = np.sqrt(np.random.default_rng(1).chisquare(55, n))
    normal = c / length[:, None] * chi[:, None]
    assert gaussian_p_value(normal, 1.0) > ALPHA
    # planted: entries off the diagonal that stand twice and are counted once
    normal[:, 10:] *= np.sqrt(2)
    assert gaussian_p_value(normal / np.sqrt(np.mean(normal**2)), 1.0) < ALPHA
