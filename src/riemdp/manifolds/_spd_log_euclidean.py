"""SPD matrices with the log-Euclidean metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .. import _linalg as linalg
from .._namespace import namespace, stop_gradient
from . import _spectral as sp
from ._base import HomogeneousHadamard
from ._divided import exp_slopes
from ._spd import AbstractSPD
from ._spd_affine import congruence

if TYPE_CHECKING:
    from typing import TypeAlias

    from jaxtyping import Float

    from .._namespace import Array

    Matrix: TypeAlias = Float[Array, "*batch k k"]

# distance below which differences of logarithms and exponentials are taken from the difference of
# their arguments
NEAR = 0.1


class _Seen(NamedTuple):
    """A base point, with one eigendecomposition of it.

    Attributes:
        p: The point, symmetric.
        eig: Its decomposition.
        y: Its logarithm.
    """

    p: Matrix
    eig: sp.Spectrum
    y: Matrix

    @property
    def log_eig(self) -> sp.Spectrum:
        """The decomposition of the logarithm."""
        return self.eig._replace(values=namespace(self.eig.values).log(self.eig.values))


@dataclass(frozen=True)
class SPDLogEuclidean(HomogeneousHadamard, AbstractSPD):
    """SPD matrices of size k with the log-Euclidean metric, which makes the matrix logarithm an
    isometry to symmetric matrices with the Frobenius product.

    g_W(U, V) = <D log_W[U], D log_W[V]>_F. A flat, complete, homogeneous space (sectional curvature
    0) of dimension k(k+1)/2: dist(A, B) = ||log A - log B||_F, exp and parallel transport in closed
    form. Points are (*batch, k, k) arrays. Differences of logarithms of close points are integrated
    along the segment, so that distances of 1e-12 keep their digits.

    Args:
        k: Number of rows, at least 1.

    Raises:
        InvalidArgument: `k` is not a whole number of at least 1.

    Source:
        Utpala2023LE section 3. The kernel of D exp is (e^x - e^y)/(x - y) of the log-eigenvalues
        (Utpala2023 prints its reciprocal).

    Examples:
        >>> import numpy as np
        >>> import riemdp
        >>> space = riemdp.SPDLogEuclidean(2)
        >>> round(float(space.dist(np.eye(2), np.diag([np.e, 1.0]))), 4)
        1.0
    """

    @property
    def curvature_bounds(self) -> tuple[float, float]:
        return (0.0, 0.0)

    def _to_frame(self, p: Matrix, v: Matrix) -> Matrix:
        return _to_frame(_seen(p), v)

    def _from_frame(self, p: Matrix, s: Matrix) -> Matrix:
        return _from_frame(_seen(p), s)

    def _tangent_from_normals(self, p: Matrix, z: Float[Array, "*batch noise"]) -> Matrix:
        # In the frame of the eigenvectors of p the derivative of exp is a product entry by entry,
        # and the isotropic Gaussian matrix is the same there as in any other.
        values, q = linalg.eigh(sp.sym(p))
        slopes = exp_slopes(namespace(values).log(values))
        return congruence(q, slopes * sp.unpack(z, self.k))

    def _exp(self, p: Matrix, v: Matrix) -> Matrix:
        at = _seen(p)
        return _end(at, _to_frame(at, v))

    def _log(self, p: Matrix, q: Matrix) -> Matrix:
        at = _seen(p)
        return _from_frame(at, _log_difference(at, q))

    # The frame is the one in which logarithms are differences: neither derivative is needed.
    def _log_coordinates(self, p: Matrix, q: Matrix) -> Float[Array, "*batch dim"]:
        return sp.pack(_log_difference(_seen(p), q))

    def _exp_coordinates(self, p: Matrix, c: Float[Array, "*batch dim"]) -> Matrix:
        return _end(_seen(p), sp.unpack(c, self.k))

    def _squared_dist(self, p: Matrix, q: Matrix) -> Float[Array, "*batch"]:
        gap = _log_difference(_seen(p), q)
        return namespace(gap).sum(gap**2, axis=(-2, -1))

    def _transport(self, p: Matrix, q: Matrix, v: Matrix) -> Matrix:
        return self._from_frame(q, self._to_frame(p, v))

    def _egrad_to_rgrad(self, p: Matrix, g: Matrix) -> Matrix:
        # D exp is self-adjoint for the trace product, hence the gradient is D exp[D exp[g]].
        at = _seen(p)
        return _from_frame(at, _from_frame(at, g))

    def _log_volume_density(self, p: Matrix, v: Matrix) -> Float[Array, "*batch"]:
        return namespace(p, v).zeros(np.broadcast_shapes(p.shape[:-2], v.shape[:-2]))


def _seen(p: Matrix) -> _Seen:
    p = sp.sym(p)
    eig = sp.spectrum(p)
    return _Seen(p, eig, sp.apply("log", p, eig))


def _to_frame(at: _Seen, v: Matrix) -> Matrix:
    return sp.apply("log", at.p, at.eig, sp.sym(v))


def _from_frame(at: _Seen, s: Matrix) -> Matrix:
    return sp.apply("exp", at.y, at.log_eig, sp.sym(s))


def _end(at: _Seen, h: Matrix) -> Matrix:
    """exp(log p + h). Where h is small the end comes from p, which keeps the digits of h."""
    end = sp.spectrum(at.y + h)
    direct = sp.apply("exp", at.y + h, end)
    better = at.p + sp.difference("exp", end, at.log_eig, h)
    return _corrected(direct, better, h)


def _log_difference(at: _Seen, q: Matrix) -> Matrix:
    """log q - log p. Near p it comes from q - p, which is exact there, and so loses nothing to
    cancellation.
    """
    q = sp.sym(q)
    end = sp.spectrum(q)
    direct = sp.apply("log", q, end) - at.y
    return _corrected(direct, sp.difference("log", end, at.eig, q - at.p), direct)


def _corrected(direct: Matrix, better: Matrix, size: Matrix) -> Matrix:
    """The derivative of `direct`, and the value of `better` where `size` is near 0 (of `direct`
    elsewhere).
    """
    xp = namespace(direct, better)
    near = xp.sum(size**2, axis=(-2, -1), keepdims=True) < NEAR**2
    return direct + stop_gradient(xp.where(near, better - direct, 0.0))
