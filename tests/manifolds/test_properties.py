"""Every space of the table has the properties of a Riemannian manifold, at drawn points (the
functions behind `check`).
"""

from __future__ import annotations

import copy
import pickle
from typing import Any

import jax
import numpy as np
import pytest

from riemdp import InvalidArgument
from riemdp.manifolds import (
    Euclidean,
    Grassmann,
    Lorentz,
    PoincareBall,
    Product,
    Sphere,
    Stiefel,
    check,
)
from riemdp.manifolds._properties import PROPERTIES

from .cases import Case, over_cases

# These two recompile every formula, which is most of the time of a check; the quick run leaves them
# to `make test-slow`.
_RECOMPILING = ("batching", "compiling")
_QUICK = [name for name in PROPERTIES if name not in _RECOMPILING]


@over_cases()
def test_every_property_holds(case: Case) -> None:
    for key in (0, 20_261_128):
        report = check(
            case.manifold,
            key=key,
            radius=case.radius,
            tolerances=case.tolerances,
            properties=_QUICK,
        )
        assert report.ok, str(report)
        assert set(report.not_offered) == case.not_offered
    assert case.manifold.transport_is_parallel == case.parallel


@over_cases(where="has_log")
def test_coordinates_of_logarithms_are_the_logarithms_coordinates(case: Case) -> None:
    m = case.manifold
    p = m.random_point(1, (4,))
    v = m.tangent_normal(2, p)
    length = m.norm(p, v)
    size = np.array([1e-9, 0.05, 0.3, 0.6]) * min(1.0, case.radius or 1.0) / length
    v = jax.tree.map(lambda x: x * size.reshape((-1,) + (1,) * (x.ndim - 1)), v)
    q = m.exp(p, v)
    c = m._log_coordinates(p, q)
    np.testing.assert_allclose(c, m.to_coordinates(p, m.log(p, q)), rtol=0, atol=1e-9)
    end = m._exp_coordinates(p, c)
    for ours, theirs in zip(jax.tree.leaves(end), jax.tree.leaves(q), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-8)


@over_cases()
def test_shapes_follow_the_batch(case: Case) -> None:
    m = case.manifold
    p = m.random_point(1, (5,))
    v = m.tangent_normal(2, p)
    lead = [x.shape[:1] for x in jax.tree.leaves((p, v))]
    assert lead == [(5,)] * len(lead)
    assert all(x.dtype == np.float64 for x in jax.tree.leaves((p, v)))
    assert m.to_coordinates(p, v).shape == (5, m.dim)
    assert m.norm(p, v).shape == m.injectivity_radius(p).shape == m.belongs(p).shape == (5,)


@over_cases()
def test_bad_arguments_are_named(case: Case) -> None:
    m = case.manifold
    p = m.origin
    with pytest.raises(InvalidArgument, match="`q"):
        m.transport(p, jax.tree.map(lambda x: np.zeros(7), p), p)
    with pytest.raises(InvalidArgument, match="`v"):
        m.exp(p, jax.tree.map(lambda x: x + 1j, p))
    with pytest.raises(InvalidArgument, match="`v"):
        m.norm(p, "north")
    with pytest.raises(InvalidArgument, match="`c`"):
        m.from_coordinates(p, np.zeros(m.dim + 1))
    with pytest.raises(InvalidArgument, match="`z`"):
        m.tangent_from_normals(p, np.zeros(m.noise_size + 1))
    with pytest.raises(InvalidArgument, match="`sigma`"):
        m.tangent_normal(0, p, -1.0)
    with pytest.raises(InvalidArgument, match="`atol`"):
        m.belongs(p, float("nan"))


SIZES = [
    (Euclidean, "`shape", [(0,), (2, -1), (2.0,), ("3",)]),
    (Sphere, "`n`", [(1,), (0,), (-3,), (2.0,), ("3",), (True,)]),
    (Lorentz, "`n`", [(1,), (0,), (2.5,), (None,)]),
    (PoincareBall, "`n`", [(0,), (-1,), (1.0,)]),
    (Grassmann, "`[mr]`", [(1, 1), (3, 0), (3, 3), (3, 4), (2.0, 1), (3, True), ("3", 1)]),
    (Stiefel, "`[mr]`", [(1, 1), (3, 0), (3, 3), (3, 4), (2.5, 1), (3, False), ("3", 1)]),
    (Product, "`manifolds`", [()]),
    (Product, r"`manifolds\[1\]`", [(Sphere(3), 3)]),
]


@pytest.mark.parametrize(("kind", "name", "bad"), SIZES)
def test_bad_sizes_are_named(kind: Any, name: str, bad: list[Any]) -> None:
    for sizes in bad:
        with pytest.raises(InvalidArgument, match=name):
            kind(*sizes)


@over_cases()
def test_equal_spaces_have_equal_hashes_however_they_were_made(case: Case) -> None:
    m = case.manifold
    leaves, structure = jax.tree.flatten(m)
    for other in (
        copy.deepcopy(m),
        pickle.loads(pickle.dumps(m)),
        jax.tree.unflatten(structure, leaves),
    ):
        assert other == m
        assert hash(other) == hash(m)
