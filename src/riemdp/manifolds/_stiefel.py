"""Stiefel manifold: orthonormal frames of r vectors in R^m, with the embedded metric."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .._errors import integer
from .._namespace import namespace, stop_gradient
from . import _orthonormal as on
from ._base import set_field
from ._frames import AbstractFrames
from ._spectral import sym, transpose

if TYPE_CHECKING:
    from jaxtyping import Bool

    from .._namespace import Array

_INSTEAD = (
    "use `retract` and `transport`, or a space with closed forms: Grassmann(m, r) for subspaces,"
    " SpecialOrthogonal(m) for square matrices, Sphere(m) for single columns"
)


@dataclass(frozen=True)
class Stiefel(AbstractFrames):
    """Matrices W (m, r) with orthonormal columns, W^T W = I, r < m. The dimension is m r - r (r +
    1)/2. Square ones are points of `SpecialOrthogonal(m)`.

    Tangent vectors at W are (m, r) arrays U with W^T U skew-symmetric. The metric is tr(U^T V),
    that of the surrounding space.

    **What is exact.** `exp` is the closed form with matrix exponentials of size 2r and r, for |v|
    up to 3e4 (NaN beyond). The logarithm and the distance have none: `log`, `dist` and
    `squared_dist` raise `NotImplementedError`.

    **Transport** is v -> R v o, where R is the least rotation of R^m that carries span(p) to
    span(q) and o in O(r) is fixed by q = R p o. It is a linear isometry of the tangent spaces, the
    identity for p = q, and continuous in both points while the principal angles between the spans
    are below pi/2; it is not parallel transport.

    Args:
        m: Number of rows, at least 2.
        r: Number of columns, from 1 to m - 1.

    Raises:
        InvalidArgument: `m` or `r` is no whole number or out of range.

    Source:
        Edelman, Arias and Smith 1998, section 2.2 (exp). Zimmermann and Stoye 2024 for the
        injectivity radius pi. The tangent Gaussian is Z - W sym(W^T Z), which is exact as the
        projection of an iid normal array on a linear subspace.

    Examples:
        >>> import numpy as np
        >>> import riemdp
        >>> frames = riemdp.Stiefel(3, 2)
        >>> frames.dim, bool(frames.belongs(np.eye(3)[:, :2]))
        (3, True)
    """

    m: int
    r: int

    def __post_init__(self) -> None:
        set_field(self, "m", integer("m", self.m, at_least=2))
        top = self.m - 1
        remedy = f"a Stiefel manifold of R^{self.m} needs 1 <= r <= {top}"
        if self.r == self.m:
            remedy += f"; square matrices are points of riemdp.SpecialOrthogonal({self.m})"
        set_field(self, "r", integer("r", self.r, at_least=1, at_most=top, remedy=remedy))

    # ---------------------------------------------------------------- facts
    @property
    def dim(self) -> int:
        return self.m * self.r - self.r * (self.r + 1) // 2

    @property
    def curvature_bounds(self) -> tuple[float, float]:
        return (-0.5, 1.0)

    # ---------------------------------------------------------------- geodesics
    @property
    def transport_is_nonexpansive(self) -> bool:
        """True: it projects."""
        return True

    def _exp(self, p: Array, v: Array) -> Array:
        a = on.skew(transpose(p) @ v)
        # [W U] expm([[A, -S], [I, A]]) [I; 0] expm(-A). Dividing U by its length is a change of
        # basis that leaves the result alone (hence no derivative through it) and keeps the exponent
        # as small as |U| for long and for tiny U.
        xp = namespace(p, v)
        length = stop_gradient(xp.sqrt(on.frobenius(v, v)))[..., None, None]
        length = xp.where(length > 0.0, length, 1.0)
        unit = v / length
        eye = xp.broadcast_to(np.eye(self.r) * length, a.shape)
        gram = xp.broadcast_to(-length * (transpose(unit) @ unit), a.shape)
        x = on.expm1(
            xp.concat([xp.concat([a, gram], axis=-1), xp.concat([eye, a], axis=-1)], axis=-2)
        )
        y = p + p @ x[..., : self.r, : self.r] + unit @ x[..., self.r :, : self.r]
        return on.newton_orthonormalise(y + y @ on.expm1(-a))

    def _log(self, p: Array, q: Array) -> Array:
        raise self._unavailable("log", _INSTEAD)

    def _squared_dist(self, p: Array, q: Array) -> Array:
        raise self._unavailable("dist", _INSTEAD)

    def _transport(self, p: Array, q: Array, v: Array) -> Array:
        return self._to_tangent(q, on.carry(p, q, v))

    # ---------------------------------------------------------------- tangent vectors
    def _to_tangent(self, p: Array, x: Array) -> Array:
        return x - p @ sym(transpose(p) @ x)

    def _is_tangent(self, p: Array, v: Array, atol: float) -> Bool[Array, "*batch"]:
        return on.within(sym(transpose(p) @ v), v, atol)

    def _to_coordinates(self, p: Array, v: Array) -> Array:
        w = on.to_first_columns(p, v)
        a, lower = on.pack_skew(on.skew(w[..., : self.r, :])), w[..., self.r :, :]
        rest = lower.reshape(*lower.shape[:-2], (self.m - self.r) * self.r)
        return namespace(w).concat([a, rest], axis=-1)

    def _from_coordinates(self, p: Array, c: Array) -> Array:
        count = self.r * (self.r - 1) // 2
        upper = on.unpack_skew(c[..., :count], self.r)
        lower = c[..., count:].reshape(*c.shape[:-1], self.m - self.r, self.r)
        w = namespace(c).concat([upper, lower], axis=-2)
        return self._to_tangent(p, on.from_first_columns(p, w))

    def _injectivity_radius(self, p: Array) -> Array:
        return namespace(p).full(self._batch_shape(p), math.pi)

    def _log_volume_density(self, p: Array, v: Array) -> Array:
        raise self._unavailable("log_volume_density", _INSTEAD)
