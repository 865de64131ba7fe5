"""Spaces of matrices on NumPy arrays: the values that JAX gives, and the same bits of a record
wherever it stands and whatever stands beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from riemdp import _linalg as linalg
from riemdp.manifolds import (
    AbstractManifold,
    Grassmann,
    SPDAffineInvariant,
    SPDBuresWasserstein,
    SPDLogEuclidean,
    Stiefel,
)
from riemdp.manifolds._stiefel_log import log_numerical

SPACES = [
    SPDAffineInvariant(3),
    SPDAffineInvariant(11),
    SPDLogEuclidean(3),
    SPDBuresWasserstein(3),
    Grassmann(6, 2),
    Grassmann(5, 4),
    Stiefel(6, 2),
    Stiefel(3, 3),
    Stiefel(4, 4),
    Stiefel(4, 1),
]
over_spaces = pytest.mark.parametrize("space", SPACES, ids=repr)

# what a formula is given: one point p or many, and many points q, vectors v, arrays x,
# coordinates c and normals z
FORMULAS: dict[str, Callable[..., Any]] = {
    "exp": lambda m, p, q, v, x, c, z: m._exp(p, v),
    "log": lambda m, p, q, v, x, c, z: m._log(p, q),
    "log to one": lambda m, p, q, v, x, c, z: m._log(q, p),
    "dist": lambda m, p, q, v, x, c, z: m._dist(p, q),
    "squared_dist": lambda m, p, q, v, x, c, z: m._squared_dist(p, q),
    "inner": lambda m, p, q, v, x, c, z: m._inner(p, v, v + x),
    "norm": lambda m, p, q, v, x, c, z: m._norm(p, v),
    "transport": lambda m, p, q, v, x, c, z: m._transport(p, q, v),
    "retract": lambda m, p, q, v, x, c, z: m._retract(p, v),
    "project": lambda m, p, q, v, x, c, z: m._project(x),
    "repair": lambda m, p, q, v, x, c, z: m._repair(x),
    "to_tangent": lambda m, p, q, v, x, c, z: m._to_tangent(p, x),
    "egrad_to_rgrad": lambda m, p, q, v, x, c, z: m._egrad_to_rgrad(p, x),
    "belongs": lambda m, p, q, v, x, c, z: m._belongs(q, 1e-8),
    "is_tangent": lambda m, p, q, v, x, c, z: m._is_tangent(p, v, 1e-8),
    "to_coordinates": lambda m, p, q, v, x, c, z: m._to_coordinates(p, v),
    "from_coordinates": lambda m, p, q, v, x, c, z: m._from_coordinates(p, c),
    "log_coordinates": lambda m, p, q, v, x, c, z: m._log_coordinates(p, q),
    "exp_coordinates": lambda m, p, q, v, x, c, z: m._exp_coordinates(p, c),
    "tangent_from_normals": lambda m, p, q, v, x, c, z: m._tangent_from_normals(p, z),
    "injectivity_radius": lambda m, p, q, v, x, c, z: m._injectivity_radius(q),
    "log_volume_density": lambda m, p, q, v, x, c, z: m._log_volume_density(p, v),
    "log_scales": lambda m, p, q, v, x, c, z: m._log_scales(q),
    "to_origin": lambda m, p, q, v, x, c, z: m._to_origin(p, q),
    "from_origin": lambda m, p, q, v, x, c, z: m._from_origin(p, q),
}
BAD = (np.nan, np.inf, -np.inf, 1e308, 1e-310, 0.0)


def inputs(space: AbstractManifold, n: int, one: bool) -> list[np.ndarray]:
    rng = np.random.default_rng(n)
    p = space._random_point(rng, () if one else (n,))
    c = rng.normal(size=(n, space.dim)) * 0.7 / space.dim**0.5
    v = space._from_coordinates(p, c)
    x = rng.normal(size=(n, *space.shape))
    z = rng.normal(size=(n, space.noise_size))
    return [p, np.ascontiguousarray(space._exp(p, v)), np.ascontiguousarray(v), x, c, z]


def results(space: AbstractManifold, given: list[Any]) -> dict[str, Any]:
    found = {}
    with np.errstate(all="ignore"):
        for name, formula in FORMULAS.items():
            try:
                found[name] = formula(space, *given)
            except NotImplementedError:
                assert isinstance(space, Stiefel)
                assert 1 < space.r < space.m
    return found


@over_spaces
@pytest.mark.parametrize("one", [True, False])
def test_a_record_gives_the_same_bits_beside_what_is_no_point(space, one):
    n = 64
    given = inputs(space, n, one)
    whole = results(space, given)
    spoiled = [np.array(x) for x in given]
    rng, others = np.random.default_rng(1), np.ones(n, dtype=bool)
    for i, value in enumerate(BAD):
        for x in spoiled[one:]:
            x[10 * i] = value
            x[10 * i + 1].reshape(-1)[rng.integers(x[0].size)] = value
        others[10 * i : 10 * i + 2] = False
    for name, found in results(space, spoiled).items():
        np.testing.assert_array_equal(found[others], whole[name][others], err_msg=name)


def test_the_numerical_logarithm_is_that_of_jax_and_of_each_pair_by_itself():
    space, rng = Stiefel(5, 3), np.random.default_rng(0)
    p = space._random_point(rng, (6,))
    q = space._exp(p, space._to_tangent(p, 0.4 * rng.normal(size=(6, 5, 3))))
    q[4] = np.nan
    ours = log_numerical(space, p, q, 1e-10, 50)
    theirs = log_numerical(space, jnp.asarray(p), jnp.asarray(q), 1e-10, 50)
    assert all(isinstance(part, np.ndarray) for part in ours)
    assert all(isinstance(part, jax.Array) for part in theirs)
    assert ours.shortest.tolist() == [True, True, True, True, False, True]
    np.testing.assert_array_equal(ours.converged, theirs.converged)
    np.testing.assert_allclose(ours.value, theirs.value, atol=1e-9)
    assert ours.residual[4] != ours.residual[4]
    for i in range(6):
        alone = log_numerical(space, p[i], q[i], 1e-10, 50)
        for part, whole in zip(alone, ours, strict=True):
            np.testing.assert_array_equal(part, whole[i])


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
