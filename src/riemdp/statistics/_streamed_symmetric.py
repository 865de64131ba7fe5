"""The Frechet mean of subspaces (Grassmann manifolds) and of rotations, read in parts: Newton's
method with the Hessian of all records, which a pass gives beside the mean logarithm.

Both are symmetric spaces whose logarithms are matrices. With v = log_p x the curvature R_v W =
R(W, v) v is the square of ad A, A Hermitian, and the Hessian of d(., x)^2 / 2 is c(ad A), c(x) = x
cot x: in the frame of A's eigenvectors it multiplies the entries of W by c of how far eigenvalues
lie apart.

- Subspaces: A = -i [[0, -v^T], [v, 0]] has the eigenvalues +t, -t and 0, t the principal angles,
  and R_v W = v v^T W + W v^T v - 2 v W^T v. Norms of these matrices are sqrt(2) times those of v.
- Rotations: A = -i v / 2 has half the angles of v, and R_v W = -(v v W - 2 v W v + W v v) / 4.

With a polynomial in place of c, even and of degree 4, the Hessian is a sum of products of W with
powers of v on both sides, so that of all records is found from a matrix of second moments of these
powers. Both multiply entries of W in one frame, so what is missed of a record is at most the
largest error up to its width, which is how far eigenvalues lie apart: the mean of these is part of
the bound. No eigenvalue is computed for it: the trace of (v^T v)^4 bounds the largest.

The last step needs no pass after it where a bound of the residual says so. Along a geodesic of unit
speed the curvature tensor is parallel, so in a parallel frame G = -v has G' = c(ad A) W, and A' is
-B, the matrix of c(ad A) W. The derivative of c(ad A) along ad B has a part of products with B from
the left and one from the right. In the frame of A the terms of sum_e B_ae W_eb are multiplied by
divided differences of c in one variable, of modulus at most L = -c'(x), x the largest difference of
eigenvalues, so each part has at most the norm L |B| |W|. c is between c(x) and 1, whence |B| <= M
|W|, M = max(1, |c(x)|). In norms of v, |G''| is at most 2 sqrt(2) L M for subspaces, and L M for
rotations, where ad A is halved. Angles move by the length of a step at most. The mean of these
bounds, with angles that much larger, holds up to x = pi; longer steps than `_FARTHEST` are not
taken to be the last.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import eval_context
from jaxtyping import Array

from ..domains._stream import Part, weighted_pairwise
from ..manifolds import AbstractManifold, Grassmann, Stiefel
from ..manifolds._base import Point
from ..manifolds._spectral import transpose
from ._look import MOST, AbstractLook, solved
from ._newton import View

_WIDER = 1.3  # where the polynomial is fitted, in units of how wide records were
_FARTHEST = 0.05  # the longest step that a bound is made for
# sizes of v v^T, in units of v, up to which each record's is made: the term of the fourth degree
# needs it
_TALLEST = 24
_CELLS = 1024  # of widths up to pi, for each of which the error of the polynomial is bounded


def suits(manifold: AbstractManifold) -> bool:
    """Whether `SymmetricLook` is for this space."""
    rotations = isinstance(manifold, Stiefel) and manifold.m == manifold.r
    return (isinstance(manifold, Grassmann) or rotations) and manifold.dim <= MOST


class SymmetricLook(AbstractLook[AbstractManifold]):
    """Looks at points. It needs no ball: what its bound takes of the records a pass finds."""

    has_light = True

    def __init__(self, manifold: AbstractManifold):
        self.manifold = manifold
        self._width = 1.0
        self._series = np.empty(0)

    def part(self, point: Point) -> Part:
        rows, columns = _form(self.manifold)
        self._series = fitted(self._width, 3 if rows <= _TALLEST * columns else 2)
        at = self._series, errors_within(self._series)
        return functools.partial(_sums, self.manifold, point, tuple(map(jnp.asarray, at)))

    def view(self, means: Any) -> View[np.ndarray]:
        gradient, *moments, marks = means
        missed, bent, lowest, width = (float(mark) for mark in marks)
        if math.isfinite(width) and width > 0.0:
            self._width = _WIDER * width**0.125
        series = self._series

        def newton() -> tuple[np.ndarray, float]:
            hessian = assembled(self.manifold, float(series[0]), *moments)
            step = solved(hessian, gradient, lowest - missed)
            length = float(np.linalg.norm(step))
            left = float(np.linalg.norm(gradient - hessian @ step)) + missed * length
            return step, left + bent * length**2 if length <= _FARTHEST else math.inf

        # no Hessian of a record has an eigenvalue above 1
        return View(float(np.linalg.norm(gradient)), math.nan, gradient, newton)


def fitted(width: float, terms: int) -> np.ndarray:
    """Coefficients of 1, x^2 and x^4: c(x) on [-width, width] but for a small error; with two terms
    the last is 0.
    """
    width = min(max(width, 0.1), 3.0)
    nodes = width * np.cos(np.pi * (np.arange(terms) + 0.5) / (2 * terms))
    powers = np.vander((nodes / width) ** 2, terms, increasing=True)
    found = np.linalg.solve(powers, nodes / np.tan(nodes)) / width ** (2.0 * np.arange(terms))
    return np.concatenate([found, np.zeros(3 - terms)])


def errors_within(series: np.ndarray) -> np.ndarray:
    """Bounds of the error of the polynomial on [0, i pi / 1024] for i = 0 to 1024: the larger error
    at the ends of each cell, and what the second derivatives leave between them. That of c is
    negative and falls.
    """
    cell = math.pi / _CELLS
    x = cell * np.arange(1, _CELLS)
    c0, c1, c2 = (float(one) for one in series)
    cot, sin = x / np.tan(x), np.sin(x)
    at = np.append(abs(1.0 - c0), np.abs(cot - (c0 + x**2 * (c1 + c2 * x**2))))
    bend = 2.0 * (1.0 - cot) / sin**2 + 2.0 * abs(c1) + 12.0 * abs(c2) * x**2
    inside = np.maximum(at[:-1], at[1:]) + cell**2 / 8.0 * bend
    return np.concatenate([at[:1], np.maximum.accumulate(inside), [math.inf]])


def assembled(
    manifold: AbstractManifold,
    constant: float,
    odd: np.ndarray,
    even: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
) -> np.ndarray:
    """The Hessian in coordinates: of W -> constant W + left W + W right + sum X W^T Y + sum P W Q,
    from the sums `odd` of the products of the entries of X and Y, and `even` of those of the
    entries of P and Q on and above their diagonals.
    """
    rows, columns = _form(manifold)
    one, other = np.eye(rows), np.eye(columns)
    # entry (a, b) of the image, entry (c, d) of W
    total = odd.reshape(rows, columns, rows, columns).transpose(0, 3, 2, 1).copy()  # X_ad Y_cb
    if even.size:
        total += even[_places(rows)][:, :, _places(columns)].transpose(0, 3, 1, 2)  # P_ac Q_db
    total += left[:, None, :, None] * other[:, None, :] + one[:, None, :, None] * right.T[:, None]
    whole = total.reshape(rows * columns, -1)
    if not isinstance(manifold, Grassmann):
        basis = _skew(manifold).reshape(manifold.dim, -1)
        whole = basis @ whole @ basis.T
    return 0.5 * (whole + whole.T) + constant * np.eye(len(whole))


def _form(manifold: AbstractManifold) -> tuple[int, int]:
    """Rows and columns of a logarithm."""
    if isinstance(manifold, Grassmann):
        return manifold.m - manifold.r, manifold.r
    assert isinstance(manifold, Stiefel)
    return manifold.m, manifold.m


def _places(size: int) -> np.ndarray:
    """Where entry (i, j) of a symmetric matrix stands among those on and above the diagonal."""
    found = np.empty((size, size), dtype=int)
    rows, columns = np.triu_indices(size)
    found[rows, columns] = found[columns, rows] = np.arange(len(rows))
    return found


@functools.lru_cache(maxsize=8)
def _skew(manifold: AbstractManifold) -> np.ndarray:
    """The matrices of the coordinates of rotations, (dim, m, m)."""
    with eval_context():
        origin = manifold.origin
        return np.asarray(manifold._from_coordinates(origin, jnp.eye(manifold.dim)))


def _sums(
    manifold: AbstractManifold, point: Point, at: Any, records: Point, _: Any, weights: Array
) -> tuple[Array, ...]:
    return _compiled_sums(manifold, point, *at, records, weights)


@functools.partial(jax.jit, static_argnums=0)
def _compiled_sums(
    manifold: AbstractManifold,
    point: Array,
    series: Array,
    errors: Array,
    records: Array,
    weights: Array,
) -> tuple[Array, ...]:
    """Weighted sums of logarithms, in coordinates at `point`, of what the Hessian is assembled
    from, and of marks: what the polynomial misses at most, half the bound of |G''|, a lower bound
    of the Hessian, and the eighth power of the width.
    """
    y = manifold._log_coordinates(point, records)
    gradient = weighted_pairwise(y, weights)
    y = jnp.where((weights == 0.0)[:, None], 0.0, y)  # what has no weight may be anything
    n, (rows, columns) = len(y), _form(manifold)
    if isinstance(manifold, Grassmann):
        v, half, alike = y.reshape(n, rows, columns), 1.0, 1.0
    else:  # eigenvalues of v^T v are there in pairs
        v, half, alike = jnp.tensordot(y, jnp.asarray(_skew(manifold)), axes=1), 0.5, 2.0
    gram = transpose(v) @ v  # of rotations -v v
    square = gram @ gram
    width = 2.0 * half * (jnp.sum(square**2, axis=(1, 2)) / alike) ** 0.125
    marks = weighted_pairwise(_marks(width, errors, half), weights)

    c1, c2 = series[1] * half**2, series[2] * half**4
    heavy = weights[:, None, None]
    # (x - y)^2 and (x - y)^4 multiplied out; of rotations v^T = -v and W^T = -W, so that all of it
    # is the same. The two products of v and its cube are each other's transposes as forms.
    cube = v @ gram
    flat = lambda a: a.reshape(n, -1)  # noqa: E731
    odd = flat(v).T @ flat(heavy * (-2.0 * c1 * v - 8.0 * c2 * cube))
    right = jnp.sum(heavy * (c1 * gram + c2 * square), axis=0)
    one_sided = heavy * (c1 * v + c2 * cube)
    left = _added(transpose(one_sided[:, :, d]) @ v[:, :, d] for d in range(columns))
    even = jnp.zeros(0)
    if rows <= _TALLEST * columns:
        i, j = np.triu_indices(rows)
        outer = _added(v[:, i, d] * v[:, j, d] for d in range(columns))
        i, j = np.triu_indices(columns)
        even = outer.T @ ((6.0 * c2 * weights)[:, None] * gram[:, i, j])
    return gradient, odd, even, left, right, marks


def _added(terms: Iterable[Array]) -> Array:
    return functools.reduce(jnp.add, terms)


def _marks(width: Array, errors: Array, half: float) -> Array:
    """What `_compiled_sums` says, of records of these widths."""
    cells = jnp.ceil(jnp.minimum(width / math.pi, 1.0) * _CELLS).astype(int)
    x = width + 2.0 * half * _FARTHEST
    slope = x / jnp.sin(x) ** 2 - 1.0 / jnp.tan(x)
    bent = (math.sqrt(2.0) if half == 1.0 else 0.5) * slope * jnp.maximum(1.0, jnp.abs(_cot(x)))
    beyond = ~(x < math.pi)
    lowest = jnp.where(beyond, -jnp.inf, _cot(width))
    return jnp.stack([errors[cells], jnp.where(beyond, jnp.inf, bent), lowest, width**8], axis=1)


def _cot(x: Array) -> Array:
    """x cot x."""
    small = x < 1e-4
    safe = jnp.where(small, 1.0, x)
    return jnp.where(small, 1.0 - x * x / 3.0, safe / jnp.tan(safe))
