"""SPD matrices with the log-Euclidean metric."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax.lax import stop_gradient
from jaxtyping import Array, Float

from . import _spectral as sp
from ._numerics import safe_sqrt
from ._spd import AbstractSPD

Matrix = Float[Array, "*batch k k"]

NEAR = 0.03  # relative distance below which differences of logarithms and exponentials are integrated instead of subtracted
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(3)
_NODES, _WEIGHTS = 0.5 * (_NODES + 1.0), 0.5 * _WEIGHTS


class SPDLogEuclidean(AbstractSPD):
    """SPD matrices of size k with the metric that makes the matrix logarithm an isometry to Sym(k) with the Frobenius product.

    g_W(U, V) = <D log_W[U], D log_W[V]>_F. A flat, complete, homogeneous space (sectional curvature 0) of dimension k(k+1)/2:
    dist(A, B) = ||log A - log B||_F, exp and parallel transport in closed form. Points are (*batch, k, k) arrays.
    Differences of logarithms of close points are integrated along the segment, so that distances of 1e-12 keep their digits.

    **Raises:** `InvalidArgument` if `k` is not a whole number of at least 1.

    Source: Utpala2023LE section 3; the kernel of D exp is (e^x - e^y)/(x - y) of the log-eigenvalues (Utpala2023 prints its
    reciprocal).
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
        return self._from_frame(p, sp.unpack(z, self.k))

    def _exp(self, p: Matrix, v: Matrix) -> Matrix:
        p, v = sp.sym(p), sp.sym(v)
        eig = sp.spectrum(p)
        y, h = sp.apply("log", p, eig), sp.apply("log", p, eig, v)
        direct = sp.expm(y + h)
        near = jnp.sqrt(jnp.sum(h**2, axis=(-2, -1))) < NEAR

        def refine(p: Matrix, y: Matrix, h: Matrix) -> Matrix:
            parts = [w * sp.apply("exp", y + t * h, sp.spectrum(y + t * h), h) for t, w in zip(_NODES, _WEIGHTS, strict=True)]
            return p + (parts[0] + parts[2] + parts[1])

        full = direct.shape
        better = sp.where_rare(near, refine, direct, *(jnp.broadcast_to(x, full) for x in (p, y, h)))
        return _corrected(direct, better)

    def _log(self, p: Matrix, q: Matrix) -> Matrix:
        y, eig = _logarithm(p)
        return sp.apply("exp", y, eig, _log_difference(p, q))

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


def _log_difference(p: Matrix, q: Matrix) -> Matrix:
    """log q - log p: subtracted where far, the integral of D log_{p + t(q - p)}[q - p] over t (three Gauss points) where near.

    The quadrature error is below 4e-4 e^6 relative, e = ||p^-1/2 (q - p) p^-1/2||: 3e-13 at the switch, where subtracting loses
    about as much to cancellation.
    """
    p, q = sp.sym(p), sp.sym(q)
    eig = sp.spectrum(p)
    direct = sp.logm(q) - sp.apply("log", p, eig)
    d = q - p
    root = jnp.sqrt(eig.values)
    relative = sp.transpose(eig.q) @ d @ eig.q / (root[..., :, None] * root[..., None, :])
    near = jnp.sqrt(jnp.sum(relative**2, axis=(-2, -1))) < NEAR

    def refine(p: Matrix, d: Matrix) -> Matrix:
        parts = [w * sp.apply("log", p + t * d, sp.spectrum(p + t * d), d) for t, w in zip(_NODES, _WEIGHTS, strict=True)]
        return parts[0] + parts[2] + parts[1]

    better = sp.where_rare(near, refine, direct, jnp.broadcast_to(p, direct.shape), d)
    return _corrected(direct, better)


def _corrected(direct: Matrix, better: Matrix) -> Matrix:
    """The value of `better` with the derivative of `direct`."""
    return direct + stop_gradient(better - direct)
