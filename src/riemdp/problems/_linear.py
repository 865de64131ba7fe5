"""Problems with linear structure: principal eigenvector, principal subspace, low-rank matrix
completion.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from .._errors import integer, invalid, magnitude, real
from ..manifolds import Grassmann, Sphere
from ._problem import Formula, Problem, Record


@dataclass(frozen=True)
class Rayleigh(Formula):
    """-|W^T z|^2, for a unit vector W (n,) or an orthonormal frame W (m, r)."""

    def __call__(self, w: Array, z: Record) -> Any:
        return -jnp.sum((z @ w) ** 2)


@dataclass(frozen=True)
class RayleighGradient(Formula):
    """-2 (I - W W^T) z (W^T z)^T: rank one, of norm 2 |a| sqrt(|z|^2 - |a|^2), a = W^T z."""

    def __call__(self, w: Array, z: Record) -> Any:
        a = z @ w
        if w.ndim == 1:
            return -2.0 * a * (z - a * w)
        return -2.0 * jnp.outer(z - w @ a, a)


@dataclass(frozen=True)
class Completion(Formula):
    """min_v |mask * (x - W v)|^2 + ridge |v|^2 for a record (x, mask)."""

    ridge: float

    def solve(self, w: Array, z: Record) -> tuple[Any, Any]:
        x, mask = z
        masked = mask[:, None] * w
        v = jnp.linalg.solve(w.T @ masked + self.ridge * jnp.eye(w.shape[1]), masked.T @ x)
        return v, mask * (x - w @ v)

    def __call__(self, w: Array, z: Record) -> Any:
        v, residual = self.solve(w, z)
        return jnp.sum(residual**2) + self.ridge * jnp.sum(v**2)


@dataclass(frozen=True)
class CompletionGradient(Formula):
    """-2 (I - W W^T) residual v^T: v is optimal, so its own derivative drops out (envelope
    theorem).
    """

    ridge: float

    def __call__(self, w: Array, z: Record) -> Any:
        v, residual = Completion(self.ridge).solve(w, z)
        egrad = -2.0 * jnp.outer(residual, v)
        return egrad - w @ (w.T @ egrad)


def principal_eigenvector(n: int, *, row_norm: float = 1.0) -> Problem:
    """Leading eigenvector of (1/N) sum z z^T: loss -(w^T z)^2 on the sphere of R^n; records are
    vectors (n,).

    One record's gradient has norm |z|^2 |sin 2t| <= R^2, so `lipschitz` (the default clip norm) is
    R^2, not 2 R^2, and replacing a record moves the average gradient by at most 2 R^2 / N. The
    smoothness is 2 R^2.

    Args:
        n: Length of a record.
        row_norm: R, the public bound on |z|. Gradients of longer records are clipped. Do not centre
            or scale with statistics of the private data.

    Source:
        Han2024 section 5.1 with L0 = max |z|^2 and Hess f[v] = -2 (I - w w^T) z z^T v + 2 (w^T z)^2
        v.
    """
    n = integer("n", n, at_least=2)
    r2 = magnitude("row_norm", row_norm, power=2) ** 2
    return Problem(
        Sphere(n),
        Rayleigh(),
        gradient=RayleighGradient(),
        smoothness=2.0 * r2,
        lipschitz=r2,
        record_shape=(n,),
    )


def principal_subspace(m: int, r: int, *, row_norm: float = 1.0) -> Problem:
    """Leading r-dimensional subspace: loss -|W^T z|^2 on Gr(m, r); records are vectors (m,).

    One record's gradient is rank one with norm 2 |a| sqrt(|z|^2 - |a|^2) <= R^2 (a = W^T z), so the
    default clip norm is R^2 for every r. The smoothness is 2 R^2.

    Args:
        m: Length of a record.
        r: Dimension of the subspace.
        row_norm: R, the public bound on |z|.
    """
    m = integer("m", m, at_least=2)
    r = integer("r", r, at_least=1, at_most=m - 1)
    r2 = magnitude("row_norm", row_norm, power=2) ** 2
    return Problem(
        Grassmann(m, r),
        Rayleigh(),
        gradient=RayleighGradient(),
        smoothness=2.0 * r2,
        lipschitz=r2,
        record_shape=(m,),
    )


def matrix_completion(m: int, r: int, *, ridge: float = 1e-3, column_norm: float = 1.0) -> Problem:
    """Low-rank matrix completion on Gr(m, r): loss min_v |mask * (x - W v)|^2 + ridge |v|^2;
    records are columns (x, mask).

    The data of a run is the tuple (X, masks), both (n, m): one record, and unit of privacy, is one
    column of the matrix (a user, say) with its 0/1 mask of observed entries. Default clip norm R^2
    and smoothness 2 R^2 are the constants of a fully observed column, where the loss is that of the
    principal subspace; partial masks can exceed them, and then the clipping binds.

    Args:
        m: Length of a column.
        r: The rank.
        ridge: Above 0; keeps the inner least squares well posed with fewer than r observations.
        column_norm: R, public.

    Source:
        Han2024 section 5.5.
    """
    m = integer("m", m, at_least=2)
    r = integer("r", r, at_least=1, at_most=m - 1)
    ridge = real("ridge", ridge, above=0.0)
    if ridge > 1e6:
        raise invalid("ridge", ridge, "give a number below 1e6: more suppresses every column")
    r2 = real("column_norm", column_norm, above=0.0) ** 2
    return Problem(
        Grassmann(m, r),
        Completion(ridge),
        gradient=CompletionGradient(ridge),
        smoothness=2.0 * r2,
        lipschitz=r2,
        record_shape=((m,), (m,)),
    )
