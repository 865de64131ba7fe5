"""`frechet_mean(groups=)`: the mean of people's means, by the folding of the private means."""

from __future__ import annotations

import numpy as np
import pytest

import riemdp as R

SPACE = R.SPDAffineInvariant(2)
X = np.asarray(SPACE.random_point(1, (9,)))
WHO = np.array(["a", "b", "a", "c", "a", "a", "b", "a", "a"])


def test_every_person_counts_once():
    own = [np.asarray(R.frechet_mean(SPACE, X[name == WHO]).value) for name in "abc"]
    wanted = R.frechet_mean(SPACE, np.stack(own)).value
    found = R.frechet_mean(SPACE, X, groups=WHO)
    assert found.converged
    assert float(SPACE.dist(found.value, wanted)) < 1e-6
    assert float(SPACE.dist(found.value, R.frechet_mean(SPACE, X).value)) > 0.01


def test_what_cannot_be_used_is_refused():
    with pytest.raises(R.InvalidArgument, match="`weights`"):
        R.frechet_mean(SPACE, X, groups=WHO, weights=np.ones(9))
    with pytest.raises(R.InvalidArgument, match="`groups`"):
        R.frechet_mean(SPACE, X, groups=WHO[:-1])
    with pytest.raises(R.InvalidArgument, match="1 of 9 records"):
        R.frechet_mean(SPACE, np.where(np.arange(9)[:, None, None] == 3, np.nan, X), groups=WHO)
