"""Draws so far out that float64 cannot hold the point: shortened towards a *public* point.

A sampler knows its draw in the frame of the footpoint eta, which is private. Whatever alters a draw
must not use that frame: a map of (eta, draw) is not post-processing, and one that pulls far draws
in along the geodesic from eta puts them on a set that names eta. The maps here are functions of
the drawn point and of public numbers alone:

    x -> the point at distance min(d(c, x), limit) from the public point c, on the geodesic to x.

They first compute the polar coordinates of x about c (on hyperbolic spaces about the origin) with
as many digits as the draw needs, from eta, the direction and the length, and forget eta then.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..manifolds import AbstractManifold, Lorentz
from ..manifolds._base import Point
from ._points import direction_and_exp

if TYPE_CHECKING:
    from .._namespace import Array

# An SPD matrix is held while its log-eigenvalues spread over at most this much about the public
# point (condition 2 x 10^14), and none is beyond +-300.
SPREAD, LARGEST = 33.0, 300.0
# Draws that may lie farther out than this are worked out in polar coordinates about the public
# point or the origin: so near in that plain float64 arithmetic still has 7 digits there.
_PLAIN = 15.0
# Squares of hyperbolic coordinates overflow farther out.
_SQUARED = 354.0


class PublicBall(Protocol):
    """What a sampler needs of a `riemdp.Ball`."""

    @property
    def center(self) -> Any: ...

    @property
    def radius(self) -> float: ...


class UnboundBall(PublicBall, Protocol):
    """What a sampler needs of a `riemdp.Ball` that a user gives."""

    def contains(self, manifold: AbstractManifold, x: Point, /) -> Array:
        """Whether points lie in the ball."""
        ...


@dataclasses.dataclass(frozen=True, eq=False)
class View:
    """The public point that far draws are shortened towards, and how far from it they may stay.

    `center` None means the origin of the manifold. `reach` may be infinite: then draws are
    shortened only where float64 cannot hold them. On hyperbolic spaces draws beyond a finite one
    still have to be clamped. `rough`: they are only counted, from a public point; whoever is beyond
    what float64 holds may stand anywhere outside the widest ball, or be no point.
    """

    center: Any = None
    reach: float = math.inf
    rough: bool = False

    def center_on(self, manifold: AbstractManifold) -> Any:
        """The public point."""
        return manifold.origin if self.center is None else self.center


def widest_ball(manifold: AbstractManifold) -> float:
    """The largest radius of a ball that a distribution can be truncated to: beyond it float64
    cannot decide which draws lie inside.
    """
    return manifold._widest_ball


# -------------------------------------------------------------------- SPD, affine-invariant
def affine_points(
    eta: NDArray[np.float64], q: NDArray[np.float64], w: NDArray[np.float64], view: View
) -> NDArray[np.float64]:
    """x = A Q e^w Q^T A^T with A A^T = eta, for stacked Q (n, k, k) and w (n, k), those that
    float64 cannot hold shortened towards the public point.

    Which of two algorithms works a point out depends on eta; the point does not, up to rounding.
    """
    k = eta.shape[-1]
    half = np.asarray(np.linalg.cholesky(eta), dtype=np.float64)
    root: NDArray[np.float64] | None = None
    if view.center is not None:
        center = np.asarray(view.center, dtype=np.float64)
        root = np.asarray(np.linalg.cholesky(center), dtype=np.float64)
    far = _maybe_far(half, root, w)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        factor = (half @ q) * np.exp(0.5 * w)[:, None, :]
        points = factor @ np.swapaxes(factor, -1, -2)
    if view.rough:
        return points
    for i in np.nonzero(far)[0]:
        about = np.eye(k) if root is None else root
        points[i] = _affine_from_public_point(half, q[i], w[i], about, view.reach)
    return points


def _maybe_far(
    half: NDArray[np.float64], root: NDArray[np.float64] | None, w: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Whether the logs of the eigenvalues of x about the public point may spread over `_PLAIN`."""
    k = w.shape[-1]
    spreads, largest = np.ptp(w, axis=1), np.max(np.abs(w), axis=1)
    seen = half if root is None else np.linalg.solve(root, half)
    # log of the norm, and from below of the smallest singular value, by the determinant
    top = 0.5 * math.log(float(np.sum(seen * seen)))
    log_det = float(np.sum(np.log(np.abs(np.diagonal(seen)))))
    bottom = log_det - (k - 1) * (top - 0.5 * math.log(max(k - 1, 1)))
    if np.max(spreads) + 2 * (top - bottom) > _PLAIN:  # the bound is coarse: look closer
        singular = np.log(np.linalg.svd(seen, compute_uv=False))
        top, bottom = float(singular[0]), float(singular[-1])
    own = 2 * (top - bottom)
    # the plain product also rounds what the public point itself spreads over
    return (spreads + own > _PLAIN) | (largest + 2 * max(abs(top), abs(bottom)) > LARGEST - 50.0)


def _affine_from_public_point(
    half: NDArray[np.float64],
    q: NDArray[np.float64],
    w: NDArray[np.float64],
    root: NDArray[np.float64],
    reach: float,
) -> NDArray[np.float64]:
    """One point, with as many digits as its condition needs: log about the public point, shortened,
    exp about the public point.
    """
    import mpmath  # 40 ms, and far draws are rare

    digits = 40 + int((np.ptp(w) + np.max(np.abs(w))) / 2.3)
    with mpmath.workdps(digits):
        exact_root, exact_half, exact_q = (mpmath.matrix(a.tolist()) for a in (root, half, q))
        frame = mpmath.inverse(exact_root) * exact_half * exact_q
        scaled = frame * mpmath.diag([mpmath.exp(mpmath.mpf(float(x)) / 2) for x in w])
        values, vectors = mpmath.eigsy(scaled * scaled.T)
        logs = np.array([float(mpmath.log(v)) for v in values])
        basis = np.array(vectors.tolist(), dtype=np.float64)
    spread, largest = _affine_limits(root @ root.T)
    shorter = min(
        1.0,
        spread / max(float(np.ptp(logs)), 1e-300),
        largest / max(float(np.max(np.abs(logs))), 1e-300),
        reach * (1 - 1e-12) / max(float(np.linalg.norm(logs)), 1e-300),
    )
    factor = (root @ basis) * np.exp(0.5 * shorter * logs)
    return factor @ factor.T


def _affine_limits(center: NDArray[np.float64]) -> tuple[float, float]:
    """(spread, size) of the log-eigenvalues about a public point that float64 can hold."""
    logs = np.log(np.linalg.eigvalsh(center))
    return max(SPREAD - float(np.ptp(logs)), 1.0), LARGEST - float(np.max(np.abs(logs)))


# -------------------------------------------------------------------- hyperbolic spaces
def hyperbolic_points(
    manifold: AbstractManifold,
    eta: Point,
    radii: NDArray[np.float64],
    z: NDArray[np.float64],
    view: View,
) -> Any:
    """exp_eta(r u), u a unit tangent vector at eta with the coordinates that the normals `z` point
    to; what float64 cannot hold is shortened towards the public point.

    Far draws are worked out in polar coordinates about the origin, where float64 holds points best.
    About a far center, a draw near the origin would come with its rounding, e^R * 1e-16, at an
    offset that depends on the last bits of eta. What lies beyond `view.reach` is left to the clamp,
    which moves draws that were worked out in either way: else the last bits at the edge tell which.
    """
    points = direction_and_exp(manifold, eta, radii, z)
    place = _space_coordinates(manifold, eta)
    (far,) = np.nonzero(radii + math.asinh(math.hypot(*place)) > _PLAIN)
    if not far.size:
        return points
    off = math.asinh(math.hypot(*_space_coordinates(manifold, view.center_on(manifold))))
    # A ball is not cut short beside a center that lies far out. Beyond `off + reach` is no point of
    # the ball, and within `_PLAIN` are draws that were not worked out here.
    longest = min(max(manifold._farthest, off + _PLAIN), max(off + view.reach, _PLAIN), _SQUARED)
    drawn = _from_origin(place, radii[far], z[far], longest)
    points = np.array(points)
    points[far] = _with_space_coordinates(manifold, drawn)
    return points


def _space_coordinates(manifold: AbstractManifold, point: Point) -> NDArray[np.float64]:
    """Those on the hyperboloid of a point there or of the Poincare ball."""
    x = np.asarray(point, dtype=np.float64)
    return x[1:] if isinstance(manifold, Lorentz) else 2.0 * x / (1.0 - x @ x)


def _with_space_coordinates(manifold: AbstractManifold, x: NDArray[np.float64]) -> Any:
    """The points of the manifold with these, the rows of x."""
    time = np.sqrt(1.0 + np.sum(x * x, axis=-1, keepdims=True))
    if isinstance(manifold, Lorentz):
        return np.concatenate([time, x], axis=-1)
    return manifold._project(x / (1.0 + time))  # float64 rounds to the rim from 36 on


def _from_origin(
    place: NDArray[np.float64], radii: NDArray[np.float64], z: NDArray[np.float64], limit: float
) -> NDArray[np.float64]:
    """Space coordinates of x at distance min(d, limit) from the origin of the hyperboloid, in the
    direction of exp_eta(r u), of which d is the distance: the triangle with corners at the origin,
    eta and x. `place` are those of eta.

    The normals z are the coordinates of a tangent vector at eta in the frame that the boost carries
    there. Transport along the geodesic to the origin, which is that boost, leaves them as they are:
    no vector at eta is made, whose coordinates lose digits like e^2R and overflow from 177 on.
    """
    size = math.hypot(*place)
    along = place / np.max(np.abs(place)) if size > 0 else np.eye(place.size)[0]
    along /= math.hypot(*along)  # whose entries are no subnormal numbers
    length = np.linalg.norm(z, axis=-1, keepdims=True)
    w = z / np.where(length > 0, length, 1.0)
    cosine = w @ along
    across = w - cosine[:, None] * along
    sine = np.linalg.norm(across, axis=-1)
    y1, y2, distance = _third_corner(math.asinh(size), radii, cosine, sine)
    norm = np.hypot(y1, y2)
    norm = np.where(norm > 0, norm, 1.0)
    share = y2 / norm / np.where(sine > 0, sine, 1.0)
    direction = (y1 / norm)[:, None] * along + share[:, None] * across
    return np.sinh(np.minimum(distance, limit))[:, None] * direction


def _third_corner(
    a: float, r: NDArray[np.float64], cosine: NDArray[np.float64], sine: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """(y1, y2, distance) of the corner x of a triangle with c at (1, 0, 0), eta at (cosh a, sinh a,
    0) and x at distance r from eta, at an angle t to the geodesic away from c.

    y1 and y2 are the space coordinates of 2 e^-r x: (1 + e^-2r) sinh a + (1 - e^-2r) cosh a cos t
    and (1 - e^-2r) sin t. They neither overflow nor need r to be small, nor do they cancel on the
    way back to c (sinh a = cosh a - e^-a).
    """
    q = np.exp(-2 * r)
    more = np.where(cosine < 0, sine * sine / (1 - np.minimum(cosine, 0)), 1 + cosine)
    y1 = more * math.cosh(a) - math.exp(-a) + q * (math.sinh(a) - cosine * math.cosh(a))
    y2 = (1 - q) * sine
    log_sinh = r + np.log(np.maximum(np.hypot(y1, y2), 1e-300)) - math.log(2.0)
    near = np.arcsinh(np.exp(np.minimum(log_sinh, 18.0)))
    return y1, y2, np.where(log_sinh > 18.0, log_sinh + math.log(2.0), near)
