"""James-Stein shrinking of a wrapped Gaussian: post-processing, never worse on average, and what is
stated about its error.
"""

from __future__ import annotations

import numpy as np
import pytest

import riemdp as R
from riemdp.mechanisms import WrappedGaussian
from riemdp.mechanisms._error_law import gaussian_law, shrunk_law

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


@pytest.mark.parametrize(
    ("dim", "radius", "sigma"), [(3, 1.0, 0.3), (6, 1.0, 0.02), (10, 2.0, 0.1)]
)
def test_the_law_of_a_shrunk_release_on_hyperbolic_space(dim, radius, sigma):
    """Beside direct simulation of values at many distances from the centre."""
    space, rng = R.Lorentz(dim + 1), np.random.default_rng(0)
    law = shrunk_law(space, radius, gaussian_law(dim, sigma, exact=False))
    assert law is not None
    noise = sigma * rng.normal(size=(40_000, dim))
    squares, quantiles = [], []
    for length in radius * np.linspace(0.0, 1.0, 13):
        y = length * np.eye(dim)[0]
        noisy = y + noise
        norm = np.linalg.norm(noisy, axis=1, keepdims=True)
        kept = np.maximum(0.0, 1.0 - (dim - 2) * sigma**2 / norm**2)
        ends = [
            space.from_coordinates(space.origin, v)
            for v in (y, np.minimum(kept, radius / norm) * noisy)
        ]
        error = np.asarray(space.dist(*(space.exp(space.origin, v) for v in ends)))
        squares.append(np.mean(error**2))
        quantiles.append(np.quantile(error, 0.9))
    assert law.mean_square == pytest.approx(max(squares), rel=0.03)
    assert law.quantile(0.9) == pytest.approx(max(quantiles), rel=0.02)


def test_a_mean_without_a_ball_states_no_exact_error():
    X = np.random.default_rng(0).normal(size=(400, 3))
    curved = R.Lorentz(4)
    on_it = curved.exp(curved.origin, curved.from_coordinates(curved.origin, X))
    kinds = {}
    for name, space, records in (
        ("flat", R.Euclidean(3), X),
        ("curved", curved, np.asarray(on_it)),
    ):
        for budget in (R.Budget(1.0, 1e-6), R.Budget(4.0)):
            ball = R.AdaptiveBall(outer=R.Ball(space.origin, 20.0))
            release = R.private_frechet_mean(space, records, ball=ball, budget=budget, rng=0)
            kinds[name, budget.delta > 0] = release.error_law.kind
    bounds = {("flat", True), ("flat", False), ("curved", False)}
    assert {k for k, kind in kinds.items() if kind == "upper bound"} == bounds
    assert kinds["curved", True] == "estimate"


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
