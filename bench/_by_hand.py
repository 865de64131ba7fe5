"""Private means and their parts in a few lines of NumPy: what small calls are timed beside.

The formulas of the papers, with no check of an argument, no accounting and NumPy's generator.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

rng = np.random.default_rng(0)


# ------------------------------------------------------------------ matrices, by hand
def symmetric_noise(k: int, scale: float) -> np.ndarray:
    a = rng.normal(size=(k, k))
    above = np.triu(a, 1) / math.sqrt(2)
    return scale * (above + above.T + np.diag(np.diag(a)))


def of_spectrum(f: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> np.ndarray:
    values, q = np.linalg.eigh(x)
    return (q * f(values)[..., None, :]) @ np.swapaxes(q, -1, -2)


def clamped_logs(x: np.ndarray, radius: float) -> np.ndarray:
    """Logarithms at the identity, shortened to the radius."""
    logs = of_spectrum(np.log, x)
    length = np.sqrt(np.sum(logs**2, axis=(1, 2)))
    return logs * np.minimum(1.0, radius / np.maximum(length, 1e-300))[:, None, None]


def flat_mean(x: np.ndarray, radius: float, scale: float) -> np.ndarray:
    mean = clamped_logs(x, radius).mean(0)
    return of_spectrum(np.exp, mean + symmetric_noise(x.shape[-1], scale))


def affine_mean(x: np.ndarray, radius: float, scale: float) -> np.ndarray:
    inside = of_spectrum(np.exp, clamped_logs(x, radius))
    p = inside.mean(0)
    for _ in range(50):
        lower = np.linalg.cholesky(p)
        back = np.linalg.inv(lower)
        step = of_spectrum(np.log, back @ inside @ back.T).mean(0)
        p = lower @ of_spectrum(np.exp, step) @ lower.T
        if np.linalg.norm(step) < 1e-10:
            break
    lower = np.linalg.cholesky(p)
    return lower @ of_spectrum(np.exp, symmetric_noise(x.shape[-1], scale)) @ lower.T


# ------------------------------------------------------------------ points about a centre, by hand
Exp = Callable[[np.ndarray, np.ndarray], np.ndarray]
Logs = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


def mean_in_ball(exp: Exp, logs: Logs, x: np.ndarray, center: np.ndarray, r: float) -> np.ndarray:
    """The mean of points that are moved into the ball of this radius."""
    v, distance = logs(center, x)
    share = np.minimum(1.0, r / np.maximum(distance, 1e-300))
    inside, p = exp(center, share[:, None] * v), center
    for _ in range(50):
        step = logs(p, inside)[0].mean(0)
        p = exp(p, step)
        if np.linalg.norm(step) < 1e-10:
            break
    return p


# ------------------------------------------------------------------ the hyperbolic plane, by hand
def exp_at(p: np.ndarray, v: np.ndarray) -> np.ndarray:
    length = np.sqrt(np.maximum(-(v[..., :1] ** 2) + np.sum(v[..., 1:] ** 2, -1, keepdims=True), 0))
    return np.cosh(length) * p + np.sinh(length) / np.maximum(length, 1e-300) * v


def logs_at(p: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    cosh = np.maximum(x[:, 0] * p[0] - x[:, 1:] @ p[1:], 1.0)
    distance = np.arccosh(cosh)
    factor = np.where(distance > 0, distance / np.maximum(np.sinh(distance), 1e-300), 1.0)
    return factor[:, None] * (x - cosh[:, None] * p), distance


def hyperbolic_mean(x: np.ndarray, radius: float, scale: float) -> np.ndarray:
    p = mean_in_ball(exp_at, logs_at, x, np.array([1.0, 0.0, 0.0]), radius)
    r = -0.5 * math.log(rng.beta((1 / scale - 1) / 2, 2))
    u = rng.normal(size=2)
    along = p[1:] @ u
    v = np.concatenate([[along], u + along * p[1:] / (1 + p[0])])
    return exp_at(p, r / np.linalg.norm(u) * v)


def descent(x: np.ndarray, radius: float, scale: float, steps: int = 5) -> np.ndarray:
    """Noisy gradient descent on F = 1/2 mean d^2, every gradient clipped."""
    p, inside = np.eye(x.shape[-1]), of_spectrum(np.exp, clamped_logs(x, radius))
    for _ in range(steps):
        lower = np.linalg.cholesky(p)
        back = np.linalg.inv(lower)
        logs = of_spectrum(np.log, back @ inside @ back.T)
        length = np.sqrt(np.sum(logs**2, axis=(1, 2)))
        logs *= np.minimum(1.0, 2 * radius / np.maximum(length, 1e-300))[:, None, None]
        step = logs.mean(0) + symmetric_noise(x.shape[-1], scale)
        p = lower @ of_spectrum(np.exp, step) @ lower.T
    return p


def variance(x: np.ndarray, radius: float, scale: float) -> float:
    """Mean squared distance from the identity, of distances up to the radius."""
    squares = np.sum(np.log(np.linalg.eigvalsh(x)) ** 2, axis=1)
    return float(np.minimum(squares, radius**2).mean() + scale * rng.normal())


def wrapped(x: np.ndarray, scale: float) -> np.ndarray:
    """A point of the hyperbolic plane with Gaussian noise in the tangent space at the origin."""
    origin = np.array([1.0, 0.0, 0.0])
    v, _ = logs_at(origin, x[None])
    return exp_at(origin, v[0] + scale * np.concatenate([[0.0], rng.normal(size=2)]))


# ------------------------------------------------------------------ the sphere, by hand
def along_sphere(p: np.ndarray, v: np.ndarray) -> np.ndarray:
    length = np.sqrt(np.sum(v**2, -1, keepdims=True))
    return np.cos(length) * p + np.sin(length) / np.maximum(length, 1e-300) * v


def sphere_logs(p: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    cosine = np.clip(x @ p, -1.0, 1.0)
    distance = np.arccos(cosine)
    factor = np.where(distance > 0, distance / np.maximum(np.sin(distance), 1e-300), 1.0)
    return factor[:, None] * (x - cosine[:, None] * p), distance


def sphere_mean(x: np.ndarray, center: np.ndarray, radius: float, scale: float) -> np.ndarray:
    p = mean_in_ball(along_sphere, sphere_logs, x, center, radius)
    u = rng.normal(size=3)
    u -= (u @ p) * p
    return along_sphere(p, rng.gamma(2.0, scale) / np.linalg.norm(u) * u)
