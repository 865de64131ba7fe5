"""KendallShapes: position, size and turn do not matter, curvature is from 1 to 4, and means have
the sensitivity that follows.
"""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

import riemdp
from riemdp import Ball, InvalidArgument
from riemdp.manifolds import KendallShapes, check
from riemdp.statistics import FrechetMean, TangentMean

M = KendallShapes(6)
TRIANGLES = KendallShapes(3)
COUNT = 30
I = np.array([[0.0, 1.0], [-1.0, 0.0]])  # landmarks @ I: all of them times i


def turn(x, angle):
    angle = np.asarray(angle)[..., None, None]
    return np.cos(angle) * x + np.sin(angle) * (x @ I)


def pairs(m=M, seed=0, length=0.9):
    p = m.random_point(seed, (COUNT,))
    v = m.tangent_normal(seed + 1, p)
    v = length * v / m.norm(p, v)[:, None, None]
    return p, v, m.exp(p, v)


def test_position_size_and_turn_do_not_matter_but_mirrors_and_orders_do():
    rng = np.random.default_rng(0)
    raw = rng.normal(size=(COUNT, 6, 2))
    moved = turn(3.0 * raw, rng.uniform(-9.0, 9.0, COUNT)) + rng.normal(size=(COUNT, 1, 2))
    p, q = M.project(raw), M.project(moved)
    assert np.all(M.belongs(p))
    assert np.allclose(np.sum(p**2, axis=(1, 2)), 1.0, atol=1e-14)
    assert np.max(M.dist(p, q)) < 1e-14
    assert np.min(M.dist(p, p * [1.0, -1.0])) > 0.01
    assert np.min(M.dist(p, p[:, ::-1])) > 0.01


def test_the_preshape_does_not_matter():
    p, v, q = pairs()
    u = M.tangent_normal(5, p)
    a, b = np.random.default_rng(1).uniform(-3.0, 3.0, (2, COUNT))
    assert np.allclose(M.dist(turn(p, a), turn(q, b)), 0.9, atol=1e-14)
    assert np.allclose(M.log(p, turn(q, b)), v, atol=1e-14)
    assert np.allclose(M.log(turn(p, a), q), turn(v, a), atol=1e-14)
    coordinates = M.to_coordinates(p, M.log(p, turn(q, b)))
    assert np.allclose(coordinates, M.to_coordinates(p, v), atol=1e-14)
    moved = M.transport(p, q, u)
    assert np.allclose(M.transport(turn(p, a), turn(q, b), turn(u, a)), turn(moved, b), atol=1e-13)


def test_distances_and_logarithms_agree_with_the_textbook():
    p, v, q = pairs(length=1.2)
    p2 = M.random_point(7, (COUNT,))
    found, log = M.dist(p, p2), M.log(p, q)
    with mpmath.workdps(40):
        for i in range(COUNT):
            a, b = ([mpmath.mpc(*z) for z in x[i]] for x in (p, p2))
            product = mpmath.fsum(mpmath.conj(x) * y for x, y in zip(a, b, strict=True))
            assert float(mpmath.acos(abs(product))) == pytest.approx(found[i], rel=1e-13)
    assert np.allclose(log, v, atol=1e-13)


def test_tangent_vectors_are_horizontal():
    """They neither move, size nor turn the landmarks: logarithms and noise."""
    p, _, q = pairs()
    vectors = [M.log(p, q), M.tangent_normal(3, p), M.transport(q, p, M.log(q, p))]
    vectors.append(M.to_tangent(p, np.random.default_rng(4).normal(size=p.shape)))
    for v in vectors:
        assert np.allclose(np.sum(v, axis=1), 0.0, atol=1e-14)
        assert np.allclose(np.sum(v * p, axis=(1, 2)), 0.0, atol=1e-14)
        assert np.allclose(np.sum(v * (p @ I), axis=(1, 2)), 0.0, atol=1e-14)


def test_planes_have_the_curvatures_of_the_bounds():
    """A right angle with legs t: cos(2 d) = cos(2 t)^2 where the plane is a complex line, of
    curvature 4, and cos d = cos(t)^2 where it is real, of curvature 1.
    """
    p, v, _ = pairs(length=0.3)
    w = M.tangent_normal(9, p)
    w -= sum(np.sum(w * x, axis=(1, 2), keepdims=True) * x for x in (v / 0.3, v @ I / 0.3))
    w *= 0.3 / M.norm(p, w)[:, None, None]
    complex_line = M.dist(M.exp(p, v), M.exp(p, v @ I))
    assert np.allclose(np.cos(2 * complex_line), math.cos(0.6) ** 2, atol=1e-14)
    assert np.allclose(np.cos(M.dist(M.exp(p, v), M.exp(p, w))), math.cos(0.3) ** 2, atol=1e-14)
    assert M.curvature_bounds == (1.0, 4.0)
    assert TRIANGLES.curvature_bounds == (4.0, 4.0)


def test_the_cut_locus_is_half_of_a_closed_geodesic_away():
    p, v, _ = pairs(length=math.pi / 2)
    q = M.exp(p, v)
    assert np.allclose(M.dist(p, q), math.pi / 2, atol=1e-14)
    assert np.allclose(M.norm(p, M.log(p, q)), math.pi / 2, atol=1e-14)
    assert np.max(M.dist(M.exp(p, M.log(p, q)), q)) < 1e-14
    assert np.max(M.dist(p, M.exp(p, 2.0 * v))) < 1e-14  # all the way round
    square = KendallShapes(4)
    mirrored = square.origin[[0, 3, 2, 1]]
    assert square.dist(square.origin, mirrored) == pytest.approx(math.pi / 2)
    v = square.log(square.origin, mirrored)
    assert square.is_tangent(mirrored, square.transport(square.origin, mirrored, v))


def test_landmarks_that_coincide_have_no_shape_and_records_are_told_why():
    assert np.array_equal(M.project(np.full((6, 2), 0.1)), M.origin)
    raw = np.random.default_rng(0).normal(size=(2, 6, 2))
    bad = riemdp.check_records(M, [M.origin, raw[0], M.project(raw[1]), np.full((6, 2), np.nan)])
    assert [record.index for record in bad] == [1, 3]
    assert "`project`" in bad[0].reason
    with pytest.raises(InvalidArgument, match="at least 3"):
        KendallShapes(2)


def test_triangles_are_a_sphere_too():
    names = ("frame_is_orthonormal", "exp_and_log_are_inverse", "transport_is_parallel")
    report = check(TRIANGLES, radius=1.2, properties=names)
    assert report.ok, str(report)
    p, q = TRIANGLES.random_point(0, (2, COUNT))
    assert np.max(TRIANGLES.dist(p, q)) <= math.pi / 2
    v = TRIANGLES.from_coordinates(p, np.tile([0.6, 0.0], (COUNT, 1)))
    density = TRIANGLES.log_volume_density(p, v)  # of the sphere of radius 1/2
    assert np.allclose(density, math.log(math.sin(1.2) / 1.2), atol=1e-14)


# ------------------------------------------------------------------------------- sensitivities
@pytest.mark.parametrize("k", [3, 4, 6])
@pytest.mark.parametrize("radius", [0.02, 0.3, 0.39])
def test_one_shape_moves_a_mean_by_no_more_than_its_sensitivity(k, radius):
    """Records on the limit of the ball, along a complex line, where curvature is largest, or along
    a real one; in a small ball the bound is attained.
    """
    m, n = KendallShapes(k), 4
    ball = Ball(m.origin, radius)
    bound, query = riemdp.frechet_mean_sensitivity(m, ball, n), FrechetMean(ball.on(m), n)
    assert bound == pytest.approx(min(2 * radius / (n * math.cos(4 * radius)), 2 * radius))
    v = m.from_coordinates(m.origin, np.eye(m.dim)[0])
    ends = m.exp(m.origin, radius * (1 - 1e-9) * np.stack([v, -v, v @ I, -v @ I]))
    worst = 0.0
    for others in (ends[[0, 0, 0]], ends[[0, 1, 2]], ends[[2, 2, 3]], ends[[2, 2, 2]]):
        means = [query.value(query.prepare(np.stack([x, *others]))) for x in ends[:2]]
        worst = max(worst, float(m.dist(*means)))
    assert worst <= bound * (1 + 1e-9)
    assert radius > 0.1 or worst >= 0.99 * bound


def test_balls_for_a_mean_end_where_convexity_does():
    for k in (3, 4, 6):
        m = KendallShapes(k)
        assert Ball(m.origin, 0.1).on(m).convexity_limit == pytest.approx(math.pi / 8)
        with pytest.raises(InvalidArgument, match=r"ball\.radius"):
            riemdp.frechet_mean_sensitivity(m, Ball(m.origin, math.pi / 8), 10)


@pytest.mark.parametrize("radius", [0.3, 1.2, 1.57])
def test_one_shape_moves_a_tangent_mean_by_exactly_its_sensitivity(radius):
    """Whatever it is: on the limit of the ball, at the cut locus, or no point."""
    n, v = 4, M.from_coordinates(M.origin, np.eye(M.dim)[:2])
    query = TangentMean(Ball(M.origin, radius).on(M), n)
    lengths = (radius * (1 - 1e-9), 1.5, math.pi / 2)
    ends = [M.exp(M.origin, side * t * u) for t in lengths for side in (1, -1) for u in v]
    rest = M.random_point(0, (n - 1,))
    each = (*ends, np.full((6, 2), np.nan), 2.0 * M.origin, M.origin)
    found = [query.coordinates(query.prepare(np.stack([x, *rest]))) for x in each]
    worst = max(float(np.linalg.norm(a - b)) for a in found for b in found)
    assert query.sensitivity == pytest.approx(2 * radius / n)
    assert 0.99 * query.sensitivity <= worst <= query.sensitivity
