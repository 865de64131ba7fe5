"""How one step is computed: a generic kernel for every manifold, and faster ones that keep a
cheaper state.

A kernel has a *state* (the point in whatever form makes steps cheap) and a *frame* form of tangent
vectors at it:

    start(point) -> state             point(state) -> point prepare(data) -> data             (once,
    before the loop, unless `takes_data_as_they_are`) gradients(state, batch) -> (norms, parts)
    per-record Riemannian gradients: their norms, and what `combine` needs combine(state, parts,
    weights) -> frame      sum_i weights_i * gradient_i noise(state, z) -> frame
    the standard Gaussian tangent vector that the normals z give move(state, frame) -> state
    the exponential map (or retraction) carry(state, moved, frame) -> frame          a frame at
    `state` transported to the state `moved` tangent(state, frame) -> tangent vector      the frame
    as a tangent vector of the manifold frame(state, tangent vector) -> frame        the inverse of
    `tangent` projected(state, frame) -> frame    the frame without the part that is not tangent

Kernels are static, hashable modules: they are part of the compiled program. They know nothing of
clipping, sensitivities or budgets; those are in `_loop`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from ..manifolds import Grassmann, Lorentz, PoincareBall, Product, Sphere, Stiefel
from ..manifolds import _spectral as spectral
from ..manifolds._base import AbstractManifold
from ..manifolds._spd_affine import SPDAffineInvariant
from ..problems._frechet import SquaredDistanceGradient
from ..problems._linear import RayleighGradient
from ..problems._problem import AutomaticGradient, Problem


class _PointState(eqx.Module):
    """State = point, frame = tangent vector: everything but the gradients follows from the
    manifold.
    """

    manifold: AbstractManifold = eqx.field(static=True)
    retract: bool = eqx.field(static=True)

    def start(self, point):
        return point

    def point(self, state):
        return state

    def noise(self, state, z):
        return self.manifold._tangent_from_normals(state, z)

    def move(self, state, frame):
        step = self.manifold._retract if self.retract else self.manifold._exp
        return tidy(self.manifold, step(state, frame))

    def carry(self, state, moved, frame):
        return self.manifold._transport(state, moved, frame)

    def tangent(self, state, frame):
        return frame

    def frame(self, state, tangent):
        return tangent

    def projected(self, state, frame):
        return self.manifold._to_tangent(state, frame)


class Generic(_PointState):
    """State = point, frame = tangent vector; needs only the manifold's formulas and a per-record
    gradient.
    """

    gradient: Callable[..., Any] = eqx.field(static=True)
    takes_data_as_they_are: ClassVar[bool] = True

    def gradients(self, state, batch):
        # Noise lives in the tangent space, so what is clipped and summed must too: a normal part
        # (of a user's gradient, or of rounding where a record is very long) would get no noise.
        tangent = jax.vmap(self.manifold._to_tangent, (None, 0))
        parts = tangent(state, jax.vmap(self.gradient, (None, 0))(state, batch))
        norms = jax.vmap(self.manifold._norm, (None, 0))(state, parts)
        for leaf in jax.tree.leaves(parts):
            fine = jnp.all(jnp.isfinite(leaf.reshape(leaf.shape[0], -1)), axis=1)
            norms = jnp.where(fine, norms, jnp.nan)
        return norms, parts

    def combine(self, state, parts, weights):
        def weighted(leaf):
            w = weights.reshape((-1,) + (1,) * (leaf.ndim - 1))
            # A gradient with weight 0 may hold NaN, and 0 * NaN is NaN.
            return jnp.sum(jnp.where(w != 0.0, w * leaf, 0.0), axis=0)

        return jax.tree.map(weighted, parts)


class AffineInvariantMean(eqx.Module):
    """Frechet mean of SPD(k), affine-invariant: state R with W^{-1} = R^T R; frame = symmetric
    matrices T, tangent vector R^{-1} T R^{-T}, norm |T|_F.

    With M = R X R^T the gradient -2 log_W(X) is -2 logm(M) in the frame: one eigendecomposition a
    record, whose eigenvalues give the norm. A step T is W <- R^{-1} expm(T) R^{-T}, that is R <-
    expm(-T/2) R, and expm of a small symmetric matrix is a polynomial: no second
    eigendecomposition. Any factor R is an isometry of the frame, so the noise needs none at all.
    """

    manifold: Any = eqx.field(static=True)
    takes_data_as_they_are: ClassVar[bool] = True

    def start(self, point):
        lower = jnp.linalg.cholesky(point)
        return jax.scipy.linalg.solve_triangular(lower, jnp.eye(point.shape[-1]), lower=True)

    def point(self, state):
        inverse = jnp.linalg.inv(state)
        return inverse @ inverse.T

    def gradients(self, state, batch):
        # R X R^T by two products of tall matrices. It is symmetric up to rounding, and LAPACK reads
        # its lower half only.
        n, k, _ = batch.shape
        right = (batch.reshape(n * k, k) @ state.T).reshape(n, k, k)
        m = (jnp.swapaxes(right, 1, 2).reshape(n * k, k) @ state.T).reshape(n, k, k)
        values, vectors = jnp.linalg.eigh(m, symmetrize_input=False)
        logs = -2.0 * jnp.log(
            values
        )  # NaN for a record that is not positive definite: its norm is then NaN
        return jnp.sqrt(jnp.sum(logs**2, axis=-1)), (logs, vectors)

    def combine(self, state, parts, weights):
        logs, vectors = parts
        kept = weights[:, None] != 0.0
        scaled = jnp.where(kept, weights[:, None] * logs, 0.0)
        vectors = jnp.where(kept[..., None], vectors, 0.0)  # a record of weight 0 may hold NaN
        n, k, _ = vectors.shape
        rows = jnp.swapaxes(vectors, 1, 2).reshape(n * k, k)
        return rows.T @ (scaled.reshape(n * k, 1) * rows)

    def noise(self, state, z):
        # The frame of every R carries the same law: symmetric, iid in the orthonormal coordinates
        # of the Frobenius product.
        return spectral.unpack(z, self.manifold.k)

    def move(self, state, frame):
        return expm_symmetric(-0.25 * (frame + frame.T)) @ state

    def carry(self, state, moved, frame):
        # After `move` along T: R' = expm(-T/2) R, and parallel transport along that geodesic takes
        # R^{-1} S R^{-T} to R'^{-1} S R'^{-T}: the coordinates stay. (A state made anew by `start`
        # has another factor: see `choose_kernel`.)
        return frame

    def tangent(self, state, frame):
        inverse = jnp.linalg.inv(state)
        return inverse @ frame @ inverse.T

    def frame(self, state, tangent):
        return state @ tangent @ state.T

    def projected(self, state, frame):
        return 0.5 * (frame + frame.T)


class RankOne(_PointState):
    """Principal eigenvector (sphere) and subspace (Grassmann): gradient -2 (z - W a) a^T with a =
    W^T z, never formed.

    The norm 2 |a| |z - W a| <= 2 |a| sqrt(|z|^2 - |a|^2 + |W^T W - I| |a|^2) loses digits when z is
    nearly in the span of W. The guard, more than the rounding of a sum of m squares, is added under
    the root: the clipped contribution then stays below the clip norm also in floating point.
    """

    takes_data_as_they_are: ClassVar[bool] = False

    def prepare(self, data):
        squares = jnp.sum(data**2, axis=-1)
        fine = jnp.isfinite(squares)
        return jnp.where(fine[:, None], data, 0.0), jnp.where(fine, squares, 0.0)

    def gradients(self, state, batch):
        z, squares = batch
        a = z @ state
        inside = a**2 if state.ndim == 1 else jnp.sum(a**2, axis=-1)
        if state.ndim == 1:
            defect = jnp.abs(state @ state - 1.0)
        else:
            defect = jnp.linalg.norm(state.T @ state - jnp.eye(state.shape[1]))
        guard = 1e-14 + 4.0 * state.shape[0] * 2.0**-53
        outside = jnp.maximum(squares - inside + defect * inside, 0.0) + guard * squares
        norms = 2.0 * jnp.sqrt(inside * outside)
        return norms, (a, z)

    def combine(self, state, parts, weights):
        a, z = parts
        if state.ndim == 1:
            scaled = jnp.where(weights != 0.0, weights * a, 0.0)
            return -2.0 * (scaled @ z - jnp.sum(scaled * jnp.where(weights != 0.0, a, 0.0)) * state)
        kept = weights[:, None] != 0.0
        scaled = jnp.where(kept, weights[:, None] * a, 0.0)
        return -2.0 * (z.T @ scaled - state @ (jnp.where(kept, a, 0.0).T @ scaled))


def gradient_function(problem: Problem) -> Callable[..., Any]:
    """The per-record Riemannian gradient of a problem as a hashable function of (w, z)."""
    return (
        problem.gradient
        if problem.gradient is not None
        else AutomaticGradient(problem.manifold, problem.loss)
    )


def choose_kernel(problem: Problem, retract: bool, *, generic: bool = False) -> Any:
    """The fastest kernel that computes the steps of this problem; `generic=True` forces the general
    one (for tests).
    """
    m, gradient = problem.manifold, problem.gradient
    if not generic:
        if (
            isinstance(gradient, SquaredDistanceGradient)
            and isinstance(m, SPDAffineInvariant)
            and not retract
        ):
            return AffineInvariantMean(m)
        if isinstance(gradient, RayleighGradient) and isinstance(m, Sphere | Grassmann):
            return RankOne(m, retract)
    return Generic(m, retract, gradient_function(problem))


def tidy(manifold: AbstractManifold, point: Any) -> Any:
    """Undo the rounding drift of one step where that is cheap (it grows exponentially on the
    hyperboloid).
    """
    if isinstance(manifold, Product):
        return tuple(tidy(m, x) for m, x in zip(manifold.manifolds, point, strict=True))
    return (
        manifold._project(point) if isinstance(manifold, Sphere | Lorentz | PoincareBall) else point
    )


def tidy_between_blocks(manifold: AbstractManifold, point: Any) -> Any:
    """Undo the rounding drift of a block of steps, where doing it at every step costs too much."""
    if isinstance(manifold, Product):
        return tuple(
            tidy_between_blocks(m, x) for m, x in zip(manifold.manifolds, point, strict=True)
        )
    return manifold._project(point) if isinstance(manifold, Grassmann | Stiefel) else point


def expm_symmetric(a: Any) -> Any:
    """exp of a symmetric matrix: Taylor polynomial of degree 12 after scaling to norm <= 1/4, then
    squaring.

    The remainder is below 1e-17 relative; 5 products of matrices when |a| <= 1/4, where LAPACK's
    eigendecomposition of the same matrix takes several times as long.
    """
    norm = jnp.sqrt(jnp.sum(a * a))
    squarings = jnp.clip(jnp.ceil(jnp.log2(jnp.maximum(norm, 1e-300) * 4.0)), 0.0, 60.0)
    squarings = jnp.where(jnp.isfinite(norm), squarings, 0.0).astype(jnp.int32)
    x = a * jnp.exp2(-squarings.astype(jnp.float64))
    eye = jnp.eye(a.shape[0])
    x2 = x @ x
    x3 = x2 @ x
    # Paterson-Stockmeyer with blocks of three: sum_{j<=12} x^j / j!
    block3 = x3 / 479001600.0 + eye / 362880.0 + x / 3628800.0 + x2 / 39916800.0
    block2 = x3 @ block3 + eye / 720.0 + x / 5040.0 + x2 / 40320.0
    block1 = x3 @ block2 + eye / 6.0 + x / 24.0 + x2 / 120.0
    result = x3 @ block1 + eye + x + 0.5 * x2
    return jax.lax.fori_loop(0, squarings, lambda _, y: y @ y, result)
