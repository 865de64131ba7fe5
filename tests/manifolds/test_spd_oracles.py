"""SPD matrices under three metrics against SciPy and 60-digit arithmetic."""

from __future__ import annotations

import pytest

from riemdp.manifolds import SPDAffineInvariant, SPDBuresWasserstein, SPDLogEuclidean

from . import spd_oracles as oracle

SPACES = {
    "affine-invariant": (SPDAffineInvariant(4), oracle.Affine),
    "log-euclidean": (SPDLogEuclidean(4), oracle.LogEuclidean),
    "bures-wasserstein": (SPDBuresWasserstein(4), oracle.Bures),
}


@pytest.mark.parametrize("metric", SPACES)
def test_operations_agree_with_scipy(metric):
    oracle.compare_with_scipy(*SPACES[metric])


@pytest.mark.parametrize(
    ("metric", "condition", "far", "close"),
    [
        ("affine-invariant", 10.0, 1e-13, 1e-13),
        ("affine-invariant", 1e6, 1e-7, 1e-10),
        ("log-euclidean", 10.0, 1e-12, 1e-12),
        ("log-euclidean", 1e8, 1e-7, 1e-7),
        ("bures-wasserstein", 10.0, 1e-12, 1e-12),
        ("bures-wasserstein", 1e6, 1e-7, 1e-7),
    ],
)
def test_accuracy_against_60_digits(metric, condition, far, close):
    """With condition number 1e6 of both points the spectrum of p^-1 q spans 1e12, of which eps is
    2e-4 of the smallest eigenvalue; of close points the condition of one decides.
    """
    errors = oracle.relative_errors(SPACES[metric][0], metric, condition)
    assert errors["dist"] < far
    assert errors["log"] < far
    assert errors["close"] < close
