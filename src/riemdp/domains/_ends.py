"""The ends of noisy tangent vectors: always valid points. Post-processing, which looks at what is
already noisy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .. import _linalg
from .._trees import all_finite
from ..manifolds import AbstractManifold, SPDBuresWasserstein
from ..manifolds._base import Point
from ..manifolds._spectral import sym

if TYPE_CHECKING:
    from jaxtyping import Bool

    from .._namespace import Array

_HALVINGS = 80  # of a noisy tangent vector whose end float64 cannot hold


def end_of(manifold: AbstractManifold, base: Point, y: Array | np.ndarray) -> Point:
    """Exp_base of the tangent vector with the released orthonormal coordinates y, always a valid
    point: where float64 cannot hold it, the end of the first of y / 2, y / 4, .. that it holds.
    """
    for _ in range(_HALVINGS):
        x, valid = end_everywhere(manifold, base, y)
        if np.asarray(valid):
            return x
        y = y / 2
    return base


def end_everywhere(
    manifold: AbstractManifold, base: Point, y: Array | np.ndarray
) -> tuple[Point, Bool[Array, ""]]:
    """The same, and whether it is a valid point."""
    if isinstance(manifold, SPDBuresWasserstein):
        x = _bures_wasserstein_exp(base, manifold._from_coordinates(base, y))
    else:
        x = manifold._exp_coordinates(base, y)
    return x, _is_valid(manifold, x)


def _is_valid(manifold: AbstractManifold, x: Point) -> Bool[Array, ""]:
    batch = len(manifold._batch_shape(x))
    return np.asarray(all_finite(x, batch)) & np.asarray(manifold._belongs(x, 1e-6))


def _bures_wasserstein_exp(w: Array, u: Array) -> Array:
    # (I + L) W (I + L) is a geodesic's end only while I + L > 0, but it stays positive definite,
    # and at most |U - V| from the end of V, for every symmetric L that keeps I + L regular (it is
    # the quotient of a flat space). Eigenvalues of I + L within 1e-6 of zero are moved there:
    # post-processing of what is already noisy.
    values, vectors = _linalg.eigh(sym(w))
    rotated = vectors.T @ u @ vectors
    moved = np.eye(w.shape[-1]) + rotated / (values[:, None] + values[None, :])
    m, q = _linalg.eigh(sym(moved))
    m = np.where(np.abs(m) < 1e-6, np.where(m < 0, -1e-6, 1e-6), m)
    root = (vectors @ ((q * m) @ q.T)) * np.sqrt(values)
    return root @ root.T
