"""The curvature bound of Bures-Wasserstein balls: its inequality, its tightness, and searches that
try to exceed it.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import riemdp as R
from riemdp.domains import Domain


def curvature_in_ball(manifold, ball):
    return ball.on(manifold).curvature


def convexity_limit(manifold, center):
    return Domain(manifold, center, 0.0).convexity_limit


BALLS = [(np.diag([0.3, 2.0]), 0.2), (np.diag([0.5, 0.6, 3.0]), 0.25)]


def sectional_curvature(p, u, v):
    """O'Neill's formula for A -> A A^T, whose total space is flat: K = 3 |vertical part of D_U V|^2
    / area^2; NumPy alone.

    At A = p^1/2 the horizontal lift of u is L_u A, L_u p + p L_u = u, and vertical vectors are A K,
    K skew. D_U V is L_v L_u A and a horizontal rest, so A^T A K + K A^T A = A^T (L_v L_u - L_u L_v)
    A.
    """
    values, q = np.linalg.eigh(p)

    def solved(m):
        return q @ ((q.T @ m @ q) / (values[:, None] + values[None, :])) @ q.T

    lu, lv = solved(u), solved(v)
    root = (q * np.sqrt(values)) @ q.T
    n = root @ (lv @ lu - lu @ lv) @ root
    k = q @ ((q.T @ n @ q) / (values[:, None] + values[None, :])) @ q.T
    vertical = np.sum((root @ k) ** 2)
    uu, vv, uv = np.trace(lu @ p @ lu), np.trace(lv @ p @ lv), np.trace(lu @ p @ lv)
    return 3 * vertical / (uu * vv - uv**2)


def curvature_by_distances(manifold, p, u, v, t=0.08):
    """Independent of any formula for the curvature: d(exp tu, exp tv)^2 = t^2 |u - v|^2 - K t^4 |u
    ^ v|^2 / 3 + ... .
    """

    def squared(t):
        a, b = manifold.exp(p, t * u), manifold.exp(p, t * v)
        return float(manifold.squared_dist(a, b))

    flat = float(manifold.inner(p, u - v, u - v))
    area = (
        float(manifold.inner(p, u, u)) * float(manifold.inner(p, v, v))
        - float(manifold.inner(p, u, v)) ** 2
    )

    def estimate(t):
        return -3 * ((squared(t) + squared(-t)) / 2 - t**2 * flat) / (t**4 * area)

    return (4 * estimate(t / 2) - estimate(t)) / 3  # removes the next order


def random_planes(k, count, seed):
    a = np.random.default_rng(seed).standard_normal((2, count, k, k))
    return a + a.swapaxes(-1, -2)


def test_the_two_curvatures_agree():
    manifold = R.SPDBuresWasserstein(3)
    p = np.diag([0.5, 0.6, 3.0])
    for u, v in zip(*random_planes(3, 3, 0), strict=True):
        scale = [float(manifold.norm(p, w)) for w in (u, v)]
        u, v = u / scale[0], v / scale[1]
        assert sectional_curvature(p, u, v) == pytest.approx(
            curvature_by_distances(manifold, p, u, v), rel=2e-2, abs=1e-3
        )


@pytest.mark.parametrize(("center", "radius"), BALLS)
def test_no_plane_in_the_ball_has_more_curvature_and_one_nearly_attains_it(center, radius):
    k, bound = (
        len(center),
        curvature_in_ball(R.SPDBuresWasserstein(len(center)), R.Ball(center, radius)),
    )
    manifold = R.SPDBuresWasserstein(k)
    v = manifold.tangent_normal(2, center, 1.0, (150,))
    length = np.asarray(manifold.norm(center, v))[:, None, None]
    points = np.asarray(
        manifold.exp(center, radius * np.asarray(v) / length)
    )  # on the edge, where it is largest
    roots = np.sqrt(np.diag(center))
    nearest = roots.copy()  # the point of the ball that the bound is taken at
    nearest[:2] *= 1 - radius / math.hypot(*roots[:2])
    worst = np.diag(nearest**2)
    assert float(manifold.dist(center, worst)) == pytest.approx(radius, rel=1e-9)
    largest = max(
        sectional_curvature(p, u, w)
        for p in (*points, worst)
        for u, w in zip(*random_planes(k, 20, 3), strict=True)
    )
    assert largest <= bound * (1 + 1e-9)
    u, w = np.diag([1.0] + [0.0] * (k - 1)), np.zeros((k, k))
    u[1, 1] = -1.0
    w[0, 1] = w[1, 0] = 1.0
    planes = [
        (np.diag([math.cos(a), math.sin(a)] + [0.0] * (k - 2)), w)
        for a in np.linspace(0, math.pi, 400)
    ]
    attained = max(sectional_curvature(worst, *plane) for plane in planes)
    assert bound * (1 - 1e-3) <= attained <= bound * (1 + 1e-9)
    assert attained > 1.05 * 3 / (
        roots[0] ** 2 + roots[1] ** 2
    )  # planted: the centre's own curvature is exceeded in the ball


@pytest.mark.parametrize(("center", "share"), [(np.eye(2), 0.99), (np.diag([0.3, 2.0]), 0.9)])
def test_the_ball_is_convex_up_to_the_limit(center, share):
    """Geodesics between points on the edge stay inside: what the bound rests on."""
    manifold = R.SPDBuresWasserstein(2)
    radius = share * convexity_limit(manifold, center)
    v = manifold.tangent_normal(6, center, 1.0, (300,))
    v = radius * np.asarray(v) / np.asarray(manifold.norm(center, v))[:, None, None]
    x = manifold.exp(center, v)
    p, q = x[:150], x[150:]
    for t in (0.1, 0.25, 0.5):
        between = manifold.exp(p, t * manifold.log(p, q))
        assert float(np.max(np.asarray(manifold.dist(center, between)))) <= radius * (1 + 1e-9)


def test_figures():
    bures = R.SPDBuresWasserstein(2)
    assert curvature_in_ball(bures, R.Ball(np.eye(2), 0.3)) == pytest.approx(
        3 / (math.sqrt(2) - 0.3) ** 2
    )
    assert curvature_in_ball(bures, R.Ball(np.eye(2), 1e-9)) == pytest.approx(1.5)
    limit = convexity_limit(bures, np.eye(2))
    kappa = curvature_in_ball(bures, R.Ball(np.eye(2), limit))
    assert 2 * limit * math.sqrt(kappa) == pytest.approx(math.pi / 2)
    assert convexity_limit(bures, np.diag([0.01, 4.0])) == pytest.approx(
        0.1
    )  # the smaller root of an eigenvalue
    assert convexity_limit(R.SPDBuresWasserstein(1), np.eye(1)) == 1.0
    assert curvature_in_ball(R.SPDBuresWasserstein(1), R.Ball(np.eye(1), 0.5)) == 0.0
    product = R.Product(bures, R.Sphere(3))
    assert convexity_limit(product, product.origin) == pytest.approx(min(limit, math.pi / 4))
    assert convexity_limit(R.Lorentz(3), R.Lorentz(3).origin) == math.inf
