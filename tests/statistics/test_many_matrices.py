"""The mean of many SPD matrices: every record is in the ball, nobody's place shows, and one record
moves the value by no more than the sensitivity.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.linalg

import riemdp
from riemdp.statistics import FrechetMean

N, K, RADIUS = 2100, 5, 2.5
SPACE = riemdp.SPDAffineInvariant(K)


def centre(condition: float = 30.0) -> np.ndarray:
    q = np.linalg.qr(np.random.default_rng(7).standard_normal((K, K)))[0]
    return (q * np.geomspace(1.0, 1.0 / condition, K)) @ q.T


def at(distances: np.ndarray, center: np.ndarray, seed: int = 0) -> np.ndarray:
    """Points at these distances from a centre."""
    rng = np.random.default_rng(seed)
    v = rng.standard_normal((len(distances), K, K))
    v = v + v.swapaxes(1, 2)
    v *= (distances / np.linalg.norm(v, axis=(1, 2)))[:, None, None]
    values, q = np.linalg.eigh(v)
    lower = np.linalg.cholesky(center)
    x = lower @ ((q * np.exp(values)[:, None, :]) @ q.swapaxes(1, 2)) @ lower.T
    return 0.5 * (x + x.swapaxes(1, 2))


def query(center: np.ndarray, radius: float = RADIUS, n: int = N, **more) -> FrechetMean:
    return FrechetMean(riemdp.Ball(center, radius).on(SPACE), n, **more)


def mixed(center: np.ndarray) -> np.ndarray:
    """Records inside, at the edge, outside, and what is no record."""
    x = at(np.linspace(0.0, 0.99 * RADIUS, N), center)
    edge = RADIUS * (1.0 + np.r_[-(10.0 ** -np.arange(2.0, 9.0)), 10.0 ** -np.arange(2.0, 9.0)])
    x[: len(edge)] = at(edge, center, seed=1)
    x[20:24] = at(np.array([3.0, 4.0, 9.0, 30.0]), center, seed=2)
    signs = np.diag([1.0, 1.0, 1.0, 1.0, -1.0])
    x[30], x[31], x[32] = signs, np.zeros((K, K)), np.diag([1.0, 1.0, 1.0, 1.0, -0.5])
    x[33], x[34] = np.nan, np.inf
    x[35], x[36] = 1e308, 1e-300 * np.eye(K)
    x[37] = x[37] + np.triu(np.full((K, K), 1e-8), 1)  # close enough to be projected
    x[38] = x[38] + np.triu(np.full((K, K), 1e-4), 1)  # no point
    x[39] = np.diag([1e8, 1.0, 1.0, 1.0, 1e-8])
    x[40] = center @ signs @ center
    return x


def test_what_is_no_record_counts_as_outside() -> None:
    """Where all others are certainly inside, and it stands among them as the centre."""
    center = centre()
    q = query(center)
    x = at(np.linspace(0.0, 0.5 * RADIUS, N), center)
    x[5], x[6], x[7] = np.nan, -np.eye(K), np.zeros((K, K))
    x[8] = np.diag([1.0, 1.0, 1.0, 1.0, -1.0])
    prepared = q.prepare(x)
    assert np.flatnonzero(prepared.outside).tolist() == [5, 6, 7, 8]
    np.testing.assert_array_equal(prepared.points[5:9], np.tile(np.eye(K), (4, 1, 1)))


@pytest.mark.parametrize("radius", [0.01, 0.3, 2.5, 5.8])
def test_every_point_lies_in_the_ball(radius) -> None:
    center = centre()
    q = query(center, radius)
    x = mixed(center)
    x[100:200] = at(radius * np.linspace(0.999, 1.001, 100), center, seed=3)
    x[200:300] = at(radius * (1.0 + np.linspace(-1e-4, 1e-4, 100)), center, seed=4)
    points = np.asarray(q.prepare(x).points)
    for y in points:
        logs = np.log(scipy.linalg.eigvalsh(y))  # the frame's centre is the identity
        assert np.linalg.norm(logs) <= radius * (1.0 + 1e-6) + 1e-14


@pytest.mark.parametrize("condition", [1.0, 30.0, 1e6])
def test_a_record_is_clamped_alike_whatever_the_others_are(condition) -> None:
    """Bit for bit."""
    center = centre(condition)
    q = query(center)
    plain = at(np.linspace(0.0, 0.9 * RADIUS, N), center)
    wild = mixed(center)
    wild[500:] = at(np.full(N - 500, 9.0), center, seed=5)
    some = mixed(center)
    own = at(RADIUS * np.array([0.3, 0.95, 0.9999999, 1.0000001, 1.5]), center, seed=6)
    found = []
    for x in (plain, wild, some):
        x[50:55] = own
        prepared = q.prepare(x)
        found.append((np.asarray(prepared.points)[50:55], np.asarray(prepared.outside)[50:55]))
    np.testing.assert_array_equal(found[0][1], [False, False, False, True, True])
    for points, outside in found[1:]:
        np.testing.assert_array_equal(outside, found[0][1])
        np.testing.assert_array_equal(points, found[0][0])


def test_records_on_the_edge_do_not_cross_it_together() -> None:
    """Hundreds of copies of one record there, and one more that lies inside or is no point."""
    center, n = np.eye(4), 32768
    space = riemdp.SPDAffineInvariant(4)
    q = FrechetMean(riemdp.Ball(center, 1.0).on(space), n)
    rng = np.random.default_rng(3)
    v = rng.standard_normal((4, 4)) + np.zeros((n, 4, 4))
    v = v + v.swapaxes(1, 2)
    v[513:] *= rng.uniform(0.0, 0.9, n - 513)[:, None, None]
    v /= np.linalg.norm(v[0])
    values, vectors = np.linalg.eigh(v)
    x = (vectors * np.exp(values)[:, None, :]) @ vectors.swapaxes(1, 2)
    x = 0.5 * (x + x.swapaxes(1, 2))
    counts = []
    for last in (x[600], np.full((4, 4), np.nan)):
        x[512] = last
        counts.append(q.prepare(x).count_outside)
    assert counts[1] - counts[0] == 1


@pytest.mark.parametrize("off", [2.9e-8, 1.0])
def test_records_that_are_all_alike_are_their_own_mean(off) -> None:
    """However near the centre they lie."""
    x = np.tile((1.0 + off) * np.eye(K), (2048, 1, 1))
    q = query(np.eye(K), n=2048)
    assert q.tolerance is not None
    value = np.asarray(q.value(q.prepare(x)))
    assert float(SPACE.dist(value, x[0])) <= q.tolerance
    found = riemdp.frechet_mean(SPACE, x)
    assert float(SPACE.dist(found.value, x[0])) <= 1e-10


def test_a_mean_warns_of_no_record() -> None:
    """Its own words alone say that one is no point."""
    x = at(np.linspace(0.0, 1.0, N), np.eye(K))
    x[-1, 0, 1], x[-1, 1, 0] = 1e308, -1e308
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(riemdp.InvalidArgument, match="1 of 2100 records"):
            riemdp.frechet_mean(SPACE, x)
