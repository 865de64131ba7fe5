"""SPD matrices with the log-Euclidean metric."""

from __future__ import annotations

import jax.numpy as jnp
from jax.lax import stop_gradient
from jaxtyping import Array, Float

from . import _decompositions as decompositions
from . import _spectral as sp
from ._numerics import safe_sqrt
from ._spd import AbstractSPD

Matrix = Float[Array, "*batch k k"]

# distance below which differences of logarithms and exponentials are taken from the difference of
# their arguments
NEAR = 0.1


class SPDLogEuclidean(AbstractSPD):
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
    def noise_size(self) -> int:
        return self.dim

    @property
    def curvature_bounds(self) -> tuple[float, float]:
        return (0.0, 0.0)

    @property
    def is_hadamard(self) -> bool:
        return True

    @property
    def is_homogeneous(self) -> bool:
        return True

    @property
    def transport_is_parallel(self) -> bool:
        return True

    def _to_frame(self, p: Matrix, v: Matrix) -> Matrix:
        p = sp.sym(p)
        return sp.apply("log", p, sp.spectrum(p), sp.sym(v))

    def _from_frame(self, p: Matrix, s: Matrix) -> Matrix:
        y, eig = _logarithm(p)
        return sp.apply("exp", y, eig, sp.sym(s))

    def _inner(self, p: Matrix, u: Matrix, v: Matrix) -> Float[Array, "*batch"]:
        return jnp.sum(self._to_frame(p, u) * self._to_frame(p, v), axis=(-2, -1))

    def _norm(self, p: Matrix, v: Matrix) -> Float[Array, "*batch"]:
        return safe_sqrt(jnp.sum(self._to_frame(p, v) ** 2, axis=(-2, -1)))

    def _tangent_from_normals(self, p: Matrix, z: Float[Array, "*batch noise"]) -> Matrix:
        # In the frame of the eigenvectors of p the derivative of exp is a product entry by entry,
        # and the isotropic Gaussian matrix is the same there as in any other.
        values, q = decompositions.eigh(sp.sym(p))
        slopes = sp.exp_slopes(jnp.log(values))
        return sp.sym((q @ (slopes * sp.unpack(z, self.k))) @ sp.transpose(q))

    def _exp(self, p: Matrix, v: Matrix) -> Matrix:
        p, v = sp.sym(p), sp.sym(v)
        eig = sp.spectrum(p)
        return _end(p, eig, sp.apply("log", p, eig, v))

    def _log(self, p: Matrix, q: Matrix) -> Matrix:
        y, eig = _logarithm(p)
        return sp.apply("exp", y, eig, _log_difference(p, q))

    # The frame is the one in which logarithms are differences: neither derivative is needed.
    def _log_coordinates(self, p: Matrix, q: Matrix) -> Float[Array, "*batch dim"]:
        return sp.pack(_log_difference(p, q))

    def _exp_coordinates(self, p: Matrix, c: Float[Array, "*batch dim"]) -> Matrix:
        p = sp.sym(p)
        return _end(p, sp.spectrum(p), sp.unpack(c, self.k))

    def _dist(self, p: Matrix, q: Matrix) -> Float[Array, "*batch"]:
        return safe_sqrt(self._squared_dist(p, q))

    def _squared_dist(self, p: Matrix, q: Matrix) -> Float[Array, "*batch"]:
        return jnp.sum(_log_difference(p, q) ** 2, axis=(-2, -1))

    def _transport(self, p: Matrix, q: Matrix, v: Matrix) -> Matrix:
        return self._from_frame(q, self._to_frame(p, v))

    def _egrad_to_rgrad(self, p: Matrix, g: Matrix) -> Matrix:
        # D exp is self-adjoint for the trace product, hence the gradient is D exp[D exp[g]].
        y, eig = _logarithm(p)
        return sp.apply("exp", y, eig, sp.apply("exp", y, eig, sp.sym(g)))

    def _injectivity_radius(self, p: Matrix) -> Float[Array, "*batch"]:
        return jnp.full(p.shape[:-2], jnp.inf)

    def _log_volume_density(self, p: Matrix, v: Matrix) -> Float[Array, "*batch"]:
        return jnp.zeros(jnp.broadcast_shapes(p.shape[:-2], v.shape[:-2]))


def _logarithm(p: Matrix) -> tuple[Matrix, sp.Spectrum]:
    """log p together with its decomposition, from one eigendecomposition of p."""
    p = sp.sym(p)
    eig = sp.spectrum(p)
    return sp.apply("log", p, eig), sp.Spectrum(eig.q, jnp.log(eig.values), eig.offset)


def _end(p: Matrix, eig: sp.Spectrum, h: Matrix) -> Matrix:
    """exp(log p + h), from the decomposition of p. Where h is small the end comes from p, which
    keeps the digits of h.
    """
    y = sp.apply("log", p, eig)
    end = sp.spectrum(y + h)
    direct = sp.apply("exp", y + h, end)
    better = p + sp.difference("exp", end, sp.Spectrum(eig.q, jnp.log(eig.values), eig.offset), h)
    return _corrected(direct, better, h)


def _log_difference(p: Matrix, q: Matrix) -> Matrix:
    """log q - log p. Near p it comes from q - p, which is exact there, and so loses nothing to
    cancellation.
    """
    p, q = sp.sym(p), sp.sym(q)
    start, end = sp.spectrum(p), sp.spectrum(q)
    direct = sp.apply("log", q, end) - sp.apply("log", p, start)
    return _corrected(direct, sp.difference("log", end, start, q - p), direct)


def _corrected(direct: Matrix, better: Matrix, size: Matrix) -> Matrix:
    """The derivative of `direct`, and the value of `better` where `size` is near 0 (of `direct`
    elsewhere).
    """
    near = jnp.sum(size**2, axis=(-2, -1), keepdims=True) < NEAR**2
    return direct + stop_gradient(jnp.where(near, better - direct, 0.0))
