"""What the three metrics on symmetric positive definite (SPD) matrices share."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _linalg as linalg
from .._errors import integer
from .._namespace import namespace
from .._trees import all_finite
from . import _spectral as sp
from ._arrays import standard_normals
from ._base import EPS, AbstractManifold, set_field
from ._numerics import safe_sqrt

if TYPE_CHECKING:
    from typing import TypeAlias

    from jaxtyping import ArrayLike, Bool, Float

    from .._namespace import Array

    Matrix: TypeAlias = Float[Array, "*batch k k"]

PROJECTION_FLOOR = (
    1e-10  # relative to the largest eigenvalue (or to 1 if no eigenvalue is positive)
)
# Below so many k EPS an eigenvalue of a matrix with a diagonal of 1 is 0 up to rounding. Those of
# signals with an average reference, after ICA or with a channel too many stay below 2.5. From half
# of it on, a matrix is a point of the space; what is checked beforehand is told up to here.
RANK = 16.0
SINGULAR = "is singular up to rounding"


@dataclass(frozen=True)
class AbstractSPD(AbstractManifold):
    """SPD matrices of size k: the part of the interface that does not depend on the metric.

    Points are (*batch, k, k) symmetric positive definite, tangent vectors (*batch, k, k) symmetric.
    Arguments are replaced by their symmetric part. Two choices are the library's own: `project`
    takes the symmetric part and lifts eigenvalues to 1e-10 of the largest one (to 1e-10 when none
    is positive), and `retract(p, v)` is p + v + v p^-1 v / 2, which needs no eigendecomposition and
    is never below p/2, so that it is positive definite for every v.
    """

    k: int

    def __post_init__(self) -> None:
        remedy = "give the number of rows, a whole number that is at least 1"
        set_field(self, "k", integer("k", self.k, at_least=1, remedy=remedy))

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.k, self.k)

    @property
    def dim(self) -> int:
        return self.k * (self.k + 1) // 2

    @property
    def origin(self) -> Matrix:
        return np.eye(self.k)

    @abstractmethod
    def _to_frame(self, p: Matrix, v: Matrix) -> Matrix:
        """Linear isometry from the tangent space at p to symmetric matrices with the Frobenius
        product.
        """

    @abstractmethod
    def _from_frame(self, p: Matrix, s: Matrix) -> Matrix:
        """Inverse of `_to_frame`."""

    def _inner(self, p: Matrix, u: Matrix, v: Matrix) -> Float[Array, "*batch"]:
        u, v = self._to_frame(p, u), self._to_frame(p, v)
        return namespace(u, v).sum(u * v, axis=(-2, -1))

    def _norm(self, p: Matrix, v: Matrix) -> Float[Array, "*batch"]:
        v = self._to_frame(p, v)
        return safe_sqrt(namespace(v).sum(v**2, axis=(-2, -1)))

    def _to_coordinates(self, p: Matrix, v: Matrix) -> Float[Array, "*batch dim"]:
        return sp.pack(self._to_frame(p, v))

    def _from_coordinates(self, p: Matrix, c: Float[Array, "*batch dim"]) -> Matrix:
        return self._from_frame(p, sp.unpack(c, self.k))

    def _retract(self, p: Matrix, v: Matrix) -> Matrix:
        p, v = sp.sym(p), sp.sym(v)
        half = v @ sp.transpose(linalg.inverse_lower(linalg.cholesky(p)))
        return sp.sym(p + v + 0.5 * (half @ sp.transpose(half)))

    def _project(self, x: Matrix) -> Matrix:
        xp, a = namespace(x), sp.sym(x)
        eig = sp.spectrum(a)
        top = eig.values[..., -1]
        floor = PROJECTION_FLOOR * xp.where(top > 0.0, top, 1.0)
        lifted = sp.apply("floor", a, eig, offset=floor)
        # A matrix that needs no lifting is returned bit for bit, so that projecting twice changes
        # nothing.
        return xp.where((eig.values[..., 0] >= 0.99 * floor)[..., None, None], a, lifted)

    def _repair(self, x: Matrix) -> Matrix:
        # Being positive definite is no equation: only the symmetry is subject to rounding.
        return sp.sym(x)

    def _ambient_diameter(self, center: Matrix, radius: float) -> float:
        return 2 * float(linalg.eigvalsh(sp.sym(center))[-1]) * math.expm1(radius)

    @property
    def _scales(self) -> int:
        return 1

    def _log_scales(self, x: Matrix) -> Float[Array, "*batch 1"]:
        """log det(x) / k: the mean of the logarithms of the eigenvalues."""
        xp, factor = namespace(x), linalg.cholesky(sp.sym(x))
        return 2.0 * xp.mean(xp.log(xp.linalg.diagonal(factor)), axis=-1, keepdims=True)

    def _rescaled(self, p: Matrix, scales: Float[ArrayLike, " 1"]) -> Matrix:
        factor = self._log_scales(p)[0]
        return p * namespace(p).exp(np.asarray(scales)[0] - factor)

    def _search_radius(self, p: Matrix) -> float:
        return 30.0

    def _resolution(self, center: Matrix, radius: float) -> float:
        # The condition of a matrix at distance r from the identity is at most e^(sqrt 2 r), and so
        # is the relative error of its smallest eigenvalue in units of rounding. In 60 digits the
        # errors stay below a tenth of this (docs/dev/accuracy.md).
        values = linalg.eigvalsh(np.asarray(center, dtype=np.float64))
        condition = float(values[-1] / values[0]) if values[0] > 0 else math.inf
        growth = math.sqrt(2.0) * radius
        spread = condition * math.exp(growth) if growth < 700 else math.inf
        return EPS * self.k * (8.0 * (1.0 + radius) + 4.0 * spread)

    def _to_tangent(self, p: Matrix, x: Matrix) -> Matrix:
        return namespace(x).broadcast_to(sp.sym(x), np.broadcast_shapes(p.shape, x.shape))

    def _why_not(self, record: np.ndarray) -> str:
        gap = np.abs(record - record.T)
        if gap.max() > 1e-6 * max(np.abs(record).max(), 1e-300):
            row, column = np.unravel_index(gap.argmax(), gap.shape)
            return f"is not symmetric (entries [{row}, {column}] and [{column}, {row}] differ)"
        lost = int(self._lost_rank(record[None])[0])
        if lost:
            return f"{SINGULAR} (its rank is {self.k - lost} of {self.k})"
        return "is not positive definite (it has a negative eigenvalue)"

    def _lost_rank(self, x: np.ndarray) -> np.ndarray:
        """How many eigenvalues of finite matrices (n, k, k) are 0 up to rounding, the sign of which
        says nothing: (n,). 0 where one is negative beyond that. Rows are scaled to a diagonal of 1,
        so that units of channels do not matter.
        """
        limit = RANK * self.k * EPS
        with np.errstate(all="ignore"):
            root = np.sqrt(np.abs(np.diagonal(x, axis1=-2, axis2=-1)))
            root = np.where(root > 0.0, root, 1.0)
            scaled = x / root[:, :, None] / root[:, None, :]
        # an entry that overflows is larger than its diagonal allows
        fine = np.all(np.isfinite(scaled), axis=(1, 2), keepdims=True)
        scaled = np.where(fine, scaled, -np.eye(self.k))
        values = np.asarray(linalg.eigvalsh((scaled + scaled.swapaxes(1, 2)) / 2))
        return np.where(values[:, 0] < -limit, 0, np.count_nonzero(values <= limit, axis=1))

    def _mean_start(self, mean: Array) -> Array | None:
        """The projected arithmetic mean."""
        return self._project(mean)

    def _defect(self, x: Matrix) -> Float[Array, "*batch"]:
        xp, finite = namespace(x), all_finite(x, x.ndim - 2)
        safe = xp.where(finite[..., None, None], x, self.origin)
        # The sign of an eigenvalue that is 0 up to rounding is an accident: no point either way.
        root = xp.sqrt(xp.abs(safe[..., np.arange(self.k), np.arange(self.k)]))
        root = xp.where(root > 0.0, root, 1.0)
        scaled = sp.sym(safe / root[..., :, None] / root[..., None, :])
        least = RANK / 2 * self.k * EPS * np.eye(self.k)
        factor = linalg.cholesky(scaled - least)
        positive = finite & all_finite(factor, factor.ndim - 2)
        size = xp.where(positive, xp.max(xp.abs(safe), axis=(-2, -1)), 1.0)
        return xp.where(positive, _asymmetry(safe) / size, math.inf)

    def _is_tangent(self, p: Matrix, v: Matrix, atol: float) -> Bool[Array, "*batch"]:
        xp = namespace(v)
        fine = all_finite(v, v.ndim - 2)
        fine = fine & (_asymmetry(v) <= atol * xp.max(xp.abs(v), axis=(-2, -1)))
        return xp.broadcast_to(fine, np.broadcast_shapes(p.shape[:-2], v.shape[:-2]))

    def _random_point(self, rng: Any, shape: tuple[int, ...]) -> Matrix:
        """expm of an isotropic Gaussian symmetric matrix of unit expected squared Frobenius norm
        times k (moderate condition).
        """
        z = standard_normals(rng, (*shape, self.dim))
        return sp.expm(sp.unpack(z, self.k) / math.sqrt(0.5 * (self.k + 1)))


def _asymmetry(x: Matrix) -> Float[Array, "*batch"]:
    """The largest difference of an entry and the one across the diagonal."""
    xp = namespace(x)
    return xp.max(xp.abs(x - xp.matrix_transpose(x)), axis=(-2, -1))
