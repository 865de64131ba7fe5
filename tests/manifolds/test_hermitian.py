"""Hermitian matrices: the real embedding, the way back, and refusals that name it."""

from __future__ import annotations

import numpy as np
import pytest

import riemdp
from riemdp import Ball, Budget, InvalidArgument
from riemdp.manifolds import from_real_embedding, real_embedding

METRICS = ("riemann", "logeuclid", "wasserstein")


def hermitian(n, k=2, seed=0):
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(n, k, 12)) + 1j * rng.normal(size=(n, k, 12))
    return a @ np.conj(a).swapaxes(1, 2) / 24


def power(h, f):
    values, vectors = np.linalg.eigh(h)
    return (vectors * f(values)[..., None, :]) @ np.conj(vectors).swapaxes(-1, -2)


def distance(metric, a, b):
    """Between Hermitian matrices, with complex arithmetic."""
    if metric == "riemann":
        root = power(a, lambda x: x**-0.5)
        return np.linalg.norm(np.log(np.linalg.eigvalsh(root @ b @ root)), axis=-1)
    if metric == "logeuclid":
        return np.linalg.norm(power(a, np.log) - power(b, np.log), axis=(-2, -1))
    root = power(a, np.sqrt)
    cross = np.sqrt(np.linalg.eigvalsh(root @ b @ root)).sum(axis=-1)
    traces = np.trace(a + b, axis1=-2, axis2=-1).real
    return np.sqrt(traces - 2 * cross)


@pytest.mark.parametrize("metric", METRICS)
def test_distances_are_root_two_times_as_long(metric):
    a, b = hermitian(5), hermitian(5, seed=1)
    space = riemdp.spd(4, metric)
    ours = space.dist(real_embedding(a), real_embedding(b))
    assert np.allclose(ours, np.sqrt(2.0) * distance(metric, a, b), rtol=1e-9)
    assert np.allclose(from_real_embedding(real_embedding(a), metric), a, atol=1e-12)


@pytest.mark.parametrize("metric", METRICS)
def test_the_mean_of_embeddings_is_an_embedding(metric):
    h = hermitian(30)
    mean = np.asarray(riemdp.frechet_mean(riemdp.spd(4, metric), real_embedding(h)).value)
    back = from_real_embedding(mean, metric)
    assert np.allclose(real_embedding(back), mean, atol=1e-8)
    if metric == "logeuclid":
        assert np.allclose(back, power(power(h, np.log).mean(axis=0), np.exp), atol=1e-8)
    # the gradient of the sum of squared distances vanishes, in complex arithmetic
    elif metric == "riemann":
        root, inverse = power(back, np.sqrt), power(back, lambda x: x**-0.5)
        logs = power(inverse @ h @ inverse, np.log).mean(axis=0)
        assert np.linalg.norm(root @ logs @ root) < 1e-7


@pytest.mark.parametrize("metric", ["riemann", "logeuclid"])
def test_the_way_back_is_a_projection_that_removes_half_of_the_noise(metric):
    """k^2 = 4 of k (2 k + 1) = 10 coordinates of isotropic noise are left."""
    space = riemdp.spd(4, metric)
    mean = real_embedding(hermitian(1)[0])
    rng = np.random.default_rng(3)
    noisy = space.exp(mean, space.from_coordinates(mean, 0.02 * rng.normal(size=(400, 10))))
    back = real_embedding(from_real_embedding(noisy, metric))
    before = np.mean(np.asarray(space.squared_dist(mean, noisy)))
    after = np.mean(np.asarray(space.squared_dist(mean, back)))
    assert after / before == pytest.approx(0.4, abs=0.05)
    nearer = np.asarray(space.dist(noisy, back))
    other = np.asarray(space.dist(noisy, mean))
    assert np.all(nearer <= other)


def test_refusals_of_complex_arrays_name_the_embedding():
    h = hermitian(40)
    y = np.arange(40) % 2
    budget, space = Budget(1.0, 1e-5), riemdp.spd(2, "riemann")
    ball = Ball(np.eye(2), 1.0)
    with riemdp.Ledger(Budget(9.0, 1e-4)) as ledger:
        for estimator in (
            riemdp.PrivateFrechetMean(manifold=space, budget=budget, ball=ball),
            riemdp.PrivateMDM(budget=budget, ball=ball),
            riemdp.PrivateTSClassifier(budget=budget, ball=ball),
            riemdp.PrivateTangentSpace(budget=budget, ball=ball),
            riemdp.PrivateTLCenter(budget=budget, ball=ball),
        ):
            with pytest.raises(InvalidArgument, match="real_embedding"):
                estimator.fit(h, y)
        assert ledger.charges == 0
    assert "real_embedding" in riemdp.check_records(space, h)[0].reason
    for refused in (
        lambda: riemdp.frechet_mean(space, h),
        lambda: Ball(h[0], 1.0).on(space),
        lambda: space.dist(h, h),
    ):
        with pytest.raises(InvalidArgument, match="real_embedding"):
            refused()


@pytest.mark.parametrize("bad", [np.ones(3), np.ones((2, 3)), [["a", "b"], ["c", "d"]], 1.0])
def test_what_is_no_square_matrix_is_refused(bad):
    with pytest.raises(InvalidArgument, match="`H`"):
        real_embedding(bad)


@pytest.mark.parametrize("bad", [np.ones(4), np.ones((3, 3)), np.ones((2, 4))])
def test_what_has_no_even_size_is_refused(bad):
    with pytest.raises(InvalidArgument, match="`P`"):
        from_real_embedding(bad)
    with pytest.raises(InvalidArgument, match="metric"):
        from_real_embedding(np.eye(4), "euclid")
