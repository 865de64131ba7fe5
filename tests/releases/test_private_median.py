"""The private geometric median: gradients of length 1, noise, breakdown, refusals."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import riemdp
from riemdp import AdaptiveBall, Ball, Budget
from riemdp.privacy import gaussian_noise_multiplier
from tests.seam import Means
from tests.statistical import ALPHA, gaussian_p_value

BUDGET = Budget(1.0, 1e-6)
SPD = riemdp.SPDAffineInvariant(2)
SPACES = [
    SPD,
    riemdp.Product(riemdp.Euclidean(3), riemdp.SPDLogEuclidean(2), riemdp.Sphere(3)),
    riemdp.Product(riemdp.SPDBuresWasserstein(2), riemdp.Grassmann(4, 2), riemdp.Lorentz(3)),
]


def near(space, n, spread, key=0):
    v = space.tangent_normal(key, space.origin, spread, (n,))
    return jax.tree.map(np.array, space.exp(space.origin, v))


@pytest.mark.parametrize("space", SPACES, ids=repr)
def test_every_record_pulls_with_a_unit_vector(space):
    problem = riemdp.problems.geometric_median(space)
    w = near(space, 1, 0.3, 1)
    w = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), w)
    X = near(space, 6, 0.4)
    pulls = jax.jit(
        lambda X: jax.vmap(lambda x: space.norm(w, problem.riemannian_gradient(w, x)))(X)
    )
    np.testing.assert_allclose(pulls(X), 1.0, atol=1e-9)
    if space is not SPACES[-1]:
        assert riemdp.check_gradient(problem, w, jax.tree.map(lambda leaf: leaf[0], X)) < 1e-5


def test_the_noise_of_a_run_is_that_of_two_over_n():
    """Records that pull in no direction: what is released is the noise of the steps, which add
    independent Gaussians. Noise times 0.8 is noticed.
    """
    flat, n = riemdp.Euclidean(10), 400  # ten numbers a run
    search = AdaptiveBall(Ball(np.zeros(10), 1.0), smallest=0.1)
    X = np.full((n, 10), np.nan)
    releases = [
        riemdp.private_geometric_median(flat, X, budget=BUDGET, ball=search, rng=i)
        for i in range(50)
    ]
    rates = Means.step_sizes(flat, search)
    sigma = 2 / n * gaussian_noise_multiplier(BUDGET, steps=len(rates))
    assert sigma <= releases[0].scale < 1.001 * sigma
    ends = np.array([release.value for release in releases])
    spread = sigma * float(np.linalg.norm(rates))
    assert gaussian_p_value(ends, spread) > ALPHA
    assert gaussian_p_value(0.8 * ends, spread) < ALPHA


@pytest.mark.parametrize("space", [SPD], ids=repr)
def test_gross_outliers_move_the_median_little_and_the_mean_far(space):
    n, outliers = 3000, 900
    X = near(space, n, 0.3)
    v = space.from_coordinates(space.origin, np.eye(space.dim)[0])
    distance = 2.5 if isinstance(space, riemdp.Sphere) else 20.0
    X[:outliers] = np.asarray(space.exp(space.origin, distance * v))
    budget = Budget(3.0, 1e-6)
    median = riemdp.private_geometric_median(space, X, budget=budget, rng=1)
    mean = riemdp.frechet_mean(space, X, tol=1e-6).value if space.is_hadamard else None
    assert float(space.dist(space.origin, median.value)) < 0.5
    if mean is not None:
        assert float(space.dist(space.origin, mean)) > 4.0
