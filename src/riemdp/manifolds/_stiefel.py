"""Stiefel manifold: orthonormal frames of r vectors in R^m, with the embedded metric."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _linalg as linalg
from .._errors import integer
from .._namespace import namespace, stop_gradient, with_derivative
from . import _orthonormal as on
from ._base import set_field
from ._frames import AbstractFrames
from ._numerics import safe_sqrt
from ._spectral import sym, transpose
from ._sphere import Sphere

if TYPE_CHECKING:
    from jaxtyping import Bool

    from .._namespace import Array

_FAR = -0.9  # a cosine below is near that of half a turn
_INSTEAD = (
    "use `retract` and `transport`, or the closed forms of Stiefel(m, 1), Stiefel(m, m) and"
    " Grassmann(m, r)"
)


@dataclass(frozen=True)
class Stiefel(AbstractFrames):
    """Matrices W (m, r) with orthonormal columns, W^T W = I. The dimension is m r - r (r + 1)/2.

    Tangent vectors at W are (m, r) arrays U with W^T U skew-symmetric. The metric is tr(U^T V),
    that of the surrounding space.

    **What is exact.** `exp` is the closed form with matrix exponentials of size 2r and r, for |v|
    up to 3e4 (NaN beyond). For r = 1 (the sphere) and r = m (the orthogonal group) every operation
    has a closed form. For 1 < r < m the logarithm and the distance have none: `log`, `dist` and
    `squared_dist` raise `NotImplementedError`.

    **Transport.** For 1 < r < m it is v -> R v o, where R is the least rotation of R^m that carries
    span(p) to span(q) and o in O(r) is fixed by q = R p o. It is a linear isometry of the tangent
    spaces, the identity for p = q, and continuous in both points while the principal angles between
    the spans are below pi/2; it is not parallel transport.

    **The orthogonal group** Stiefel(m, m) has two components. `random_point` is uniform on that of
    the identity, which is `SpecialOrthogonal(m)`; between components `dist` is infinite and `log`
    NaN.

    Args:
        m: Number of rows, at least 2.
        r: Number of columns, from 1 to m.

    Raises:
        InvalidArgument: `m` or `r` is no whole number or out of range.

    Source:
        Edelman, Arias and Smith 1998, section 2.2 (exp). Zimmermann and Stoye 2024 for the
        injectivity radius pi where 1 < r < m. The tangent Gaussian is Z - W sym(W^T Z), which is
        exact as the projection of an iid normal array on a linear subspace.

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
        remedy = f"a Stiefel manifold of R^{self.m} needs 1 <= r <= {self.m}"
        set_field(self, "r", integer("r", self.r, at_least=1, at_most=self.m, remedy=remedy))

    # ---------------------------------------------------------------- facts
    @property
    def dim(self) -> int:
        return self.m * self.r - self.r * (self.r + 1) // 2

    @property
    def curvature_bounds(self) -> tuple[float, float]:
        if self.r == 1:
            return self._sphere.curvature_bounds
        if (
            self.r == self.m
        ):  # |[X, Y]|^2 / 4 for orthonormal skew X, Y; |[X, Y]|^2 is 1/2 on so(3), at most 1 above
            return (0.125, 0.125) if self.m == 3 else (0.0, 0.125 if self.m == 2 else 0.25)
        return (-0.5, 1.0)

    @property
    def transport_is_parallel(self) -> bool:
        return self.r in (1, self.m)

    @property
    def _sphere(self) -> Sphere:
        return Sphere(self.m)

    # ---------------------------------------------------------------- geodesics
    @property
    def transport_is_nonexpansive(self) -> bool:
        """True: it projects."""
        return True

    def _exp(self, p: Array, v: Array) -> Array:
        if self.r == 1:
            return self._sphere._exp(p[..., 0], v[..., 0])[..., None]
        a = on.skew(transpose(p) @ v)
        if self.r == self.m:
            return on.newton_orthonormalise(p + p @ on.expm1(a))
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
        if self.r == 1:
            return self._sphere._log(p[..., 0], q[..., 0])[..., None]
        if self.r == self.m:
            return _rotation_log(p, q)
        raise self._unavailable("log", _INSTEAD)

    def _squared_dist(self, p: Array, q: Array) -> Array:
        if self.r == 1:
            return self._sphere._squared_dist(p[..., 0], q[..., 0])
        if self.r == self.m:
            return _rotation_squared_dist(p, q)
        raise self._unavailable("squared_dist", _INSTEAD)

    def _dist(self, p: Array, q: Array) -> Array:
        if self.r == 1:
            return self._sphere._dist(p[..., 0], q[..., 0])
        if self.r == self.m:
            return safe_sqrt(_rotation_squared_dist(p, q))
        raise self._unavailable("dist", _INSTEAD)

    def _transport(self, p: Array, q: Array, v: Array) -> Array:
        if self.r == 1:
            return self._sphere._transport(p[..., 0], q[..., 0], v[..., 0])[..., None]
        if self.r == self.m:
            # Parallel on the group: with Q = p^T q and A = p^T v it is p Q^(1/2) A Q^(1/2), and
            # Q^(1/2) = polar(I + Q).
            half = on.polar(np.eye(self.m) + transpose(p) @ q)
            moved = p @ (half @ (transpose(p) @ v) @ half)
        else:
            moved = on.carry(p, q, v)
        return self._to_tangent(q, moved)

    # ---------------------------------------------------------------- ambient space
    def _ambient_diameter(self, center: Array, radius: float) -> float:
        if self.r > 1:  # chords of longer frames are not bounded here
            return super()._ambient_diameter(center, radius)
        return 2 * math.sin(radius) if radius < math.pi / 2 else 2.0

    def _ambient_reach(self, center: Array, radius: float) -> float:
        if self.r > 1:
            return super()._ambient_reach(center, radius)
        return 2 * math.sin(min(radius, math.pi) / 2)

    def _to_tangent(self, p: Array, x: Array) -> Array:
        return x - p @ sym(transpose(p) @ x)

    def _is_tangent(self, p: Array, v: Array, atol: float) -> Bool[Array, "*batch"]:
        return on.within(sym(transpose(p) @ v), v, atol)

    # ---------------------------------------------------------------- randomness and coordinates
    def _random_point(self, rng: Any, shape: tuple[int, ...]) -> Array:
        x = super()._random_point(rng, shape)
        if self.r < self.m:
            return x
        xp = namespace(x)
        sign = xp.sign(linalg.det(x))[..., None, None]
        return xp.concat([x[..., :1] * sign, x[..., 1:]], axis=-1)

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
        # On the group a turn by pi in one plane has length sqrt(2) pi.
        radius = math.sqrt(2.0) * math.pi if self.r == self.m else math.pi
        return namespace(p).full(self._batch_shape(p), radius)

    def _log_volume_density(self, p: Array, v: Array) -> Array:
        if self.r == 1:
            return self._sphere._log_volume_density(p[..., 0], v[..., 0])
        if self.r == self.m:
            # The squared half angles come in pairs; the roots of so(m) are +-t_k +- t_l, and +-t_k
            # when m is odd.
            half = 0.5 * on.skew(transpose(p) @ v)
            squares = linalg.eigvalsh(sym(transpose(half) @ half))[..., self.m % 2 :: 2]
            return 2.0 * on.log_density_of_angles(squares, self.m % 2)
        raise self._unavailable(
            "log_volume_density",
            "use Stiefel(m, 1), Stiefel(m, m) or Grassmann(m, r), where it is exact",
        )


def _rotation_log(p: Array, q: Array) -> Array:
    """p logm(p^T q) where p^T q is a rotation: logm Q = h(sym Q) skew Q, h = angle/sin(angle)."""
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
    return xp.where(linalg.det(turn)[..., None, None] > 0.0, p @ log, math.nan)


def _with_logarithms(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> Any:
    (p, q), (dp, dq) = primals, tangents
    change = on.frobenius(_rotation_log(p, q), dp) + on.frobenius(_rotation_log(q, p), dq)
    return _rotation_squared_dist(p, q), -2.0 * change


@with_derivative(_with_logarithms)
def _rotation_squared_dist(p: Array, q: Array) -> Array:
    # Singular values of q - p and q + p are 2 sin and 2 cos of half the angles: together accurate
    # at 0 and at pi.
    xp = namespace(p, q)
    sines = linalg.singular_values(q - p)
    # No view: over a reversed axis NumPy's loops round otherwise for one pair than for many.
    cosines = xp.take(linalg.singular_values(q + p), np.arange(p.shape[-1])[::-1], axis=-1)
    angles = 2.0 * xp.atan2(sines, cosines)
    apart = linalg.det(transpose(p) @ q) < 0.0
    return xp.where(apart, math.inf, xp.sum(angles**2, axis=-1))
