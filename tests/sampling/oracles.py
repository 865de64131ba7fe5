"""Independent distributions of the distance to the footpoint: quadrature on grids, none of it
shared with the samplers.
"""

from __future__ import annotations

import numpy as np


def cdf_from_grid(points, log_density):
    """Distribution function by the trapezoidal rule on a grid of radii."""
    weights = np.exp(log_density - np.max(log_density))
    cumulative = np.concatenate(
        [[0.0], np.cumsum(0.5 * (weights[1:] + weights[:-1]) * np.diff(points))]
    )
    cumulative /= cumulative[-1]
    return lambda x: np.interp(x, points, cumulative)


def polar_grid(r, n, times, lengths):
    """Points within r of the first axis, with log volume weights: cos and sin, or cosh and sinh."""
    rho = (np.arange(n[0]) + 0.5) / n[0] * r
    phi = (np.arange(n[1]) + 0.5) / n[1] * 2 * np.pi
    rho, phi = (g.ravel() for g in np.meshgrid(rho, phi, indexing="ij"))
    points = times(rho), lengths(rho) * np.cos(phi), lengths(rho) * np.sin(phi)
    return np.stack(points, axis=1), np.log(lengths(rho))


def hyperbolic_grid(r, n=(400, 180)):
    """Of H^2."""
    return polar_grid(r, n, np.cosh, np.sinh)


def sphere_grid(r, n=(400, 180)):
    """Of S^2."""
    return polar_grid(r, n, np.cos, np.sin)


def cdf_from_weights(values, log_weights):
    """Distribution function of weighted points (midpoints of a multidimensional grid)."""
    order = np.argsort(values)
    weights = np.exp(log_weights[order] - np.max(log_weights))
    cumulative = np.cumsum(weights) - 0.5 * weights
    return lambda x: np.interp(x, values[order], cumulative / cumulative[-1])


def hyperbolic(dim, s, end=None, n=400_001):
    b = 1 / s - (dim - 1)
    r = np.linspace(1e-9, 60 / b + 30 * dim * s if end is None else end, n)
    return cdf_from_grid(r, (dim - 1) * (r + np.log1p(-np.exp(-2 * r))) - r / s)


def sphere(dim, s, n=400_001):
    r = np.linspace(1e-9, np.pi - 1e-9, n)
    return cdf_from_grid(r, (dim - 1) * np.log(np.sin(r)) - r / s)


def affine_2(s, end=None, n=700):
    """SPD(2) affine-invariant: S = a I/sqrt2 + a traceless part of length rho, volume rho sinhc(rho
    / sqrt2) da drho.

    Returns the distribution functions of R = |S|_F and of rho.
    """
    top = 35 / (1 / s - np.sqrt(0.5)) if end is None else end
    a = (np.arange(2 * n) + 0.5) / n * top - top
    rho = (np.arange(n) + 0.5) / n * top
    a, rho = np.meshgrid(a, rho, indexing="ij")
    r = np.hypot(a, rho)
    x = rho / np.sqrt(2)
    log_density = np.log(rho) + x + np.log1p(-np.exp(-2 * x)) - np.log(2 * x) - r / s
    if end is not None:
        log_density = np.where(r <= end, log_density, -np.inf)
    marginal = np.log(np.maximum(np.sum(np.exp(log_density - np.max(log_density)), axis=0), 1e-300))
    return cdf_from_weights(r.ravel(), log_density.ravel()), cdf_from_grid(rho[0], marginal)


def affine_beyond(k, s, end):
    """The probability that a Laplace draw on SPD(k) affine-invariant, k = 2 or 3, is longer than
    `end`: Weyl's integration formula in polar coordinates of the eigenvalues, the radius integrated
    in closed form, the angles numerically, in 40 digits.
    """
    import mpmath as mp

    def radial(rate, low):
        """The integral of r^(k-1) e^(-rate r) from low."""
        if k == 2:
            return mp.exp(-rate * low) * (low / rate + 1 / rate**2)
        return mp.exp(-rate * low) * (low**2 / rate + 2 * low / rate**2 + 2 / rate**3)

    def above(low, a, b):
        """Products of 2 sinh(r g / 2), g the gaps, are sums of exponentials."""
        if k == 2:
            slopes = [mp.sqrt(0.5) * mp.sin(a)]
        else:
            g, h = (mp.sqrt(2) * mp.sin(a) * mp.sin(x) for x in (b, mp.pi / 3 - b))
            slopes = [g + h, -g, -h]
        return mp.fsum(radial(1 / s - x, low) - radial(1 / s + x, low) for x in slopes)

    with mp.workdps(40):
        s = mp.mpf(s)
        rule = mp.calculus.quadrature.GaussLegendre(mp.mp)
        nodes = rule.get_nodes(0, mp.pi / 2, 4, mp.mp.prec)
        if k == 2:
            angles = [(a, 0, weight) for a, weight in nodes]
        else:
            others = rule.get_nodes(0, mp.pi / 6, 3, mp.mp.prec)
            angles = [(a, b, mp.sin(a) * v * w) for a, v in nodes for b, w in others]
        beyond, whole = (
            mp.fsum(weight * above(mp.mpf(low), a, b) for a, b, weight in angles)
            for low in (end, 0)
        )
        return beyond / whole


def bures_distance_2(a, b):
    """Bures-Wasserstein distances of 2 x 2 matrices: tr sqrt(M) = sqrt(tr M + 2 sqrt(det M)), M = A
    B.
    """
    m = a @ b
    root = np.sqrt(np.trace(m, axis1=-2, axis2=-1) + 2 * np.sqrt(np.linalg.det(m)))
    traces = np.trace(a, axis1=-2, axis2=-1) + np.trace(b, axis1=-2, axis2=-1)
    return np.sqrt(np.maximum(traces - 2 * root, 0.0))


def principal_angles(w, x):
    """Principal angles between the columns of w (m, r) and of x (q, m, r), both orthonormal."""
    return np.arccos(np.clip(np.linalg.svd(w.T @ x, compute_uv=False), -1.0, 1.0))


def bures_2(eta_diagonal, s, n=(150, 150, 60), top=None):
    """SPD(2) Bures-Wasserstein: X = Q(phi) diag(y1^2, y2^2) Q(phi)^T, volume |x1 - x2| / sqrt(x1 +
    x2) dy1 dy2 dphi, by the metric 1/2 tr(L U) = dy1^2 + dy2^2 + (x1 - x2)^2 / (x1 + x2) dphi^2.
    Distribution of the distance to diag(eta_diagonal).
    """
    top = np.sqrt(max(eta_diagonal)) + 22 * s if top is None else top
    y1 = (np.arange(n[0]) + 0.5) / n[0] * top
    y2 = (np.arange(n[1]) + 0.5) / n[1] * top
    phi = (np.arange(n[2]) + 0.5) / n[2] * np.pi
    y1, y2, phi = (g.ravel() for g in np.meshgrid(y1, y2, phi, indexing="ij"))
    keep = y1 > y2
    y1, y2, phi = y1[keep], y2[keep], phi[keep]
    c, w = np.cos(phi), np.sin(phi)
    x1, x2 = y1**2, y2**2
    points = np.empty((x1.size, 2, 2))
    points[:, 0, 0] = x1 * c**2 + x2 * w**2
    points[:, 1, 1] = x1 * w**2 + x2 * c**2
    points[:, 0, 1] = points[:, 1, 0] = (x1 - x2) * c * w
    d = bures_distance_2(np.diag(eta_diagonal), points)
    log_density = np.log(x1 - x2) - 0.5 * np.log(x1 + x2) - d / s
    return cdf_from_weights(d, log_density)
