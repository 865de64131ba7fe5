"""Reimherr2021: bounds of a Frechet mean's sensitivity, and how close data sets come to them."""

from __future__ import annotations

import math

import numpy as np

from riemdp.manifolds import SPDAffineInvariant
from riemdp.statistics import frechet_mean


def curvature_factor(radius: float, kappa: float = 1.0) -> float:
    """h(r, kappa) = theta cot theta, theta = 2 r sqrt(kappa) (1 for kappa <= 0)."""
    theta = 2 * radius * math.sqrt(max(kappa, 0.0))
    return 1.0 if theta == 0.0 else theta / math.tan(theta)


def published_sensitivity(radius: float, kappa: float, n: int) -> float:
    """Theorem 2: 2 r (2 - h) / (n h), above the bound that the library uses. Han2024 (Remarks 4 and
    5) has twice as much: the diameter for the radius in front, and the same h.
    """
    h = curvature_factor(radius, kappa)
    return 2 * radius * (2 - h) / (n * h)


def log_spread_bounds(radius: float) -> dict[str, float]:
    """Bounds of |log_m x - log_m y| over a ball of the unit sphere: flat 2r, the paper's 2r(2 - h),
    ours 2r theta/sin theta.
    """
    theta = 2 * radius
    return {
        "flat": 2 * radius,
        "published": 2 * radius * (2 - curvature_factor(radius)),
        "ours": 2 * radius * (theta / math.sin(theta) if theta else 1.0),
    }


def largest_log_spread(radius: float, points: int = 720) -> float:
    """max |log_m x - log_m y| for m, x, y on the boundary of a cap of the unit sphere, over a grid
    of the boundary (B.1).

    By symmetry m is fixed. A grid of a compact set: a lower bound of the supremum, with an error of
    order 1/points^2.
    """
    phi = 2 * np.pi * np.arange(points) / points
    x = np.stack(
        [
            np.sin(radius) * np.cos(phi),
            np.sin(radius) * np.sin(phi),
            np.full(points, np.cos(radius)),
        ],
        axis=1,
    )
    m = x[0]
    dots = np.clip(x @ m, -1.0, 1.0)
    ambient = x - dots[:, None] * m
    length = np.linalg.norm(ambient, axis=1)
    logs = ambient * (np.arctan2(length, dots) / np.where(length > 0, length, 1.0))[:, None]
    squares = np.sum(logs**2, axis=1)
    return float(np.sqrt(np.max(squares[:, None] + squares[None] - 2 * logs @ logs.T)))


def worst_mean_shift(radius: float, seed: int = 1, draws: int = 400_000) -> float:
    """n times the largest shift of a mean on the unit sphere that `worst_configuration` finds for
    large n.
    """
    return worst_configuration(radius, seed, draws)[0]


def worst_configuration(
    radius: float, seed: int = 1, draws: int = 400_000
) -> tuple[float, dict[str, float]]:
    """n times the largest shift of a mean on the unit sphere found for large n, by search over data
    on two boundary points.

    All but one record lie at boundary points a, b with shares l and 1 - l; the last moves from x to
    x' on the boundary. To first order in 1/n the mean moves by H^{-1}(log x' - log x) / n, H = 1
    along the geodesic a b and the mean of t cot t across it. A lower bound of the true sensitivity:
    what an attacker's pair of data sets really attains. Also returns the azimuths of a, x and x'
    (that of b is minus that of a) and the share of a.
    """
    rng = np.random.default_rng(seed)
    half, l = 0.5 * math.pi * rng.random(draws), rng.random(draws)
    # a and b at azimuths +half, -half; the geodesic between them is symmetric about the first axis.
    s, c = math.sin(radius), math.cos(radius)
    a = np.stack([s * np.cos(half), s * np.sin(half), np.full(draws, c)], axis=1)
    b = a * np.array([1.0, -1.0, 1.0])
    chord = np.linalg.norm(a - b, axis=1)
    angle = 2 * np.arcsin(np.minimum(chord / 2, 1.0))
    safe = np.maximum(np.sin(angle), 1e-12)
    mean = (np.sin(l * angle) / safe)[:, None] * a + (np.sin((1 - l) * angle) / safe)[:, None] * b
    along = a - np.sum(a * mean, axis=1)[:, None] * mean
    along /= np.maximum(np.linalg.norm(along, axis=1), 1e-12)[:, None]
    across = np.cross(mean, along)
    ta, tb = (1 - l) * angle, l * angle

    def cot(t):
        return np.where(t > 1e-9, t / np.tan(np.maximum(t, 1e-9)), 1.0)

    stiffness = l * cot(ta) + (1 - l) * cot(tb)

    def log_at_mean(phi):
        x = np.stack([s * np.cos(phi), s * np.sin(phi), np.full(draws, c)], axis=1)
        dots = np.sum(x * mean, axis=1)
        flat = x - dots[:, None] * mean
        length = np.linalg.norm(flat, axis=1)
        v = flat * (np.arctan2(length, dots) / np.maximum(length, 1e-12))[:, None]
        return np.sum(v * along, axis=1), np.sum(v * across, axis=1)

    first, second = 2 * np.pi * rng.random(draws), 2 * np.pi * rng.random(draws)
    u, v = log_at_mean(first), log_at_mean(second)
    shifts = np.hypot(u[0] - v[0], (u[1] - v[1]) / stiffness)
    i = int(np.argmax(shifts))
    return float(shifts[i]), {
        "a": float(half[i]),
        "share": float(l[i]),
        "x": float(first[i]),
        "y": float(second[i]),
    }


def collinear_shift(radius: float, n: int) -> tuple[float, float]:
    """(geodesic, Frobenius) shift of the mean on SPD(2) when one of n records at exp(r e1) jumps to
    exp(-r e1).
    """
    ends = np.stack([np.diag([math.exp(radius), 1.0]), np.diag([math.exp(-radius), 1.0])])
    before = np.asarray(
        frechet_mean(SPDAffineInvariant(2), ends, weights=np.array([1.0, 0.0])).value
    )
    after = np.asarray(
        frechet_mean(SPDAffineInvariant(2), ends, weights=np.array([1 - 1 / n, 1 / n])).value
    )
    return float(SPDAffineInvariant(2).dist(before, after)), float(np.linalg.norm(before - after))
