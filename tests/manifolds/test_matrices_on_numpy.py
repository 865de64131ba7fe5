"""Decompositions of stacks on NumPy arrays: each matrix by itself, whatever stands beside it."""

from __future__ import annotations

import numpy as np
import pytest

from riemdp import _linalg as linalg


# ------------------------------------------------------------------------------------------------
# decompositions of stacks
@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 11, 40])
def test_triangular_inverses_are_as_exact_as_lapacks(k):
    g = np.random.default_rng(k).normal(size=(20, k, 2 * k))
    lower = np.linalg.cholesky(g @ g.swapaxes(-1, -2))
    inverse, eye = linalg.inverse_lower(lower), np.eye(k)
    error = np.abs(inverse @ lower - eye).max()
    assert error <= 2.0 * max(np.abs(np.linalg.inv(lower) @ lower - eye).max(), 2.0**-52)
    assert np.all(np.triu(inverse, 1) == 0.0)
    np.testing.assert_array_equal(linalg.inverse_lower(lower[7]), inverse[7])


def test_what_has_no_decomposition_is_nan_and_changes_no_other():
    rng = np.random.default_rng(0)
    a = rng.normal(size=(4, 5, 3, 3))
    a = a @ a.swapaxes(-1, -2)
    b = a.copy()
    b[1, 2], b[3, 1, 0, 0], b[2, 2] = -np.eye(3), np.nan, 0.0
    others = np.ones((4, 5), dtype=bool)
    others[1, 2] = others[3, 1] = others[2, 2] = False
    given = rng.normal(size=(3, 2))
    for of in (linalg.cholesky, lambda m: linalg.solve(m, given)):
        found, alone = of(b), of(a)
        np.testing.assert_array_equal(found[others], alone[others])
        assert np.isnan(found[2, 2]).all()
        assert np.isnan(found[3, 1]).all()
    assert np.isnan(linalg.cholesky(b)[1, 2]).all()
    assert linalg.eigh(np.zeros((0, 3, 3)))[0].shape == (0, 3)


def test_the_upper_half_is_not_read():
    a = np.eye(3) + 0.1
    b = np.where(np.triu(np.ones((3, 3)), 1) > 0, np.nan, a)
    for of in (lambda m: linalg.eigh(m)[1], linalg.eigvalsh, linalg.cholesky):
        np.testing.assert_array_equal(of(b), of(a))
