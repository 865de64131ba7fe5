"""SPD matrices with the affine-invariant metric."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from .. import _linalg as linalg
from .._namespace import namespace, stop_gradient, with_derivative
from . import _spectral as sp
from ._base import HomogeneousHadamard
from ._numerics import log_sinhc_sqrt
from ._spd import AbstractSPD

if TYPE_CHECKING:
    from typing import TypeAlias

    from jaxtyping import Float

    from .._namespace import Array

    Matrix: TypeAlias = Float[Array, "*batch k k"]


class _Seen(NamedTuple):
    """A base point p = L L^T, with L and its inverse."""

    p: Matrix
    lower: Matrix
    inverse: Matrix


@dataclass(frozen=True)
class SPDAffineInvariant(HomogeneousHadamard, AbstractSPD):
    """SPD matrices of size k with the affine-invariant (Fisher-Rao) metric g_W(U, V) =
    tr(W^-1 U W^-1 V).

    A complete, homogeneous Hadamard space of dimension k(k+1)/2 with sectional curvature in [-1/2,
    0]. Points are (*batch, k, k) arrays. With W = L L^T (Cholesky), U -> L^-1 U L^-T is an isometry
    to symmetric matrices with the Frobenius product, and everything is computed there. Relative
    errors are about 1e-16 times the condition number of the base point, also for points 1e-12
    apart, or times that of p^-1 q where it is larger. `transport` is parallel transport.

    Args:
        k: Number of rows, at least 1.

    Raises:
        InvalidArgument: `k` is not a whole number of at least 1.

    Source:
        Pennec's metric as in Han2024 section 2 and Utpala2023 section 4.1.

    Examples:
        >>> import numpy as np
        >>> import riemdp
        >>> space = riemdp.SPDAffineInvariant(2)
        >>> round(float(space.dist(np.eye(2), np.diag([np.e, 1.0]))), 4)
        1.0
    """

    @property
    def curvature_bounds(self) -> tuple[float, float]:
        return (0.0, 0.0) if self.k == 1 else (-0.5, 0.0)

    @property
    def _mean_curvature(self) -> float:
        # the scalar curvature is -k (k - 1) (k + 2) / 8, from which most planes take little
        scalar = -self.k * (self.k - 1) * (self.k + 2) / 8
        return scalar / max(1, self.dim * (self.dim - 1))

    def _to_frame(self, p: Matrix, v: Matrix) -> Matrix:
        return congruence(linalg.inverse_lower(_factor(p)), sp.sym(v))

    def _from_frame(self, p: Matrix, s: Matrix) -> Matrix:
        return congruence(_factor(p), s)

    _widest_ball: ClassVar[float] = 16.0

    def _exp(self, p: Matrix, v: Matrix) -> Matrix:
        at = _seen(p)
        return _end(at, congruence(at.inverse, sp.sym(v)))

    def _log(self, p: Matrix, q: Matrix) -> Matrix:
        lower, m, eig = relative_spectrum(p, q)
        return congruence(lower, sp.apply("log", m, eig))

    def _radially(self, p: Matrix, q: Matrix) -> tuple[Array, Callable[[Array], Matrix]]:
        if type(self) is not SPDAffineInvariant:  # a subclass may have geodesics of its own
            return super()._radially(p, q)
        # One decomposition of each matrix gives both its logarithm and what lies on the way.
        xp, p = namespace(p, q), sp.sym(p)
        lower, _, eig = relative_spectrum(p, q)
        logs = sp.logs(eig)

        def at(share: Array) -> Matrix:
            t = share[..., None] * logs
            near = xp.max(xp.abs(t), axis=-1) < 1.0  # as in the exponential map
            values = xp.where(near[..., None], xp.expm1(t), xp.exp(t))
            step = congruence(lower, (eig.q * values[..., None, :]) @ sp.transpose(eig.q))
            return sp.sym(xp.where(near[..., None, None], p, 0.0) + step)

        return xp.sqrt(xp.sum(logs**2, axis=-1)), at

    # the frame of the coordinates is the one in which ends and logarithms are found
    def _log_coordinates(self, p: Matrix, q: Matrix) -> Float[Array, "*batch dim"]:
        _, m, eig = relative_spectrum(p, q)
        return sp.pack(sp.apply("log", m, eig))

    def _exp_coordinates(self, p: Matrix, c: Float[Array, "*batch dim"]) -> Matrix:
        return _end(_seen(p), sp.unpack(c, self.k))

    def _squared_dist(self, p: Matrix, q: Matrix) -> Float[Array, "*batch"]:
        return _squared_dist(p, q)

    def _transport(self, p: Matrix, q: Matrix, v: Matrix) -> Matrix:
        # E V E^T with E = (q p^-1)^1/2 = L M^1/2 L^-1.
        lower, m, eig = relative_spectrum(p, q)
        half = sp.apply("power", m, eig, t=0.5)
        s = congruence(linalg.inverse_lower(lower), sp.sym(v))
        return congruence(lower, congruence(half, s))

    def _egrad_to_rgrad(self, p: Matrix, g: Matrix) -> Matrix:
        return congruence(sp.sym(p), sp.sym(g))

    @property
    def _moves_to_origin(self) -> bool:
        return True

    def _to_origin(self, p: Matrix, x: Matrix) -> Matrix:
        return congruence(linalg.inverse_lower(_factor(p)), sp.sym(x))

    def _from_origin(self, p: Matrix, x: Matrix) -> Matrix:
        return congruence(_factor(p), sp.sym(x))

    def _log_volume_density(self, p: Matrix, v: Matrix) -> Float[Array, "*batch"]:
        u = linalg.eigvalsh(self._to_frame(p, v))
        pairs = log_sinhc_sqrt(0.25 * (u[..., :, None] - u[..., None, :]) ** 2)
        return 0.5 * namespace(pairs).sum(pairs, axis=(-2, -1))


def congruence(a: Matrix, s: Matrix) -> Matrix:
    """a s a^T, exactly symmetric."""
    back = sp.transpose(a)
    if a.ndim == 2 < s.ndim and namespace(a, s) is not np:
        # one matrix for all of them: two products of large matrices, the second of the transposes.
        # On NumPy what a record gives would depend on those beside it.
        return sp.sym(sp.transpose(s @ back) @ back)
    return sp.sym(a @ s @ back)


def _factor(p: Matrix) -> Matrix:
    return linalg.cholesky(sp.sym(p))


def _seen(p: Matrix) -> _Seen:
    lower = _factor(p)
    return _Seen(sp.sym(p), lower, linalg.inverse_lower(lower))


def relative_spectrum(p: Matrix, q: Matrix) -> tuple[Matrix, Matrix, sp.Spectrum]:
    """L, M = L^-1 q L^-T and the decomposition of M, where p = L L^T.

    The eigenvalues are those of M - I = L^-1 (q - p) L^-T, offset 1: q - p is exact for close
    points, so nothing cancels. Of an M whose eigenvalues are below 1/2 on average they are its own,
    offset 0: q in other units than p keeps its digits, and a singular one has no logarithm.
    """
    at = _seen(p)
    e, near = _seen_from(at, q)
    # of which derivatives are taken: NumPy takes none
    m = e if namespace(e) is np else e + near[..., None, None] * np.eye(e.shape[-1])
    return at.lower, m, sp.spectrum(e)._replace(offset=near)


def _seen_from(at: _Seen, q: Matrix) -> tuple[Matrix, Array]:
    """M less `near` times I, and `near`: 1, or 0 where the eigenvalues of M are small."""
    q, k = sp.sym(q), at.p.shape[-1]
    xp = namespace(at.inverse, q)
    whole = sp.transpose(at.inverse) @ at.inverse
    average = xp.sum(whole * q, axis=(-2, -1)) / k
    near = stop_gradient(xp.where(average < 0.5, 0.0, 1.0))
    return congruence(at.inverse, q - near[..., None, None] * at.p), near


def _end(at: _Seen, s: Matrix) -> Matrix:
    """The end of the tangent vector L S L^T."""
    eig = sp.spectrum(s)
    xp = namespace(eig.values)
    # Near p add L (expm(S) - I) L^T to p, which keeps tangent vectors of 1e-12; far away form L
    # expm(S) L^T.
    near = xp.where(xp.max(xp.abs(eig.values), axis=-1) < 1.0, 1.0, 0.0)
    return sp.sym(
        near[..., None, None] * at.p + congruence(at.lower, sp.apply("exp", s, eig, offset=near))
    )


def _with_slopes(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> Any:
    # The gradients -2 log_p(q) and -2 log_q(p) written in the frame of p: no derivative of a
    # Cholesky factor enters, which would cost digits at large condition numbers.
    p, q = primals
    lower, m, eig = relative_spectrum(p, q)
    xp, logarithm = namespace(m), sp.apply("log", m, eig)
    slope = sp.sym(logarithm @ sp.apply("power", m, eig, t=-1.0))
    inverse = linalg.inverse_lower(lower)
    dp, dq = (congruence(inverse, sp.sym(d)) for d in tangents)
    return xp.sum(logarithm**2, axis=(-2, -1)), 2.0 * xp.sum(
        slope * dq - logarithm * dp, axis=(-2, -1)
    )


@with_derivative(_with_slopes)
def _squared_dist(p: Matrix, q: Matrix) -> Float[Array, "*batch"]:
    # Values need no eigenvectors, and the derivative rule takes the matrix form.
    e, near = _seen_from(_seen(p), q)
    values = sp.Spectrum(e, linalg.eigvalsh(e), near)
    return namespace(e).sum(sp.logs(values) ** 2, axis=-1)
