"""`frechet_mean(groups=)`: the mean of people's means, by the folding of the private means."""

from __future__ import annotations

import numpy as np
import pytest

import riemdp as R
from tests.seam import Sums

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


def test_a_point_has_the_same_bits_alone_and_beside_others():
    # alone in a block, rows once lay otherwise in memory, where NumPy adds in another order
    sphere, rng = R.Sphere(7), np.random.default_rng(0)
    points = rng.normal(size=(40, 5, 7)) + 2.0 * np.eye(7)[0]
    points /= np.linalg.norm(points, axis=2, keepdims=True)
    others, who = points[:2].reshape(10, 7), np.repeat([0, 1, 2], 5)
    for own in points:
        alone = Sums.people(sphere, own, who[:5]).points[0]
        beside = Sums.people(sphere, np.concatenate([own, others]), who).points[0]
        assert alone.tobytes() == beside.tobytes()


def test_what_cannot_be_used_is_refused():
    with pytest.raises(R.InvalidArgument, match="`weights`"):
        R.frechet_mean(SPACE, X, groups=WHO, weights=np.ones(9))
    with pytest.raises(R.InvalidArgument, match="`groups`"):
        R.frechet_mean(SPACE, X, groups=WHO[:-1])
    with pytest.raises(R.InvalidArgument, match="1 of 9 records"):
        R.frechet_mean(SPACE, np.where(np.arange(9)[:, None, None] == 3, np.nan, X), groups=WHO)
