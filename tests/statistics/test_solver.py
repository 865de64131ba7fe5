"""The solver of Frechet means in a ball reaches the public tolerance within a public number of
passes, also where the accelerated part fails.
"""

from __future__ import annotations

import dataclasses
import math

import mpmath
import numpy as np
import pytest

import riemdp
from riemdp import Ball
from riemdp.statistics import FrechetMean
from tests.manifolds.oracles import LorentzOracle, SphereOracle
from tests.seam import Means, original, plant

SPHERE, PLANES, BURES = riemdp.Sphere(3), riemdp.Grassmann(4, 2), riemdp.SPDBuresWasserstein(2)
MATRICES, HYPERBOLIC, ROTATIONS = (
    riemdp.SPDAffineInvariant(2),
    riemdp.Lorentz(3),
    riemdp.SpecialOrthogonal(3),
)
MIXED = riemdp.Product(SPHERE, HYPERBOLIC)
WIDE = math.inf  # a ball near the largest
BALLS = [
    (MATRICES, 0.5),
    (MATRICES, 6.0),
    (HYPERBOLIC, 2.0),
    (HYPERBOLIC, 7.0),
    (riemdp.PoincareBall(2), 6.0),
    (SPHERE, 0.5),
    (SPHERE, WIDE),
    (PLANES, WIDE),
    (ROTATIONS, WIDE),
    (BURES, WIDE),
    (MIXED, WIDE),
    (riemdp.Euclidean(2), 6.0),
]
balls = pytest.mark.parametrize(("space", "radius"), BALLS, ids=str)
KINDS = ("edge", "clusters", "antipodal", "one apart", "inside", "equal")


def query_of(space, radius: float, n: int) -> FrechetMean:
    if radius == WIDE:
        radius = 0.9 * float(Ball(space.origin, 1e-3).on(space).convexity_limit)
    return FrechetMean(Ball(space.origin, radius).on(space), n)


def records(query: FrechetMean, kind: str, seed: int):
    """Records of the ball: on its edge, in clusters there, in opposite points, or anywhere."""
    space, n, rng = query.domain.manifold, query.n, np.random.default_rng(seed)
    u = rng.normal(size=(n, space.dim))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    places = rng.permutation(n)[:, None]
    near = u[:3][rng.integers(3, size=n)] + 0.01 * u
    near /= np.linalg.norm(near, axis=1, keepdims=True)
    y = {
        "edge": u,
        "clusters": near,
        "antipodal": np.where(places % 3 == 0, u[:1], -u[:1]),
        "one apart": np.where(places == 0, u[:1], -u[:1]),
        "inside": rng.uniform(size=(n, 1)) * u,
        "equal": np.tile(u[:1], (n, 1)),
    }[kind]
    length = 0.999999 * query.domain.radius
    return space.exp(space.origin, space.from_coordinates(space.origin, length * y))


def residual(query: FrechetMean, value, points) -> float:
    """By the public logarithm."""
    space = query.frame.local.manifold
    logs = np.asarray(space.to_coordinates(value, space.log(value, points)))
    return float(np.linalg.norm([math.fsum(column) / len(logs) for column in logs.T]))


def fails(manifold, look, start, tolerance, most):
    """Planted: an accelerated part that returns its start after all of its passes."""
    return dataclasses.replace(solver(manifold, look, start, tolerance, 1), passes=most)


solver = original("solver of a mean")


@pytest.fixture
def passes(monkeypatch) -> list[float]:
    """The mean square of the logarithms in every pass over records."""
    seen: list[float] = []
    look_at = original("look at records")

    def counted(*given):
        look = look_at(*given)

        def watched(point):
            found = look(point)
            seen.append(found.square)
            return found

        return watched

    plant(monkeypatch, "look at records", counted)
    return seen


def check(query: FrechetMean, X, passes: list[float]) -> None:
    local, tolerance = query.frame.local, query.tolerance
    assert tolerance is not None
    passes.clear()
    prepared = query.prepare(X)
    value = query.value(prepared)
    assert residual(query, value, prepared.points) <= tolerance + 1e-12
    assert len(passes) <= Means.ACCELERATED + Means.plain_steps(local, tolerance)


@balls
def test_plain_steps_alone_reach_the_tolerance_and_fall_by_what_is_proved(
    monkeypatch, passes, space, radius
) -> None:
    plant(monkeypatch, "solver of a mean", fails)
    query = query_of(space, radius, 9)
    left = 1.0 - Means.plain_fall(query.frame.local)
    for kind in ("edge", "clusters", "antipodal"):
        check(query, records(query, kind, 1), passes)
        steps = np.array(passes[1:])
        above = steps - steps.min()
        assert np.all(above[1:] <= left * above[:-1] + 1e-12 * steps[0])


def test_a_small_residual_outside_the_ball_is_not_believed(monkeypatch, passes) -> None:
    """Opposite to the mean of points of a sphere lies another critical point."""
    query = query_of(SPHERE, 0.5, 9)

    def opposite(manifold, look, start, tolerance, most):
        found = solver(manifold, look, start, tolerance, most)
        return dataclasses.replace(found, value=-found.value)

    plant(monkeypatch, "solver of a mean", opposite)
    for kind in KINDS:
        check(query, records(query, kind, 2), passes)
        assert query.frame.local.contains(query.value(query.prepare(records(query, kind, 2))))


@balls
def test_a_search_over_records_finds_none_that_keep_the_tolerance(passes, space, radius) -> None:
    for seed in range(12):
        rng = np.random.default_rng(seed)
        query = query_of(space, radius, int(rng.integers(3, 30)))
        check(query, records(query, KINDS[seed % len(KINDS)], seed), passes)


def test_the_number_of_plain_steps_is_public_and_moderate() -> None:
    for space, radius in BALLS:
        query = query_of(space, radius, 9)
        assert query.tolerance is not None
        assert 2 <= Means.plain_steps(query.frame.local, query.tolerance) <= 20_000


@pytest.mark.parametrize("spread", [1e-9, 1e-3, 0.5, 2.5])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "space",
    [SPHERE, riemdp.Sphere(300), HYPERBOLIC, riemdp.Lorentz(2), riemdp.Lorentz(6), MATRICES, MIXED],
    ids=str,
)
def test_sums_of_logarithms_are_those_of_each_record(space, weighted, spread) -> None:
    """Far and near, the base point itself among them; a weight of 0 is none."""
    rng = np.random.default_rng(3)
    p = space.random_point(rng)
    X = space.exp(p, space.tangent_normal(rng, p, spread / math.sqrt(space.dim), (200,)))
    w = np.where(np.arange(200) % 7 == 0, 0.0, rng.random(200)) if weighted else np.ones(200)
    found, square = Means.log_sums(space, p, X, w if weighted else None)
    logs = space.to_coordinates(p, space.log(p, X))
    size = float(np.sum(w * np.linalg.norm(logs, axis=1)))
    np.testing.assert_allclose(found, w @ logs, rtol=0, atol=1e-13 * size)
    np.testing.assert_allclose(square, np.sum(w * np.sum(logs**2, axis=1)), rtol=1e-12)


TURNS = [1e-12, 1e-6, 1.0, math.pi / 2 - 1e-15, math.pi / 2, 2.0, math.pi - 1e-7, math.pi - 1e-13]
FAR_OUT = math.acosh(4.0 - math.cosh(0.4))  # where the sum of the two times is 4
WAYS = [1e-12, 1e-6, 1.0, FAR_OUT - 1e-12, FAR_OUT + 1e-12, 6.0, 60.0]


@pytest.mark.parametrize(
    ("space", "oracle", "base", "lengths"),
    [
        (riemdp.Sphere(4), SphereOracle(), 0.4, TURNS),
        (riemdp.Lorentz(4), LorentzOracle(), 0.0, WAYS),
        (riemdp.Lorentz(4), LorentzOracle(), 0.4, WAYS),
        (riemdp.Lorentz(4), LorentzOracle(), 0.96, WAYS),  # of time 1.5: before and after it
        (riemdp.Lorentz(4), LorentzOracle(), 0.963, WAYS),
    ],
    ids=["sphere", "origin", "near", "limit", "beyond"],
)
def test_each_term_of_a_sum_is_that_of_many_digits(space, oracle, base, lengths) -> None:
    """At the limits between formulas, near and far."""
    rng = np.random.default_rng(5)
    p = space.exp(space.origin, space.from_coordinates(space.origin, [base, 0.0, 0.0]))
    for length in lengths:
        way = rng.normal(size=3)
        way *= length / np.linalg.norm(way)
        x = space.exp(space.origin, space.from_coordinates(space.origin, way))
        x = x if base == 0.0 else space.exp(p, space.from_coordinates(p, way))
        found, square = Means.log_sums(space, p, x[None], None)
        with mpmath.workdps(60):
            ends = [oracle.point([mpmath.mpf(float(e)) for e in end]) for end in (p, x)]
            log = [float(e) for e in oracle.log(*ends)]
            distance = float(oracle.dist(*ends))
        error = np.linalg.norm(found - space.to_coordinates(p, np.array(log)))
        # what a rounding of the points is worth, and 60 of the result
        assert error <= 60 * 2.0**-53 * distance + 2.0**-50 * (space == riemdp.Sphere(4))
        assert math.isclose(square, distance**2, rel_tol=1e-13, abs_tol=2.0**-50 * distance)


def test_what_a_record_adds_to_a_sum_does_not_depend_on_the_others() -> None:
    """Opposite, far, not finite or like it, and how many they are."""
    rng = np.random.default_rng(6)
    for space in (SPHERE, riemdp.Sphere(40), HYPERBOLIC, riemdp.Lorentz(2), MATRICES):
        p = space.random_point(rng)
        X = space.exp(p, space.tangent_normal(rng, p, 0.5 / math.sqrt(space.dim), (16,)))
        far = space.exp(p, space.tangent_normal(rng, p, 2.0, (16,)))
        opposite = np.broadcast_to(-p, X.shape)
        alone = [Means.log_sums(space, p, x[None], None) for x in X]
        for beside in (far, opposite, np.full_like(X, np.nan), X[:3]):
            for i, expected in enumerate(alone):
                rows, place = beside.copy(), i % len(beside)
                rows[place] = X[i]
                only = np.arange(len(rows)) == place
                found = Means.log_sums(space, p, rows, only.astype(float))
                np.testing.assert_array_equal(found[0], expected[0])
                assert found[1] == expected[1]


def test_opposite_points_have_the_logarithm_that_the_space_gives() -> None:
    """Also where rounding has left nothing of the way."""
    p, q = np.array([0.6, 0.8, 0.0]), np.array([[-0.6, -0.8, 0.0], [0.0, 1.0, 0.0]])
    found, square = Means.log_sums(SPHERE, p, q, None)
    logs = SPHERE.to_coordinates(p, SPHERE.log(p, q))
    np.testing.assert_allclose(found, logs.sum(axis=0), atol=1e-14)
    assert math.isclose(square, math.pi**2 + math.acos(0.8) ** 2)
    for q in np.nextafter(-p, [[1.0] * 3, [-1.0] * 3, [0.0] * 3]):
        found, square = Means.log_sums(SPHERE, p, q[None], None)
        assert math.isclose(np.linalg.norm(found), math.pi, rel_tol=1e-9)
        assert math.isclose(square, math.pi**2)


def test_a_subclass_keeps_its_own_logarithms() -> None:
    """Of half the length, as in a sphere that is scaled."""

    class Half(riemdp.Sphere):
        def _log_coordinates(self, p, q):
            return 0.5 * super()._log_coordinates(p, q)

    rng = np.random.default_rng(0)
    p = SPHERE.random_point(rng)
    X = SPHERE.exp(p, SPHERE.tangent_normal(rng, p, 0.3, (20,)))
    whole, half = (Means.log_sums(space, p, X, None)[0] for space in (SPHERE, Half(3)))
    np.testing.assert_allclose(half, 0.5 * whole, rtol=1e-12)


@pytest.mark.parametrize("offset", [0.0, 1e3])
@pytest.mark.parametrize("space", [riemdp.Euclidean(3), riemdp.SPDLogEuclidean(2)], ids=str)
def test_a_mean_that_is_a_sum_pays_for_the_rounding_of_a_sum_alone(space, offset):
    """Two passes reach the tolerance, whatever is added; a billion records pay a thousandth."""
    rng, n, radius = np.random.default_rng(0), 3000, 2.0
    c = rng.normal(size=(n, 3)) * rng.choice([1e-9, 1.0, 1e3], size=(n, 1))
    center = space.exp(space.origin, space.from_coordinates(space.origin, np.full(3, offset)))
    center = center if isinstance(space, riemdp.Euclidean) else space.origin
    domain = Ball(center, radius).on(space)
    query = FrechetMean(domain, n)
    points = query.prepare(space.exp(center, space.from_coordinates(center, c))).points
    local, tolerance = query.frame.local, query.tolerance
    assert tolerance is not None
    assert tolerance < 1e-13 * radius
    look = original("look at records")(local.manifold, points, None)
    found = Means.mean_in(local, look, tolerance)
    assert found.passes == 2
    assert found.residual <= tolerance
    exact = 2.0 * radius / 10**9
    assert exact < FrechetMean(domain, 10**9).sensitivity <= 1.001 * exact


def test_steps_have_about_the_length_of_newtons_on_wide_matrices() -> None:
    """Most planes of large matrices are nearly flat: as long as if all were curved most, a search
    took half as many passes again.
    """
    space = riemdp.SPDAffineInvariant(11)
    v = 1.5 * np.random.default_rng(0).normal(size=(300, space.dim)) / math.sqrt(11)
    x = np.asarray(space.exp(space.origin, space.from_coordinates(space.origin, v)))
    found = riemdp.frechet_mean(space, x, tol=1e-9)
    assert found.converged
    assert found.iterations <= 7
