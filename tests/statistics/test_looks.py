"""Means by Newton's method on subspaces, rotations, Bures-Wasserstein spaces and products, read in
parts or in memory: Hessians beside automatic differentiation, the bounds that save the last pass
beside a search for what exceeds them, and records that are chosen to break either.
"""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import riemdp
from riemdp import Ball
from riemdp.domains import _sources, _stream
from riemdp.statistics import (
    FrechetMean,
    _frechet_mean,
    _look,
    _looks,
    _newton,
    _query,
    _streamed_bures,
    _streamed_mean,
    _streamed_symmetric,
)

PLANES, ROTATIONS = riemdp.Grassmann(5, 2), riemdp.Stiefel(4, 4)
BURES = riemdp.SPDBuresWasserstein(3)
PAIR = riemdp.Product(riemdp.Sphere(4), riemdp.SPDAffineInvariant(2))
MIXED = riemdp.Product(
    BURES, riemdp.Euclidean(2), riemdp.Grassmann(4, 2), riemdp.SPDLogEuclidean(2)
)
SYMMETRIC = [
    PLANES,
    riemdp.Grassmann(4, 2),
    riemdp.Grassmann(6, 4),  # more columns than rows
    riemdp.Grassmann(30, 2),  # too tall for the term of the fourth degree
    ROTATIONS,
    riemdp.Stiefel(2, 2),
    riemdp.Stiefel(5, 5),
]
SPACES = [*SYMMETRIC, BURES, riemdp.SPDBuresWasserstein(1), PAIR, MIXED]
FEW = [PLANES, riemdp.Grassmann(30, 2), ROTATIONS, BURES, PAIR, MIXED]


def _others_slow(spaces):
    return [s if s in FEW else pytest.param(s, marks=pytest.mark.slow) for s in spaces]


MORE = _others_slow(SPACES)
named = pytest.mark.parametrize("space", SPACES, ids=str)
few = pytest.mark.parametrize("space", MORE, ids=str)  # the others in the slow tests


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(_stream, "MOST_ROWS", 256)
    monkeypatch.setattr(_streamed_mean, "_SAMPLE", 1000)


def radius_of(space, share: float) -> float:
    """A share of the largest radius of a ball about the origin, or of 2 where there is none."""
    limit = float(Ball(space.origin, 1e-3).on(space).convexity_limit)
    return share * min(limit, 2.0)


def placed(space, y: np.ndarray, base=None):
    base = space.origin if base is None else base
    points = space.exp(base, space.from_coordinates(base, jnp.asarray(y)))
    return jax.tree.map(np.asarray, points)


def directions(space, n: int, seed: int = 0) -> np.ndarray:
    u = np.random.default_rng(seed).normal(size=(n, space.dim))
    return u / np.linalg.norm(u, axis=1, keepdims=True)


def cloud(space, n: int, radius: float, seed: int = 0):
    """Records of the ball whose mean is not its centre."""
    t = np.random.default_rng(seed).uniform(size=(n, 1))
    return placed(
        space, radius * (0.65 * t * directions(space, n, seed) + 0.3 * np.eye(1, space.dim))
    )


def mapped(folder, X):
    def one(x):
        path = folder / f"{len(list(folder.iterdir()))}.npy"
        np.save(path, x)
        return np.load(path, mmap_mode="r")

    return jax.tree.map(one, X)


def streamed(folder, space, X, radius: float):
    domain = Ball(space.origin, radius).on(space)
    n = len(jax.tree.leaves(X)[0])
    stream = FrechetMean(domain, n).prepare(mapped(folder, X)).points
    assert isinstance(stream, _stream.Stream)
    return domain.frame.local, stream


def residual(space, point, X, w=None) -> float:
    mean = jax.tree.map(lambda v: np.average(np.asarray(v), axis=0, weights=w), space.log(point, X))
    return float(space.norm(point, mean))


def in_place(query: FrechetMean, X):
    """The space that a mean is computed on, and the records there."""
    return query.frame.local.manifold, query.prepare(X).points


def newton(local, stream, start, tolerance: float, most: int = 50):
    look = _looks.look_for(local.manifold, local.center, local.radius)
    assert look is not None
    means = functools.partial(_look.means_of_stream, stream)
    return _look.newton_of_means(look, means, start, tolerance, most)


def symmetric_sums(space, point, X, w, series):
    errors = _streamed_symmetric.errors_within(series)
    given = (jnp.asarray(one) for one in (point, series, errors, X, w))
    sums = _streamed_symmetric._compiled_sums(space, *given)
    gradient, *moments, marks = (np.asarray(leaf) for leaf in sums)
    return gradient, _streamed_symmetric.assembled(space, float(series[0]), *moments), marks


def bures_sums(point, X, w, margin: float = 2.0, node: float | None = None):
    values, q = np.linalg.eigh(point)
    z = _streamed_bures.nodes(values, margin) if node is None else np.array([node])
    at = tuple(jnp.asarray(one) for one in (values, q, z))
    sums = _streamed_bures._compiled_sums(at, jnp.asarray(X), jnp.asarray(w))
    log, moment, marks = (np.asarray(leaf) for leaf in sums)
    return q @ log @ q.T, _streamed_bures.assembled(values, log, moment), marks


# ------------------------------------------------------------------------------- which
def test_which_spaces_have_a_look() -> None:
    for space in (*SPACES, riemdp.Sphere(3), riemdp.SPDAffineInvariant(3), riemdp.Euclidean(3)):
        assert _looks.look_for(space, space.origin, 1.0) is not None
    others = (
        riemdp.Grassmann(800, 2),  # Hessians too large
        riemdp.SPDBuresWasserstein(21),
        riemdp.SPDAffineInvariant(51),
        riemdp.Product(riemdp.Sphere(3), riemdp.Sphere(2000)),
    )
    for space in others:
        assert _looks.look_for(space, space.origin, 1.0) is None


# ------------------------------------------------------------------------------- Hessians
@pytest.mark.parametrize("space", _others_slow(SYMMETRIC), ids=str)
@pytest.mark.parametrize("width", [0.4, 1.5])
def test_a_pass_gives_gradient_and_hessian(space, width) -> None:
    """With what the polynomial misses, stated."""
    n, at = 16, placed(space, 0.1 * directions(space, 1, 9))[0]
    t = np.r_[0.0, 1e-9, 1e-5, 1e-3, np.linspace(0.05, 1.0, n - 4)][:, None]
    far = 0.7 if isinstance(space, riemdp.Grassmann) else 1.4
    X, w = placed(space, far * t * directions(space, n), at), np.arange(1.0, n + 1.0)
    w /= w.sum()
    more = np.concatenate([X, np.full(X.shape, np.nan)])  # without weight it may be anything
    tall = space == riemdp.Grassmann(30, 2)
    series = _streamed_symmetric.fitted(width, 2 if tall else 3)
    given = np.r_[w, np.zeros(n)]
    gradient, hessian, marks = symmetric_sums(space, at, more, given, series)

    def f(y):
        end = space.exp(at, space.from_coordinates(at, y))
        return 0.5 * jnp.sum(w * space.squared_dist(end, X))

    zero = jnp.zeros(space.dim)
    np.testing.assert_allclose(gradient, -jax.grad(f)(zero), atol=1e-11)
    # at the point itself; elsewhere coordinates would bend
    true = np.asarray(jax.jacfwd(jax.grad(f))(zero))
    error = float(np.linalg.norm(hessian - true, 2))
    assert error <= marks[0] + 1e-8
    assert space.dim == 1 or error > 1e-3 * marks[0]
    assert np.linalg.eigvalsh(true)[0] >= marks[2] - 1e-8
    assert np.linalg.eigvalsh(true)[-1] <= 1.0 + 1e-8


@pytest.mark.parametrize("width", [0.3, 1.5, 3.0])
@pytest.mark.parametrize("terms", [2, 3])
def test_the_errors_of_a_polynomial_are_bounded(width, terms) -> None:
    series = _streamed_symmetric.fitted(width, terms)
    x = np.random.default_rng(0).uniform(0.0, 3.13, 2000)
    x.sort()
    error = np.abs(x / np.tan(x) - (series[0] + x**2 * (series[1] + series[2] * x**2)))
    errors = jnp.asarray(_streamed_symmetric.errors_within(series))
    bound = np.asarray(_streamed_symmetric._marks(jnp.asarray(x), errors, 1.0))[:, 0]
    largest = np.maximum.accumulate(error)
    assert np.all(bound >= largest)
    near = x < 2.9
    assert np.all(bound[near] <= largest[near] * 1.5 + 1e-2)
    beyond = np.asarray(_streamed_symmetric._marks(jnp.asarray([3.2, np.nan]), errors, 1.0))
    assert np.all(beyond[:, 1] == np.inf)
    assert np.all(beyond[:, 2] == -np.inf)


@pytest.mark.parametrize("k", [1, 2, 5])
def test_the_eigenvalues_of_a_map_lie_between_their_bounds(k) -> None:
    rng = np.random.default_rng(k)
    q = np.linalg.qr(rng.normal(size=(300, k, k)))[0]
    values = np.exp(rng.normal(size=(300, k)) * rng.choice([1e-6, 1e-2, 1.0], (300, 1)))
    maps, inverses = (
        jnp.asarray((q * v[:, None, :]) @ q.swapaxes(1, 2)) for v in (values, 1.0 / values)
    )
    a, b = (np.asarray(x) for x in _streamed_bures._bounds(maps - jnp.eye(k), inverses))
    assert np.all(a <= values.min(axis=1) * (1.0 + 1e-12))
    assert np.all(b >= values.max(axis=1) * (1.0 - 1e-12))
    assert np.all(a > 0.0)
    assert np.all(b - 1.0 <= 2.0 * np.abs(values - 1.0).max(axis=1) * k**0.25 + 1e-12)


@pytest.mark.parametrize("k", [1, 2, 3, 6])
@pytest.mark.parametrize("condition", [1.0, 300.0])
def test_a_pass_gives_the_derivative_of_optimal_maps(k, condition) -> None:
    rng = np.random.default_rng(k)
    q = np.linalg.qr(rng.normal(size=(k, k)))[0]
    point = (q * np.geomspace(1.0, 1.0 / condition, k)) @ q.T
    factors = np.eye(k) + 0.25 * rng.normal(size=(8, k, k)) / math.sqrt(k)
    X = factors @ point @ factors.swapaxes(1, 2)
    w = np.arange(1.0, 9.0) / 36.0
    more, given = np.concatenate([X, np.full(X.shape, np.nan)]), np.r_[w, np.zeros(8)]
    margin = 1.3 * bures_sums(point, more, given)[2][3] ** 0.125  # as in a second pass
    mean, derivative, marks = bures_sums(point, more, given, margin)

    def maps(p):  # T p T = X, by another formula
        root = np.linalg.cholesky(p)
        inside = root.T @ X @ root
        values, u = np.linalg.eigh(inside)
        back = np.linalg.inv(root)
        half = (u * np.sqrt(values)[:, None, :]) @ u.swapaxes(1, 2)
        return np.einsum("n,nij->ij", w, back.T @ half @ back)

    np.testing.assert_allclose(mean, maps(point) - np.eye(k), atol=1e-10 * condition)
    space = riemdp.SPDBuresWasserstein(k)
    values, q = np.linalg.eigh(point)
    root = (q * np.sqrt(values)) @ q.T
    images, steps, h = [], [], 1e-5
    for y in np.eye(space.dim):
        v = np.asarray(space.from_coordinates(point, y))
        step = np.asarray(riemdp.manifolds._spectral.lyapunov(jnp.asarray(point), jnp.asarray(v)))
        turn = [(np.eye(k) + s * step) @ point @ (np.eye(k) + s * step) for s in (h, -h)]
        images.append((-(maps(turn[0]) - maps(turn[1])) / (2 * h) @ root).ravel())
        steps.append((step @ root).ravel())
    true = np.asarray(steps) @ np.asarray(images).T  # tr(L P A M) of all pairs
    true = 0.5 * (true + true.T)
    frame = np.asarray([_streamed_bures._in_frame(q, _look_scale(k), e) for e in np.eye(space.dim)])
    found = frame.T @ derivative @ frame
    error = float(np.linalg.norm(found - true, 2))
    assert error <= marks[0] + 1e-6 * condition**0.5
    assert marks[0] <= 1e-4
    _, poor, marks = bures_sums(point, more, given, node=1.0)  # exact for an eigenvalue of 1
    error = float(np.linalg.norm(frame.T @ poor @ frame - true, 2))
    assert error <= marks[0] + 1e-6 * condition**0.5
    assert condition == 1.0 or k == 1 or error > 1e-4


def _look_scale(k: int) -> np.ndarray:
    return _streamed_bures.packing(k)[2]


@pytest.mark.parametrize("condition", [1.0, 30.0, 1e4, 1e12])
@pytest.mark.parametrize("margin", [1.3, 1e3])
def test_what_nodes_leave_of_a_quotient(condition, margin) -> None:
    """1 / (x + y) as a sum of products, its error the stated share of it: rounding at the nodes."""
    values = np.geomspace(1e-3, 1e-3 * condition, 4)
    z = _streamed_bures.nodes(values, margin)
    # also beyond what they are made for
    x = np.r_[z, np.geomspace(values[0] / 3.0, 3.0 * values[-1], 200)]
    phi, share = map(np.asarray, _streamed_bures.functions(jnp.asarray(x), jnp.asarray(z)))
    exact = 1.0 / (x[:, None] + x)
    np.testing.assert_allclose(
        (exact - phi @ phi.T) / exact, share[:, None] * share, rtol=0.0, atol=1e-14
    )
    assert len(z) <= 8


# ------------------------------------------------------------------------------- the bounds
def carried(space, end, start, v):
    return np.asarray(space.to_coordinates(start, space.transport(end, start, v)))


@pytest.mark.parametrize("space", [*SYMMETRIC[:3], ROTATIONS, riemdp.Stiefel(5, 5)], ids=str)
def test_the_bound_of_subspaces_and_rotations_holds_for_each_record(space) -> None:
    """What is left of a record's gradient after a step, beside what the Hessian says: hostile
    directions are those that a search along the gradient of the ratio finds.
    """
    series = _streamed_symmetric.fitted(0.5, 3)
    origin, length, worst = space.origin, 0.04, 0.0
    rng = np.random.default_rng(0)
    planes = isinstance(space, riemdp.Grassmann)

    def left(y, u, t):
        """Of one record in direction y at distance t, and a step along u."""
        x = space.exp(origin, space.from_coordinates(origin, t * y))

        def gradient(s):
            end = space.exp(origin, space.from_coordinates(origin, s * u))
            v = space.transport(end, origin, space.log(end, x))
            return space.to_coordinates(origin, v)

        h = 1e-3  # the derivative by differences: that of a derivative may not exist
        slope = (8.0 * (gradient(h) - gradient(-h)) - gradient(2 * h) + gradient(-2 * h)) / (12 * h)
        return jnp.linalg.norm(gradient(length) - gradient(0.0) - length * slope)

    many = jax.jit(jax.vmap(left, in_axes=(0, 0, None)))
    for t in (0.05, 0.5, 1.2) if planes else (0.1, 1.0, 2.0):
        best, at = 0.0, rng.normal(size=(2, space.dim))
        for step in range(25):
            size = 1.0 if step < 5 else 0.3 * 0.9**step
            tried = at + size * rng.normal(size=(64, 2, space.dim)) * np.linalg.norm(at) / 4.0
            tried /= np.linalg.norm(tried, axis=2, keepdims=True)
            found = np.asarray(many(tried[:, 0], tried[:, 1], t))
            if found.max() > best:
                best, at = float(found.max()), tried[int(np.argmax(found))]
        x = placed(space, t * at[:1])
        *_, marks = symmetric_sums(space, origin, x, np.ones(1), series)
        assert best <= marks[1] * length**2 + 1e-9
        worst = max(worst, best / (marks[1] * length**2))
    assert worst > 0.05  # no luxury


def test_the_bound_of_bures_holds_for_each_record() -> None:
    rng, worst = np.random.default_rng(0), 0.0
    for trial in range(400):
        k = 2 + trial % 3
        condition = 10.0 ** rng.uniform(0.0, 3.0)
        q = np.linalg.qr(rng.normal(size=(k, k)))[0]
        point = (q * np.geomspace(1.0, 1.0 / condition, k)) @ q.T
        size = rng.choice([0.05, 0.3, 0.8]) / k
        map_ = np.eye(k) + size * sum(np.outer(v, v) * s for v, s in zip(
            rng.normal(size=(k, k)), rng.choice([-0.5, 1.0], k), strict=True))  # fmt: skip
        if np.linalg.eigvalsh(map_)[0] < 0.05:
            continue
        X = map_ @ point @ map_
        log, derivative, marks = bures_sums(point, X[None], np.ones(1))
        u = np.linalg.eigvalsh(point)[0]
        y = rng.normal(size=(k, k))
        if trial % 2:  # along the smallest eigenvalue, where the space bends most
            y = np.outer(q[:, -1], rng.normal(size=k))
        step = y + y.T
        step *= rng.uniform(0.1, 1.0) * 0.5 * math.sqrt(u / np.trace(step @ point @ step))
        length = math.sqrt(np.trace(step @ point @ step))
        after = (np.eye(k) + step) @ point @ (np.eye(k) + step)
        root = np.linalg.cholesky(after)
        values, v = np.linalg.eigh(root.T @ X @ root)
        back = np.linalg.inv(root)
        rest = back.T @ ((v * np.sqrt(values)) @ v.T) @ back - np.eye(k)
        seen = math.sqrt(max(np.trace(rest @ after @ rest), 0.0))
        values, q = np.linalg.eigh(point)
        rows, columns, scale = _streamed_bures.packing(k)
        weight = np.sqrt(0.5 * (values[rows] + values[columns])) * scale
        s, g = (q.T @ step @ q)[rows, columns] * weight, (q.T @ log @ q)[rows, columns] * weight
        left = float(np.linalg.norm(g - derivative @ s)) + marks[0] * length
        share = length / math.sqrt(u)
        bound = (1.0 + share) * (left + marks[1] * length**2 / math.sqrt(u) / (1.0 - share))
        assert seen <= bound + 1e-12 * condition
        worst = max(worst, (seen - left) / (bound - left))
    assert worst > 0.2


@named
def test_the_bound_after_one_step_is_a_bound(space) -> None:
    """From a point 1e-4 to .04 from the mean of two or three records, whose third derivatives do
    not cancel.
    """
    reach, tight = radius_of(space, 0.6), 0.0
    rng = np.random.default_rng(0)
    for trial in range(12):
        n = 2 + trial % 2
        X = placed(space, reach * directions(space, n, trial))
        mean = riemdp.frechet_mean(space, X).value
        away = rng.choice([1e-4, 1e-2, 0.04])
        start = placed(space, away * directions(space, 1, 50 + trial), mean)
        start = jax.tree.map(lambda x: jnp.asarray(x[0]), start)
        look = _looks.look_for(space, space.origin, 2.0 * reach)
        assert look is not None
        look.view(_looks.means_in_memory(X, None, 4, look.part(start)))  # it learns widths
        view = look.view(_looks.means_in_memory(X, None, 4, look.part(start)))
        step, bound = view.newton()
        after = residual(space, _look.ends(space, start, step), X)
        assert after <= bound + 1e-11
        tight = max(tight, after / (bound + 1e-11))
    flat = space.dim == 1 or all(c == 0.0 for c in space.curvature_bounds)
    assert flat or tight > 1e-4  # no luxury


def test_the_bound_of_a_product_is_that_of_all_factors() -> None:
    class Given(_look.AbstractLook):
        manifold = riemdp.Euclidean(2)

        def part(self, point):
            raise NotImplementedError

        def view(self, means):
            step = np.full(2, means)
            return _newton.View(means, 1.0, step, lambda: (step, means))

    space = riemdp.Product(riemdp.Euclidean(2), riemdp.Euclidean(2))
    view = _look.ProductLook(space, [Given(), Given()]).view((3.0, 4.0))
    assert view.residual == 5.0
    step, bound = view.newton()
    assert bound == 5.0
    assert step.tolist() == view.descent.tolist() == [3.0, 3.0, 4.0, 4.0]


@few
@pytest.mark.parametrize("tolerance", [1e-3, 1e-5, 1e-9])
def test_the_residual_that_is_stated_is_never_below_the_true_one(
    tmp_path, space, tolerance
) -> None:
    n, radius = 1000, radius_of(space, 0.8)
    X = cloud(space, n, radius)
    local, stream = streamed(tmp_path, space, X, radius)
    found = newton(local, stream, local.center, tolerance)
    there, points = in_place(FrechetMean(Ball(space.origin, radius).on(space), n), X)
    assert residual(there, found.value, points) <= found.residual + 1e-12
    assert found.residual <= tolerance


@few
def test_the_bound_holds_whatever_the_step_and_the_polynomial(tmp_path, monkeypatch, space) -> None:
    """They cost passes and nothing else."""
    for module in (_streamed_symmetric, _streamed_bures):
        monkeypatch.setattr(module, "solved", lambda hessian, gradient, least: 0.9 * gradient)
    flat = np.array([1.0, 0.0, 0.0])
    monkeypatch.setattr(_streamed_symmetric, "fitted", lambda width, terms: flat)
    one = np.array([20.0])
    monkeypatch.setattr(_streamed_bures, "nodes", lambda values, margin: one)
    n, radius = 500, radius_of(space, 0.6)
    X = cloud(space, n, radius)
    local, stream = streamed(tmp_path, space, X, radius)
    found = newton(local, stream, local.center, 1e-8, 99)
    there, points = in_place(FrechetMean(Ball(space.origin, radius).on(space), n), X)
    assert residual(there, found.value, points) <= found.residual + 1e-12
    assert found.residual <= 1e-8
    assert space == PAIR or found.passes > 3


# ------------------------------------------------------------------------------- the mean
@few
def test_the_records_are_read_twice(tmp_path, monkeypatch, space) -> None:
    monkeypatch.setattr(_streamed_mean, "_SAMPLE", 4096)  # enough of them for the first Hessian
    n, radius = 16_000, radius_of(space, 0.5)
    X = cloud(space, n, radius)
    query = FrechetMean(Ball(space.origin, radius).on(space), n)
    ends: list[int] = []
    with _sources.watched(lambda read, n: ends.append(read) if read == n else None):
        found = query.value(query.prepare(mapped(tmp_path, X)))
    assert 1 <= len(ends) <= 2
    assert query.tolerance is not None
    there, points = in_place(query, X)
    assert residual(there, found, points) <= query.tolerance
    assert float(there.dist(found, query.value(query.prepare(X)))) <= 1e-9


def hostile(space, kind: str, n: int, radius: float):
    u, one = directions(space, n), np.tile(directions(space, 1, 5), (n, 1))
    left = (np.arange(n) % 3 == 0)[:, None]
    y = {
        "all at the centre": np.zeros_like(u),
        "all on the edge": radius * u,
        "all the same, on the edge": radius * one,
        "two opposite points": np.where(left, radius * one, -radius * one),
        "one far from the others": np.where(
            np.arange(n)[:, None] == 3, -radius * one, radius * one
        ),
        "the sample misleads": np.where(np.arange(n)[:, None] % 2, radius * one, -radius * u),
        "tiny": 1e-9 * u,
    }[kind]
    return placed(space, y)


@pytest.mark.parametrize("space", [PLANES, ROTATIONS, BURES, MIXED], ids=str)
def test_nothing_that_is_known_of_a_sample_only_ends_the_search(space) -> None:
    """All of the sample lies at the start, where Hessians are 1 and nothing bends; the other
    records have another Hessian, and their step would end elsewhere.
    """
    n, local = (
        200,
        FrechetMean(Ball(space.origin, radius_of(space, 0.5)).on(space), 200).frame.local,
    )
    there, start = local.manifold, local.center
    reach = radius_of(space, 0.9)
    y = reach * directions(there, n)
    y[n // 2 :] = -y[: n // 2]
    aside = 0.02 * reach * directions(there, 1, 7)
    X = placed(there, y + aside, start)
    sample = placed(there, np.zeros_like(y), start)
    look = _looks.look_for(there, start, local.radius)
    assert look is not None
    records, some = (
        functools.partial(_looks.means_in_memory, points, None, 256) for points in (X, sample)
    )
    for tolerance in (1e-2, 1e-3, 1e-4, 1e-5, 1e-6):
        found = _look.newton_of_means(look, records, start, tolerance, 50, some)
        assert residual(there, found.value, X) <= found.residual + 1e-12
        assert found.residual <= tolerance


@pytest.mark.parametrize(
    ("space", "enough"),  # whether a sample gives the first Hessian
    [pytest.param(s, 1 << 40, marks=() if s in FEW else pytest.mark.slow) for s in SPACES]
    + [(s, 100) for s in (PLANES, ROTATIONS, BURES, MIXED)],
    ids=str,
)
@pytest.mark.parametrize(
    "kind",
    [
        "all at the centre",
        "all on the edge",
        "all the same, on the edge",
        "two opposite points",
        "one far from the others",
        "the sample misleads",
        "tiny",
    ],
)
def test_the_public_tolerance_is_reached_whatever_the_records(
    tmp_path, monkeypatch, space, kind, enough
) -> None:
    monkeypatch.setattr(_streamed_mean, "_ENOUGH", enough)
    n, radius = 600, radius_of(space, 0.95)
    X = hostile(space, kind, n, radius)
    query = FrechetMean(Ball(space.origin, radius).on(space), n)
    records = query.prepare(mapped(tmp_path, X))
    found = query.value(records)
    assert query.tolerance is not None
    there, points = in_place(query, X)
    assert residual(there, found, points) <= query.tolerance + 1e-13


def test_what_newton_does_not_reach_is_searched_for_on(tmp_path, monkeypatch) -> None:
    """The tolerance is part of the sensitivity."""
    asked = []

    def lost(look, move, start, tol, most):
        asked.append(tol)
        return _newton.Found(start, 1.0, most, 1.0)

    monkeypatch.setattr(_look, "damped_newton", lost)
    monkeypatch.setattr(_looks, "MANY", 1000)
    monkeypatch.setattr(_looks, "on_accelerator", lambda _: True)
    monkeypatch.setattr(_query, "suits_clamp", lambda *_: False)
    for space in (PLANES, BURES, riemdp.SPDAffineInvariant(3)):
        n, radius = 1500, radius_of(space, 0.5)
        X = cloud(space, n, radius)
        query = FrechetMean(Ball(space.origin, radius).on(space), n)
        assert query.tolerance is not None
        for given in (mapped(tmp_path, X), X):
            asked.clear()
            found = query.value(query.prepare(given))
            assert query.tolerance in asked
            assert residual(space, found, X) <= query.tolerance


@pytest.mark.parametrize("error", [np.linalg.LinAlgError, ZeroDivisionError])
def test_an_error_of_newtons_method_is_not_one_of_the_mean(tmp_path, monkeypatch, error) -> None:
    """Else the records would decide that the center is the value."""
    asked = []

    def lost(look, move, start, tol, most):
        asked.append(tol)
        raise error("not this way")

    n, radius = 1500, radius_of(PLANES, 0.5)
    X = cloud(PLANES, n, radius)
    query = FrechetMean(Ball(PLANES.origin, radius).on(PLANES), n)
    monkeypatch.setattr(_look, "damped_newton", lost)
    monkeypatch.setattr(_looks, "MANY", 1000)
    for given in (mapped(tmp_path, X), X):
        asked.clear()
        found = query.value(query.prepare(given))
        assert asked
        assert residual(PLANES, found, X) <= query.tolerance


@pytest.mark.parametrize("space", [PLANES, ROTATIONS, BURES], ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_many_records_in_memory_take_two_passes(monkeypatch, space, weighted) -> None:
    n, radius = 20_000, radius_of(space, 0.5)
    X = cloud(space, n, radius)
    w = np.random.default_rng(1).integers(0, 3, n).astype(float) if weighted else None
    if w is not None:
        w[: n // 2 : 5] = 0.0
    monkeypatch.setattr(_stream, "MOST_ROWS", 1 << 15)
    found = riemdp.frechet_mean(space, X, weights=w)
    assert found.converged
    assert found.iterations == 2
    assert residual(space, found.value, X, w) <= found.residual + 1e-13
    monkeypatch.setattr(_frechet_mean, "look_for_many", lambda *_: None)
    other = riemdp.frechet_mean(space, X, weights=w)
    assert other.iterations > 2
    assert float(space.dist(found.value, other.value)) <= 3e-10


@pytest.mark.parametrize(
    ("space", "wide"), [(riemdp.Grassmann(3, 1), 1.1), (riemdp.Stiefel(3, 3), 3.2)], ids=str
)
def test_in_memory_no_record_is_taken_to_be_near_the_start(monkeypatch, space, wide) -> None:
    """Before, on spaces of constant curvature: the bound after a step was for records as far from
    it as the start. The start is the mean of a sample, from which the others lie a little aside.
    """
    monkeypatch.setattr(_looks, "MANY", 1000)
    n = 1608
    sample = np.zeros(n, dtype=bool)
    sample[(np.arange(n // 8) * n) // (n // 8)] = True
    turn = np.empty(n)
    turn[sample], turn[~sample] = np.arange(n // 8) % 3, np.arange(n - n // 8) % 3
    y = np.zeros((n, space.dim))
    y[:, 0], y[:, 1] = np.cos(turn * 2.0 * math.pi / 3.0), np.sin(turn * 2.0 * math.pi / 3.0)
    y *= wide
    y[~sample, :2] += 5e-4 * np.array([math.cos(0.4), math.sin(0.4)])
    X = placed(space, y)
    found = riemdp.frechet_mean(space, X)
    assert found.converged
    assert residual(space, found.value, X) <= found.residual + 1e-13


def test_many_records_that_are_spread_too_widely_are_told_of() -> None:
    n = 10_000
    y = np.zeros((n, PLANES.dim))  # (3, 2): two angles of .6 each
    y[::2, [0, 3]], y[1::2, [0, 3]] = 0.6, -0.6
    y += 1e-3 * directions(PLANES, n)
    with pytest.warns(riemdp.SpreadWarning):
        riemdp.frechet_mean(PLANES, placed(PLANES, y))
