"""The Frechet mean against closed forms, brute-force minimisation, its own definition, and planted
faults.
"""

from __future__ import annotations

import dataclasses
import math
import warnings

import jax
import numpy as np
import pytest
import scipy.linalg
from threadpoolctl import threadpool_limits

import riemdp
from riemdp import ConvergenceWarning, InvalidArgument, SpreadWarning, frechet_mean
from riemdp.manifolds import (
    Euclidean,
    Grassmann,
    Lorentz,
    PoincareBall,
    Product,
    SPDAffineInvariant,
    SPDBuresWasserstein,
    SPDLogEuclidean,
    Sphere,
)
from tests.seam import original, plant

KEY = 20
SPACES = [
    Euclidean(2, 3),
    Sphere(4),
    Lorentz(4),
    PoincareBall(3),
    SPDAffineInvariant(3),
    SPDBuresWasserstein(3),
    SPDLogEuclidean(3),
    Grassmann(5, 2),
    Product(Sphere(3), Lorentz(3), Euclidean(2)),
]


FEW = [
    m
    for m in SPACES
    if isinstance(m, Sphere | SPDAffineInvariant | SPDBuresWasserstein | SPDLogEuclidean)
]


def _records(manifold, n=40, spread=0.35):
    base = manifold.origin
    v = manifold.tangent_normal(KEY, base, spread / math.sqrt(manifold.dim), (n,))
    return manifold.exp(
        base, jax.tree.map(lambda t: t + 0.7 * t[:1], v)
    )  # off centre: the mean is not the origin


def _gradient_norm(manifold, p, X, w=None):
    """The residual from the public `log` only."""
    n = jax.tree.leaves(X)[0].shape[0]
    w = np.full(n, 1.0 / n) if w is None else w
    return float(
        manifold.norm(
            p, jax.tree.map(lambda v: np.tensordot(w, np.asarray(v), axes=1), manifold.log(p, X))
        )
    )


@pytest.mark.parametrize("manifold", SPACES, ids=lambda m: type(m).__name__)
def test_residual_is_what_it_says_and_the_point_is_a_minimum(manifold):
    X = _records(manifold)
    result = frechet_mean(manifold, X)
    assert result.converged
    assert result.residual <= 1e-10
    assert _gradient_norm(manifold, result.value, X) <= 2e-10
    assert bool(manifold.belongs(result.value, 1e-10))

    steps = manifold.tangent_normal(5, result.value, 1e-3, (12,))
    steps = jax.tree.map(lambda v: np.concatenate([np.zeros_like(v[:1]), v]), steps)
    moved = jax.tree.map(lambda a: a[:, None], manifold.exp(result.value, steps))
    costs = np.asarray(manifold.squared_dist(moved, X)).mean(axis=1)
    assert (
        costs[1:].min() > costs[0]
    )  # the planted twin: a point 1e-3 off is worse, in every direction tried


@pytest.mark.parametrize("manifold", FEW, ids=lambda m: type(m).__name__)
def test_weights(manifold):
    X = _records(manifold)
    w = np.arange(40.0)
    result = frechet_mean(manifold, X, weights=w * 1e300)  # normalised without overflow
    assert result.converged
    assert _gradient_norm(manifold, result.value, X, w / w.sum()) <= 2e-10
    assert _gradient_norm(manifold, result.value, X) > 1e-3  # not the unweighted mean
    alone = np.zeros(40)
    alone[7] = 3.0
    single = frechet_mean(manifold, X, weights=alone).value
    assert float(manifold.dist(single, jax.tree.map(lambda a: a[7], X))) < 1e-9


@pytest.mark.parametrize("manifold", FEW, ids=lambda m: type(m).__name__)
def test_one_record_equal_records_and_none(manifold):
    X = _records(manifold)
    first = jax.tree.map(lambda a: a[:1], X)
    result = frechet_mean(manifold, first)
    assert result.residual < 1e-15
    assert float(manifold.dist(result.value, jax.tree.map(lambda a: a[0], X))) < 1e-15
    equal = jax.tree.map(lambda a: np.repeat(np.asarray(a[:1]), 40, axis=0), X)
    assert float(manifold.dist(frechet_mean(manifold, equal).value, result.value)) < 1e-9
    with pytest.raises(InvalidArgument, match="no records"):
        frechet_mean(manifold, jax.tree.map(lambda a: a[:0], X))


def test_closed_forms():
    rng = np.random.default_rng(1)
    A = rng.standard_normal((2, 4, 9))
    a, b = A @ A.swapaxes(1, 2)
    middle = (
        scipy.linalg.sqrtm(a)
        @ scipy.linalg.sqrtm(
            np.linalg.inv(scipy.linalg.sqrtm(a)) @ b @ np.linalg.inv(scipy.linalg.sqrtm(a))
        )
        @ scipy.linalg.sqrtm(a)
    )
    np.testing.assert_allclose(
        frechet_mean(SPDAffineInvariant(4), np.stack([a, b])).value,
        middle.real,
        rtol=1e-9,
    )
    logs = np.mean([scipy.linalg.logm(m) for m in (a, b)], axis=0)
    np.testing.assert_allclose(
        frechet_mean(SPDLogEuclidean(4), np.stack([a, b])).value,
        scipy.linalg.expm(logs),
        rtol=1e-10,
    )
    # commuting matrices: geometric mean (affine-invariant), squared mean of roots
    # (Bures-Wasserstein)
    d = np.exp(rng.standard_normal((30, 3)))
    D = np.stack([np.diag(x) for x in d])
    np.testing.assert_allclose(
        np.diag(frechet_mean(SPDAffineInvariant(3), D).value), np.exp(np.log(d).mean(0)), rtol=1e-9
    )
    np.testing.assert_allclose(
        np.diag(frechet_mean(SPDBuresWasserstein(3), D).value), np.sqrt(d).mean(0) ** 2, rtol=1e-9
    )
    p, q = np.array([1.0, 0, 0]), np.array([0, 1.0, 0])
    np.testing.assert_allclose(
        frechet_mean(Sphere(3), np.stack([p, q])).value, (p + q) / math.sqrt(2), atol=1e-10
    )


def _wishart(n, k, seed=0):
    A = np.random.default_rng(seed).standard_normal((n, k, 2 * k))
    return A @ A.swapaxes(1, 2) / (2 * k)


def _oracle_residual(M, X):
    """Mean log in the frame of a Cholesky factor, by NumPy alone."""
    inverse = np.linalg.inv(np.linalg.cholesky(M))
    values, q = np.linalg.eigh(inverse @ X @ inverse.T)
    return float(np.linalg.norm(((q * np.log(values)[:, None, :]) @ q.swapaxes(1, 2)).mean(0)))


@pytest.mark.parametrize("tol", [1e-6, 1e-8, 1e-9, 1e-11])
def test_the_residual_of_matrices_is_no_less_than_it_says(tol):
    """Up to a few units of rounding."""
    X = _wishart(1100, 4)
    for scale in (1.0, 2.0):
        values, q = np.linalg.eigh(X)
        spread = (q * (values**scale)[:, None, :]) @ q.swapaxes(1, 2)
        result = frechet_mean(SPDAffineInvariant(4), spread, tol=tol)
        assert result.converged
        assert _oracle_residual(np.asarray(result.value), spread) <= result.residual + 1e-13
        assert result.residual <= tol


def test_affine_mean_reads_both_halves_of_a_record():
    """Records may lack symmetry by a millionth: what they lack counts for half."""
    X = _wishart(40, 4)
    X = X + 1e-7 * np.random.default_rng(5).standard_normal(X.shape)
    whole = 0.5 * (X + X.swapaxes(1, 2))
    result = frechet_mean(SPDAffineInvariant(4), X)
    assert _oracle_residual(np.asarray(result.value), whole) <= 1e-10 + 1e-13


def test_affine_mean_is_equivariant_and_handles_ill_conditioned_records():
    X = _wishart(60, 4, seed=3)
    G = (
        np.diag([1e4, 1.0, 1.0, 1e-4])
        @ scipy.linalg.qr(np.random.default_rng(2).standard_normal((4, 4)))[0]
    )
    M = np.asarray(frechet_mean(SPDAffineInvariant(4), X).value)
    moved = np.asarray(
        frechet_mean(
            SPDAffineInvariant(4), 0.5 * (Y := G @ X @ G.T) + 0.5 * Y.swapaxes(1, 2), tol=1e-7
        ).value
    )
    wanted = G @ M @ G.T
    np.testing.assert_allclose(moved, wanted, atol=1e-6 * np.abs(wanted).max())
    # records with spectra over nine decades in different directions: the careful formulas take over
    q = np.linalg.qr(np.random.default_rng(4).standard_normal((20, 3, 3)))[0]
    wild = (q * np.array([1e-5, 1.0, 1e4])) @ q.swapaxes(1, 2)
    wild = 0.5 * (wild + wild.swapaxes(1, 2))
    result = frechet_mean(SPDAffineInvariant(3), wild, tol=1e-7)
    assert result.converged
    assert _gradient_norm(SPDAffineInvariant(3), result.value, wild) <= 1e-6


def test_steps_that_overshoot_are_taken_back(monkeypatch):
    """With every step made 30 times too long the mean is still found, and how well is said
    honestly.
    """
    usual = original("length of a step")
    plant(monkeypatch, "length of a step", lambda *given: 30.0 * usual(*given))
    X = _wishart(50, 3)
    result = frechet_mean(SPDAffineInvariant(3), X, tol=1e-8)
    assert result.converged
    assert _oracle_residual(np.asarray(result.value), X) <= 1e-8


def test_failure_to_converge_is_said(monkeypatch):
    X = _records(SPDBuresWasserstein(3), spread=1.0)
    solver = original("solver of a mean")
    plant(monkeypatch, "solver of a mean", lambda *given: solver(*given[:4], 2))
    with pytest.warns(ConvergenceWarning, match="tol"):
        result = frechet_mean(SPDBuresWasserstein(3), X, tol=1e-12)
    assert not result.converged
    assert result.iterations == 2
    assert result.residual > 1e-12
    assert _gradient_norm(SPDBuresWasserstein(3), result.value, X) == pytest.approx(
        result.residual, rel=1e-3
    )


def test_a_mean_does_not_depend_on_the_threads_of_a_library():
    X, found = _wishart(4_000, 5), []
    for threads in (1, 2, 3):
        with threadpool_limits(threads, user_api="blas"):
            found.append(np.asarray(frechet_mean(SPDAffineInvariant(5), X, tol=1e-9).value))
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], rtol=0.0, atol=1e-12)


def test_spread_beyond_convexity_is_reported():
    X = np.array([[1.0, 0, 0], [-0.2, math.sqrt(0.96), 0], [-0.2, -math.sqrt(0.96), 0]])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        frechet_mean(Sphere(3), X)
        frechet_mean(Product(Sphere(3), Euclidean(1)), (X, np.zeros((3, 1))))
    assert [w.category for w in caught] == [SpreadWarning] * 2
    assert {w.filename for w in caught} == {__file__}  # the line of whoever called
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        frechet_mean(Sphere(4), _records(Sphere(4)))
        frechet_mean(
            Lorentz(4), Lorentz(4).random_point(KEY, (40,))
        )  # no such limit where curvature is not positive


def two_halves(n: int) -> np.ndarray:
    return np.repeat([[0.0, 0.0, 1.0], [0.0, 0.0, -1.0]], n, axis=0)


def ends_at(monkeypatch, where) -> None:
    """Planted: a search that ends at a stationary point, and says so."""
    solver = original("solver of a mean")

    def planted(*given):
        return dataclasses.replace(solver(*given), value=where, residual=0.0)

    plant(monkeypatch, "solver of a mean", planted)


@pytest.mark.parametrize("n", [1, 50])
@pytest.mark.filterwarnings("ignore::riemdp._errors.SpreadWarning")
def test_a_maximum_is_not_called_a_mean(monkeypatch, n):
    """At cb83de5: converged, residual 0, where every direction leads down."""
    product, pole = riemdp.Product(riemdp.Sphere(3), riemdp.Euclidean(1)), np.array([0, 0, 1.0])
    found = riemdp.frechet_mean(riemdp.Sphere(3), two_halves(n))
    assert abs(found.value[2]) < 1e-9  # the equator is where the objective is lowest
    for space, X, where in (
        (riemdp.Sphere(3), two_halves(n), pole),
        (product, (two_halves(n), np.zeros((2 * n, 1))), (pole, np.zeros(1))),
    ):
        with monkeypatch.context() as patch:
            ends_at(patch, where)
            with pytest.warns(riemdp.ConvergenceWarning, match="not a minimum"):
                assert not riemdp.frechet_mean(space, X).converged


@pytest.mark.filterwarnings("ignore::riemdp._errors.SpreadWarning")
def test_a_saddle_is_not_called_a_mean(monkeypatch):
    """Between two heavy records: the objective is lowest along the circle through them, and bends
    down across it.
    """
    angle = 2.6
    ways = np.array([[1.0, 1.0], [-1.0, -1.0]]) / np.sqrt(2.0)
    X = np.column_stack([np.sin(angle) * ways, np.full(2, np.cos(angle))])
    X, w = np.concatenate([[[0.0, 0.0, 1.0]], X]), np.array([0.2, 0.4, 0.4])

    def objective(p):
        return np.arccos(np.clip(p @ X.T, -1.0, 1.0)) ** 2 @ w

    def around(p):
        near = p + 1e-2 * np.random.default_rng(0).normal(size=(200, 3))
        return objective(near / np.linalg.norm(near, axis=1, keepdims=True))

    found = riemdp.frechet_mean(riemdp.Sphere(3), X, weights=w)
    assert not found.converged or around(found.value).min() > objective(found.value) - 1e-5
    saddle = np.array([0.0, 0.0, 1.0])
    assert around(saddle).min() < objective(saddle) < around(saddle).max()
    ends_at(monkeypatch, saddle)
    with pytest.warns(riemdp.ConvergenceWarning, match="not a minimum"):
        assert not riemdp.frechet_mean(riemdp.Sphere(3), X, weights=w).converged


@pytest.mark.filterwarnings("error::riemdp._errors.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::riemdp._errors.SpreadWarning")
def test_one_of_a_circle_of_minima_is_a_mean():
    rng = np.random.default_rng(0)
    turns = rng.uniform(0.0, 2.0 * np.pi, size=40)
    few = np.column_stack([0.05 * np.cos(turns), 0.05 * np.sin(turns), np.ones(40)])
    few /= np.linalg.norm(few, axis=1, keepdims=True)
    X = np.concatenate([few, [[np.sin(1.2), 0.0, np.cos(1.2)], [0.0, np.sin(2.0), np.cos(2.0)]]])
    assert riemdp.frechet_mean(riemdp.Sphere(3), X).converged
    circle = np.array([[1.0, 0.0], [np.cos(2.0), np.sin(2.0)]])
    assert riemdp.frechet_mean(riemdp.Sphere(2), circle).converged


def test_antipodal_points_end_without_nan():
    X = np.array([[0, 0, 1.0], [0, 0, -1.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = frechet_mean(Sphere(3), X)
    assert np.isfinite(result.residual)
    assert np.linalg.norm(result.value) == pytest.approx(1.0)


def test_many_small_distances():
    """Records 1e-9 apart: the mean is found relative to their spread, not only to one unit."""
    p = np.array([0.6, 0.8, 0.0])
    offsets = 1e-9 * np.random.default_rng(0).standard_normal((40, 4))[:, :3]
    X = p + offsets - (offsets @ p)[:, None] * p
    X /= np.linalg.norm(X, axis=1)[:, None]
    mean = np.asarray(frechet_mean(Sphere(3), X, tol=1e-13).value)
    np.testing.assert_allclose(mean - p, (X - p).mean(0), atol=1e-15)


@pytest.mark.parametrize(
    ("X", "word"),
    [
        (np.full((3, 2, 2), np.nan), "3 of 3"),
        (np.stack([np.eye(2), -np.eye(2)]), "1 of 2"),
        (np.stack([np.eye(2), np.array([[1.0, 5.0], [0.0, 1.0]])]), "1 of 2"),
        (np.eye(2), "batch shape"),
        (np.eye(3)[None], "shape"),
        (np.ones((2, 2, 2), dtype=complex), "dtype"),
        (["a"], "X"),
        (np.zeros((2, 0, 2, 2)), "batch shape"),
    ],
)
def test_bad_records_are_refused_without_showing_them(X, word):
    for metric in (SPDAffineInvariant(2),):
        with pytest.raises(InvalidArgument, match="X") as caught:
            frechet_mean(metric, X)
        assert word in str(caught.value)
        assert "5." not in str(caught.value)


@pytest.mark.parametrize("weight", [0.0, 1.0])
@pytest.mark.parametrize(
    "bad",
    [
        np.diag([1.0, 1.0, math.nan]),
        np.diag([1.0, math.inf, 1.0]),
        np.diag([1.0, 1.0, -1e-3]),
        np.diag([1.0, 1.0, 0.0]),
        np.eye(3) + np.eye(3, k=1) * 2e-6,
        np.eye(3) * 1e-200 * (1.0 + np.eye(3, k=2) * 1e-3) - np.eye(3) * 1e-150,
    ],
)
def test_one_bad_record_of_many_matrices_is_refused_whatever_its_weight(bad, weight):
    X, weights = _wishart(1500, 3), np.ones(1500)
    X[1234], weights[1234] = bad, weight
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InvalidArgument, match="1 of 1500"):
            frechet_mean(SPDAffineInvariant(3), X, weights=weights)


@pytest.mark.parametrize("weight", [0.0, 1.0])
@pytest.mark.parametrize("bad", [math.nan, math.inf, 0.0, 1.0 + 2e-6, -1e200])
@pytest.mark.parametrize("as_given", [np.asarray, jax.numpy.asarray])
def test_one_bad_record_of_many_unit_vectors_is_refused_whatever_its_weight(bad, weight, as_given):
    X = np.random.default_rng(0).normal([1.0, 0.0, 0.0], 0.1, (50_000, 3))
    X /= np.linalg.norm(X, axis=1)[:, None]
    weights = np.ones(len(X))
    X[44_444], weights[44_444] = [0.0, bad, 0.0], weight
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InvalidArgument, match="1 of 50000"):
            frechet_mean(Sphere(3), as_given(X), weights=weights)


@pytest.mark.parametrize(
    "weights", [[1.0], [1, -1], [0, 0], [np.nan, 1], [np.inf, 1], "equal", [[1, 1]]]
)
def test_bad_weights(weights):
    with pytest.raises(InvalidArgument, match="weights"):
        frechet_mean(Euclidean(1), np.zeros((2, 1)), weights=weights)


@pytest.mark.parametrize("tol", [0.0, -1.0, 1.0, math.nan, "small", True])
def test_bad_tolerance(tol):
    with pytest.raises(InvalidArgument, match="tol"):
        frechet_mean(Euclidean(1), np.zeros((2, 1)), tol=tol)


def test_a_mean_inside_another_of_the_same_thread_changes_nothing(monkeypatch):
    """As where the handler of a signal computes one."""
    space, X = SPDAffineInvariant(6), _wishart(900, 6)
    alone = np.asarray(frechet_mean(space, X, tol=1e-11).value)
    eigh, inside, interrupts = np.linalg.eigh, [], []

    def interrupted(given):
        found = eigh(given)
        if not inside:
            inside.append(True)
            interrupts.append(frechet_mean(space, X[::-1] + np.eye(6)))
            inside.clear()
        return found

    monkeypatch.setattr(np.linalg, "eigh", interrupted)
    assert np.array_equal(np.asarray(frechet_mean(space, X, tol=1e-11).value), alone)
    assert interrupts
