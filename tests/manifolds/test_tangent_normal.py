"""The distribution of tangent noise on every space, in orthonormal coordinates that the library
has no part in.

Metric and tangent space of each space are written here in NumPy and SciPy from their definitions.
The Gram matrix of a spanning set of tangent vectors gives an orthonormal frame, and the samples
must lie in its span and be iid N(0, sigma^2) in it. The same test must reject noise x 0.8.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import numpy as np
from scipy import linalg

from riemdp.manifolds import Product

from ..statistical import ALPHA, gaussian_p_value
from .cases import BY_NAME, Case, over_cases

COUNT = 4000
SIGMA = 0.7
SPACES = {
    "Euclidean",
    "Sphere",
    "Lorentz",
    "PoincareBall",
    "SPDAffineInvariant",
    "SPDBuresWasserstein",
    "SPDLogEuclidean",
    "Stiefel",
    "SpecialOrthogonal",
    "Grassmann",
    "KendallShapes",
    "Product",
}


# ------------------------------------------------------------------------- definitions: metric and
# tangent space in NumPy
def _minkowski(u: np.ndarray, v: np.ndarray) -> float:
    return float(u[1:] @ v[1:] - u[0] * v[0])


def _derivative_of_logarithm(w: np.ndarray, u: np.ndarray) -> np.ndarray:
    """From the definition of the logarithm alone: the solution X of D expm(log w)[X] = u, by
    SciPy's Frechet derivative.
    """
    k = len(w)
    a = linalg.logm(w).real
    units = [np.eye(k * k)[i].reshape(k, k) for i in range(k * k)]
    d_exp = np.stack([linalg.expm_frechet(a, e, compute_expm=False).ravel() for e in units], axis=1)
    return np.linalg.solve(d_exp, u.ravel()).reshape(k, k)


def _log_euclidean(w: np.ndarray) -> Callable[[np.ndarray, np.ndarray], float]:
    k = len(w)
    d_log = np.stack(
        [_derivative_of_logarithm(w, e.reshape(k, k)).ravel() for e in np.eye(k * k)], axis=1
    )
    return lambda u, v: float((d_log @ u.ravel()) @ (d_log @ v.ravel()))


def _bures(w: np.ndarray) -> Callable[[np.ndarray, np.ndarray], float]:
    return lambda u, v: 0.5 * float(np.trace(linalg.solve_continuous_lyapunov(w, u) @ v))


def metric(space: str, p: np.ndarray) -> Callable[[np.ndarray, np.ndarray], float]:
    """The inner product at p, as a function of two tangent arrays."""
    if space == "Lorentz":
        return _minkowski
    if space == "PoincareBall":
        return lambda u, v: 4.0 * float(u @ v) / (1.0 - float(p @ p)) ** 2
    if space == "SPDAffineInvariant":
        inverse = np.linalg.inv(p)
        return lambda u, v: float(np.trace(inverse @ u @ inverse @ v))
    if space == "SPDLogEuclidean":
        return _log_euclidean(p)
    if space == "SPDBuresWasserstein":
        return _bures(p)
    return lambda u, v: float(np.sum(u * v))


def tangent_space(space: str, p: np.ndarray) -> list[np.ndarray]:
    """Arrays that span the tangent space at p (not a basis: there may be more of them than
    dimensions).
    """
    units = [e.reshape(p.shape) for e in np.eye(p.size)]
    match space:
        case "Sphere":
            return [e - (p @ e) * p for e in units]
        case "Lorentz":
            return [e + _minkowski(p, e) * p for e in units]
        case "Stiefel" | "SpecialOrthogonal":
            return [e - 0.5 * p @ (p.T @ e + e.T @ p) for e in units]
        case "Grassmann":
            return [e - p @ (p.T @ e) for e in units]
        case "KendallShapes":
            turned = p @ [[0.0, 1.0], [-1.0, 0.0]]
            level = [e - e.mean(axis=0) for e in units]
            return [e - np.sum(p * e) * p - np.sum(turned * e) * turned for e in level]
        case "SPDAffineInvariant" | "SPDLogEuclidean" | "SPDBuresWasserstein":
            return [e + e.T for e in units]
        case "Euclidean" | "PoincareBall":
            return units
    raise KeyError(space)


def frame(manifold, p) -> tuple[np.ndarray, np.ndarray]:
    """(an orthonormal basis of the tangent space at p as flat rows, the matrix that reads
    coordinates off a flat vector).
    """
    if isinstance(manifold, Product):
        blocks = [frame(part, x) for part, x in zip(manifold.manifolds, p, strict=True)]
        return tuple(linalg.block_diag(*part) for part in zip(*blocks, strict=True))
    space, p = type(manifold).__name__, np.asarray(p)
    g, spanning = metric(space, p), tangent_space(space, p)
    gram = np.array([[g(u, v) for v in spanning] for u in spanning])
    values, vectors = np.linalg.eigh(gram)
    keep = values > 1e-9 * values[-1]
    assert int(keep.sum()) == manifold.dim
    combination = vectors[:, keep] / np.sqrt(values[keep])
    flat = np.stack([v.ravel() for v in spanning])
    basis = combination.T @ flat
    # Coordinates c = <E_k, v>: read them off the spanning set, v = sum_j a_j S_j with <E_k, S_j>
    # known.
    return basis, combination.T @ gram @ np.linalg.pinv(flat).T


def flattened(v) -> np.ndarray:
    leaves = v if isinstance(v, tuple) else (v,)
    return np.concatenate([np.asarray(x).reshape(COUNT, -1) for x in leaves], axis=1)


def p_value(manifold, p, v, sigma: float = SIGMA) -> float:
    """p-value that the tangent arrays v are iid isotropic normal of variance sigma^2 at p; 0 if
    they are not tangent.
    """
    basis, reader = frame(manifold, p)
    flat = flattened(v)
    c = flat @ reader.T
    if not np.allclose(c @ basis, flat, rtol=0.0, atol=1e-8 * np.max(np.abs(flat))):
        return 0.0
    return gaussian_p_value(c, sigma)


def point(case_or_manifold, seed: int = 3):
    """A base point at distance 1.2 from the origin: far enough for a formula that is right only at
    the origin to fail.
    """
    manifold = case_or_manifold.manifold if isinstance(case_or_manifold, Case) else case_or_manifold
    c = np.random.default_rng(seed).standard_normal(manifold.dim)
    return manifold.exp(
        manifold.origin, manifold.from_coordinates(manifold.origin, 1.2 * c / np.linalg.norm(c))
    )


# -----------------------------------------------------------------------------
# every space
def test_all_spaces_are_in_the_table():
    assert {type(case.manifold).__name__ for case in BY_NAME.values()} == SPACES


@over_cases()
def test_tangent_normal_is_isotropic_in_the_metric_and_noise_times_four_fifths_is_not(case):
    m, p = case.manifold, point(case)
    v = m.tangent_normal(5, p, SIGMA, (COUNT,))
    assert p_value(m, p, v) > ALPHA
    assert p_value(m, p, jax.tree.map(lambda x: 0.8 * x, v)) < ALPHA


@over_cases("sphere", "product")
def test_batch_axes_of_key_and_point(case):
    m, p = case.manifold, point(case)
    pair = jax.tree.map(lambda x: np.stack([x, x]), p)
    v = m.tangent_normal(7, pair, SIGMA, (COUNT // 2,))
    assert {np.shape(x)[:2] for x in jax.tree.leaves(v)} == {(COUNT // 2, 2)}
    assert (
        p_value(m, p, v) > ALPHA
    )  # both points are the same, so all COUNT vectors have one distribution and are independent
    again = m.tangent_normal(7, pair, SIGMA, (COUNT // 2,))
    assert all(
        np.array_equal(a, b)
        for a, b in zip(jax.tree.leaves(v), jax.tree.leaves(again), strict=True)
    )
