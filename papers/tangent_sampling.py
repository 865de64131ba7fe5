"""Four ways to draw one isotropic Gaussian tangent vector: Gram-Schmidt, explicit basis, sparse
explicit basis, transport.

The baselines of Utpala2023 Figure 1, as NumPy code and with correct constants (the printed
Bures-Wasserstein and Poincare scales are wrong, see the errata). They exist to be timed and
checked; releases draw their noise elsewhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import null_space
from scipy.linalg.lapack import dgeqrf, dormqr  # pyright: ignore[reportAttributeAccessIssue]


@dataclass(frozen=True)
class Sampler:
    """How Utpala2023 samples at a point `w` of one space.

    `dim`: number of coordinates; `place(w)` prepares the point and returns `move`, which takes
    coordinates (count, dim) to tangent vectors (count, *shape); `inner(w)` returns the metric as a
    function of two stacks of vectors, for Gram-Schmidt. `sparse`: whether the basis at the
    reference point is sparse and moves by one multiplication.
    """

    name: str
    shape: tuple[int, ...]

    @property
    def dim(self) -> int:
        if self.name.startswith("spd"):
            return self.shape[0] * (self.shape[0] + 1) // 2
        if self.name == "stiefel":
            m, r = self.shape
            return m * r - r * (r + 1) // 2
        if self.name == "grassmann":
            m, r = self.shape
            return r * (m - r)
        return self.shape[0] if self.name == "poincare" else self.shape[0] - 1

    # -------------------------------------------------------------------------------------------
    # reference point
    def reference(self, a: np.ndarray) -> np.ndarray:
        """Coordinates (count, dim) as vectors at the reference point, orthonormal in its metric."""
        count = len(a)
        out = np.zeros((count, *self.shape))
        if self.name.startswith("spd"):
            m = self.shape[0]
            diagonal, (i, j) = np.arange(m), np.triu_indices(m, 1)
            scale = (
                2.0 if self.name == "spd-bures-wasserstein" else 1.0
            )  # the metric at I is tr(UV)/4 there
            out[:, diagonal, diagonal] = scale * a[:, :m]
            out[:, i, j] = scale / math.sqrt(2) * a[:, m:]
            out[:, j, i] = out[:, i, j]
        elif self.name in ("stiefel", "grassmann"):
            m, r = self.shape
            skew = r * (r - 1) // 2 if self.name == "stiefel" else 0
            if skew:
                i, j = np.triu_indices(r, 1)
                out[:, i, j] = a[:, :skew] / math.sqrt(2)
                out[:, j, i] = -out[:, i, j]
            out[:, r:, :] = a[:, skew:].reshape(count, m - r, r)
        elif self.name == "poincare":
            out[:] = 0.5 * a  # the metric at the origin is 4 <u, v>
        else:
            out[:, 1:] = a
        return out

    def reference_sparse(self) -> Any:
        """The orthonormal basis at the reference point as a sparse matrix (dim, entries), built
        entry by entry.
        """
        if self.name == "poincare":
            return sparse.identity(self.shape[0], format="csr") * 0.5
        m, r = self.shape
        rows, columns, values = [], [], []
        k = 0
        if self.name == "stiefel":
            i, j = np.triu_indices(r, 1)
            k = len(i)
            rows += [np.arange(k), np.arange(k)]
            columns += [i * r + j, j * r + i]
            values += [np.full(k, 1 / math.sqrt(2)), np.full(k, -1 / math.sqrt(2))]
        free = (m - r) * r
        rows.append(k + np.arange(free))
        columns.append(r * r + np.arange(free))
        values.append(np.ones(free))
        parts = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
        return sparse.csr_matrix(parts, shape=(self.dim, m * r))

    # -------------------------------------------------------------------------
    # transport
    def mover(self, w: np.ndarray) -> Any:
        """The linear isometry from the reference point to `w`, on stacks of vectors."""
        if self.name == "spd-affine":
            values, p = np.linalg.eigh(w)
            root = (p * np.sqrt(values)) @ p.T
            return lambda v: root @ v @ root
        if self.name in ("spd-log-euclidean", "spd-bures-wasserstein"):
            values, p = np.linalg.eigh(w)
            if self.name == "spd-log-euclidean":
                logs = np.log(values)
                gap = logs[:, None] - logs
                near = np.abs(gap) < 1e-8
                kernel = np.where(
                    near, values[:, None], (values[:, None] - values) / np.where(near, 1.0, gap)
                )
            else:
                kernel = np.sqrt((values[:, None] + values) / 2)
            return lambda v: p @ (kernel * (p.T @ v @ p)) @ p.T
        if self.name == "sphere":
            return lambda v: v - (v @ w)[:, None] / (1 + w[0]) * (w + np.eye(1, len(w))[0])
        if self.name == "lorentz":
            return lambda v: v + (v @ w)[:, None] / (1 + w[0]) * (w + np.eye(1, len(w))[0])
        if self.name == "poincare":
            shrink = 1 - float(w @ w)
            return lambda v: shrink * v
        return self._householder(w)

    def _householder(self, w: np.ndarray) -> Any:
        """v -> Q v with the full orthogonal factor of `w`, applied as r reflections and never
        formed: O(m r^2).
        """
        m, r = self.shape
        reflections, tau, *_ = dgeqrf(w)
        signs = np.ones((m, 1))
        signs[:r, 0] = np.sign(np.diag(reflections))

        def move(v: np.ndarray) -> np.ndarray:
            flat = np.asfortranarray((signs * v).transpose(1, 0, 2).reshape(m, -1))
            moved = dormqr("L", "N", reflections, tau, flat, 64 * flat.shape[1])[0]
            return moved.reshape(m, len(v), r).transpose(1, 0, 2)

        return move

    def inner(self, w: np.ndarray, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Inner products (count_u, count_v) in the metric at `w`, for the spaces that have the
        Gram-Schmidt baseline.
        """
        if self.name == "lorentz":
            signs = np.ones(len(w))
            signs[0] = -1.0
            return (u * signs) @ v.T
        values, p = np.linalg.eigh(w)
        if self.name == "spd-affine":
            kernel = 1 / np.sqrt(np.outer(values, values))
        elif self.name == "spd-bures-wasserstein":
            kernel = 1 / np.sqrt(2 * (values[:, None] + values))
        else:
            logs = np.log(values)
            gap = values[:, None] - values
            near = np.abs(gap) < 1e-10 * values[:, None]
            kernel = np.where(
                near, 1 / values[:, None], (logs[:, None] - logs) / np.where(near, 1.0, gap)
            )
        a, b = ((kernel * (p.T @ x @ p)).reshape(len(x), -1) for x in (u, v))
        return a @ b.T

    # ---------------------------------------------------------------------------------------------
    # the four ways
    def transport(self, w: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Algorithm 2: a Gaussian at the reference point, moved to `w`."""
        return self.mover(w)(self.reference(rng.standard_normal((1, self.dim))))[0]

    def explicit(self, w: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """All basis vectors at `w`, then their combination."""
        basis = self.mover(w)(self.reference(np.eye(self.dim)))
        return np.tensordot(rng.standard_normal(self.dim), basis, axes=1)

    def explicit_sparse(self, w: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """The basis at the reference point as a sparse matrix, combined and then moved."""
        combined = np.asarray(self.reference_sparse().T @ rng.standard_normal(self.dim))
        return self.mover(w)(combined.reshape(1, *self.shape))[0]

    def gram_schmidt(self, w: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """A basis orthonormal for the Euclidean metric, made orthonormal for that of `w` one vector
        at a time.
        """
        basis = self.euclidean_basis(w)
        for k in range(self.dim):
            if k:
                basis[k] -= np.tensordot(
                    self.inner(w, basis[k : k + 1], basis[:k])[0], basis[:k], axes=1
                )
            basis[k] /= math.sqrt(float(self.inner(w, basis[k : k + 1], basis[k : k + 1])[0, 0]))
        return np.tensordot(rng.standard_normal(self.dim), basis, axes=1)

    def euclidean_basis(self, w: np.ndarray) -> np.ndarray:
        """A basis of the tangent space at `w`, orthonormal as vectors of the ambient space."""
        if self.name == "lorentz":
            normal = w.copy()
            normal[0] *= -1.0  # tangent: orthogonal to w in the Lorentz product
            return null_space(normal[None]).T.copy()
        return Sampler("spd-affine", self.shape).reference(np.eye(self.dim))
