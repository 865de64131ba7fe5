"""Means of SPD matrices that are read in parts: the Hessian beside automatic differentiation, the
bound that saves the last pass, and what happens where a step leads nowhere.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import threading
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import riemdp
from riemdp import Ball
from riemdp.domains import _sources, _stream
from riemdp.manifolds._decompositions import of_scipy
from riemdp.statistics import (
    FrechetMean,
    _affine_mean,
    _look,
    _newton,
    _streamed_affine,
    _streamed_mean,
    _threads,
)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(_stream, "MOST_ROWS", 64)
    monkeypatch.setattr(_streamed_mean, "_SAMPLE", 50)


def matrices(k: int, n: int, size: float = 0.6) -> np.ndarray:
    g = np.random.default_rng(k).normal(size=(n, k, k)) * size / np.sqrt(k)
    values, q = np.linalg.eigh(g + g.swapaxes(1, 2))
    X = (q * np.exp(values)[:, None, :]) @ q.swapaxes(1, 2)
    return 0.5 * (X + X.swapaxes(1, 2))


def mapped(folder, X: np.ndarray) -> np.ndarray:
    np.save(folder / "x.npy", X)
    return np.load(folder / "x.npy", mmap_mode="r")


def newton(domain, stream, start, tolerance: float, most: int):
    look = _streamed_affine.AffineLook(domain.manifold, domain.center, domain.radius)
    means = functools.partial(_look.means_of_stream, stream)
    return _look.newton_of_means(look, means, start, tolerance, most)


def residual(point: np.ndarray, X: np.ndarray) -> float:
    inverse = np.linalg.inv(np.linalg.cholesky(point))
    values, q = np.linalg.eigh(inverse @ X @ inverse.T)
    return float(np.linalg.norm(((q * np.log(values)[:, None, :]) @ q.swapaxes(1, 2)).mean(0)))


def differentiated(k: int, X: np.ndarray, w: np.ndarray, point: np.ndarray):
    """Mean logarithm and Hessian of F at the point, by automatic differentiation of distances."""
    space = riemdp.SPDAffineInvariant(k)

    def f(y):
        end = space.exp(point, space.from_coordinates(point, y))
        return 0.5 * jnp.sum(w * space.dist(end, X) ** 2)

    zero = jnp.zeros(space.dim)
    return -jax.grad(f)(zero), jax.hessian(f)(zero)


# ------------------------------------------------------------------------------- the Hessian
@pytest.mark.parametrize("k", [1, 2, 3, 7])
@pytest.mark.parametrize("width", [0.5, 3.0])
def test_a_pass_gives_gradient_and_hessian(k, width) -> None:
    X = matrices(k, 17)
    point, X, w = X[0], X[1:], np.random.default_rng(0).uniform(0.1, 1.0, 16)
    gradient, hessian = differentiated(k, X, w, point)
    space = riemdp.SPDAffineInvariant(k)
    # a record that has no weight may be anything
    X = np.concatenate([X, np.full((16, k, k), np.nan)])
    w = np.concatenate([w, np.zeros(16)])
    series = _streamed_affine.fitted(width)
    sums, second, one_sided, marks = (
        np.asarray(leaf)
        for leaf in _streamed_affine._compiled_sums(
            space, jnp.asarray(point), jnp.asarray(series), jnp.asarray(X), jnp.asarray(w)
        )
    )
    np.testing.assert_allclose(sums, gradient, atol=1e-11)
    found = _streamed_affine.assembled(k, float(series[0]) * np.sum(w), second, one_sided)
    # what it differs by is stated, and stated well where the polynomial fits the records
    error = float(np.linalg.norm(found - hessian, 2))
    assert error <= marks[0] + 1e-10
    assert k == 1 or error > 1e-3 * marks[0] > 1e-12
    logs = _streamed_affine.bent(np.linspace(-width, width, 999))
    powers = np.vander(np.linspace(-width, width, 999) ** 2, 4, increasing=True)
    assert np.max(np.abs(powers @ series - logs)) < (1e-6 if width < 1.0 else 1e-4)


@pytest.mark.parametrize("tolerance", [1e-4, 1e-7])
@pytest.mark.parametrize("size", [0.3, 1.2])
def test_the_bound_holds_whatever_the_polynomial(tmp_path, monkeypatch, tolerance, size) -> None:
    """One that is far from the Hessian costs passes and nothing else."""
    k, n = 3, 1000
    X = matrices(k, n, size)
    monkeypatch.setattr(_streamed_affine, "fitted", lambda width: np.array([1.0, 0.0, 0.0, 0.0]))
    domain = Ball(np.eye(k), 12.0).on(riemdp.SPDAffineInvariant(k))
    stream = FrechetMean(domain, n).prepare(mapped(tmp_path, X)).points
    assert isinstance(stream, _stream.Stream)
    found = newton(domain, stream, domain.center, tolerance, 99)
    assert residual(np.asarray(found.value), X) <= found.residual + 1e-13
    assert found.residual <= tolerance


@pytest.mark.parametrize("k", [2, 5])
def test_the_inverse_of_a_hessian(k) -> None:
    X = matrices(k, 17)
    point, X, w = X[0], X[1:], np.random.default_rng(0).uniform(0.1, 1.0, 16)
    _, hessian = differentiated(k, X, w, point)
    y = np.random.default_rng(1).normal(size=len(hessian))
    found = _affine_mean.affine_inverse(X, w, point)(y)
    np.testing.assert_allclose(found, np.linalg.solve(hessian, y), rtol=1e-5, atol=1e-5)


def test_records_too_wide_for_it_are_left_to_differences(tmp_path) -> None:
    k, n = 7, 200
    X = np.tile(np.eye(k), (n, 1, 1))
    X[:, 0, 0], X[:, 1, 1] = 1e4, 1e-4
    X[::2] = X[::2].swapaxes(1, 2)[:, ::-1, ::-1]
    with pytest.raises(_affine_mean.NotSuitable):
        _affine_mean.affine_inverse(X, np.full(n, 1 / n), X[0])
    space = riemdp.SPDAffineInvariant(k)
    query = FrechetMean(Ball(np.eye(k), 14.0).on(space), n)
    found, there = (query.value(query.prepare(x)) for x in (mapped(tmp_path, X), X))
    assert query.tolerance is not None
    assert float(space.dist(found, there)) <= 2 * query.tolerance


# ------------------------------------------------------------------------------- the mean
@pytest.mark.parametrize("tolerance", [1e-4, 1e-7, 1e-9])
@pytest.mark.parametrize("size", [0.3, 1.2])
def test_the_bound_without_a_last_pass_is_a_bound(tmp_path, tolerance, size) -> None:
    """The residual that is stated after a step no pass follows is never below the true one."""
    k, n = 3, 1000
    X = matrices(k, n, size)
    space = riemdp.SPDAffineInvariant(k)
    assert np.max(space.dist(np.eye(k), X)) < 12.0
    domain = Ball(np.eye(k), 12.0).on(space)
    stream = FrechetMean(domain, n).prepare(mapped(tmp_path, X)).points
    assert isinstance(stream, _stream.Stream)
    found = newton(domain, stream, domain.center, tolerance, 50)
    assert residual(np.asarray(found.value), X) <= found.residual + 1e-13
    assert found.residual <= tolerance


@pytest.mark.parametrize(
    ("k", "most"), [(3, 2), (7, 2), (20, 2), pytest.param(40, 2, marks=pytest.mark.slow)]
)
def test_how_often_the_records_are_read(tmp_path, monkeypatch, k, most) -> None:
    n = 3000
    X = matrices(k, n, 0.2)
    monkeypatch.setattr(_streamed_mean, "_SAMPLE", 300)
    query = FrechetMean(Ball(np.eye(k), 2.0).on(riemdp.SPDAffineInvariant(k)), n)
    ends: list[int] = []
    with _sources.watched(lambda read, n: ends.append(read) if read == n else None):
        found = query.value(query.prepare(mapped(tmp_path, X)))
    assert 1 <= len(ends) <= most
    assert query.tolerance is not None
    assert residual(np.asarray(found), X) <= query.tolerance


# ------------------------------------------------------------------------- larger matrices
def commuting(k: int, a: float, aside: np.ndarray) -> np.ndarray:
    """Two matrices whose logarithms cancel but for `aside`: their widest gap is 2a."""
    v = np.diag(np.r_[a, np.zeros(k - 2), -a])
    values, q = np.linalg.eigh(np.stack([v, 2.0 * aside - v]))
    return (q * np.exp(values)[:, None, :]) @ q.swapaxes(1, 2)


def seen(folder, X: np.ndarray, point: np.ndarray, weights: np.ndarray | None = None):
    """The mean logarithm of X in a file at the point, and the bound of the Hessian there."""
    space = riemdp.SPDAffineInvariant(X.shape[-1])
    query = FrechetMean(Ball(np.eye(space.k), 14.0).on(space), len(X))
    stream = query.prepare(mapped(folder, X)).points
    assert isinstance(stream, _stream.Stream)
    stream = stream.weighted(weights, None)
    return _streamed_affine.bent_logs(space, stream, jnp.asarray(point))


@pytest.mark.parametrize("k", [2, 3, 7])
@pytest.mark.parametrize("size", [0.3, 1.2])
def test_a_pass_gives_gradient_and_a_bound_of_the_hessian(tmp_path, k, size) -> None:
    X = matrices(k, 17, size)
    point, X, w = X[0], X[1:], np.random.default_rng(0).uniform(0.0, 1.0, 16)
    w[3] = 0.0
    gradient, hessian = differentiated(k, X, w / w.sum(), point)
    found, bend, single = seen(tmp_path, X, point, w)
    assert bend <= single
    np.testing.assert_allclose(found, gradient, atol=1e-11)
    values = np.linalg.eigvalsh(np.asarray(hessian))
    assert values[0] >= 1.0 - 1e-9
    assert values[-1] <= 1.0 + bend + 1e-9


@pytest.mark.parametrize("a", [0.05, 0.5, 3.0])
def test_the_bound_of_the_hessian_is_reached(tmp_path, a) -> None:
    X = commuting(3, a, np.zeros((3, 3)))
    _, hessian = differentiated(3, X, np.full(2, 0.5), np.eye(3))
    _, together, bend = seen(tmp_path, X, np.eye(3))
    values = np.linalg.eigvalsh(np.asarray(hessian))
    assert bend == pytest.approx(values[-1] - 1.0, rel=1e-6)
    assert together >= (values[-1] - 1.0) * (1.0 - 1e-6)


def test_the_bound_of_the_mean_hessian_is_reached_by_small_matrices(tmp_path) -> None:
    a = 1e-2
    A = np.diag([a, -a, 0.0])
    X = np.stack([np.diag(np.exp(np.diag(A))), np.diag(np.exp(-np.diag(A)))])
    _, hessian = differentiated(3, X, np.full(2, 0.5), np.eye(3))
    _, together, single = seen(tmp_path, X, np.eye(3))
    values = np.linalg.eigvalsh(np.asarray(hessian))
    assert together <= a**2 / 3.0 * (1.0 + 1e-9)
    assert together == pytest.approx(values[-1] - 1.0, rel=1e-3)
    assert single >= together


@pytest.mark.parametrize("a", [0.5, 3.0])
@pytest.mark.parametrize("place", [(0, 0), (0, 2)])
def test_the_bound_after_a_gradient_step_holds_and_is_reached(tmp_path, a, place) -> None:
    """Along the diagonal the Hessian is 1, in the corner the largest that it can be; a step chosen
    for both leaves the same of both.
    """
    aside = np.zeros((3, 3))
    aside[place] = aside[place[::-1]] = 1e-6
    X = commuting(3, a, aside)
    gradient, _, bend = seen(tmp_path, X, np.eye(3))
    step, bound = _affine_mean.gradient_step(gradient, bend, bend)
    end = _look.ends(riemdp.SPDAffineInvariant(3), jnp.eye(3), jnp.asarray(step))
    left = residual(np.asarray(end), X)
    assert left <= bound
    assert left > 0.99 * bound


@pytest.mark.parametrize("size", [0.02, 0.3, 1.2])
@pytest.mark.parametrize("far", [1e-6, 1e-3, 0.1, 1.0])
def test_the_bound_after_a_gradient_step_is_a_bound(tmp_path, size, far) -> None:
    """Also where the step is long."""
    space = riemdp.SPDAffineInvariant(3)
    X = matrices(3, 40, size)
    mean = np.asarray(riemdp.frechet_mean(space, X).value)
    for seed in range(4):
        v = np.random.default_rng(seed).normal(size=6)
        start = space.exp(mean, space.from_coordinates(mean, far * v))
        gradient, *bends = seen(tmp_path, X, np.asarray(start))
        step, bound = _affine_mean.gradient_step(gradient, *bends)
        end = _look.ends(space, start, jnp.asarray(step))
        assert residual(np.asarray(end), X) <= bound + 1e-13


@pytest.mark.parametrize(
    ("size", "tolerance", "saved"),
    [
        (0.1, 1e-4, False),
        (0.1, 1e-6, True),
        (0.3, 1e-4, True),
        (0.3, 1e-6, True),
        (1.2, 1e-6, False),
    ],
)
def test_a_last_pass_is_saved_where_the_bound_says_so(
    tmp_path, monkeypatch, tolerance, size, saved
) -> None:
    k, n = 7, 600
    X = matrices(k, n, size)
    monkeypatch.setattr(_streamed_affine, "MOST", 1)  # as in larger dimensions
    bounds, looks = [], []
    step_of, look = _streamed_mean.gradient_step, _streamed_mean.bent_logs

    def stepped(*given):
        bounds.append(step_of(*given))
        return bounds[-1]

    def looked(*given):
        looks.append(look(*given))
        return looks[-1]

    monkeypatch.setattr(_streamed_mean, "gradient_step", stepped)
    monkeypatch.setattr(_streamed_mean, "bent_logs", looked)
    space = riemdp.SPDAffineInvariant(k)
    query = FrechetMean(Ball(np.eye(k), 12.0).on(space), n, tolerance=tolerance)
    found = query.value(query.prepare(mapped(tmp_path, X)))
    assert query.tolerance is not None
    true, last = residual(np.asarray(found), X), float(np.linalg.norm(looks[-1][0]))
    assert true <= query.tolerance
    assert (last > query.tolerance) == saved
    assert not saved or true <= bounds[-1][1] <= query.tolerance


def test_a_mean_of_large_matrices_is_not_solved_for_what_noise_drowns(
    tmp_path, monkeypatch
) -> None:
    """A public tolerance of .005 of the sensitivity adds 1 % to it; the mean takes two passes."""
    k, n = 7, 600
    X, ball = matrices(k, n, 0.1), Ball(np.eye(k), 1.0).on(riemdp.SPDAffineInvariant(k))
    usual = FrechetMean(ball, n, streamed=True)
    monkeypatch.setattr(_streamed_affine, "MOST", 27)  # as in larger dimensions
    assert usual.tolerance is not None
    assert FrechetMean(ball, n).tolerance == usual.tolerance < 1e-9
    query = FrechetMean(ball, n, streamed=True)
    assert query.tolerance == pytest.approx(0.005 * 2.0 / n, rel=1e-9)
    assert query.sensitivity == pytest.approx(1.01 * usual.sensitivity, rel=1e-5)
    assert FrechetMean(ball, 10**8, streamed=True).tolerance == usual.tolerance
    assert FrechetMean(ball, n, streamed=True, tolerance=1e-7).tolerance == 1e-7

    passes, sums = [], _stream.Stream.sums

    def counted(stream, *given, **more):
        passes.append(stream.n)
        return sums(stream, *given, **more)

    monkeypatch.setattr(_stream.Stream, "sums", counted)
    found = query.value(query.prepare(mapped(tmp_path, X)))
    assert passes.count(n) == 2
    assert residual(np.asarray(found), X) <= query.tolerance


def test_what_newton_does_not_reach_is_searched_for_on(tmp_path, monkeypatch) -> None:
    """The tolerance is part of the sensitivity."""
    k, n = 3, 600
    X = matrices(k, n)
    query = FrechetMean(Ball(np.eye(k), 4.0).on(riemdp.SPDAffineInvariant(k)), n)
    asked = []

    def lost(look, move, start, tol, most):
        asked.append(tol)
        return _newton.Found(start, 1.0, most, 1.0)

    monkeypatch.setattr(_look, "damped_newton", lost)
    found = query.value(query.prepare(mapped(tmp_path, X)))
    assert asked == [query.tolerance]
    assert query.tolerance is not None
    assert residual(np.asarray(found), X) <= query.tolerance


@pytest.mark.parametrize("seed", range(4))
def test_records_that_mislead_the_sample(tmp_path, seed) -> None:
    """Records on the edge of a large ball, those of the sample on the other side."""
    k, n, radius = 2, 1500, 7.0
    space, rng = riemdp.SPDAffineInvariant(k), np.random.default_rng(seed)
    y = np.empty((n, 3))
    sample = np.concatenate([np.arange(*s) for s in _sources.spread_out(n, 50)])
    for chosen in (np.arange(n), sample):
        u = rng.normal(size=(2, 3))
        u *= 0.999 * radius / np.linalg.norm(u, axis=1, keepdims=True)
        y[chosen] = u[(rng.random(len(chosen)) < rng.uniform(0.3, 0.7)).astype(int)]
    X = np.asarray(space.exp(np.eye(k), space.from_coordinates(np.eye(k), y)))
    query = FrechetMean(Ball(np.eye(k), radius).on(space), n)
    found, there = (query.value(query.prepare(x)) for x in (mapped(tmp_path, X), X))
    assert query.tolerance is not None
    assert float(space.dist(found, there)) <= 2 * query.tolerance


def test_what_a_pass_kept_is_gone_before_the_next() -> None:
    """Of large matrices it is as much as all that is held of the records."""
    views: list[weakref.ref[_newton.View[float]]] = []

    def look(point: float) -> _newton.View[float]:
        assert all(one() is None for one in views)
        view = _newton.View(abs(point), 1.0, 0.1, lambda: (-0.5 * point, np.inf))
        views.append(weakref.ref(view))
        return view

    found = _newton.damped_newton(look, lambda x, step: x + step, 1.0, 1e-3, 30)
    assert found.residual <= 1e-3
    assert len(views) > 5


# ------------------------------------------------------------------------------- threads
def _blas_threads() -> list[int]:
    """Of the libraries but SciPy's own, which JAX calls and which has a limit of its own."""
    blas = [one for one in threadpool_info() if one["user_api"] == "blas"]
    return [one["num_threads"] for one in blas if not of_scipy(one["filepath"])]


@pytest.fixture
def two_cores(monkeypatch):
    monkeypatch.setattr(_threads, "cores", lambda: 2)
    with threadpool_limits(2, user_api="blas"):
        yield


def test_libraries_keep_to_one_thread_and_are_given_back(two_cores) -> None:
    before = _blas_threads()
    with _threads.in_threads(8) as each:
        assert list(each(abs, [-1, 2])) == [1, 2]
        assert set(_blas_threads()) == {1}
    assert _blas_threads() == before
    with pytest.raises(ZeroDivisionError), _threads.in_threads(8):
        raise ZeroDivisionError
    assert _blas_threads() == before
    with _threads.in_threads(1) as each:
        assert each is map


def test_means_in_two_threads_leave_no_limit_behind(two_cores) -> None:
    before = _blas_threads()
    other_inside, this_left = threading.Event(), threading.Event()
    seen = []

    def other() -> None:
        with _threads.in_threads(8) as each:
            other_inside.set()
            assert this_left.wait(5)
            seen.extend(each(abs, [-3]))

    thread = threading.Thread(target=other)
    with _threads.in_threads(8):
        thread.start()
        # Whoever could enter here would find this limit, and give it back after this one has gone.
        assert not other_inside.wait(0.3)
    this_left.set()
    thread.join(60)
    assert seen == [3]
    assert _blas_threads() == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_of_a_fork_does_not_wait_for_a_thread_of_its_parent(two_cores) -> None:
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with _threads.in_threads(8):
            inside.set()
            leave.wait(60)

    thread = threading.Thread(target=other)
    thread.start()
    assert inside.wait(60)
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # a child that hangs dies of it
        with contextlib.suppress(BaseException), _threads.in_threads(8) as each:
            os._exit(0 if list(each(abs, [-1, 2])) == [1, 2] else 1)
        os._exit(2)
    status = os.waitpid(child, 0)[1]
    leave.set()
    thread.join()
    assert status == 0


def test_a_mean_does_not_depend_on_the_threads_of_a_library(monkeypatch) -> None:
    monkeypatch.setattr(_threads, "cores", lambda: 2)
    X = matrices(5, 20_000)
    assert len(X) > _affine_mean._part(X)

    def mean(threads: int) -> np.ndarray:
        with threadpool_limits(threads, user_api="blas"):
            return _affine_mean.affine_mean(X, None, 1e-9, 30).value

    one = mean(1)
    assert np.array_equal(one, mean(2))
    assert np.array_equal(one, mean(3))
