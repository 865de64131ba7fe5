"""The clamp of few points of a sphere beside the program for any space, and beside 50 digits."""

from __future__ import annotations

import warnings

import mpmath
import numpy as np
import pytest

import riemdp
from riemdp.domains import _few_on_sphere
from riemdp.domains._clamp import INSIDE, moving
from riemdp.statistics import FrechetMean, _query

RADIUS = 0.6


def center_of(d: int) -> np.ndarray:
    c = np.arange(1.0, d + 1.0) * (-1.0) ** np.arange(d)
    return c / np.linalg.norm(c)


def ball_of(d: int, radius: float = RADIUS):
    return riemdp.Ball(center_of(d), radius).on(riemdp.Sphere(d))


def at(c: np.ndarray, angle, direction: np.ndarray) -> np.ndarray:
    across = direction - np.outer(direction @ c, c)
    across /= np.linalg.norm(across, axis=1)[:, None]
    angle = np.broadcast_to(angle, len(across))[:, None]
    return np.cos(angle) * c + np.sin(angle) * across


def hostile(d: int, radius: float = RADIUS) -> np.ndarray:
    """Points at every distance, and what is none."""
    rng, c = np.random.default_rng(d), center_of(d)
    angles = [0.0, 1e-300, 1e-12, 1e-6, 0.5 * radius, *radius * (1.0 + np.array([-1e-9, 1e-9]))]
    angles += [2 * radius, 1.5, np.pi / 2, 1.7, 3.0, np.pi - 1e-6, np.pi - 1e-8, np.pi - 1e-10]
    points = [at(c, a, rng.normal(size=(3, d))) for a in angles]
    points += [c[None], -c[None], rng.normal(size=(2, d)) * 1e8, np.zeros((1, d))]
    near = at(c, 0.4, rng.normal(size=(4, d)))
    points += [near * (1.0 + np.array([[1e-7], [-1e-7], [3e-6], [1e-11]]))]
    far = at(c, 1.4, rng.normal(size=(3, d)))
    points += [far * (1.0 + np.array([[1e-7], [3e-6], [-1e-11]]))]
    for bad in (np.nan, np.inf, -np.inf, 1e200, -1e308, 1e-308):
        one = at(c, 0.3, rng.normal(size=(1, d)))
        one[0, d // 2] = bad
        points.append(one)
    return np.concatenate(points)


@pytest.mark.parametrize("d", [2, 3, 20])
def test_few_points_are_moved_as_many_are(d):
    ball, x = ball_of(d), hostile(d)
    points, outside = _few_on_sphere.clamp_few(ball, x)
    expected, flags = map(np.asarray, moving(ball.manifold, ball.center, ball.radius, x))
    np.testing.assert_array_equal(outside, flags)
    assert 20 < np.count_nonzero(outside) < len(x) - 15
    # the direction of what lies close to the far pole is not resolved better
    gap, sine = np.linalg.norm(points - expected, axis=1), np.linalg.norm(x + ball.center, axis=1)
    near_pole = sine < 1e-5
    assert np.max(gap[~near_pole]) < 1e-15 * 10
    assert np.max(gap[near_pole]) < 1e-6
    with np.errstate(over="ignore"):
        unchanged = ~outside & (np.abs(np.linalg.norm(x, axis=1) - 1.0) < 1e-10)
    assert np.count_nonzero(unchanged) > 10
    np.testing.assert_array_equal(points[unchanged], x[unchanged])


def true_distances(points: np.ndarray, c: np.ndarray) -> np.ndarray:
    with mpmath.workdps(50):
        one = [mpmath.mpf(v) for v in c]
        size = mpmath.sqrt(sum(v * v for v in one))
        found = []
        for x in points:
            other = [mpmath.mpf(v) for v in x]
            length = mpmath.sqrt(sum(v * v for v in other))
            short = mpmath.sqrt(
                sum((a / size - b / length) ** 2 for a, b in zip(one, other, strict=True))
            )
            found.append(float(2 * mpmath.asin(short / 2) - INSIDE * mpmath.mpf(RADIUS)))
    return np.array(found)


def test_what_is_moved_ends_on_the_edge_and_no_length_is_wrong():
    ball, x = ball_of(3), hostile(3)
    points, outside = _few_on_sphere.clamp_few(ball, x)
    assert np.max(np.abs(np.linalg.norm(points, axis=1) - 1.0)) < 1e-10
    beyond = true_distances(points, np.asarray(ball.center))
    assert np.max(beyond) < RADIUS * 1e-12 + 1e-15  # a record inside may lie on the radius itself
    moved = outside & np.any(points != ball.center, axis=1)
    assert np.count_nonzero(moved) > 20
    assert np.max(np.abs(beyond[moved])) < 1e-15


def test_a_small_ball_holds_what_is_moved_into_it():
    for radius in (1e-3, 1e-9, 1e-13):
        ball = ball_of(3, radius)
        points, outside = _few_on_sphere.clamp_few(ball, hostile(3, radius))
        reached = np.linalg.norm(points - ball.center, axis=1)
        assert np.max(reached) <= radius * (1.0 + 1e-6) + 1e-14
        assert np.count_nonzero(reached[outside] > 0.9 * radius) > 15


def test_each_record_is_moved_by_itself():
    ball, x = ball_of(5), hostile(5)
    points, outside = _few_on_sphere.clamp_few(ball, x)
    order = np.random.default_rng(0).permutation(len(x))
    again, flags = _few_on_sphere.clamp_few(ball, x[order])
    np.testing.assert_array_equal(again, points[order])
    np.testing.assert_array_equal(flags, outside[order])
    for i, one in enumerate(x):
        alone, flag = _few_on_sphere.clamp_few(ball, one[None])
        np.testing.assert_array_equal(alone[0], points[i])
        assert flag[0] == outside[i]


def test_how_an_array_lies_does_not_matter():
    """One record decides how an array lies: a table with a cell that is no number lies by rows.
    Records on the limit of what is a point would then change sides together.
    """
    rng, ball = np.random.default_rng(0), ball_of(7, 0.3)
    x = at(center_of(7), 0.2, rng.normal(size=(1 << 11, 7))) * np.nextafter(1.0 + 1e-6, 2.0)
    expected = _few_on_sphere.clamp_few(ball, x)
    assert 50 < np.count_nonzero(expected[1]) < len(x) - 50
    wide = np.zeros((2 * len(x), 7))[::2]
    wide[:] = x
    for lying in (np.asfortranarray(x), wide):
        assert not lying.flags.c_contiguous
        for found, as_rows in zip(_few_on_sphere.clamp_few(ball, lying), expected, strict=True):
            np.testing.assert_array_equal(found, as_rows)


def test_a_planted_clamp_of_an_array_as_it_lies_is_seen(monkeypatch):
    monkeypatch.setattr(_few_on_sphere.np, "ascontiguousarray", lambda x: x)
    with pytest.raises(AssertionError):
        test_how_an_array_lies_does_not_matter()


def test_a_subclass_says_itself_what_is_a_point():
    class Narrow(riemdp.Sphere):
        def _belongs(self, x, atol):
            return super()._belongs(x, atol) & (x[..., 0] > 0.5)

    space, center = Narrow(3), np.array([1.0, 0.0, 0.0])
    x = at(center, 0.1, np.random.default_rng(0).normal(size=(20, 3)))
    x[:7] = at(center, 1.2, np.random.default_rng(1).normal(size=(7, 3)))
    ball = riemdp.Ball(center, 0.3).on(space)
    assert not _few_on_sphere.suits(ball, 20)
    points = np.asarray(FrechetMean(ball, 20).prepare(x).points)
    np.testing.assert_array_equal(points[:7], np.tile(center, (7, 1)))


def test_nothing_is_raised_or_warned_of_and_the_records_stay_what_they_are():
    ball, x = ball_of(4), hostile(4)
    for given in (x, np.asfortranarray(x), x[::-1], x.astype(">f8")):
        kept = given.copy()
        given.setflags(write=False)
        with np.errstate(all="raise"), warnings.catch_warnings():
            warnings.simplefilter("error")
            points, outside = _few_on_sphere.clamp_few(ball, given)
        np.testing.assert_array_equal(given, kept)
        assert points.flags.writeable
        assert points.dtype == np.float64
        assert outside.dtype == bool


def test_a_mean_takes_it_for_few_records_and_not_for_many(monkeypatch):
    seen = []
    honest = _few_on_sphere.clamp_few

    def counted(domain, X):
        seen.append(len(X))
        return honest(domain, X)

    monkeypatch.setattr(_few_on_sphere, "clamp_few", counted)
    sphere, ball = riemdp.Sphere(4), riemdp.Ball(center_of(4), RADIUS)
    rng = np.random.default_rng(1)
    most = _few_on_sphere.MOST // 4
    for n, taken in ((60, True), (most, True), (most + 1, False)):
        x = at(center_of(4), rng.uniform(0.0, 1.0, n), rng.normal(size=(n, 4)))
        query = FrechetMean(ball.on(sphere), n)
        prepared = query.prepare(x)
        assert bool(seen) == taken
        seen.clear()
        inside = np.asarray(ball.contains(sphere, x))
        assert prepared.count_outside == np.count_nonzero(~inside)
        value = query.value(prepared)
        with monkeypatch.context() as patch:
            patch.setattr(_query._few_on_sphere, "suits", lambda *_: False)
            other = query.prepare(x)
            assert not seen
            assert other.count_outside == prepared.count_outside
            assert float(sphere.dist(query.value(other), value)) < 1e-9
    private = FrechetMean(ball.on(sphere), 60, adjacency="add-or-remove-one")
    private.prepare(x[:60])
    assert not seen


def test_weights_go_with_the_records():
    sphere, ball = riemdp.Sphere(3), riemdp.Ball(center_of(3), RADIUS)
    x, w = hostile(3), np.linspace(0.0, 1.0, len(hostile(3)))
    query = FrechetMean(ball.on(sphere), len(x), weights=w)
    prepared = query.prepare(list(x))
    assert isinstance(prepared.points, np.ndarray)
    np.testing.assert_allclose(prepared.shares, w / np.sum(w), rtol=1e-15)
    with pytest.raises(riemdp.InvalidArgument, match="n = 7"):
        FrechetMean(ball.on(sphere), 7).prepare(x)
    with pytest.raises(riemdp.InvalidArgument, match="public weights"):
        query.prepare(x, weights=w)


# ------------------------------------------------------------------ planted faults
def test_a_planted_clamp_that_moves_too_far_is_seen(monkeypatch):
    monkeypatch.setattr(_few_on_sphere, "INSIDE", 1.0 + 1e-10)
    with pytest.raises(AssertionError):
        test_what_is_moved_ends_on_the_edge_and_no_length_is_wrong()


def test_a_planted_clamp_that_measures_by_the_cosine_is_seen(monkeypatch):
    def by_cosine(domain, X):
        c = np.asarray(domain.center)
        with np.errstate(all="ignore"):
            outside = ~(np.arccos(np.clip(X @ c, -1.0, 1.0)) <= domain.radius)
        return np.where(outside[:, None], c, X), outside

    monkeypatch.setattr(_few_on_sphere, "clamp_few", by_cosine)
    with pytest.raises(AssertionError):
        test_few_points_are_moved_as_many_are(3)
