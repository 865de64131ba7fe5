"""How one step is computed: a generic kernel for every manifold, and faster ones that keep a
cheaper state.

Kernels are frozen dataclasses without arrays: they are part of the compiled program. They know
nothing of clipping, sensitivities or budgets; those are in `_private_step`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from .. import _decompositions as decompositions
from ..manifolds import (
    Grassmann,
    Product,
    SPDAffineInvariant,
    Sphere,
)
from ..manifolds import _spectral as spectral
from ..manifolds._base import AbstractManifold, Point, Tangent
from ..problems._frechet import SquaredDistanceGradient
from ..problems._linear import RayleighGradient
from ..problems._problem import AutomaticGradient, Batch, Problem

State: TypeAlias = PyTree[Array]  # the point in whatever form makes steps cheap
Frame: TypeAlias = PyTree[Array]  # a tangent vector at it, in whatever form
Parts: TypeAlias = PyTree[Array]  # per-record tangent vectors

_FEW = 12  # products of many matrices up to this size are quicker written out


class AbstractKernel(ABC):
    """How the steps of one problem are computed.

    A kernel has a *state* (the point in some form) and a *frame* form of tangent vectors at it.
    """

    manifold: AbstractManifold
    takes_data_as_they_are: ClassVar[bool] = True
    has_quick_coordinates: ClassVar[bool] = True  # a step on a grid costs about what others do

    def prepare(self, data: Batch) -> Batch:
        """The records in the form that `coordinates` takes, made once before the run."""
        return data

    @abstractmethod
    def start(self, point: Point) -> State:
        """The state at a point of the manifold (one whose equations hold up to rounding)."""

    @abstractmethod
    def point(self, state: State) -> Point:
        """The point of a state."""

    @property
    def coordinate_count(self) -> int:
        """How many coordinates a vector has."""
        return self.manifold.dim

    @abstractmethod
    def coordinates(self, state: State, batch: Batch) -> Array:
        """Per-record Riemannian gradients, (n, coordinate_count), in coordinates that are
        orthonormal up to rounding and depend on the state alone; not all finite where a gradient is
        not. A record's row depends on no other record.
        """

    def weighted_sum(
        self, state: State, batch: Batch, weigh: Callable[[Array], Array]
    ) -> tuple[Array, Array]:
        """Coordinates of sum_i weight_i gradient_i, and the norms that the weights are made of: not
        below the truth by more than rounding, and not finite where a gradient is not. For kernels
        that have this without the coordinates of each record.
        """
        y = self.coordinates(state, batch)
        norms = lengths(y)
        return combined(y, weigh(norms)), norms

    @abstractmethod
    def from_coordinates(self, state: State, y: Array) -> Frame:
        """The tangent vector with these coordinates; what is normal to the space is left out."""

    @abstractmethod
    def move(self, state: State, frame: Frame) -> State:
        """The exponential map (or retraction)."""

    @abstractmethod
    def to_tangent(self, state: State, frame: Frame) -> Tangent:
        """The frame as a tangent vector of the manifold."""

    def public_gradient(self, state: State, record: Batch) -> Array:
        """Coordinates of the gradient of ONE public record (a batch of one), 0 where it is not
        finite.
        """
        y = self.coordinates(state, record)[0]
        return jnp.where(jnp.all(jnp.isfinite(y)), y, 0.0)


def lengths(coordinates: Array) -> Array:
    """Of per-record coordinates (n, dim)."""
    return jnp.sqrt(jnp.sum(coordinates**2, axis=1))


def combined(coordinates: Array, weights: Array) -> Array:
    """sum_i weights_i coordinates_i; a record of weight 0 may hold NaN."""
    w = weights[:, None]
    return jnp.sum(jnp.where(w != 0.0, w * coordinates, 0.0), axis=0)


@dataclass(frozen=True)
class _PointState(AbstractKernel):
    """State = point, frame = tangent vector: all but the gradients follows from the manifold."""

    manifold: AbstractManifold
    retract: bool

    def start(self, point: Point) -> State:
        return point

    def point(self, state: State) -> Point:
        return state

    @property
    def coordinate_count(self) -> int:
        return self.manifold.noise_size if self.manifold._is_submanifold else self.manifold.dim

    def coordinates_of(self, state: State, parts: Parts) -> Array:
        """Coordinates (n, coordinate_count) of tangent vectors at `state`: on a submanifold the
        array itself, elsewhere those of the frame.
        """
        if self.manifold._is_submanifold:
            return parts.reshape(parts.shape[0], -1)
        return jnp.asarray(jax.vmap(self.manifold._to_coordinates, (None, 0))(state, parts))

    def from_coordinates(self, state: State, y: Array) -> Frame:
        if self.manifold._is_submanifold:
            return self.manifold._tangent_from_normals(state, y)
        return self.manifold._from_coordinates(state, y)

    def move(self, state: State, frame: Frame) -> State:
        step = self.manifold._retract if self.retract else self.manifold._exp
        return repaired(self.manifold, step(state, frame))

    def to_tangent(self, state: State, frame: Frame) -> Tangent:
        return frame


@dataclass(frozen=True)
class Generic(_PointState):
    """Needs only the manifold's formulas and a per-record gradient.

    Noise lives in the tangent space, so what is clipped and summed must too. A normal part (of a
    user's gradient, or of rounding where a record is very long) would get no noise.
    """

    gradient: Callable[[Point, Any], Tangent]

    def coordinates(self, state: State, batch: Batch) -> Array:
        return self.coordinates_of(state, self.tangents(state, batch))

    def tangents(self, state: State, batch: Batch) -> Parts:
        """Gradients, made tangent."""
        return self.made_tangent(state, jax.vmap(self.gradient, (None, 0))(state, batch))

    def made_tangent(self, state: State, parts: Parts) -> Parts:
        """Per-record vectors without what is normal to the space."""
        return jax.vmap(self.manifold._to_tangent, (None, 0))(state, parts)


@dataclass(frozen=True)
class AffineInvariantMean(AbstractKernel):
    """Fréchet mean of SPD(k), affine-invariant: state R with W^{-1} = R^T R; frame = symmetric
    matrices T, tangent vector R^{-1} T R^{-T}, norm |T|_F.

    With M = R X R^T the gradient -2 log_W(X) is -2 logm(M) in the frame: one eigendecomposition a
    record, whose eigenvalues give the norm. A step T is W <- R^{-1} expm(T) R^{-T}, that is R <-
    expm(-T/2) R, and expm of a small symmetric matrix is a polynomial: no second
    eigendecomposition. Any factor R is an isometry of the frame, so the noise needs none at all.
    """

    manifold: AbstractManifold

    def start(self, point: Point) -> State:
        lower = jnp.linalg.cholesky(point)
        return jax.scipy.linalg.solve_triangular(lower, jnp.eye(point.shape[-1]), lower=True)

    def point(self, state: State) -> Point:
        inverse = jnp.linalg.inv(state)
        return inverse @ inverse.T

    def coordinates(self, state: State, batch: Batch) -> Array:
        # R X R^T is symmetric up to rounding, and LAPACK reads its lower half only. The logarithm
        # is NaN for a record that is not positive definite.
        values, vectors = decompositions.eigh(_products(state, batch))
        scaled, k = vectors * (-2.0 * jnp.log(values))[:, None, :], vectors.shape[-1]
        if k <= _FEW:
            whole = jnp.zeros_like(vectors)
            for j in range(k):
                whole = whole + scaled[:, :, None, j] * vectors[:, None, :, j]
        else:
            whole = scaled @ jnp.swapaxes(vectors, 1, 2)
        return jnp.asarray(spectral.pack(whole))

    def from_coordinates(self, state: State, y: Array) -> Frame:
        return spectral.unpack(y, state.shape[-1])

    def move(self, state: State, frame: Frame) -> State:
        return expm_symmetric(-0.25 * (frame + frame.T)) @ state

    def to_tangent(self, state: State, frame: Frame) -> Tangent:
        inverse = jnp.linalg.inv(state)
        return inverse @ frame @ inverse.T


@dataclass(frozen=True)
class RankOne(_PointState):
    """Principal eigenvector (sphere) and subspace (Grassmann): gradient -2 (z - W a) a^T with a =
    W^T z, never formed. It clips about 0 only.

    The norm 2 |a| |z - W a| <= 2 |a| sqrt(|z|^2 - |a|^2 + |W^T W - I| |a|^2) loses digits when z is
    nearly in the span of W. The guard, more than the rounding of a sum of m squares, is added under
    the root: the clipped contribution then stays below the clip norm also in floating point.
    """

    takes_data_as_they_are: ClassVar[bool] = False
    has_quick_coordinates: ClassVar[bool] = False

    def prepare(self, data: Batch) -> Batch:
        squares = jnp.sum(data**2, axis=-1)
        fine = jnp.isfinite(squares)
        return jnp.where(fine[:, None], data, 0.0), jnp.where(fine, squares, 0.0)

    def coordinates(self, state: State, batch: Batch) -> Array:
        _, (a, z) = self.gradients(state, batch)
        if state.ndim == 1:
            parts = -2.0 * a[:, None] * (z - a[:, None] * state)
        else:
            parts = -2.0 * (z - a @ state.T)[:, :, None] * a[:, None, :]
        return self.coordinates_of(state, parts)

    def weighted_sum(
        self, state: State, batch: Batch, weigh: Callable[[Array], Array]
    ) -> tuple[Array, Array]:
        norms, parts = self.gradients(state, batch)
        return self.combine(state, parts, weigh(norms)).reshape(-1), norms

    def gradients(self, state: State, batch: Batch) -> tuple[Array, Parts]:
        """Norms of the gradients, rounded up, and (a, z)."""
        z, squares = batch
        a = z @ state
        inside = a**2 if state.ndim == 1 else jnp.sum(a**2, axis=-1)
        if state.ndim == 1:
            defect = jnp.abs(state @ state - 1.0)
        else:
            defect = jnp.linalg.norm(state.T @ state - jnp.eye(state.shape[1]))
        guard = 1e-14 + 4.0 * state.shape[0] * 2.0**-53
        outside = jnp.maximum(squares - inside + defect * inside, 0.0) + guard * squares
        return 2.0 * jnp.sqrt(inside * outside), (a, z)

    def combine(self, state: State, parts: Parts, weights: Array) -> Array:
        """sum_i weights_i gradient_i, up to what is normal to the space."""
        a, z = parts
        if state.ndim == 1:
            scaled = jnp.where(weights != 0.0, weights * a, 0.0)
            along = jnp.sum(scaled * jnp.where(weights != 0.0, a, 0.0))
            return -2.0 * (scaled @ z - along * state)
        kept = weights[:, None] != 0.0
        scaled = jnp.where(kept, weights[:, None] * a, 0.0)
        return -2.0 * (z.T @ scaled - state @ (jnp.where(kept, a, 0.0).T @ scaled))


def _products(r: Array, x: Array) -> Array:
    """r x_i r^T of symmetric matrices x (n, k, k), by two products of tall matrices."""
    n, k, _ = x.shape
    right = (x.reshape(n * k, k) @ r.T).reshape(n, k, k)
    return (jnp.swapaxes(right, 1, 2).reshape(n * k, k) @ r.T).reshape(n, k, k)


def gradient_function(problem: Problem) -> Callable[[Point, Any], Tangent]:
    """The per-record Riemannian gradient of a problem as a hashable function of (w, z)."""
    if problem.gradient is not None:
        return problem.gradient
    return AutomaticGradient(problem.manifold, problem.loss)


def choose_kernel(problem: Problem, retract: bool, *, centered: bool = False) -> AbstractKernel:
    """The fastest kernel that computes the steps of this problem.

    Args:
        problem: What is minimised.
        retract: Steps by the retraction, not the exponential map.
        centered: Gradients are clipped about a center other than 0.
    """
    m, gradient = problem.manifold, problem.gradient
    squared = isinstance(gradient, SquaredDistanceGradient)
    if squared and isinstance(m, SPDAffineInvariant) and not retract:
        return AffineInvariantMean(m)
    rank_one = isinstance(gradient, RayleighGradient) and not centered
    if rank_one and isinstance(m, Sphere | Grassmann):
        return RankOne(m, retract)
    return Generic(m, retract, gradient_function(problem))


def repaired(manifold: AbstractManifold, point: Point, *, thoroughly: bool = False) -> Point:
    """A point without the rounding drift of a step, where that is cheap; `thoroughly`: without that
    of many steps, also where it costs more (orthonormal frames).
    """
    if isinstance(manifold, Product):
        pairs = zip(manifold.manifolds, point, strict=True)
        return tuple(repaired(m, x, thoroughly=thoroughly) for m, x in pairs)
    now = "each block" if thoroughly else "each step"
    return manifold._repair(point) if manifold._repaired == now else point


def expm_symmetric(a: Array) -> Array:
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
