"""The ends of noisy tangent vectors: always valid points. Post-processing, which looks at what is
already noisy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _linalg
from .._trees import all_finite, map_leaves
from ..manifolds import AbstractManifold, SPDBuresWasserstein
from ..manifolds._base import Point, Tangent
from ..manifolds._spectral import sym

if TYPE_CHECKING:
    from jaxtyping import Bool

    from .._namespace import Array

_HALVINGS = 80  # of a noisy tangent vector whose end float64 cannot hold


def end_of(manifold: AbstractManifold, base: Point, y: Array | np.ndarray, at: Any = None) -> Point:
    """Exp_base of the tangent vector with the released orthonormal coordinates y, always a valid
    point. `at` is what is `prepared` of a base that stays.
    """

    def end(shorter: Any) -> tuple[Point, Bool[Array, ""]]:
        return end_everywhere(manifold, base, shorter, at)

    return shortened(end, y, *end(y), base)


def shortened(
    end: Callable[[Any], tuple[Point, Bool[Array, ""]]],
    v: Any,
    x: Point,
    valid: Bool[Array, ""],
    base: Point,
) -> Point:
    """x = end(v) or, where it is not valid, the end of the first of v / 2, v / 4, .. that is."""
    for _ in range(_HALVINGS):
        if np.asarray(valid):
            return x
        v = map_leaves(lambda leaf: leaf / 2, v)
        x, valid = end(v)
    return base


def exp_everywhere(
    manifold: AbstractManifold, base: Point, v: Tangent
) -> tuple[Point, Bool[Array, ""]]:
    """Exp_base(v), and whether it is a valid point."""
    x = (
        _bures_wasserstein_exp(base, v)
        if isinstance(manifold, SPDBuresWasserstein)
        else manifold._exp(base, v)
    )
    return x, _is_valid(manifold, x)


def end_everywhere(
    manifold: AbstractManifold, base: Point, y: Array, at: Any = None
) -> tuple[Point, Bool[Array, ""]]:
    """The same for the coordinates of a tangent vector."""
    if isinstance(manifold, SPDBuresWasserstein):
        return exp_everywhere(manifold, base, manifold._from_coordinates(base, y))
    x = manifold._exp_coordinates(base, y) if at is None else manifold._exp_coordinates_from(at, y)
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
