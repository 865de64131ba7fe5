"""Matrix functions: values and derivatives against SciPy, mpmath and closed forms, above all where
eigenvalues coincide.
"""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
import scipy.linalg as sl

from riemdp import _decompositions as decompositions
from riemdp.manifolds import _spectral as sp
from tests.seam import Means

from .spd_oracles import spd_matrix, symmetric

K = 4


def of_kind(kind, a, t=0.0):
    return sp.apply(kind, a, sp.spectrum(a), t=t)


def logm(a):
    return of_kind("log", a)


FUNCTIONS = {
    "exp": (sp.expm, sl.expm),
    "log": (logm, sl.logm),
    "sqrt": (lambda a: of_kind("power", a, 0.5), sl.sqrtm),
    "invsqrt": (lambda a: of_kind("power", a, -0.5), lambda a: np.linalg.inv(sl.sqrtm(a))),
    "cube root": (
        lambda a: of_kind("power", a, 1 / 3),
        lambda a: sl.fractional_matrix_power(a, 1 / 3),
    ),
}
POINTS = np.stack(
    [spd_matrix(np.random.default_rng(i), K) for i in range(2)]
    + [np.eye(K), np.diag([2.0, 2.0, 2.0 + 1e-9, 5.0])]
)
DIRECTIONS = np.stack([symmetric(np.random.default_rng(10 + i), K) for i in range(4)])


def frechet(function, a, h):
    """Upper right block of f([[a, h], [0, a]]): an identity that needs no eigenvectors."""
    return np.real(function(np.block([[a, h], [np.zeros_like(a), a]])))[: len(a), len(a) :]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_first_derivatives(name):
    ours, theirs = FUNCTIONS[name]
    value, slope = jax.jit(lambda a, h: jax.jvp(ours, (a,), (h,)))(POINTS, DIRECTIONS)
    for i, a in enumerate(POINTS):
        np.testing.assert_allclose(value[i], np.real(theirs(a)), atol=2e-13)
        if i < 2:
            # Off the diagonal blocks SciPy's own error is about 1e-14 / gap; the ties are checked
            # by closed forms below.
            np.testing.assert_allclose(slope[i], frechet(theirs, a, DIRECTIONS[i]), atol=1e-11)
    step = 1e-5
    numeric = (ours(POINTS + step * DIRECTIONS) - ours(POINTS - step * DIRECTIONS)) / (2 * step)
    np.testing.assert_allclose(slope, numeric, rtol=1e-6, atol=2e-8)


def _naive_logm(a):
    values, q = jnp.linalg.eigh(a)
    return (q * jnp.log(values)) @ q.T


def test_gradient_at_repeated_eigenvalues_is_exact_where_the_naive_one_is_nan():
    h = jnp.asarray(DIRECTIONS[0])
    gradient = jax.jit(jax.grad(lambda a: jnp.sum(logm(a) * h)))(jnp.eye(K))
    np.testing.assert_allclose(gradient, h, atol=1e-15)
    naive = jax.jit(jax.grad(lambda a: jnp.sum(_naive_logm(a) * h)))(jnp.eye(K))
    assert np.isnan(naive).any()  # so the check above has something to catch


def test_second_derivative_agrees_with_differences_and_is_symmetric():
    u, v = jnp.asarray(DIRECTIONS[0]), jnp.asarray(DIRECTIONS[1])

    def first(a, h):
        return jax.jvp(logm, (a,), (h,))[1]

    second = jax.jit(lambda a, g, h: jax.jvp(lambda x: first(x, g), (a,), (h,))[1])
    step = 1e-5
    for a in POINTS:
        value = second(a, u, v)
        np.testing.assert_allclose(value, second(a, v, u), rtol=1e-9, atol=1e-10)
        numeric = (first(a + step * v, u) - first(a - step * v, u)) / (2 * step)
        np.testing.assert_allclose(
            value, numeric, rtol=1e-5, atol=1e-6 * float(jnp.max(jnp.abs(value)))
        )


@pytest.mark.parametrize("kind", ["log", "exp", "power", "power -0.5", "power 0.3"])
def test_divided_differences_against_mpmath(kind):
    """Orders 1 and 2 on a spectrum with clusters of relative width 1e-12 to 1e-2 and a spread of
    1e6.
    """
    name, _, text = kind.partition(" ")
    t = float(text or 0.5)
    f = {"log": mp.log, "exp": mp.exp, "power": lambda x: x ** mp.mpf(t)}[name]
    if name == "exp":
        nodes = np.array([-3.0, 0.0, 1e-12, 1e-6, 1e-2, 0.09, 4.0])
    else:
        nodes = np.array([1e-6, 1.0, 1.0 + 1e-12, 1.0 + 1e-6, 1.01, 1.3, 3.0])

    @jax.jit
    def differences(values):
        found = (
            Means.divided_differences(name, t, values, jnp.zeros(()), order) for order in (1, 2)
        )
        return tuple(found)

    first, second = differences(nodes)

    def exact(*points):
        # Coalescing nodes are set apart by 1e-25, which costs 1e-25 here and keeps ten digits of
        # sixty to spare.
        x = [
            mp.mpf(float(p)) * (1 + mp.mpf(10) ** -25 * i) + mp.mpf(10) ** -25 * i
            for i, p in enumerate(points)
        ]
        table = [f(p) for p in x]
        for order in range(1, len(x)):
            table = [
                (table[i + 1] - table[i]) / (x[i + order] - x[i]) for i in range(len(table) - 1)
            ]
        return float(table[0])

    with mp.workdps(120):
        for i, j in itertools.combinations_with_replacement(range(len(nodes)), 2):
            assert float(first[i, j]) == pytest.approx(exact(nodes[i], nodes[j]), rel=4e-15)
        for i, j, m in itertools.combinations_with_replacement(range(len(nodes)), 3):
            assert float(second[i, j, m]) == pytest.approx(
                exact(nodes[i], nodes[j], nodes[m]), rel=1e-11
            )


def test_lyapunov_and_floor():
    w, u = POINTS[0], DIRECTIONS[0]
    np.testing.assert_allclose(sp.lyapunov(w, u), sl.solve_continuous_lyapunov(w, u), atol=1e-12)
    step = 1e-6
    slope = jax.jvp(
        lambda x: sp.lyapunov(x, jnp.asarray(u)), (jnp.asarray(w),), (jnp.asarray(DIRECTIONS[1]),)
    )[1]
    numeric = (
        sp.lyapunov(w + step * DIRECTIONS[1], u) - sp.lyapunov(w - step * DIRECTIONS[1], u)
    ) / (2 * step)
    np.testing.assert_allclose(slope, numeric, rtol=1e-5, atol=1e-6 * np.abs(numeric).max())
    a = jnp.diag(jnp.array([-1.0, 0.2, 0.5, 3.0]))
    np.testing.assert_allclose(
        sp.apply("floor", a, sp.spectrum(a), offset=jnp.array(0.3)), np.diag([0.3, 0.3, 0.5, 3.0])
    )


def test_gradient_of_a_symmetric_function_of_eigenvalues_at_ties():
    gradient = jax.grad(lambda a: jnp.sum(decompositions.eigvalsh(a) ** 3))(2.0 * jnp.eye(K))
    np.testing.assert_allclose(gradient, 12.0 * np.eye(K), atol=1e-13)


def test_only_bad_matrices_are_decomposed_again_also_under_vmap():
    a = jnp.arange(24.0).reshape(2, 3, 2, 2)
    bad = jnp.arange(6).reshape(2, 3) > 3
    old = jnp.zeros((2, 3, 2))

    def checked(a, bad, old):
        return decompositions._checked(lambda m: (m[0],), a, bad, (old,))[0]

    expected = jnp.where(bad[..., None], a[..., 0, :], old)
    for f in (checked, jax.vmap(checked), jax.vmap(jax.vmap(checked))):
        np.testing.assert_array_equal(f(a, bad, old), expected)
    # still skipped where none is bad
    assert " cond[" in str(jax.make_jaxpr(jax.vmap(checked))(a, bad, old))


def test_packing_is_an_isometry():
    s = jnp.asarray(DIRECTIONS)
    c = sp.pack(s)
    np.testing.assert_allclose(jnp.sum(c**2, -1), jnp.sum(s**2, (-2, -1)))
    np.testing.assert_allclose(sp.unpack(c, K), s, atol=1e-15)
