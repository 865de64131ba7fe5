"""James-Stein shrinking of a wrapped Gaussian: post-processing, never worse on average, and what is
stated about its error.
"""

from __future__ import annotations

import numpy as np
import pytest

import riemdp as R
from riemdp.mechanisms import WrappedGaussian

BUDGET = R.Budget(1.0, 1e-5)


def squared_errors(shrink, value, count=600):
    """Squared tangent errors at dimension 6."""
    manifold = R.Euclidean(6)
    m = WrappedGaussian(manifold, np.zeros(6), sensitivity=0.1, budget=BUDGET, shrink=shrink)
    x = np.stack([np.asarray(m.release(value, i).value) for i in range(count)])
    return np.sum((x - value) ** 2, axis=1), m


@pytest.mark.parametrize("distance", [0.0, 0.5, 1.0, 5.0])
def test_shrinking_is_never_worse_on_average(distance):
    value = distance * np.eye(6)[0]
    plain, m = squared_errors(False, value)
    shrunk, s = squared_errors(True, value)
    se = np.std(shrunk - plain) / np.sqrt(plain.size)
    assert np.mean(shrunk) <= np.mean(plain) + 4 * se
    assert np.mean(shrunk) <= s.error_law.mean_square * 1.1
    assert s.error_law.mean_square == m.error_law.mean_square
    assert s.error_law.kind == "upper bound"
    for q in (0.5, 0.9, 0.99):
        assert np.mean(np.sqrt(shrunk) <= s.error_law.quantile(q)) >= q - 0.05
    if distance == 0.0:  # the risk of the positive-part estimate at 0 is below 2 / d of the noise's
        assert np.mean(shrunk) < 2 / 6 * np.mean(plain)


def test_shrinking_looks_at_the_released_vector_alone():
    """Plain releases of two values that coincide are shrunk to one point."""
    manifold, base = R.SPDAffineInvariant(2), np.eye(2)
    kwargs = {"sensitivity": 0.1, "budget": BUDGET}
    plain = WrappedGaussian(manifold, base, **kwargs)
    shrunk = WrappedGaussian(manifold, base, shrink=True, **kwargs)
    assert shrunk.scale == plain.scale
    assert shrunk.guarantee == plain.guarantee
    for seed in range(5):
        y = manifold.log(base, plain.release(1.3 * base, seed).value)
        square = float(manifold.inner(base, y, y))
        keep = max(0.0, 1 - (manifold.dim - 2) * plain.sigma**2 / square)
        expected = manifold.exp(base, keep * np.asarray(y))
        released = shrunk.release(1.3 * base, seed)
        np.testing.assert_allclose(released.value, expected, rtol=1e-9)
        assert "shrunk" in released.details


def test_nothing_is_claimed_where_nothing_is_known():
    manifold = R.Lorentz(5)
    ball = R.Ball(manifold.origin, 1.0)
    kwargs = {"sensitivity": 0.1, "budget": BUDGET, "ball": ball}
    m = WrappedGaussian(manifold, manifold.origin, shrink=True, **kwargs)
    assert m.error_law is None
    assert m.release(manifold.origin, 1).details["error"] == "no formula"
    small = R.Euclidean(2)
    same = WrappedGaussian(small, np.zeros(2), sensitivity=0.1, budget=BUDGET, shrink=True)
    assert same.error_law.kind == "exact"  # nothing is shrunk in two dimensions


def test_a_private_mean_may_be_shrunk():
    """The same noise, then the shrinking of the mechanism; nothing else can be shrunk."""
    space, ball = R.SPDLogEuclidean(3), R.Ball(np.eye(3), 2.0)
    X = np.tile(1.2 * np.eye(3), (100, 1, 1))
    plain, shrunk = (
        R.private_frechet_mean(
            space, X, ball, BUDGET, mechanism="wrapped-gaussian", shrink=shrink, rng=1
        )
        for shrink in (False, True)
    )
    assert (shrunk.scale, shrunk.guarantee) == (plain.scale, plain.guarantee)
    y, v = (np.asarray(space.log(ball.center, r.value)) for r in (plain, shrunk))
    length = float(space.norm(ball.center, y))
    keep = max(0.0, 1 - (space.dim - 2) * plain.scale**2 / length**2)
    assert 0 < keep < 1
    np.testing.assert_allclose(v, keep * y, rtol=1e-9, atol=1e-12)
    with pytest.raises(R.InvalidArgument, match="`shrink`"):
        R.private_frechet_mean(
            space, X, ball, BUDGET, mechanism="wrapped-laplace", shrink=True, rng=1
        )
