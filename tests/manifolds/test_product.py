"""Products: sums over the factors, concatenated coordinates, checks of tuples."""

from __future__ import annotations

import numpy as np
import pytest

from riemdp import InvalidArgument
from riemdp.manifolds import Euclidean, Lorentz, Product, Sphere

S, E = Sphere(3), Euclidean(2)
M = Product(S, E)


@pytest.fixture(scope="module")
def drawn() -> tuple:
    p = M.random_point(0, (5,))
    return p, M.random_point(1, (5,)), M.tangent_normal(2, p, 0.5)


def test_operations_act_factor_by_factor(drawn: tuple) -> None:
    p, q, v = drawn
    for found, a, b in (
        (M.exp(p, v), S.exp(p[0], v[0]), E.exp(p[1], v[1])),
        (M.log(p, q), S.log(p[0], q[0]), E.log(p[1], q[1])),
        (M.transport(p, q, v), S.transport(p[0], q[0], v[0]), v[1]),
    ):
        assert isinstance(found, tuple)
        np.testing.assert_allclose(found[0], a, atol=1e-15)
        np.testing.assert_allclose(found[1], b, atol=1e-15)
    np.testing.assert_allclose(
        M.squared_dist(p, q), S.squared_dist(p[0], q[0]) + E.squared_dist(p[1], q[1]), rtol=1e-14
    )
    np.testing.assert_allclose(
        M.dist(p, q), np.hypot(S.dist(p[0], q[0]), E.dist(p[1], q[1])), rtol=1e-14
    )
    np.testing.assert_allclose(
        M.to_coordinates(p, v),
        np.concatenate([S.to_coordinates(p[0], v[0]), v[1]], axis=-1),
        atol=1e-15,
    )
    np.testing.assert_allclose(
        M.log_volume_density(p, v), S.log_volume_density(p[0], v[0]), rtol=1e-14
    )


def test_facts() -> None:
    assert M.shape == ((3,), (2,))
    assert (M.dim, M.noise_size) == (4, 5)
    assert M.curvature_bounds == (0.0, 1.0)
    assert Product(Lorentz(3), Lorentz(3)).curvature_bounds == (-1.0, 0.0)  # mixed planes are flat
    assert Product(Lorentz(3), S).curvature_bounds == (-1.0, 1.0)
    assert Product(S, S).curvature_bounds == (0.0, 1.0)
    assert Product(S).curvature_bounds == (1.0, 1.0)
    assert not M.is_hadamard
    assert Product(Lorentz(3), E).is_hadamard
    assert M.is_homogeneous
    np.testing.assert_allclose(M.injectivity_radius(M.origin), np.pi)


def test_products_nest() -> None:
    nested = Product(M, Euclidean())
    p = nested.origin
    v = nested.tangent_normal(0, p)
    np.testing.assert_allclose(
        nested.from_coordinates(p, nested.to_coordinates(p, v))[0][0], v[0][0], atol=1e-15
    )
    assert nested.to_coordinates(p, v).shape == (5,)
    assert float(nested.dist(p, p)) == 0.0


@pytest.mark.parametrize(
    ("point", "message"),
    [
        (np.zeros(5), "tuple of 2"),
        ((np.zeros(3),), "tuple of 2"),
        ((np.zeros(3), np.zeros(3)), r"`p\[1\]`"),
        ((np.zeros((4, 3)), np.zeros((5, 2))), "do not broadcast"),
    ],
)
def test_bad_points_are_named(point: object, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        M.dist(point, M.origin)
