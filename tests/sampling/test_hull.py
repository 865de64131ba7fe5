"""The tangent hull dominates, and gives exact draws."""

from __future__ import annotations

import numpy as np
import pytest

from riemdp.randomness import noise_source
from tests.sampling.oracles import cdf_from_grid
from tests.seam import Means
from tests.statistical import ALPHA, ks_p_value

HULLS = {
    "circle": lambda: Means.sphere_hull(1, 0.3, np.pi),
    "S2": lambda: Means.sphere_hull(2, 0.2, np.pi),
    "S50": lambda: Means.sphere_hull(50, 0.01, np.pi),
    "S999 wide": lambda: Means.sphere_hull(999, 1e3, np.pi),
    "S3 cut": lambda: Means.sphere_hull(3, 5.0, 0.4),
    "flat cut": lambda: Means.flat_hull(6, 0.5, 1.0),
    "flat line cut": lambda: Means.flat_hull(1, 0.5, 1.0),
    "H4 cut, no distribution without": lambda: Means.hyperbolic_hull(4, 2.0, 3.0),
    "affine 2": lambda: Means.affine_proposal(2, 1.0, np.inf).hull,
    "affine 11": lambda: Means.affine_proposal(11, 0.05, np.inf).hull,
    "affine 30 tiny": lambda: Means.affine_proposal(30, 1e-6, np.inf).hull,
    "affine 3 cut": lambda: Means.affine_proposal(3, 9.0, 2.0).hull,
    "grassmann 5 2": lambda: Means.grassmann_proposal(5, 2, 0.3, np.inf).hull,
    "grassmann 2 1": lambda: Means.grassmann_proposal(2, 1, 0.3, np.inf).hull,
}


@pytest.mark.parametrize("name", HULLS)
def test_hull_dominates_and_draws_follow_the_density(name):
    hull = HULLS[name]()
    x = hull.draw(noise_source(7), 20_000)
    grid = np.linspace(
        x.min() * 0.2,
        x.max() + 0.9 * (hull._right[-1] - x.max() if np.isfinite(hull._right[-1]) else x.std()),
        4001,
    )
    piece = np.clip(np.searchsorted(hull._right, grid), 0, hull._right.size - 1)
    upper = hull._value[piece] + hull._slope[piece] * (grid - hull._x[piece])
    assert np.all(hull.log_f(grid) < upper)
    assert ks_p_value(x, cdf_from_grid(grid, hull.log_f(grid))) > ALPHA
    assert hull.accepted / hull.evaluations > 0.85
    # planted fault: a density that is a little wider
    assert ks_p_value(1.08 * x, cdf_from_grid(grid, hull.log_f(grid))) < ALPHA


def test_a_density_that_is_not_log_concave_is_caught_not_sampled():
    bumpy = Means.TangentHull(
        lambda x: -x + 3 * np.sin(3 * x), lambda x: -1 + 9 * np.cos(3 * x), 0.0, np.inf
    )
    with pytest.raises(ArithmeticError, match="does not dominate"):
        bumpy.draw(noise_source(1), 10_000)


def test_a_density_that_does_not_decay_is_refused():
    with pytest.raises(ArithmeticError, match="does not decay"):
        Means.TangentHull(lambda x: 0.1 * x, lambda x: 0.1, 0.0, np.inf)


@pytest.mark.parametrize("name", HULLS)
def test_one_draw_is_the_first_of_the_same_uniforms(name):
    hull = HULLS[name]()
    for seed in range(400):
        u, v, w = noise_source(seed).uniforms((3, 16))
        x, upper = hull._propose(u, v)
        kept = np.log(w) < hull.log_f(x) - upper
        one = hull.draw(noise_source(seed), 1)
        assert one.shape == (1,)
        np.testing.assert_allclose(one[0], x[kept][0], rtol=1e-12)


def test_one_draw_follows_the_density():
    hull = HULLS["S2"]()
    source = noise_source(8)
    x = np.concatenate([hull.draw(source, 1) for _ in range(5000)])
    grid = np.linspace(1e-9, np.pi, 20_001)
    distribution = cdf_from_grid(grid, hull.log_f(grid))
    assert ks_p_value(x, distribution) > ALPHA
    assert ks_p_value(1.2 * x, distribution) < ALPHA
    bumpy = Means.TangentHull(
        lambda x: -x + 3 * np.sin(3 * x), lambda x: -1 + 9 * np.cos(3 * x), 0.0, np.inf
    )
    with pytest.raises(ArithmeticError, match="does not dominate"):
        [bumpy.draw(source, 1) for _ in range(200)]
