"""SPD matrices with the Bures-Wasserstein metric."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _linalg as linalg
from .._namespace import namespace, stop_gradient, with_derivative
from . import _spectral as sp
from ._base import EPS, Point, Tangent
from ._operation import operation
from ._spd import AbstractSPD
from ._spd_affine import congruence

if TYPE_CHECKING:
    from typing import TypeAlias

    from jaxtyping import Bool, Float

    from .._namespace import Array

    Matrix: TypeAlias = Float[Array, "*batch k k"]


# A ball of radius r about W is convex while 2 r sqrt(kappa) < pi / 2, kappa = 3 / (s - r)^2 with
# s = sqrt(s1^2 + s2^2): that is r < s * (pi / 2) / (2 sqrt 3 + pi / 2).
_CONVEX_SHARE = (math.pi / 2) / (2 * math.sqrt(3) + math.pi / 2)


@dataclass(frozen=True)
class SPDBuresWasserstein(AbstractSPD):
    """SPD matrices of size k with the Bures-Wasserstein metric, that of optimal transport between
    centred Gaussians.

    g_W(U, V) = (1/2) tr(L U), L W + W L = U; at the identity this is tr(U V)/4. dist(A, B)^2 = tr A
    + tr B - 2 tr (A^1/2 B A^1/2)^1/2. Curvature is non-negative and unbounded near singular
    matrices (`curvature_bounds` is (0, inf)). The space is not
    complete: exp(p, v) = (I + L) p (I + L) is a geodesic only while I + L > 0 (`in_exp_domain`).
    Beyond that the formula is still returned; it is positive semidefinite, and singular exactly
    when -1 is an eigenvalue of L. `retract` is positive definite for every v.

    `transport` is not parallel transport, which has no closed form here. It is T = g_q^-1/2
    g_p^1/2, where g_W^-1/2 multiplies the entries of a matrix in the eigenbasis of W by sqrt(2 (l_r
    + l_s)): an isometry, analytic in both points, and equal to parallel transport when p and q
    commute.

    Args:
        k: Number of rows, at least 1.

    Raises:
        InvalidArgument: `k` is not a whole number of at least 1.

    Source:
        Han2024 section 5.3 and Utpala2023 section 4.1, whose factor in the metric is corrected
        here.

    Examples:
        >>> import numpy as np
        >>> import riemdp
        >>> space = riemdp.SPDBuresWasserstein(2)
        >>> round(float(space.dist(np.eye(2), np.diag([4.0, 1.0]))), 4)
        1.0
    """

    @property
    def noise_size(self) -> int:
        return self.k * self.k

    @property
    def curvature_bounds(self) -> tuple[float, float]:
        return (0.0, 0.0) if self.k == 1 else (0.0, float("inf"))

    @property
    def _is_geodesic(self) -> bool:
        # optimal transport between Gaussian distributions; the geodesic stays positive definite
        # between its ends
        return True

    @property
    def is_hadamard(self) -> bool:
        return False

    @property
    def transport_is_parallel(self) -> bool:
        return self.k == 1

    def _search_radius(self, p: Matrix) -> float:
        # distances grow like the root of the scale
        return 30.0 * math.sqrt(float(linalg.eigvalsh(sp.sym(p))[-1]))

    def _to_frame(self, p: Matrix, v: Matrix) -> Matrix:
        return _metric_root(sp.sym(p), sp.sym(v), -0.5)

    def _from_frame(self, p: Matrix, s: Matrix) -> Matrix:
        return _metric_root(sp.sym(p), sp.sym(s), 0.5)

    def _tangent_from_normals(self, p: Matrix, z: Float[Array, "*batch noise"]) -> Matrix:
        # L Z^T + Z L^T for any factor L L^T = p: in the eigenbasis of p its entries have variance
        # l_r + l_s (4 l_r on the diagonal).
        lower = linalg.cholesky(sp.sym(p))
        half = z.reshape(*z.shape[:-1], self.k, self.k) @ sp.transpose(lower)
        return half + sp.transpose(half)

    @property
    def transport_is_nonexpansive(self) -> bool:
        """True: it projects."""
        return True

    def _exp(self, p: Matrix, v: Matrix) -> Matrix:
        p, v = sp.sym(p), sp.sym(v)
        step = sp.lyapunov(p, v)
        xp = namespace(step)
        near = xp.max(xp.abs(step), axis=(-2, -1)) * self.k < 0.5
        # p + v + L p L keeps tiny v; (I + L) p (I + L) stays positive where the sum would cancel.
        summed = p + v + congruence(step, p)
        product = congruence(step + self.origin, p)
        return xp.where(near[..., None, None], summed, product)

    def _log(self, p: Matrix, q: Matrix) -> Matrix:
        lower, difference = root_difference(p, q)
        half = lower @ difference @ linalg.inverse_lower(lower)
        return half + sp.transpose(half)

    def _squared_dist(self, p: Matrix, q: Matrix) -> Float[Array, "*batch"]:
        lower, difference = root_difference(p, q)
        gap = difference @ linalg.inverse_lower(lower)
        return namespace(gap).sum(gap**2, axis=(-2, -1))

    def _transport(self, p: Matrix, q: Matrix, v: Matrix) -> Matrix:
        return self._from_frame(q, self._to_frame(p, v))

    def _egrad_to_rgrad(self, p: Matrix, g: Matrix) -> Matrix:
        half = sp.sym(g) @ sp.sym(p)
        return 2.0 * (half + sp.transpose(half))

    def _injectivity_radius(self, p: Matrix) -> Float[Array, "*batch"]:
        return namespace(p).sqrt(linalg.eigvalsh(sp.sym(p))[..., 0])

    def _log_volume_density(self, p: Matrix, v: Matrix) -> Float[Array, "*batch"]:
        p, v = sp.sym(p), sp.sym(v)
        lower = linalg.cholesky(p)
        move = sp.lyapunov(p, v) + self.origin
        b = linalg.eigvalsh(congruence(sp.transpose(lower), move))
        x = linalg.eigvalsh(congruence(move, p))
        e = linalg.eigvalsh(p)

        def log_sums(values: Array) -> Array:
            xp = namespace(values)
            pairs = xp.log(xp.abs(values[..., :, None] + values[..., None, :]))
            twice = xp.sum(xp.log(xp.abs(2.0 * values)), axis=-1)
            return 0.5 * (xp.sum(pairs, axis=(-2, -1)) + twice)

        return log_sums(b) - 0.5 * (log_sums(x) + log_sums(e))

    def _curvature_in_ball(self, center: Matrix, radius: float) -> float:
        """3 / (sqrt(s1^2 + s2^2) - r)^2, s1 <= s2 the two smallest square roots of eigenvalues of
        the center: two facts, proved here, and the pointwise bound K <= 3 / (l_1 + l_2) (l_1 <= l_2
        the two smallest eigenvalues).

        1. sum_i (sqrt l_i(A) - sqrt l_i(B))^2 <= d(A, B)^2, eigenvalues in order. Since d^2 = tr A
           + tr B - 2 max over orthogonal Q of tr(A^1/2 B^1/2 Q), and tr(X Y) <= sum of products of
           ordered singular values (von Neumann), the last term is at most 2 sum_i sqrt(l_i(A)
           l_i(B)). So at distance at most r from the center the pair (sqrt l_1, sqrt l_2) is within
           r of (s1, s2), hence l_1 + l_2 >= (sqrt(s1^2 + s2^2) - r)^2.
        2. Geodesics between points of the ball stay in it. Let c be the center and f = d(c, .)^2 /
           2, which is smooth (any two SPD matrices are joined by one minimising geodesic, in closed
           form). While R sqrt(kappa(R)) < pi / 2, where kappa(R) is the bound of fact 1 in the ball
           of radius R, Hessian comparison makes f strictly convex there. By continuity this holds
           for some R > r. Draw two points of the ball in to c along their radii: the geodesic
           between them depends continuously on them, starts as the point c, and whenever it lies in
           the ball of radius R convexity puts it into the ball of radius r. So its largest distance
           from c cannot pass through the values between r and R, and never leaves.
        """
        roots = _smallest_roots(center)
        if roots.size == 1:  # isometric to a half-line
            return 0.0
        s = math.hypot(*roots)
        return 3.0 / (s - radius) ** 2 if radius < s else math.inf

    def _convexity_limit(self, center: Matrix) -> float:
        """The r at which 2 r sqrt(kappa) reaches pi / 2, 0.31199 sqrt(s1^2 + s2^2), and not above
        s1 (beyond which the ball is not inside the space).
        """
        roots = _smallest_roots(center)
        smallest = float(roots[0])
        return smallest if roots.size == 1 else min(smallest, _CONVEX_SHARE * math.hypot(*roots))

    def _resolution(self, center: Matrix, radius: float) -> float:
        # A rounding error of the largest eigenvalue is worth EPS l_max / sqrt(l_min) in length;
        # means were seen to err by at most 13 times that, k = 2. In the ball square roots of
        # eigenvalues are those of the center but for the radius (fact 1 of `_curvature_in_ball`):
        # near the edge of the space the ball decides, not its center.
        values = np.asarray(linalg.eigvalsh(np.asarray(center, dtype=np.float64)))
        if not values[0] > 0:
            return math.inf
        smallest, largest = np.sqrt(values[0]) - radius, np.sqrt(values[-1]) + radius
        if not smallest > 0:
            return math.inf
        return float(100.0 * EPS * self.k * largest**2 / smallest)

    def _ambient_diameter(self, center: Matrix, radius: float) -> float:
        largest = math.sqrt(float(linalg.eigvalsh(sp.sym(center))[-1]))
        return 2 * (2 * largest * radius + radius * radius)

    # ---------------------------------------------------------------- beyond the common interface
    def in_exp_domain(self, p: Point, v: Tangent) -> Bool[Array, "*batch"]:
        """Whether t -> exp(p, t v), 0 <= t <= 1, is a minimising geodesic: whether I + L > 0, where
        L p + p L = v. Shape (*batch,).
        """
        return operation(self, "_in_exp_domain", self._coerce("p", p), self._coerce("v", v))

    def _in_exp_domain(self, p: Matrix, v: Matrix) -> Bool[Array, "*batch"]:
        return linalg.eigvalsh(sp.lyapunov(sp.sym(p), sp.sym(v)))[..., 0] > -1.0


def _smallest_roots(center: Matrix) -> np.ndarray:
    """Square roots of the two smallest eigenvalues (of the one, for 1 x 1 matrices), in order."""
    return np.sqrt(np.maximum(linalg.eigvalsh(np.asarray(center, dtype=np.float64))[:2], 0.0))


def root_difference(p: Matrix, q: Matrix) -> tuple[Matrix, Matrix]:
    """L with p = L L^T, and K = (L^T q L)^1/2 - L^T L: L^-T K L^-1 = T - I for the optimal
    transport map T from p to q.

    K is first a plain difference of roots S - C. Because K S + S K - K^2 = L^T (q - p) L, one step
    of that equation in the eigenbasis of S removes the cancellation where K is small against S (q -
    p is exact for close points).
    """
    p, q = sp.sym(p), sp.sym(q)
    lower = linalg.cholesky(p)
    upper = sp.transpose(lower)
    n = congruence(upper, q)
    eig = sp.spectrum(n)
    xp = namespace(n)
    direct = sp.apply("power", n, eig, t=0.5) - sp.sym(upper @ lower)

    k = stop_gradient(direct)
    gap = stop_gradient(congruence(upper, q - p))
    # equal points: K is 0, not rounding
    k = xp.where(xp.any(gap != 0.0, axis=(-2, -1), keepdims=True), k, 0.0)
    better = sp.apply("power", n, eig, gap + sp.sym(k @ k), t=0.5)
    quarter = xp.sqrt(xp.sqrt(eig.values))
    inside = sp.transpose(eig.q) @ k @ eig.q / (quarter[..., :, None] * quarter[..., None, :])
    small = xp.sqrt(xp.sum(inside**2, axis=(-2, -1))) < 0.25
    better = xp.where(small[..., None, None], better, k)
    return lower, direct + stop_gradient(better - direct)


def _multiply_sums(values: Array, q: Matrix, v: Matrix, power: float) -> Matrix:
    weights = (2.0 * (values[..., :, None] + values[..., None, :])) ** power
    return sp.sym(q @ (weights * (sp.transpose(q) @ v @ q)) @ sp.transpose(q))


def _metric_root_jvp(power: float, primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> Any:
    # A change E of p changes the operator by S -> 2 (E S + S E), which links the entries (t, s) and
    # (r, s): hence divided differences of x -> x^power between 2 (l_r + l_s) and 2 (l_t + l_s).
    (p, v), (dp, dv) = primals, tangents
    values, q = linalg.eigh(p)
    back = sp.transpose(q)
    xp = namespace(values)
    roots = xp.sqrt(2.0 * (values[..., :, None] + values[..., None, :]))
    first, second = (
        roots[..., :, None, :],
        roots[..., None, :, :],
    )  # indices r, t, s: (r, s) and (t, s)
    differences = (
        1.0 / (first + second) if power > 0 else -1.0 / (first * second * (first + second))
    )
    moved = 2.0 * xp.einsum("...rts,...rt,...ts->...rs", differences, back @ dp @ q, back @ v @ q)
    tangent = q @ (moved + sp.transpose(moved)) @ back + _multiply_sums(values, q, dv, power)
    return _multiply_sums(values, q, v, power), sp.sym(tangent)


@with_derivative(_metric_root_jvp, static=(2,))
def _metric_root(p: Matrix, v: Matrix, power: float) -> Matrix:
    """Multiply the entries of v in the eigenbasis of p by (2 (l_r + l_s))^power, power = 1/2 or
    -1/2.

    This is the power of the operator v -> 2 (p v + v p), so it does not depend on the choice of
    eigenvectors. Its first derivative is exact also where eigenvalues coincide; the second only
    where they differ.
    """
    values, q = linalg.eigh(p)
    return _multiply_sums(values, q, v, power)
