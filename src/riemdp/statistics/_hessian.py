"""How curvature bends the objective of a mean: its Hessian from a second moment of logarithms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..manifolds import AbstractManifold, Grassmann, Product, SPDAffineInvariant
from ..manifolds._spectral import unpack

Floats = NDArray[np.float64]


def mean_hessian(manifold: AbstractManifold, moment: Floats, reach: float) -> Floats | None:
    """A lower bound of the Hessian at p of E d(p, x)^2 / 2, from M = E v v^T, v = log_p x at most
    `reach` long.

    For a record with logarithm v it is f(R_v), R_v w = R(w, v) v, with f(s) = sqrt(s) cot(sqrt(s)),
    which is concave, so f(R_v) >= I - b R_v with a chord b of f; and R_v is linear in v v^T.

    Args:
        manifold: The space.
        moment: M in orthonormal coordinates at p, (dim, dim), positive semidefinite.
        reach: A bound of |v|.

    Returns:
        The matrix in the same coordinates; None where no formula for the curvature is known.

    Source:
        docs/proofs/confidence-region.md, Lemma 11.
    """
    dim = int(manifold.dim)
    if isinstance(manifold, Product):
        whole, start = np.eye(dim), 0
        for part in manifold.manifolds:
            own = slice(start, start + int(part.dim))
            found = mean_hessian(part, moment[own, own], reach)
            if found is None:
                return None
            whole[own, own], start = found, own.stop
        return whole
    lowest, highest = (float(k) for k in manifold.curvature_bounds)
    if lowest == highest:
        bent = lowest * (np.trace(moment) * np.eye(dim) - moment)
    elif isinstance(manifold, SPDAffineInvariant):
        bent = _of_commutators(moment)
    elif isinstance(manifold, Grassmann):
        bent = _of_planes(moment, manifold.m - manifold.r, manifold.r)
    else:
        return None
    # the end of the chord: R_v has eigenvalues of one sign, up to this curvature times |v|^2
    return np.eye(dim) - _chord(lowest if lowest < 0.0 else highest, reach) * bent


def _chord(curvature: float, reach: float) -> float:
    """(1 - f(s)) / s at s = curvature reach^2; 1/3 at 0."""
    x = reach * math.sqrt(abs(curvature))
    if x < 1e-3:
        return 1.0 / 3.0
    if curvature < 0.0:
        return (x / math.tanh(x) - 1.0) / x**2
    return (1.0 - x / math.tan(x)) / x**2 if x < math.pi else math.inf


def _of_commutators(moment: Floats) -> Floats:
    """sum_k l_k R(., u_k) u_k = -1/4 sum_k l_k [[., u_k], u_k] over the eigenvectors u_k of the
    moment, as symmetric matrices: the affine-invariant metric.
    """
    dim = len(moment)
    size = (math.isqrt(8 * dim + 1) - 1) // 2
    values, vectors = np.linalg.eigh(moment)
    basis = _matrices(np.eye(dim), size)
    total = np.zeros((dim, dim))
    for value, u in zip(values, _matrices(vectors.T, size), strict=True):
        rows = (basis @ u - u @ basis).reshape(dim, -1)
        total -= 0.25 * max(float(value), 0.0) * (rows @ rows.T)
    return total


def _of_planes(moment: Floats, rows: int, columns: int) -> Floats:
    """sum_k l_k R(., u_k) u_k = sum_k l_k (. u_k^T u_k + u_k u_k^T . - 2 u_k .^T u_k) over the
    eigenvectors u_k of the moment, as matrices that map a plane into its complement: the Grassmann
    manifold.
    """
    dim = len(moment)
    values, vectors = np.linalg.eigh(moment)
    basis = np.eye(dim).reshape(dim, rows, columns)
    turned, total = basis.swapaxes(1, 2), np.zeros((dim, dim))
    for value, u in zip(values, vectors.T.reshape(dim, rows, columns), strict=True):
        image = basis @ (u.T @ u) + (u @ u.T) @ basis - 2.0 * u @ turned @ u
        total += max(float(value), 0.0) * image.reshape(dim, dim)
    return total


def _matrices(coordinates: Floats, size: int) -> Any:
    return unpack(coordinates, size)
