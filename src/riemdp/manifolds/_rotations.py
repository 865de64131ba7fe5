"""Rotations: square orthonormal frames of determinant 1."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _linalg as linalg
from .._errors import integer
from .._namespace import namespace, stop_gradient, with_derivative
from . import _orthonormal as on
from ._arrays import standard_normals
from ._base import set_field
from ._spectral import sym, transpose
from ._stiefel import Stiefel

if TYPE_CHECKING:
    from jaxtyping import Float

    from .._namespace import Array


_FAR = -0.9  # a cosine below is near that of half a turn


@dataclasses.dataclass(frozen=True)
class SpecialOrthogonal(Stiefel):
    """Rotations of R^m: matrices W (m, m) with W^T W = I and determinant 1. The dimension is m (m -
    1)/2.

    The metric is tr(U^T V): a turn by t in one plane has length sqrt(2) t, and the injectivity
    radius is sqrt(2) pi. Every operation has a closed form, and any two points are joined by a
    geodesic. A reflection, of determinant -1, is no point: in a private release it counts as a
    record that is none, and `project` gives the nearest rotation.

    Args:
        m: Number of rows and columns, at least 2.

    Raises:
        InvalidArgument: `m` is not a whole number of at least 2.

    Source:
        Edelman, Arias and Smith 1998, section 2.2.

    Examples:
        >>> import numpy as np
        >>> import riemdp
        >>> rotations = riemdp.SpecialOrthogonal(3)
        >>> rotations.dim, bool(rotations.belongs(np.eye(3))), bool(rotations.belongs(-np.eye(3)))
        (3, True, False)
    """

    r: int = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        set_field(self, "m", integer("m", self.m, at_least=2))
        set_field(self, "r", self.m)

    @property
    def curvature_bounds(self) -> tuple[float, float]:
        # |[X, Y]|^2 / 4 for orthonormal skew X, Y; |[X, Y]|^2 is 1/2 on so(3), at most 1 above
        return (0.125, 0.125) if self.m == 3 else (0.0, 0.125 if self.m == 2 else 0.25)

    @property
    def transport_is_parallel(self) -> bool:
        return True

    def _why_not(self, record: np.ndarray) -> str:
        if np.all(super()._defect(record) <= 1e-6):
            return "has determinant -1: it is a reflection, not a rotation"
        return super()._why_not(record)

    def _defect(self, x: Array) -> Float[Array, "*batch"]:
        return namespace(x).where(linalg.det(x) > 0.0, super()._defect(x), math.inf)

    def _project(self, x: Array) -> Array:
        """The nearest orthonormal matrix; of one that reflects, the axis that x stretches least is
        turned around (Kabsch 1976).
        """
        xp, nearest = namespace(x), super()._project(x)
        least = linalg.eigh(stop_gradient(sym(transpose(x) @ x)))[1][..., :, :1]
        turned = nearest - 2.0 * (nearest @ least) @ transpose(least)
        return xp.where(linalg.det(nearest)[..., None, None] < 0.0, turned, nearest)

    def _exp(self, p: Array, v: Array) -> Array:
        return on.newton_orthonormalise(p + p @ on.expm1(on.skew(transpose(p) @ v)))

    def _log(self, p: Array, q: Array) -> Array:
        return _log(p, q)

    def _squared_dist(self, p: Array, q: Array) -> Array:
        return _squared_dist(p, q)

    def _transport(self, p: Array, q: Array, v: Array) -> Array:
        # Parallel on the group: with Q = p^T q and A = p^T v it is p Q^(1/2) A Q^(1/2), and
        # Q^(1/2) = polar(I + Q).
        half = on.polar(np.eye(self.m) + transpose(p) @ q)
        return self._to_tangent(q, p @ (half @ (transpose(p) @ v) @ half))

    def _random_point(self, rng: Any, shape: tuple[int, ...]) -> Array:
        x = on.nearest_orthonormal(standard_normals(rng, (*shape, *self.shape)))
        sign = namespace(x).sign(linalg.det(x))[..., None, None]
        return namespace(x).concat([x[..., :1] * sign, x[..., 1:]], axis=-1)

    def _injectivity_radius(self, p: Array) -> Array:
        # a turn by pi in one plane has length sqrt(2) pi
        return namespace(p).full(self._batch_shape(p), math.sqrt(2.0) * math.pi)

    def _log_volume_density(self, p: Array, v: Array) -> Array:
        # The squared half angles come in pairs; the roots of so(m) are +-t_k +- t_l, and +-t_k when
        # m is odd.
        half = 0.5 * on.skew(transpose(p) @ v)
        squares = linalg.eigvalsh(sym(transpose(half) @ half))[..., self.m % 2 :: 2]
        return 2.0 * on.log_density_of_angles(squares, self.m % 2)


def _log(p: Array, q: Array) -> Array:
    """p logm(p^T q): logm Q = h(sym Q) skew Q, h = angle/sin(angle)."""
    turn = transpose(p) @ q
    # skew(p^T q) = skew(p^T (q - p)) keeps the accuracy of q - p for near points.
    sines = on.skew(transpose(p) @ (q - p))
    ratio, least = on.angle_over_sine(sym(turn))
    log = on.skew(ratio @ sines)
    # Near half a turn h is large, and the cosine does not tell it. The derivative is that of the
    # formula above.
    xp, far = namespace(p, q), (least < _FAR)[..., None, None]
    near_half_turns = on.log_near_half_turns(sym(turn), sines)
    log = xp.where(far, near_half_turns + (log - stop_gradient(log)), log)
    return p @ log


def _with_logarithms(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> Any:
    (p, q), (dp, dq) = primals, tangents
    change = on.frobenius(_log(p, q), dp) + on.frobenius(_log(q, p), dq)
    return _squared_dist(p, q), -2.0 * change


@with_derivative(_with_logarithms)
def _squared_dist(p: Array, q: Array) -> Array:
    # Singular values of q - p and q + p are 2 sin and 2 cos of half the angles: together accurate
    # at 0 and at pi.
    xp = namespace(p, q)
    sines = linalg.singular_values(q - p)
    # No view: over a reversed axis NumPy's loops round otherwise for one pair than for many.
    cosines = xp.take(linalg.singular_values(q + p), np.arange(p.shape[-1])[::-1], axis=-1)
    angles = 2.0 * xp.atan2(sines, cosines)
    return xp.sum(angles**2, axis=-1)
