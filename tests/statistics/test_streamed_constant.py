"""Means on spaces of constant curvature that are read in parts: the Hessian beside automatic
differentiation, the bound that saves the last pass beside a search for what exceeds it, and records
that are chosen to break either.
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
from riemdp.statistics import FrechetMean, _look, _newton, _streamed_constant, _streamed_mean

SPHERE, HYPERBOLIC, ROTATIONS = riemdp.Sphere(4), riemdp.Lorentz(4), riemdp.Stiefel(3, 3)
SPACES = [
    riemdp.Sphere(2),
    SPHERE,
    riemdp.Stiefel(4, 1),
    ROTATIONS,  # curvature 1/8
    riemdp.Grassmann(4, 1),
    HYPERBOLIC,
    riemdp.PoincareBall(3),
]
named = pytest.mark.parametrize("space", SPACES, ids=str)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(_stream, "MOST_ROWS", 64)
    monkeypatch.setattr(_streamed_mean, "_SAMPLE", 300)


def curvature_of(space) -> float:
    return float(space.curvature_bounds[0])


def widest(space) -> float:
    """A radius near the largest one, and one that is wide where there is none."""
    return 3.0 if space.is_hadamard else 0.99 * Ball(space.origin, 1e-3).on(space).convexity_limit


def placed(space, y: np.ndarray) -> np.ndarray:
    """The points at these coordinates of the tangent space at the origin."""
    return np.asarray(space.exp(space.origin, space.from_coordinates(space.origin, jnp.asarray(y))))


def directions(space, n: int, seed: int = 0) -> np.ndarray:
    u = np.random.default_rng(seed).normal(size=(n, space.dim))
    return u / np.linalg.norm(u, axis=1, keepdims=True)


def lengths(n: int, radius: float) -> np.ndarray:
    return radius * np.random.default_rng(9).uniform(size=(n, 1))


def mapped(folder, X: np.ndarray) -> np.ndarray:
    np.save(folder / "x.npy", X)
    return np.load(folder / "x.npy", mmap_mode="r")


def streamed(folder, space, X: np.ndarray, radius: float):
    domain = Ball(space.origin, radius).on(space)
    stream = FrechetMean(domain, len(X)).prepare(mapped(folder, X)).points
    assert isinstance(stream, _stream.Stream)
    return domain.frame.local, stream


def newton(domain, stream, start, tolerance: float, most: int):
    look = _streamed_constant.ConstantLook(domain.manifold, domain.center, domain.radius)
    means = functools.partial(_look.means_of_stream, stream)
    return _look.newton_of_means(look, means, start, tolerance, most)


def residual(space, point, X: np.ndarray) -> float:
    mean = jax.tree.map(lambda v: jnp.mean(v, axis=0), space.log(point, X))
    return float(space.norm(point, mean))


def seen(space, point, X: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean logarithm and Hessian at the point, as a pass gives them; the weights sum to 1."""
    sums = _streamed_constant._compiled_sums(
        space, jnp.asarray(point), jnp.asarray(X), jnp.asarray(w)
    )
    gradient, across, second = (np.asarray(leaf) for leaf in sums)
    return gradient, second + float(across) * np.eye(space.dim)


# ------------------------------------------------------------------------------- the Hessian
@named
def test_a_pass_gives_gradient_and_hessian(space) -> None:
    far = 0.9 * math.pi if space == SPHERE else 2.0 * widest(space)
    t = np.r_[0.0, 1e-9, 1e-5, 8e-3, 1.2e-2, 0.1, 0.5 * far, far][:, None]
    X = placed(space, t * directions(space, len(t)))
    w = np.random.default_rng(0).uniform(0.1, 1.0, len(t))
    w /= w.sum()

    def f(y):
        end = space.exp(space.origin, space.from_coordinates(space.origin, y))
        return 0.5 * jnp.sum(w * space.squared_dist(end, X))

    zero = jnp.zeros(space.dim)
    # a record that has no weight may be anything
    more = np.concatenate([X, np.full(X.shape, np.nan)])
    gradient, hessian = seen(space, space.origin, more, np.r_[w, np.zeros(len(w))])
    np.testing.assert_allclose(gradient, -jax.grad(f)(zero), atol=1e-11)
    # at the origin itself; elsewhere coordinates would bend
    np.testing.assert_allclose(hessian, jax.hessian(f)(zero), atol=1e-8)


def test_which_spaces_it_is_for() -> None:
    assert all(_streamed_constant.suits(space) for space in SPACES)
    others = (
        riemdp.Euclidean(3),
        riemdp.SPDAffineInvariant(3),
        riemdp.Grassmann(5, 2),
        riemdp.Product(riemdp.Sphere(3), riemdp.Sphere(3)),
        riemdp.Sphere(2000),  # the Hessian would be larger than all that is held of the records
    )
    assert not any(_streamed_constant.suits(space) for space in others)


# ------------------------------------------------------------------------------- the bound
def remainders(space, distances, angles, steps):
    """For one record at each distance and each angle from a step of each length: how far the
    gradient after the step, carried back, is from the linear one, and the bound of it.
    """
    origin, curvature = space.origin, curvature_of(space)
    for t in distances:
        y = np.zeros((1, space.dim))
        y[0, 0] = t
        x = placed(space, y)
        gradient, hessian = seen(space, origin, x, np.ones(1))
        for angle in angles:
            for length in steps:
                step = np.zeros(space.dim)
                step[:2] = length * math.cos(angle), length * math.sin(angle)
                end = placed(space, step)
                back = space.transport(end, origin, space.log(end, x[0]))
                after = np.asarray(space.to_coordinates(origin, back))
                bound = _streamed_constant.residual_after(step, 0.0, curvature, t)
                yield float(np.linalg.norm(after - (gradient - hessian @ step))), bound


@pytest.mark.parametrize(
    ("space", "far", "reached"),
    [(SPHERE, 1.55, 0.45), (ROTATIONS, 1.55 * math.sqrt(8.0), 0.45), (HYPERBOLIC, 9.0, 0.85)],
    ids=str,
)
def test_the_bound_holds_for_each_record_and_is_no_luxury(space, far, reached) -> None:
    angles = np.linspace(0.0, math.pi, 9)
    # so short a step shows the second derivative itself, the others what becomes of it on the way
    ratios = []
    for distances, steps in (
        (np.linspace(0.02, 1.0, 8) * far, (1e-2,)),
        (np.linspace(0.0, 0.6, 5) * far, (0.1 * far, 0.35 * far)),
    ):
        found = np.array(list(remainders(space, distances, angles, steps)))
        assert np.all(found[:, 0] <= found[:, 1])
        ratios.append(found[:, 0] / found[:, 1])
    assert np.max(ratios[0]) > reached


def test_beyond_a_right_angle_no_bound_is_known_and_this_one_does_not_hold() -> None:
    step = np.array([1e-3, 0.0])
    assert math.isinf(_streamed_constant.residual_after(step, 0.0, 1.0, 1.5705))
    assert math.isfinite(_streamed_constant.residual_after(step, 0.0, 1.0, 1.5690))
    assert math.isinf(_streamed_constant.residual_after(step, 0.0, 0.125, 1.5705 * math.sqrt(8.0)))
    assert math.isfinite(_streamed_constant.residual_after(step, 0.0, -1.0, 30.0))
    t, length = 2.8, 1e-3
    ((left, bound),) = remainders(SPHERE, [t], [math.pi / 3], [length])
    assert math.isinf(bound)
    assert left > 0.5 * (t + length) * length**2


@named
@pytest.mark.parametrize("tolerance", [1e-3, 1e-5, 1e-9])
def test_the_residual_that_is_stated_is_never_below_the_true_one(
    tmp_path, space, tolerance
) -> None:
    n, radius = 1000, 0.6 * widest(space)
    y = lengths(n, 0.6 * radius) * directions(space, n)
    y[:, 0] += 0.35 * radius
    X = placed(space, y)
    local, stream = streamed(tmp_path, space, X, radius)
    found = newton(local, stream, local.center, tolerance, 50)
    assert residual(space, found.value, X) <= found.residual + 1e-13
    assert found.residual <= tolerance


@pytest.mark.parametrize("space", [SPHERE, HYPERBOLIC], ids=str)
def test_the_bound_holds_whatever_the_step(tmp_path, monkeypatch, space) -> None:
    """One that is not Newton's costs passes and nothing else."""
    n, radius = 500, 0.7
    X = placed(space, lengths(n, 0.6 * radius) * directions(space, n) + 0.1)
    monkeypatch.setattr(_streamed_constant, "solved", lambda hessian, gradient, least: gradient)
    local, stream = streamed(tmp_path, space, X, radius)
    found = newton(local, stream, local.center, 1e-8, 99)
    assert residual(space, found.value, X) <= found.residual + 1e-13
    assert found.residual <= 1e-8
    assert found.passes > 3


@named
def test_how_far_records_lie_is_taken_from_the_ball(tmp_path, monkeypatch, space) -> None:
    """Not from the records: no record of the ball is farther, and a pass need not find it."""
    radius = 0.9 * widest(space)
    views = []

    def looked(look, move, start, tol, most):
        views.append((start, look(start)))
        return _newton.Found(start, 0.0, 1, 0.0)

    monkeypatch.setattr(_look, "damped_newton", looked)
    local, stream = streamed(tmp_path, space, np.stack([space.origin] * 20), radius)
    y = 0.8 * radius * directions(space, 1)
    for start in (local.center, placed(space, y)[0]):
        newton(local, stream, start, 1e-9, 9)
        farthest = placed(space, -radius * directions(space, 1))[0]
        assert views[-1][1].spread >= float(space.dist(start, farthest)) - 1e-12


# ------------------------------------------------------------------------------- the mean
@pytest.mark.parametrize("space", [*SPACES, riemdp.Sphere(100), riemdp.Lorentz(21)], ids=str)
@pytest.mark.parametrize("share", [pytest.param(0.3, marks=pytest.mark.slow), 1.0])
def test_the_records_are_read_twice(tmp_path, space, share) -> None:
    n, radius = 3000, share * widest(space)
    X = placed(space, lengths(n, 0.7 * radius) * directions(space, n) + 0.1 * radius / space.dim)
    query = FrechetMean(Ball(space.origin, radius).on(space), n)
    ends: list[int] = []
    with _sources.watched(lambda read, n: ends.append(read) if read == n else None):
        found = query.value(query.prepare(mapped(tmp_path, X)))
    assert 1 <= len(ends) <= 2
    assert query.tolerance is not None
    assert residual(space, found, X) <= query.tolerance
    assert float(space.dist(found, query.value(query.prepare(X)))) <= 1e-9


@pytest.mark.parametrize(("n", "most"), [(300, 300), (301, 151), (500, 250), (2000, 300)])
def test_a_sample_costs_half_a_pass_at_most(tmp_path, monkeypatch, n, most) -> None:
    """Unless it is the whole."""
    sizes = []
    thinned = _stream.Stream.thinned
    monkeypatch.setattr(
        _stream.Stream, "thinned", lambda self, size: sizes.append(size) or thinned(self, size)
    )
    X = placed(SPHERE, lengths(n, 0.4) * directions(SPHERE, n))
    query = FrechetMean(Ball(SPHERE.origin, 0.5).on(SPHERE), n)
    query.value(query.prepare(mapped(tmp_path, X)))
    assert sizes == [most]


def hostile(space, kind: str, n: int, radius: float) -> np.ndarray:
    u = directions(space, n)
    one = np.tile(directions(space, 1, 5), (n, 1))
    left = (np.arange(n) % 3 == 0)[:, None]
    y = {
        "all at the centre": np.zeros_like(u),
        "all on the edge": radius * u,
        "all the same, on the edge": radius * one,
        "two opposite points": np.where(left, radius * one, -radius * one),
        "one at the start, others far": np.where(np.arange(n)[:, None] == 0, 0.0, radius * one),
        "far outside": 5.0 * radius * u,
        "tiny": 1e-12 * radius * u,
        "one apart": np.where(np.arange(n)[:, None] == n - 1, -radius * one, radius * one),
    }[kind]
    return placed(space, y)


HOSTILE = [
    "all at the centre",
    "all on the edge",
    "all the same, on the edge",
    "two opposite points",
    "one at the start, others far",
    "far outside",
    "tiny",
    "one apart",
]


@pytest.mark.parametrize("space", [riemdp.Sphere(2), SPHERE, ROTATIONS, HYPERBOLIC], ids=str)
@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_records_have_the_same_mean(tmp_path, monkeypatch, space, kind) -> None:
    """In a ball near the largest; a third of them twice as heavy, some without weight, some no
    points at all.
    """
    monkeypatch.setattr(_streamed_mean, "_SAMPLE", 16)
    n, radius = 200, widest(space) / 0.99 * (1.0 - 1e-6)
    X = hostile(space, kind, n, radius).copy()
    X[7], X[8] = np.nan, 1e300
    w = np.where(np.arange(n) % 3 == 0, 2.0, 1.0)
    w[1::5] = 0.0
    query = FrechetMean(Ball(space.origin, radius).on(space), n, weights=w / w.sum())
    seen = [query.value(query.prepare(x)) for x in (mapped(tmp_path, X), X)]
    assert all(np.isfinite(np.asarray(x)).all() for x in seen)
    assert float(space.dist(*seen)) <= 1e-9


@pytest.mark.parametrize("space", [SPHERE, ROTATIONS, HYPERBOLIC], ids=str)
@pytest.mark.parametrize("far", [0.0, 0.6, 0.999])
def test_a_start_from_which_records_lie_anywhere(tmp_path, space, far) -> None:
    """Beyond a right angle the Hessian may have any sign; at the far end a logarithm is one of
    many.
    """
    n, radius = 300, 0.5
    X = placed(space, lengths(n, 0.8 * radius) * directions(space, n) + 0.05)
    local, stream = streamed(tmp_path, space, X, radius)
    reach = 8.0 if space.is_hadamard else float(space.injectivity_radius(space.origin))
    for start in (far * reach * directions(space, 1), -far * reach * directions(space, 1, 2)):
        point = placed(space, start)[0]
        found = newton(local, stream, point, 1e-9, 60)
        assert found.residual <= 1e-9
        assert residual(space, found.value, X) <= found.residual + 1e-13


def test_what_newton_does_not_reach_is_searched_for_on(tmp_path, monkeypatch) -> None:
    """The tolerance is part of the sensitivity."""
    n = 600
    X = placed(SPHERE, lengths(n, 0.4) * directions(SPHERE, n) + 0.05)
    query = FrechetMean(Ball(SPHERE.origin, 0.7).on(SPHERE), n)
    asked = []

    def lost(look, move, start, tol, most):
        asked.append(tol)
        return _newton.Found(start, 1.0, most, 1.0)

    monkeypatch.setattr(_look, "damped_newton", lost)
    found = query.value(query.prepare(mapped(tmp_path, X)))
    assert asked == [query.tolerance]
    assert query.tolerance is not None
    assert residual(SPHERE, found, X) <= query.tolerance
