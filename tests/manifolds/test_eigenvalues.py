"""Eigenvalues without eigenvectors: those of LAPACK, each matrix by itself."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from riemdp import _decompositions as decompositions
from riemdp.manifolds import SPDAffineInvariant

from .spd_oracles import spd_matrix, symmetric

ROUNDING = 2.0**-52


def matrices(n: int, k: int) -> np.ndarray:
    rng = np.random.default_rng(k)
    return np.stack([symmetric(rng, k) for _ in range(n)])


@pytest.fixture(params=["LAPACK's own", "by JAX"])
def solver(request, monkeypatch):
    """Where JAX has no such solver, its own decomposition takes the place. On the CPU: a machine
    with other devices does not come here.
    """
    if request.param == "by JAX":
        monkeypatch.setattr(decompositions, "_lapack_eigenvalues", lambda: None)
    else:
        assert decompositions._lapack_eigenvalues() is not None
    with jax.default_device(jax.devices("cpu")[0]):
        yield jax.jit(lambda a: decompositions._eigenvalues(a))  # compiled anew for each


@pytest.mark.parametrize(("n", "k"), [(0, 3), (1, 1), (1, 4), (7, 3), (300, 5), (2, 40)])
def test_ascending_eigenvalues_of_the_lower_half(solver, n, k):
    a = matrices(n, k) if n else np.zeros((0, k, k))
    spoiled = np.where(np.triu(np.ones((k, k)), 1) > 0, np.nan, a)
    expected = np.linalg.eigvalsh(a)
    size = np.max(np.abs(expected), initial=1.0)
    for given in (a, spoiled):
        found = np.asarray(solver(given))
        assert found.shape == (n, k)
        assert np.max(np.abs(found - expected), initial=0.0) <= 4 * k * ROUNDING * size
        assert np.all(np.diff(found) >= 0)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_nan_and_changes_no_other(solver, bad):
    a = matrices(50, 4)
    alone = np.asarray(solver(a))
    a[17, 2, 1] = bad
    beside = np.asarray(solver(a))
    assert np.all(np.isnan(beside[17]))
    others = np.arange(50) != 17
    assert np.array_equal(beside[others], alone[others])


def test_a_matrix_has_the_same_values_wherever_it_stands(solver):
    a = matrices(64, 5)
    assert np.array_equal(np.asarray(solver(a))[::-1], solver(a[::-1]))


def test_mapped_and_differentiated(solver):
    a = jnp.asarray(matrices(6, 3))
    mapped = jax.vmap(jax.vmap(decompositions._eigenvalues))(a.reshape(2, 3, 3, 3))
    assert np.array_equal(mapped.reshape(6, 3), solver(a))
    direction = jnp.asarray(matrices(6, 3)[::-1])
    _, slopes = jax.jvp(decompositions._eigenvalues, (a,), (direction,))
    step = 1e-6
    ahead, behind = (solver(a + s * direction) for s in (step, -step))
    assert np.asarray(slopes) == pytest.approx(np.asarray(ahead - behind) / (2 * step), abs=1e-7)


def test_a_machine_with_other_devices_multiplies_out(monkeypatch):
    """There the values are those of the decomposition that is checked."""
    monkeypatch.setattr(decompositions, "lapack_alone", lambda: False)
    called = []
    monkeypatch.setattr(decompositions, "eigh", lambda a: (called.append(1), jnp.linalg.eigh(a))[1])
    a = matrices(3, 4)
    assert np.asarray(decompositions.eigvalsh(jnp.asarray(a))) == pytest.approx(
        np.linalg.eigvalsh(a)
    )
    assert called


@pytest.mark.parametrize("spread", [1.0, 1e3, 1e7, 1e12])
def test_distances_are_those_of_the_logarithm(spread):
    """The logarithm has eigenvectors, the distance has none: both take the same eigenvalues, up to
    rounding times the spread.
    """
    rounding = 16.0 * ROUNDING * spread
    space = SPDAffineInvariant(4)
    rng = np.random.default_rng(1)
    p = spd_matrix(rng, 4, condition=10.0)
    q = np.stack([spd_matrix(rng, 4, condition=spread) for _ in range(6)])
    length = np.asarray(space.norm(p, space.log(p, q)))
    assert np.asarray(space.dist(p, q)) == pytest.approx(length, rel=1e-9 + rounding)
    back = np.stack([space.dist(x, p) for x in q])
    assert np.asarray(space.dist(p, q)) == pytest.approx(back, rel=1e-8 + rounding)
