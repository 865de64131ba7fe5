"""Grassmann manifold: r-dimensional subspaces of R^m, represented by orthonormal frames."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .. import _linalg as linalg
from .._errors import integer
from .._namespace import namespace, stop_gradient, with_derivative
from . import _orthonormal as on
from ._base import EPS, Homogeneous, set_field
from ._frames import AbstractFrames
from ._spectral import sym, transpose

if TYPE_CHECKING:
    from jaxtyping import Bool

    from .._namespace import Array


@dataclass(frozen=True)
class Grassmann(AbstractFrames, Homogeneous):
    """Subspaces of dimension r of R^m, each given by any orthonormal frame W (m, r) of it. The
    dimension is r (m - r), the injectivity radius pi/2.

    W and W O (O orthogonal) are the same point: `dist` does not tell them apart. A tangent vector
    at the representative W is its horizontal lift, an (m, r) array U with W^T U = 0, and the metric
    is tr(U^T V). Results of `log`, `transport` and `tangent_normal` belong to the representative
    that was passed in; `exp(p, log(p, q))` spans the same subspace as q.

    **Where things are defined.** `log` and `transport` are unique while every principal angle is
    below pi/2. At an angle of pi/2 (cut locus) one minimising geodesic is returned and derivatives
    of `transport` leave out the directions of the jump. `dist` is exact everywhere. Two frames
    whose spans agree up to rounding (8 r machine epsilons) have distance exactly 0.

    Args:
        m: Dimension of the space around, at least 2.
        r: Dimension of the subspaces, from 1 to m - 1 (r = m would be a single point).

    Raises:
        InvalidArgument: `m` or `r` is no whole number or out of range.

    Source:
        Edelman, Arias and Smith 1998. The tangent Gaussian is the projection Z - W (W^T Z); it is
        exact because the projection of an iid normal array on a linear subspace is the isotropic
        normal distribution there.

    Examples:
        >>> import numpy as np
        >>> import riemdp
        >>> lines = riemdp.Grassmann(3, 1)
        >>> x, y = np.eye(3)[:, [0]], np.eye(3)[:, [1]]
        >>> round(float(lines.dist(x, y)), 4), float(lines.dist(x, -x))
        (1.5708, 0.0)
    """

    m: int
    r: int

    def __post_init__(self) -> None:
        set_field(self, "m", integer("m", self.m, at_least=2))
        top = self.m - 1
        remedy = f"a Grassmann manifold of R^{self.m} needs 1 <= r <= {top}"
        set_field(self, "r", integer("r", self.r, at_least=1, at_most=top, remedy=remedy))

    # ---------------------------------------------------------------- facts
    @property
    def dim(self) -> int:
        return self.r * (self.m - self.r)

    @property
    def curvature_bounds(self) -> tuple[float, float]:
        # Lines or hyperplanes form the projective space of constant curvature 1 (on the circle
        # Gr(2, 1) there is no plane to measure, and 1 is the cautious answer).
        return (1.0, 1.0) if min(self.r, self.m - self.r) == 1 else (0.0, 2.0)

    @property
    def _mean_curvature(self) -> float:
        return (self.m - 2) / max(1, self.dim - 1)  # the Ricci curvature is m - 2

    # ---------------------------------------------------------------- geodesics
    def _exp(self, p: Array, v: Array) -> Array:
        # W V cos(s) V^T + Q sin(s) V^T with U = Q s V^T, as functions of the Gram matrix: no
        # singular vectors to choose.
        versine, ratio = on.cos_sinc_root(transpose(v) @ v)
        return on.newton_orthonormalise(p + (v @ ratio - p @ versine))

    def _log(self, p: Array, q: Array) -> Array:
        return _log(p, q)

    def _nearest_frame(self, p: Array, reference: Array) -> Array:
        """The frame of the subspace of p that is nearest to the frame `reference`: a function of
        the two arrays that does not change with the representative p.
        """
        u, _, vt = linalg.svd(transpose(p) @ reference, full_matrices=False)
        return p @ (u @ vt)

    def _squared_dist(self, p: Array, q: Array) -> Array:
        return _squared_dist(p, q)

    def _transport(self, p: Array, q: Array, v: Array) -> Array:
        return self._to_tangent(q, on.carry(p, q, v))

    # ---------------------------------------------------------------- tangent vectors
    def _to_tangent(self, p: Array, x: Array) -> Array:
        return x - p @ (transpose(p) @ x)

    def _is_tangent(self, p: Array, v: Array, atol: float) -> Bool[Array, "*batch"]:
        return on.within(transpose(p) @ v, v, atol)

    def _to_coordinates(self, p: Array, v: Array) -> Array:
        lower = on.to_first_columns(p, v)[..., self.r :, :]
        return lower.reshape(*lower.shape[:-2], self.dim)

    def _from_coordinates(self, p: Array, c: Array) -> Array:
        lower = c.reshape(*c.shape[:-1], self.m - self.r, self.r)
        xp = namespace(c)
        upper = xp.zeros((*c.shape[:-1], self.r, self.r))
        v = on.from_first_columns(p, xp.concat([upper, lower], axis=-2))
        return self._to_tangent(p, v)

    def _injectivity_radius(self, p: Array) -> Array:
        return namespace(p).full(self._batch_shape(p), 0.5 * math.pi)

    def _log_volume_density(self, p: Array, v: Array) -> Array:
        # prod_{i<j} sinc(t_i - t_j) sinc(t_i + t_j) prod_i sinc(t_i)^(m - 2k), t the k = min(r, m -
        # r) singular values.
        k = min(self.r, self.m - self.r)
        squares = linalg.eigvalsh(sym(transpose(v) @ v))[..., self.r - k :]
        return on.log_density_of_angles(squares, self.m - 2 * k)


def _residual(p: Array, q: Array) -> tuple[Array, Array]:
    """C = p^T q and the part of q outside span(p), whose value (not derivative) is 0 where it is
    only rounding.
    """
    xp, c = namespace(p, q), transpose(p) @ q
    outside = q - p @ c
    rounding = 8.0 * p.shape[-1] * EPS
    same = (on.frobenius(outside, outside) <= rounding**2) | xp.all(p == q, axis=(-2, -1))
    return c, outside - stop_gradient(xp.where(same[..., None, None], outside, 0.0))


def _log(p: Array, q: Array) -> Array:
    # C = A cos(t) B^T and (q - p C) B = Q sin(t), so Q t A^T = (q - p C) (A (t/sin t) B^T)^T:
    # finite up to t = pi/2 itself, and as accurate as the residual for tiny angles, because
    # t/sin(t) is flat at 1.
    c, outside = _residual(p, q)
    u = outside @ transpose(on.principal_angle_ratio(c))
    return u - p @ (transpose(p) @ u)


def _with_logarithms(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> Any:
    # d(dist^2) = -2 <log_p q, dp> - 2 <log_q p, dq>: no derivative of a singular value is needed,
    # so none can be NaN.
    (p, q), (dp, dq) = primals, tangents
    return _squared_dist(p, q), -2.0 * (on.frobenius(_log(p, q), dp) + on.frobenius(_log(q, p), dq))


@with_derivative(_with_logarithms)
def _squared_dist(p: Array, q: Array) -> Array:
    c, outside = _residual(p, q)
    u = outside @ transpose(on.principal_angle_ratio(c))
    return on.frobenius(u, u)
